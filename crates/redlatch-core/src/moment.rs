//! A point in time on one clock.
//!
//! Only differences between moments of the *same* clock mean anything; where
//! zero lies is the driver's business. All arithmetic saturates: a moment that
//! cannot be represented is "never" ([`Moment::NEVER`]), not a panic.

use core::time::Duration;

/// A point in time on the driver's clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Where the clock starts.
    pub const START: Moment = Moment(0);
    /// Later than every moment that will come.
    pub const NEVER: Moment = Moment(u64::MAX);

    /// The moment that many nanoseconds after the clock's zero.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Moment(nanos)
    }

    /// Nanoseconds since the clock's zero.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Moment(self.0.saturating_add(nanos(duration)))
    }

    /// The moment `duration` earlier, not before the clock's zero.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Moment(self.0.saturating_sub(nanos(duration)))
    }

    /// How long `earlier` is ago; zero when it is not in the past.
    #[must_use]
    pub const fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Nanoseconds, saturating: `u64` holds 584 years of them.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_never_underflow() {
        let early = Moment::from_nanos(5);
        let late = early.after(Duration::from_nanos(7));

        assert_eq!(late.since(early), Duration::from_nanos(7));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early.before(Duration::from_secs(1)), Moment::START);
    }

    #[test]
    fn a_duration_without_end_reaches_never() {
        assert_eq!(Moment::START.after(Duration::MAX), Moment::NEVER);
        assert_eq!(Moment::NEVER.after(Duration::from_secs(1)), Moment::NEVER);
    }
}
