//! Keys, from the bytes that a terminal sends.

use std::{
    fs::File,
    io::{self, Read as _},
    thread,
    time::Duration,
};
use tokio::sync::mpsc;

/// How long the rest of a key sequence may take. If none follows, the key is `Escape`
/// itself.
const REST: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
}

/// The keys of a terminal.
pub(super) struct Keys {
    read: mpsc::UnboundedReceiver<Vec<u8>>,
    bytes: Vec<u8>,
}

impl Keys {
    /// Reads them in a thread, which waits for keys as long as this process lives.
    pub(super) fn of(mut terminal: File) -> io::Result<Self> {
        let (send, read) = mpsc::unbounded_channel();
        let reading = move || {
            let mut bytes = [0; 256];
            loop {
                match terminal.read(&mut bytes) {
                    Ok(length @ 1..) if send.send(bytes[..length].to_vec()).is_ok() => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    _ => return,
                }
            }
        };
        thread::Builder::new().name("keys".into()).spawn(reading)?;
        Ok(Keys { read, bytes: Vec::new() })
    }

    /// The next key; `None` if the terminal is gone. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Key> {
        loop {
            match first(&self.bytes) {
                First::Key(key, length) => {
                    self.bytes.drain(..length);
                    return Some(key);
                }
                First::Unknown(length) => drop(self.bytes.drain(..length)),
                First::Nothing => self.read().await?,
                First::Part => {
                    if let Ok(read) = tokio::time::timeout(REST, self.read()).await {
                        read?;
                    } else {
                        let is_escape = self.bytes == b"\x1b";
                        self.bytes.clear();
                        if is_escape {
                            return Some(Key::Escape);
                        }
                    }
                }
            }
        }
    }

    async fn read(&mut self) -> Option<()> {
        self.bytes.extend(self.read.recv().await?);
        Some(())
    }
}

/// The key that some bytes begin with.
#[derive(Debug, PartialEq, Eq)]
enum First {
    Nothing,
    Key(Key, usize),
    /// A key that we do not know, of this length.
    Unknown(usize),
    /// A key that is not complete.
    Part,
}

fn first(bytes: &[u8]) -> First {
    match bytes {
        [] => First::Nothing,
        [b'\r' | b'\n', ..] => First::Key(Key::Enter, 1),
        [0x7f | 0x08, ..] => First::Key(Key::Backspace, 1),
        [0x1b] => First::Part,
        [0x1b, b'[' | b'O', rest @ ..] => sequence(rest),
        [0x1b, ..] => First::Key(Key::Escape, 1),
        [0..0x20, ..] => First::Unknown(1),
        [lead, ..] => {
            let length = match lead {
                0..0x80 => 1,
                0xc0..0xe0 => 2,
                0xe0..0xf0 => 3,
                0xf0.. => 4,
                0x80..0xc0 => return First::Unknown(1),
            };
            let Some(bytes) = bytes.get(..length) else { return First::Part };
            match std::str::from_utf8(bytes).ok().and_then(|text| text.chars().next()) {
                Some(char) => First::Key(Key::Char(char), length),
                None => First::Unknown(1),
            }
        }
    }
}

/// A key that is sent as `ESC [` or `ESC O`, followed by these bytes.
fn sequence(rest: &[u8]) -> First {
    let Some(end) = rest.iter().position(|byte| (0x40..0x7f).contains(byte)) else {
        return First::Part;
    };
    let length = 2 + end + 1;
    let key = match &rest[..=end] {
        b"A" => Key::Up,
        b"B" => Key::Down,
        b"H" | b"1~" => Key::Home,
        b"F" | b"4~" => Key::End,
        b"5~" => Key::PageUp,
        b"6~" => Key::PageDown,
        _ => return First::Unknown(length),
    };
    First::Key(key, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_one_after_the_other_whatever_else_comes() {
        let mut bytes = &b"q\x1b[A\x1bOB\x1b[6~\x1b[1;5C\x01\r\x7f\xc3\xa4\xff/"[..];
        let mut keys = Vec::new();
        loop {
            match first(bytes) {
                First::Key(key, length) => {
                    keys.push(key);
                    bytes = &bytes[length..];
                }
                First::Unknown(length) => bytes = &bytes[length..],
                First::Nothing => break,
                // A key that is not complete by now never will be.
                First::Part => bytes = &bytes[1..],
            }
        }

        let expected = [
            Key::Char('q'),
            Key::Up,
            Key::Down,
            Key::PageDown,
            Key::Enter,
            Key::Backspace,
            Key::Char('ä'),
            Key::Char('/'),
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_key_that_is_not_complete_is_waited_for() {
        for part in [&b"\x1b"[..], b"\x1b[", b"\x1b[5", b"\xc3"] {
            assert_eq!(first(part), First::Part, "{part:?}");
        }
        assert_eq!(first(b"\x1bq"), First::Key(Key::Escape, 1));
    }
}
