//! Computes the pause before the next attempt: random, growing, capped.
//!
//! Full jitter: anything from zero to a bound that doubles. Clients that have collided are
//! unlikely to collide again, however many there are.

use crate::token::Entropy;
use core::time::Duration;

/// How the pauses between attempts grow.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Backoff {
    bound: Duration,
    cap: Duration,
}

/// The bound of the first pause, in round trips of the failed attempt.
const FIRST_ROUND_TRIPS: u32 = 4;
/// The least bound of the first pause, because timers tick in milliseconds.
const LEAST_BOUND: Duration = Duration::from_millis(2);
/// The longest pause, so that a freed lock is noticed.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Backoff {
    /// Creates the pauses for a lock with this `ttl`.
    #[must_use]
    pub(crate) fn new(ttl: Duration) -> Self {
        let cap = (ttl / 4).clamp(LEAST_BOUND, LONGEST_PAUSE);
        Backoff { bound: Duration::ZERO, cap }
    }

    /// Returns the pause after an attempt that took `elapsed`.
    pub(crate) fn pause(&mut self, elapsed: Duration, entropy: &mut impl Entropy) -> Duration {
        let first = elapsed.saturating_mul(FIRST_ROUND_TRIPS).max(LEAST_BOUND);
        self.bound = self.bound.saturating_mul(2).max(first).min(self.cap);
        let mut random = [0; 8];
        entropy.fill(&mut random);
        // The top 32 bits as a fraction of the bound, which is below 2^32 ns.
        let fraction = u64::from_le_bytes(random) >> 32;
        let nanos = u64::try_from(self.bound.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(nanos.saturating_mul(fraction) >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    struct Always(u8);

    impl Entropy for Always {
        fn fill(&mut self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn retries_after_a_random_delay_that_grows_to_a_cap() {
        let mut backoff = Backoff::new(Duration::from_secs(10));
        let elapsed = Duration::from_millis(10);

        let longest: Vec<u128> =
            (0..8).map(|_| backoff.pause(elapsed, &mut Always(0xff)).as_millis()).collect();

        assert_eq!(longest, [39, 79, 159, 319, 639, 999, 999, 999]);
    }

    #[test]
    fn no_delay_is_longer_than_a_quarter_of_the_ttl() {
        let mut backoff = Backoff::new(Duration::from_secs(1));

        let pause = backoff.pause(Duration::from_secs(1), &mut Always(0xff));

        assert_eq!(pause.as_millis(), 249);
    }

    #[test]
    fn the_delay_can_be_nothing_so_that_clients_spread_over_all_of_it() {
        let mut backoff = Backoff::new(Duration::from_secs(10));

        assert_eq!(backoff.pause(Duration::ZERO, &mut Always(0)), Duration::ZERO);
    }

    #[test]
    fn no_ttl_and_no_elapsed_time_panics() {
        for ttl in [Duration::ZERO, Duration::from_millis(3), Duration::MAX] {
            for elapsed in [Duration::ZERO, Duration::MAX] {
                let pause = Backoff::new(ttl).pause(elapsed, &mut Always(0xff));

                assert!(pause <= LONGEST_PAUSE);
            }
        }
    }
}
