//! The value that signs a lock, and the label that says whose it is.

use alloc::{string::String, sync::Arc};
use core::fmt;

/// Where fresh randomness comes from. The library hands in the system's CSPRNG.
pub trait Entropy {
    /// Fills `bytes` with randomness no other process can guess or repeat.
    fn fill(&mut self, bytes: &mut [u8]);
}

/// The longest owner label, in bytes.
pub const MAX_OWNER: usize = 255;

/// Who holds a lock, in words an operator understands: `host/pid` unless set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// Checks a label: 1 to [`MAX_OWNER`] bytes, printable, no white space.
    pub fn new(label: impl AsRef<str>) -> Result<Self, OwnerError> {
        let label = label.as_ref();
        if label.is_empty() || label.len() > MAX_OWNER {
            return Err(OwnerError::Length { bytes: label.len() });
        }
        match label.chars().find(|c| c.is_control() || c.is_whitespace()) {
            Some(bad) => Err(OwnerError::Character(bad)),
            None => Ok(Owner(label.into())),
        }
    }

    /// The label as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An owner label that cannot stand in a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// Empty or over the bound.
    #[error("the owner label has {bytes} bytes; it needs 1 to {MAX_OWNER}")]
    Length {
        /// How long it was.
        bytes: usize,
    },
    /// White space or a control character.
    #[error("the owner label contains {0:?}; use printable characters without white space")]
    Character(char),
}

/// The random value that signs one attempt: 160 random bits in hex, `@`, owner.
///
/// Who knows it can release the lock, so `Debug` shows the owner alone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Arc<[u8]>);

/// 20 random bytes as hex digits.
const RANDOM_DIGITS: usize = 40;

impl Token {
    /// A token for one attempt. Never reused: a late release of an earlier
    /// attempt would delete the key of a later one.
    pub fn fresh(entropy: &mut impl Entropy, owner: &Owner) -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut random = [0; RANDOM_DIGITS / 2];
        entropy.fill(&mut random);
        let mut text = [b'@'; RANDOM_DIGITS + 1 + MAX_OWNER];
        for (digits, byte) in text.chunks_exact_mut(2).zip(random) {
            digits[0] = HEX[usize::from(byte >> 4)];
            digits[1] = HEX[usize::from(byte & 15)];
        }
        let label = owner.0.as_bytes();
        let end = RANDOM_DIGITS + 1 + label.len();
        text[RANDOM_DIGITS + 1..end].copy_from_slice(label);
        Token(text[..end].into())
    }

    /// A token that came from elsewhere: another process handed its lease over.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Token(bytes.into())
    }

    /// The value as it stands on the nodes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = owner_of(&self.0).unwrap_or_default();
        write!(f, "Token(…@{owner})")
    }
}

/// The owner label inside a value found on a node, if the value is one of ours.
///
/// Other libraries sign with opaque values: those have no label, and showing
/// them would give away what releases their lock.
#[must_use]
pub fn owner_of(value: &[u8]) -> Option<String> {
    let (random, rest) = value.split_at_checked(RANDOM_DIGITS)?;
    let label = core::str::from_utf8(rest.strip_prefix(b"@")?).ok()?;
    let ours = random.iter().all(u8::is_ascii_hexdigit) && Owner::new(label).is_ok();
    ours.then(|| label.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    struct Counting(u8);

    impl Entropy for Counting {
        fn fill(&mut self, bytes: &mut [u8]) {
            for byte in bytes {
                *byte = self.0;
                self.0 = self.0.wrapping_add(1);
            }
        }
    }

    #[test]
    fn a_token_is_printable_signed_with_its_owner_and_fresh_each_time() {
        let owner = Owner::new("web-1/4711").unwrap();
        let mut entropy = Counting(0);

        let first = Token::fresh(&mut entropy, &owner);
        let second = Token::fresh(&mut entropy, &owner);

        assert_eq!(first.as_bytes(), b"000102030405060708090a0b0c0d0e0f10111213@web-1/4711");
        assert_ne!(first, second);
        assert_eq!(owner_of(first.as_bytes()).as_deref(), Some("web-1/4711"));
    }

    #[test]
    fn debug_does_not_show_what_could_release_the_lock() {
        let owner = Owner::new("me").unwrap();
        let token = Token::fresh(&mut Counting(200), &owner);

        assert_eq!(format!("{token:?}"), "Token(…@me)");
    }

    #[test]
    fn a_foreign_value_has_no_owner() {
        for value in [&b"my_random_value"[..], b"", b"@me", &[0xff; 60]] {
            assert_eq!(owner_of(value), None);
        }
    }

    #[test]
    fn owner_labels_are_checked() {
        assert_eq!(Owner::new(""), Err(OwnerError::Length { bytes: 0 }));
        assert_eq!(Owner::new("a b"), Err(OwnerError::Character(' ')));
        assert_eq!(Owner::new("a\u{1b}"), Err(OwnerError::Character('\u{1b}')));
        let long = "x".repeat(MAX_OWNER + 1);
        assert_eq!(Owner::new(&long), Err(OwnerError::Length { bytes: 256 }));
    }
}
