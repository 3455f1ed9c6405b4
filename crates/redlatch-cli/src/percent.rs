//! Percent-encodes any bytes as plain text, and decodes them.

use std::fmt::Write;

/// Appends `bytes`, with all but plain characters written as `%xx`.
pub(crate) fn encode(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'@' => {
                text.push(char::from(*byte));
            }
            _ => {
                let _ = write!(text, "%{byte:02x}");
            }
        }
    }
}

/// Decodes the text; `None` if [`encode`] did not produce it.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let (high, low) = (digit(rest.next())?, digit(rest.next())?);
            bytes.push(u8::try_from(16 * high + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive() {
        let all: Vec<u8> = (0..=255).collect();
        let mut text = String::new();

        encode(&mut text, &all);

        assert!(text.is_ascii() && !text.contains([' ', ':', '&', '\n']), "{text}");
        assert_eq!(decode(&text), Some(all));
        assert_eq!(decode("%4"), None);
        assert_eq!(decode("%zz"), None);
    }
}
