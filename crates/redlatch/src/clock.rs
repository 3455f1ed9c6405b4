//! The clock of leases.
//!
//! Elapsed time is the greater of what the boot clock and the wall clock say.
//! The boot clock runs on while the machine sleeps (`CLOCK_MONOTONIC`, and so
//! `Instant`, stands still); the wall clock sees a virtual machine that was
//! frozen. A wall clock that steps back has no effect, one that steps forward
//! can only shorten a lease.

use redlatch_core::{Moment, Steady};
use rustix::time::{ClockId, clock_gettime};
use std::{
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Where an engine and its nodes read the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Boot clock and wall clock: for every lock that is meant.
    System,
    /// The clock of the tokio runtime, which tests can pause and advance.
    Tokio,
}

impl Clock {
    /// The time now.
    #[must_use]
    pub fn now(self) -> Moment {
        match self {
            Clock::System => system().now(),
            Clock::Tokio => {
                let (origin, _) = tokio_origin();
                let now = tokio::time::Instant::now().into_std();
                TOKIO_START
                    .after(now.saturating_duration_since(origin))
                    .before(origin.saturating_duration_since(now))
            }
        }
    }

    /// The time now on the slowest clock there is, for time that must have
    /// passed: `CLOCK_MONOTONIC`, which cannot be set and stands still while
    /// the machine sleeps.
    #[must_use]
    pub fn steady(self) -> Steady {
        match self {
            Clock::System => Steady::from_nanos(nanos(ClockId::Monotonic)),
            Clock::Tokio => Steady::from_nanos(self.now().as_nanos()),
        }
    }

    /// The time since 1970, in whole microseconds; on tokio's clock as far as
    /// that has run.
    pub(crate) fn wall(self) -> Duration {
        match self {
            Clock::System => Duration::from_micros(wall_micros()),
            Clock::Tokio => {
                let (_, wall) = tokio_origin();
                let now = self.now();
                let wall = (wall + now.since(TOKIO_START)).saturating_sub(TOKIO_START.since(now));
                Duration::new(wall.as_secs(), wall.subsec_micros() * 1000)
            }
        }
    }
}

/// What tokio's clock shows at its origin. Runtimes of one process may be paused
/// at different times, so the first reading is not the earliest: this leaves
/// room before it.
const TOKIO_START: Moment = Moment::from_nanos((1 << 32) * 1_000_000_000);

/// When tokio's clock was first read, and the time since 1970 at that moment.
fn tokio_origin() -> (std::time::Instant, Duration) {
    static ORIGIN: OnceLock<(std::time::Instant, Duration)> = OnceLock::new();
    *ORIGIN.get_or_init(|| (std::time::Instant::now(), Clock::System.wall()))
}

/// The wall clock in microseconds since 1970, for fencing numbers, which need
/// not be right: before 1970 it shows zero.
pub(crate) fn wall_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn system() -> &'static Skips {
    static SYSTEM: Skips = Skips::new();
    &SYSTEM
}

#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::Monotonic;

/// What the wall clock has run ahead of the boot clock, summed up.
#[derive(Debug)]
struct Skips {
    /// Wall clock minus boot clock when last looked at, in ns.
    offset: AtomicI64,
    /// All steps forward of the wall clock so far, in ns.
    skipped: AtomicU64,
    started: OnceLock<()>,
    changing: Mutex<()>,
}

/// A change of the two clocks' distance below this is noise of reading them
/// one after the other; the 2 ms of drift that every lease allows cover it.
const NOISE: i64 = 1_000_000;

impl Skips {
    const fn new() -> Self {
        Skips {
            offset: AtomicI64::new(0),
            skipped: AtomicU64::new(0),
            started: OnceLock::new(),
            changing: Mutex::new(()),
        }
    }

    fn now(&self) -> Moment {
        self.at(nanos(BOOT), nanos(ClockId::Realtime))
    }

    fn at(&self, boot: u64, wall: u64) -> Moment {
        let offset = wall.cast_signed().wrapping_sub(boot.cast_signed());
        self.started.get_or_init(|| self.offset.store(offset, Ordering::Release));
        let change = offset.wrapping_sub(self.offset.load(Ordering::Acquire));
        if change.abs() > NOISE {
            self.step(offset);
        }
        Moment::from_nanos(boot.saturating_add(self.skipped.load(Ordering::Acquire)))
    }

    #[cold]
    fn step(&self, offset: i64) {
        let _changing = self.changing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let change = offset.wrapping_sub(self.offset.load(Ordering::Acquire));
        if change > NOISE {
            self.skipped.fetch_add(change.unsigned_abs(), Ordering::AcqRel);
        }
        // After `skipped`: who sees the new offset sees the step it made, too.
        self.offset.store(offset, Ordering::Release);
    }
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn on_tokios_clock_the_wall_clock_runs_as_that_does() {
        let before = Clock::Tokio.wall();
        let apart = before.abs_diff(Clock::System.wall());

        tokio::time::advance(Duration::from_secs(3600)).await;

        assert!(apart < Duration::from_secs(600), "it is off by {apart:?}");
        assert_eq!(Clock::Tokio.wall(), before + Duration::from_secs(3600));
    }

    const S: u64 = 1_000_000_000;
    const WALL: u64 = 1_700_000_000 * S;

    #[test]
    fn elapsed_is_what_the_boot_clock_says_while_both_agree() {
        let clock = Skips::new();
        let before = clock.at(5 * S, WALL);

        assert_eq!(clock.at(8 * S, WALL + 3 * S).since(before), Duration::from_secs(3));
    }

    #[test]
    fn a_wall_clock_that_steps_back_has_no_effect() {
        let clock = Skips::new();
        let before = clock.at(5 * S, WALL);

        let after = clock.at(6 * S, WALL - 3600 * S);

        assert_eq!(after.since(before), Duration::from_secs(1));
    }

    #[test]
    fn a_frozen_machine_is_seen_by_the_wall_clock() {
        let clock = Skips::new();
        let before = clock.at(5 * S, WALL);

        let after = clock.at(6 * S, WALL + 61 * S);

        assert_eq!(after.since(before), Duration::from_secs(61));
    }

    #[test]
    fn a_step_back_and_forth_counts_the_way_forth() {
        let clock = Skips::new();
        clock.at(5 * S, WALL);
        let between = clock.at(6 * S, WALL - 99 * S);

        let after = clock.at(7 * S, WALL + 2 * S);

        assert_eq!(after.since(between), Duration::from_secs(101));
    }

    #[test]
    fn noise_of_reading_two_clocks_does_not_add_up() {
        let clock = Skips::new();
        let before = clock.at(S, WALL);

        for i in 1..=10_000 {
            clock.at(S + i * 1_000, WALL + i * 1_000 + (i % 2) * 900_000);
        }
        let after = clock.at(2 * S, WALL + S);

        assert_eq!(after.since(before), Duration::from_secs(1));
    }
}
