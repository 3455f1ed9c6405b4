//! The lock token, and the label that names the owner.

use alloc::{string::String, sync::Arc};
use core::fmt;

/// A source of fresh randomness. The library uses the system's CSPRNG.
pub trait Entropy {
    /// Fills `bytes` with randomness that no other process can guess or repeat.
    fn fill(&mut self, bytes: &mut [u8]);
}

/// The longest owner label, in bytes.
pub const MAX_OWNER: usize = 255;

/// Who holds a lock, as a label for operators: `host/pid` by default.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// Creates an owner from a label of 1 to [`MAX_OWNER`] printable bytes without
    /// white space.
    ///
    /// # Errors
    ///
    /// If the label is too short or too long, or has a character that is not allowed.
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

    /// Returns the label.
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

/// Why an owner label cannot be part of a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// It is empty or too long.
    #[error("the owner label has {bytes} bytes; it needs 1 to {MAX_OWNER}")]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// It contains white space or a control character.
    #[error("the owner label contains {0:?}; use printable characters without white space")]
    Character(char),
}

/// The lock token of one attempt: 160 random bits in hex, `@`, owner.
///
/// Anyone who knows it can release the lock, so `Debug` shows only the owner.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Arc<[u8]>);

/// The hex digits of 20 random bytes.
const RANDOM_DIGITS: usize = 40;

impl Token {
    /// Creates a token for one attempt. Tokens are never reused: a late release of
    /// an earlier attempt would delete the key of a later one.
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

    /// Creates a token from bytes, for a lease that another process handed over.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Token(bytes.into())
    }

    /// Returns the value as stored on the nodes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the same without copying.
    pub(crate) fn to_shared(&self) -> Arc<[u8]> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = owner_of(&self.0).unwrap_or_default();
        write!(f, "Token(…@{owner})")
    }
}

/// Returns the owner label in a value found on a node, if the value is one of ours.
///
/// Other libraries use opaque values without a label; showing those would give
/// away what releases their locks.
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
