//! The number that grows with every grant.

use core::{fmt, num::NonZeroU64};

/// A number that is greater for every later grant of a resource.
///
/// Hand it to the resource with each write, and let the resource refuse what
/// comes with a smaller number than it has seen: then a holder that was paused
/// past its lease cannot write late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// The greatest number: what every language's floating point can hold.
    pub const MAX: u64 = (1 << 53) - 1;

    /// The token with that number: 1 to [`MAX`](Self::MAX).
    #[must_use]
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).filter(|_| number <= Self::MAX).map(FencingToken)
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_positive_number_below_two_to_the_53() {
        assert_eq!(FencingToken::new(0), None);
        assert_eq!(FencingToken::new(1).map(FencingToken::get), Some(1));
        assert!(FencingToken::new(FencingToken::MAX).is_some());
        assert_eq!(FencingToken::new(FencingToken::MAX + 1), None);
    }
}
