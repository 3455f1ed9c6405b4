//! Points in time, on two clocks.
//!
//! Time *left* (a lease) is measured on the fastest clock, as a [`Moment`]; time that must
//! have *passed* (the restart guard's window) on the slowest, as a [`Steady`]. Neither
//! converts to the other, so a window cannot be measured on the lease clock, which moves
//! if the wall clock is stepped.
//!
//! Only differences between moments of the *same* clock mean anything; the driver
//! decides where zero is. All arithmetic saturates: a moment that cannot be
//! represented is "never" ([`Moment::NEVER`]), not a panic.

use core::time::Duration;

/// The time as a driver passes it in: one instant, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Now {
    /// On the lease clock: never slower than a node's clock.
    pub lease: Moment,
    /// On the slowest clock: never faster than a node's clock.
    pub steady: Steady,
}

/// A point in time on the slowest clock, in nanoseconds, for time that must have passed.
/// Stepping the wall clock does not move it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Steady(u64);

impl Steady {
    /// Returns the point this many nanoseconds after the clock's zero.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Steady(nanos)
    }

    /// Returns the point `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Steady(self.0.saturating_add(nanos(duration)))
    }

    /// Returns the point `duration` earlier, but not before the clock's zero.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Steady(self.0.saturating_sub(nanos(duration)))
    }

    /// Returns the time that has passed since `earlier`; zero if that is not in the past.
    #[must_use]
    pub const fn since(self, earlier: Steady) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A point in time on the lease clock, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The clock's zero.
    pub const START: Moment = Moment(0);
    /// Later than any moment that will ever come.
    pub const NEVER: Moment = Moment(u64::MAX);

    /// Returns the moment this many nanoseconds after the clock's zero.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Moment(nanos)
    }

    /// Returns the nanoseconds since the clock's zero.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the moment `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Moment(self.0.saturating_add(nanos(duration)))
    }

    /// Returns the moment `duration` earlier, but not before the clock's zero.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Moment(self.0.saturating_sub(nanos(duration)))
    }

    /// Returns the time that has passed since `earlier`; zero if that is not in the past.
    #[must_use]
    pub const fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Converts to nanoseconds, saturating: `u64` holds 584 years of them.
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
