//! Points in time that mean the same to two processes, even if one of them or the
//! machine was stopped in between.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Nanoseconds of the boot clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BootTime(pub(super) u64);

impl BootTime {
    pub(super) fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        BootTime(seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0))
    }

    /// Later by `time`; never, if that is out of range.
    pub(super) fn after(self, time: Duration) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        BootTime(self.0.saturating_add(nanos))
    }

    /// How long after `earlier` it is; zero if it is before that.
    pub(super) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// How long until then; zero if it has passed.
    pub(super) fn left(self) -> Duration {
        self.since(Self::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_has_no_time_left_and_what_never_comes_has_all() {
        let now = BootTime::now();

        assert_eq!(now.left(), Duration::ZERO);
        assert!(now.after(Duration::from_secs(60)).left() <= Duration::from_secs(60));
        assert_eq!(now.after(Duration::MAX), BootTime(u64::MAX));
    }
}
