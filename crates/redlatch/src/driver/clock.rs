//! The clocks.
//!
//! [`Clock::now`] is the clock of leases, for time that may be *left*: it counts the time
//! elapsed on the boot clock or the wall clock, whichever is greater. The boot clock keeps
//! running while the machine sleeps (`CLOCK_MONOTONIC`, and so `Instant`, stops); the wall
//! clock shows that a virtual machine was frozen. Stepping the wall clock back has no
//! effect, and stepping it forward can only shorten a lease.
//!
//! [`Clock::steady`] is for time that must have *passed*: it reads the slowest clock.
//! Setting the wall clock does not move it, and it stops during sleep.

mod skips;

use redlatch_core::{Moment, Steady};
use rustix::time::{ClockId, clock_gettime};
use skips::{Clocks, Skips};
use std::{
    sync::OnceLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The source of time for an engine and its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// Boot clock and wall clock: for all real locks.
    System,
    /// The tokio runtime's clock, which tests can pause and advance.
    Tokio,
}

impl Clock {
    /// Returns the current time, for time that may be left: no other clock of the machine
    /// has advanced further.
    #[must_use]
    pub fn now(self) -> Moment {
        match self {
            Clock::System => SKIPS.now(&Machine),
            Clock::Tokio => {
                let (origin, _) = tokio_origin();
                let now = tokio::time::Instant::now().into_std();
                TOKIO_START
                    .after(now.saturating_duration_since(origin))
                    .before(origin.saturating_duration_since(now))
            }
        }
    }

    /// Returns how long it is until a moment of this clock; zero if it has passed.
    pub(crate) fn until(self, deadline: Instant) -> Duration {
        let now = match self {
            Clock::System => Instant::now(),
            Clock::Tokio => tokio::time::Instant::now().into_std(),
        };
        deadline.saturating_duration_since(now)
    }

    /// Returns the current time on the slowest clock, for time that must have passed:
    /// `CLOCK_MONOTONIC`, which cannot be set and stops while the machine sleeps.
    #[must_use]
    pub fn steady(self) -> Steady {
        match self {
            Clock::System => Steady::from_nanos(nanos(ClockId::Monotonic)),
            Clock::Tokio => Steady::from_nanos(self.now().as_nanos()),
        }
    }

    /// The time since 1970, in whole microseconds; on tokio's clock, the first
    /// reading plus the time that has passed on it.
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

/// What tokio's clock shows at its origin. Runtimes of one process may be
/// paused at different times, so the first reading need not be the earliest:
/// this leaves room before it.
const TOKIO_START: Moment = Moment::from_nanos((1 << 32) * 1_000_000_000);

/// When tokio's clock was first read, and the time since 1970 at that point.
fn tokio_origin() -> (Instant, Duration) {
    static ORIGIN: OnceLock<(Instant, Duration)> = OnceLock::new();
    *ORIGIN.get_or_init(|| (Instant::now(), Clock::System.wall()))
}

/// The wall clock in microseconds since 1970; zero before 1970. Used for fencing tokens,
/// which do not depend on its accuracy.
pub(crate) fn wall_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The wall clock's jumps that this process has seen.
static SKIPS: Skips = Skips::new();

/// The machine's clocks.
struct Machine;

#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::Monotonic;

impl Clocks for Machine {
    fn boot(&self) -> u64 {
        nanos(BOOT)
    }

    fn wall(&self) -> u64 {
        nanos(ClockId::Realtime)
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

    #[tokio::test(start_paused = true)]
    async fn on_tokios_clock_steady_time_runs_as_that_does() {
        let before = Clock::Tokio.steady();

        tokio::time::advance(Duration::from_secs(3600)).await;

        assert_eq!(Clock::Tokio.steady(), before.after(Duration::from_secs(3600)));
    }

    #[test]
    fn steady_time_is_never_ahead_of_what_passed() {
        let boot = Machine.boot();
        let before = Clock::System.steady();
        let step = Clock::System.now();

        while Clock::System.now().since(step) < Duration::from_millis(20) {
            std::thread::yield_now();
        }

        let passed = Clock::System.steady().since(before);
        assert!(passed <= Duration::from_nanos(Machine.boot() - boot), "{passed:?}");
        assert!(passed > Duration::ZERO);
    }

    /// Threads that read the clock all the time are preempted between any two readings. A
    /// step forward of this machine's clock during the test counts.
    #[test]
    fn fault_45_threads_that_are_pre_empted_do_not_make_leases_shorter() {
        let boot = Machine.boot();
        let stepped = Machine.wall().wrapping_sub(boot);
        let before = Clock::System.now();

        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    while Machine.boot() - boot < 2_000_000_000 {
                        std::hint::black_box(Clock::System.now());
                    }
                });
            }
        });

        let passed = Clock::System.now().since(before);
        let stepped =
            Machine.wall().wrapping_sub(Machine.boot()).cast_signed() - stepped.cast_signed();
        let most = Machine.boot() - boot + u64::try_from(stepped).unwrap_or(0) + 1_000_000;
        assert!(passed <= Duration::from_nanos(most), "{passed:?} in {most} ns");
    }
}
