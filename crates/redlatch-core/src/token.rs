//! The lock token.

use crate::{
    moment::Moment,
    owner::{MAX_SIGNATURE, Owner, OwnerParts},
};
use alloc::{string::String, sync::Arc};
use core::fmt;

/// A source of fresh randomness. The library uses the system's CSPRNG.
pub trait Entropy {
    /// Fills `bytes` with randomness that no other process can guess or repeat.
    fn fill(&mut self, bytes: &mut [u8]);
}

/// The lock token of one attempt: 160 random bits in hex, `@`, the owner's text (see
/// [`owner`](crate::owner)).
///
/// Anyone who knows it can release the lock, so `Debug` shows only the owner.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Arc<[u8]>);

/// The hex digits of 20 random bytes.
const RANDOM_DIGITS: usize = 40;
const LONGEST: usize = RANDOM_DIGITS + 1 + MAX_SIGNATURE;

/// A token while it is being written, without a heap allocation.
struct Text {
    bytes: [u8; LONGEST],
    length: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

impl Token {
    /// Creates a token for one attempt. Tokens are never reused: otherwise a late release
    /// of an earlier attempt would delete the key of a later one.
    pub fn fresh(entropy: &mut impl Entropy, owner: &Owner) -> Self {
        Token::signed(entropy, owner, None)
    }

    /// Creates a token for one attempt that begins now.
    pub(crate) fn fresh_at(entropy: &mut impl Entropy, owner: &Owner, now: Moment) -> Self {
        Token::signed(entropy, owner, Some(now))
    }

    fn signed(entropy: &mut impl Entropy, owner: &Owner, now: Option<Moment>) -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut random = [0; RANDOM_DIGITS / 2];
        entropy.fill(&mut random);
        let mut text = Text { bytes: [b'@'; LONGEST], length: RANDOM_DIGITS + 1 };
        for (digits, byte) in text.bytes.chunks_exact_mut(2).zip(random) {
            digits[0] = HEX[usize::from(byte >> 4)];
            digits[1] = HEX[usize::from(byte & 15)];
        }
        // It always fits; if it did not, the owner would be truncated.
        let _ = owner.sign(&mut text, now);
        Token(text.bytes[..text.length].into())
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

    /// Returns the same bytes without copying.
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
/// Other libraries use opaque values without a label: anyone who sees one can release
/// the lock.
#[must_use]
pub fn owner_of(value: &[u8]) -> Option<String> {
    OwnerParts::of_value(value).map(|parts| parts.label)
}

/// Returns the owner's text in a value, if the value looks like a token.
#[must_use]
pub fn signature_of(value: &[u8]) -> Option<&str> {
    let (random, rest) = value.split_at_checked(RANDOM_DIGITS)?;
    let text = core::str::from_utf8(rest.strip_prefix(b"@")?).ok()?;
    random.iter().all(u8::is_ascii_hexdigit).then_some(text)
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
}
