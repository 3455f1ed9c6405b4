//! Produces a number that grows with every grant.
//!
//! Each node keeps registers. When it grants a take, a node moves the register of the
//! resource to `max(register + 1, proposed)` and answers with that number. The highest
//! answer of the granting majority becomes the fencing token, once a majority of the nodes
//! has exactly that number.

mod rule;

pub use rule::{Stale, accept};

use crate::{
    moment::Moment,
    resource::{Resource, Resources},
};
use alloc::vec::Vec;
use core::{fmt, num::NonZeroU64, str::FromStr, time::Duration};

/// A number that is greater for every later grant of a resource.
///
/// Pass it to the resource with each write, and have the resource refuse any
/// number smaller than one it has seen: then a holder that was paused past its
/// lease cannot write late.
///
/// As text it is digits and nothing else; `redlatch run` passes it to its command as
/// `REDLATCH_FENCING_TOKEN`. With the feature `serde` it is a number in any format.
///
/// ```
/// use redlatch_core::FencingToken;
///
/// let token: FencingToken = "18".parse()?;
///
/// assert_eq!(token.to_string(), "18");
/// assert_eq!(
///     "0".parse::<FencingToken>().unwrap_err().to_string(),
///     "a fencing token is a number from 1 to 9007199254740991",
/// );
/// # Ok::<(), redlatch_core::FencingTokenError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(NonZeroU64);

/// Why something is not a fencing token.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FencingTokenError {
    /// It is not all digits: there is a sign, a space, a line break, or nothing.
    #[error("a fencing token is written in digits, and nothing else")]
    Digits,
    /// It is a number, but not one that a grant can have.
    #[error("a fencing token is a number from 1 to {}", FencingToken::MAX)]
    Range,
}

crate::debug_is_display!(FencingTokenError);

impl FencingToken {
    /// The highest number: the largest integer that a double represents exactly.
    pub const MAX: u64 = (1 << 53) - 1;

    /// Creates the token with this number: 1 to [`MAX`](Self::MAX).
    #[must_use]
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).filter(|_| number <= Self::MAX).map(FencingToken)
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the number as SQL's `BIGINT` and its drivers expect it. It always
    /// fits: [`MAX`](Self::MAX) is far below `i64::MAX`.
    ///
    /// # Example
    ///
    /// ```
    /// # use redlatch_core::FencingToken;
    /// let token = FencingToken::new(42).unwrap();
    /// assert_eq!(token.as_i64(), 42_i64);
    /// ```
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0.get().cast_signed()
    }
}

/// How far a proposal may be ahead of a node's clock by default, so that one wrong clock
/// cannot poison a register.
pub const DEFAULT_SKEW: Duration = Duration::from_secs(30);

/// How many registers a node has: this bounds its memory, however many locks there have been.
pub const REGISTERS: u32 = 1 << 16;

/// A wall clock for fencing: what it showed at some moment.
///
/// It need not be right. It keeps a forgotten register from starting again at one, and
/// clocks that agree to within half of `skew` make all nodes answer with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WallClock {
    /// When it was read.
    pub read_at: Moment,
    /// What it showed, in microseconds since 1970.
    pub micros: u64,
    /// How far a proposal may be ahead of a node's clock; the same for all clients.
    pub skew: Duration,
}

impl WallClock {
    /// Returns the number to propose to this many nodes for a take sent now: ahead of every
    /// clock that is less than half of `skew` ahead of ours. A single node always agrees
    /// with itself and uses its own clock, so that clients whose clocks differ cannot
    /// reverse the order if it forgets.
    #[must_use]
    pub fn propose(&self, now: Moment, nodes: usize) -> Proposal {
        if nodes == 1 {
            return Proposal::new(0, Duration::ZERO);
        }
        let ahead = micros(now.since(self.read_at) + self.skew / 2);
        let micros = self.micros.saturating_add(ahead).min(FencingToken::MAX);
        Proposal { micros, skew: self.skew }
    }
}

/// The number that a client proposes for a grant, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Proposal {
    micros: u64,
    skew: Duration,
}

impl Proposal {
    /// Creates a proposal of this many microseconds, which may be ahead of a node's
    /// clock by `skew`.
    #[must_use]
    pub const fn new(micros: u64, skew: Duration) -> Self {
        Proposal { micros, skew }
    }

    /// Returns the number.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.micros
    }

    /// Returns how many microseconds it may be ahead of a node's clock.
    #[must_use]
    pub fn skew_micros(self) -> u64 {
        micros(self.skew)
    }

    /// Returns the number that a node grants, given its own clock (in microseconds) and the
    /// highest number in the registers concerned. `None` when numbers have run out.
    ///
    /// Nodes that run a script do the same there.
    #[must_use]
    pub fn settle(self, clock: u64, greatest: u64) -> Option<FencingToken> {
        let clamped = self.micros.clamp(clock, clock.saturating_add(self.skew_micros()));
        FencingToken::new(clamped.max(greatest.saturating_add(1)))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the registers of these resources, without duplicates, in ascending order. A
/// register serves every name that hashes to it (FNV-1a, folded to 16 bits).
#[must_use]
pub fn registers(resources: &Resources) -> Vec<u32> {
    let mut registers: Vec<u32> = resources.iter().map(register).collect();
    registers.sort_unstable();
    registers.dedup();
    registers
}

/// Returns the register of one resource.
#[must_use]
pub fn register(resource: &Resource) -> u32 {
    let hash = resource
        .as_bytes()
        .iter()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    (hash >> 16 ^ hash) % REGISTERS
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FencingToken {
    type Err = FencingTokenError;

    /// Parses digits; leading zeros are allowed.
    fn from_str(text: &str) -> Result<Self, FencingTokenError> {
        // Rust's own parser accepts a sign.
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(FencingTokenError::Digits);
        }
        text.parse().ok().and_then(FencingToken::new).ok_or(FencingTokenError::Range)
    }
}

#[cfg(feature = "serde")]
impl serde_core::Serialize for FencingToken {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for FencingToken {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let token = FencingToken::new(u64::deserialize(deserializer)?);
        token.ok_or_else(|| serde_core::de::Error::custom(FencingTokenError::Range))
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

    #[test]
    fn every_token_fits_a_signed_number_of_64_bits() {
        for number in [1, FencingToken::MAX] {
            let token = FencingToken::new(number).unwrap();
            assert_eq!(Ok(token.as_i64()), i64::try_from(number));
        }
    }

    #[test]
    fn text_is_a_token_only_if_it_is_digits_in_range() {
        for text in ["", "-1", "+1", " 5", "5\n", "1e3", "0x5", "\u{0665}"] {
            assert_eq!(text.parse::<FencingToken>(), Err(FencingTokenError::Digits), "{text:?}");
        }
        for text in ["0", "000", "9007199254740992", "18446744073709551616"] {
            assert_eq!(text.parse::<FencingToken>(), Err(FencingTokenError::Range), "{text}");
        }
        assert_eq!("0000000000000018".parse(), Ok(FencingToken(NonZeroU64::new(18).unwrap())));
    }

    #[test]
    fn a_token_written_as_text_is_read_as_the_same() {
        for number in [1, 18, FencingToken::MAX] {
            let token = FencingToken::new(number).unwrap();

            assert_eq!(alloc::format!("{token}").parse(), Ok(token));
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_token_is_serialized_as_a_number_and_read_back_only_in_range() {
        let token = FencingToken::new(FencingToken::MAX).unwrap();

        assert_eq!(serde_json::to_string(&token).unwrap(), "9007199254740991");
        assert_eq!(serde_json::from_str::<FencingToken>("9007199254740991").unwrap(), token);
        for beyond in ["0", "9007199254740992"] {
            let error = serde_json::from_str::<FencingToken>(beyond).unwrap_err();
            assert_eq!(alloc::format!("{error}"), alloc::format!("{}", FencingTokenError::Range));
        }
        for other in ["-1", "1.0", "\"1\"", "null"] {
            serde_json::from_str::<FencingToken>(other).expect_err(other);
        }
    }

    const HOUR: u64 = 3600 * 1_000_000;

    fn settled(proposed: u64, clock: u64, greatest: u64) -> Option<u64> {
        Proposal::new(proposed, DEFAULT_SKEW).settle(clock, greatest).map(FencingToken::get)
    }

    #[test]
    fn a_proposal_near_the_nodes_clock_is_taken_as_it_is() {
        assert_eq!(settled(5 * HOUR + 7, 5 * HOUR, 0), Some(5 * HOUR + 7));
    }

    #[test]
    fn a_wrong_clock_is_clamped_both_ways() {
        let skew = micros(DEFAULT_SKEW);

        assert_eq!(settled(9 * HOUR, 5 * HOUR, 0), Some(5 * HOUR + skew));
        assert_eq!(settled(1, 5 * HOUR, 0), Some(5 * HOUR));
    }

    #[test]
    fn the_register_always_grows_and_ends_with_a_named_refusal() {
        assert_eq!(settled(5 * HOUR, 5 * HOUR, 7 * HOUR), Some(7 * HOUR + 1));
        assert_eq!(settled(5 * HOUR, 5 * HOUR, FencingToken::MAX), None);
    }

    #[test]
    fn clients_propose_ahead_of_nodes_whose_clocks_are_ahead_of_theirs() {
        let clock = WallClock { read_at: Moment::START, micros: HOUR, skew: DEFAULT_SKEW };
        let later = Moment::START.after(Duration::from_secs(2));

        assert_eq!(clock.propose(later, 3).micros(), HOUR + 17_000_000);
    }

    #[test]
    fn a_register_that_two_names_share_is_named_once() {
        let names: Vec<_> = (0..2000).map(|n| alloc::format!("job:{n}")).collect();
        let of = |name: &str| register(&Resource::new(name).unwrap());
        let pairs =
            names.iter().enumerate().flat_map(|(at, a)| names[..at].iter().map(move |b| (a, b)));
        let (one, other) = pairs.into_iter().find(|(a, b)| of(a) == of(b)).unwrap();

        let shared = registers(&Resources::new([one, other]).unwrap());

        assert_eq!(shared, [of(one)]);
    }

    #[test]
    fn registers_are_bounded_and_the_same_for_everyone() {
        let names: Vec<_> = (0..2000).map(|n| alloc::format!("job:{n}")).collect();
        let one = |name: &str| registers(&Resources::new([name]).unwrap());

        assert_eq!(one("invoice:42"), [25_170]);
        assert!(names.iter().all(|name| one(name)[0] < REGISTERS));
        let several = registers(&Resources::new(["b", "a", "c"]).unwrap());
        assert!(several.is_sorted() && several.len() == 3);
    }
}
