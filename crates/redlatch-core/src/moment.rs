//! Points in time, on two clocks.
//!
//! Time that is *left* (a lease) is counted by the fastest clock there is, a
//! [`Moment`]; time that must have *passed* (the restart guard's window) by the
//! slowest, a [`Steady`]. One cannot be made from the other, so a window cannot
//! be measured with the clock of leases, which a step of the wall clock moves.
//!
//! Only differences between moments of the *same* clock mean anything; where
//! zero lies is the driver's business. All arithmetic saturates: a moment that
//! cannot be represented is "never" ([`Moment::NEVER`]), not a panic.

use core::time::Duration;

/// The time as a driver hands it over: the same instant, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Now {
    /// On the clock of leases: never slower than a node's clock.
    pub lease: Moment,
    /// On the slowest clock: never faster than a node's clock.
    pub steady: Steady,
}

/// A point in time on the slowest clock, in nanoseconds: for time that must
/// have passed. No step of a wall clock moves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Steady(u64);

impl Steady {
    /// The point that many nanoseconds after the clock's zero.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Steady(nanos)
    }

    /// The point `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Steady(self.0.saturating_add(nanos(duration)))
    }

    /// The point `duration` earlier, not before the clock's zero.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Steady(self.0.saturating_sub(nanos(duration)))
    }

    /// How much time has passed since `earlier`; zero when it is not in the past.
    #[must_use]
    pub const fn since(self, earlier: Steady) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A point in time on the clock of leases, in nanoseconds.
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
