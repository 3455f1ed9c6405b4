//! All time arithmetic of a lease.
//!
//! `t1` is taken before the first byte is sent, so the keys on the nodes always
//! live longer than the lease that counts from it.

use crate::{moment::Moment, quorum::Ballot};
use core::time::Duration;

/// What two clocks may disagree by over `ttl`: one percent, and two
/// milliseconds for the servers' expiry by whole milliseconds.
#[must_use]
pub fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

/// How much of `ttl` a lease may be used; zero where drift eats all of it.
#[must_use]
pub fn usable(ttl: Duration) -> Duration {
    ttl.saturating_sub(drift(ttl))
}

/// The end of a lease whose commands were sent no earlier than `t1`.
#[must_use]
pub fn usable_until(t1: Moment, ttl: Duration) -> Moment {
    t1.after(usable(ttl))
}

/// How long after its command was sent a key may still be on a node.
#[must_use]
pub fn longest_life(ttl: Duration) -> Duration {
    ttl.saturating_add(drift(ttl))
}

/// Why a lease ended before it was released.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// It ran out: no extension got through in time, or none was wanted.
    #[error("the lease ran out before a majority extended it")]
    Expired,
    /// A majority of the nodes no longer has our key.
    #[error("a majority of the nodes no longer has the lock")]
    Gone(Ballot),
    /// Renewal reached the cap that was set.
    #[error("the lock was held for as long as max_hold allows")]
    MaxHold,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_one_percent_and_two_milliseconds() {
        assert_eq!(drift(Duration::from_secs(10)), Duration::from_millis(102));
        assert_eq!(usable(Duration::from_secs(10)), Duration::from_millis(9898));
    }

    #[test]
    fn a_ttl_smaller_than_drift_leaves_nothing_and_does_not_underflow() {
        assert_eq!(usable(Duration::from_millis(2)), Duration::ZERO);
        assert_eq!(usable(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn the_lease_ends_before_the_key_even_if_the_node_was_instant() {
        let t1 = Moment::from_nanos(1_000);
        let ttl = Duration::from_millis(500);

        assert!(usable_until(t1, ttl) < t1.after(ttl));
        assert!(ttl < longest_life(ttl));
    }
}
