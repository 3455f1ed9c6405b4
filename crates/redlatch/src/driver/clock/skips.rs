//! How far the wall clock has jumped ahead of the boot clock, in total.
//!
//! In:  readings of both clocks.
//! Out: a moment: the boot clock plus every jump so far.
//!
//! Only a *proven* jump counts. Two clocks cannot be read at the same instant, and a thread
//! that is preempted in between finds the wall clock "ahead" by the time it did not run. So
//! the quick reading (boot, wall) may only confirm the known distance. If it does not, the
//! clocks are read boot, wall, boot: however long that took, the true distance lies between
//! the two differences, and only a bound beyond the known distance moves it.
//!
//! Other errors do not add up either:
//!
//! - A reading taken before another thread saw the wall clock jump must not
//!   undo what that thread found, or the jump would be counted twice. So the
//!   known distance changes only under a lock, by a reading taken under it.
//! - A distance that fluctuates by less than [`NOISE`] counts as constant.
//! - A slewed wall clock gains on the boot clock a little at a time (not on
//!   Linux, where slewing moves both alike). A rise of at most [`SLIVER`] is
//!   followed without being counted, as long as such rises stay below a
//!   thousandth of the time.
//!
//! A step back does not count, and a later step forward counts in full: a lease taken
//! between the two cannot tell a corrected clock from a machine that was frozen, and only
//! one of these mistakes is safe. So a wall clock that is set back and forth shortens
//! leases with each step forward.
//!
//! Compared with the wall clock, at most twice [`NOISE`] plus a thousandth may be
//! missing. The drift allowance of a lease, 2 ms and one percent, covers that.

use redlatch_core::Moment;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

/// The two clocks, in ns.
pub(super) trait Clocks {
    fn boot(&self) -> u64;
    fn wall(&self) -> u64;
}

/// Distances that differ by no more than this, in ns, count as the same.
const NOISE: i64 = 500_000;
/// The greatest rise of the distance that slewing can explain, in ns.
const SLIVER: u64 = 1_000_000;
/// Slewing stays below one part in this many.
const SLEWING: u64 = 1_000;
/// If the two boot readings are further apart than this, in ns, read again …
const TORN: u64 = 50_000;
/// … but at most this often: what a torn reading proves is still true.
const READINGS: usize = 8;
/// No distance known yet. Clocks that far apart would differ by 292 years.
const UNKNOWN: i64 = i64::MIN;

/// The known jumps of the wall clock.
#[derive(Debug)]
pub(super) struct Skips {
    /// Wall clock minus boot clock, in ns.
    distance: AtomicI64,
    /// All jumps forward so far, in ns.
    skipped: AtomicU64,
    /// When `distance` last moved, by the boot clock. Moving it requires this lock.
    moved: Mutex<u64>,
}

impl Skips {
    pub(super) const fn new() -> Self {
        Skips {
            distance: AtomicI64::new(UNKNOWN),
            skipped: AtomicU64::new(0),
            moved: Mutex::new(0),
        }
    }

    pub(super) fn now(&self, clocks: &impl Clocks) -> Moment {
        let boot = clocks.boot();
        let distance = minus(clocks.wall(), boot);
        let is_as_known =
            distance.abs_diff(self.distance.load(Ordering::Acquire)) <= NOISE.unsigned_abs();
        let boot = if is_as_known { boot } else { self.look(clocks) };
        Moment::from_nanos(boot.saturating_add(self.skipped.load(Ordering::Acquire)))
    }

    /// Checks whether the distance has changed. Returns the boot clock.
    #[cold]
    fn look(&self, clocks: &impl Clocks) -> u64 {
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        let Reading { boot, least, most } = Reading::take(clocks);
        let known = self.distance.load(Ordering::Acquire);
        let distance = if known == UNKNOWN || most < known - NOISE {
            most
        } else if least > known + NOISE {
            let rise = least.abs_diff(known);
            if rise > SLIVER.min(boot.saturating_sub(*moved) / SLEWING) {
                self.skipped.fetch_add(rise, Ordering::AcqRel);
            }
            least
        } else {
            return boot;
        };
        *moved = boot;
        // After `skipped`: a thread that sees the new distance also sees the jump.
        self.distance.store(distance, Ordering::Release);
        boot
    }
}

/// Both clocks, read one after the other.
struct Reading {
    /// The boot clock, when last read.
    boot: u64,
    /// Wall clock minus boot clock is at least this, …
    least: i64,
    /// … and at most this.
    most: i64,
}

impl Reading {
    /// The most precise of a few readings; usually the first is precise enough.
    fn take(clocks: &impl Clocks) -> Self {
        let mut sharpest = Reading::once(clocks);
        for _ in 1..READINGS {
            if sharpest.width() <= TORN {
                break;
            }
            let next = Reading::once(clocks);
            let boot = next.boot;
            if next.width() < sharpest.width() {
                sharpest = next;
            }
            sharpest.boot = boot;
        }
        sharpest
    }

    fn once(clocks: &impl Clocks) -> Self {
        let before = clocks.boot();
        let wall = clocks.wall();
        let boot = clocks.boot();
        Reading { boot, least: minus(wall, boot), most: minus(wall, before) }
    }

    fn width(&self) -> u64 {
        self.most.abs_diff(self.least)
    }
}

fn minus(wall: u64, boot: u64) -> i64 {
    wall.cast_signed().wrapping_sub(boot.cast_signed())
}

#[cfg(test)]
mod tests;
