//! How far the wall clock has jumped ahead of the boot clock, in total.
//!
//! In:  readings of both clocks.
//! Out: a moment: the boot clock plus every jump so far.
//!
//! Only a jump that is *proved* counts. Two clocks cannot be read at once, and a
//! thread that loses the CPU in between finds the wall clock "ahead" by as long
//! as it was away. So the quick reading (boot, wall) may only confirm what is
//! known. If it does not, the clocks are read boot, wall, boot: their true
//! distance then lies between the two differences, however long the reading
//! took, and only a bound that is past the known distance moves it.
//!
//! Nothing else adds up either:
//!
//! - A reading that was taken before another thread saw the wall clock jump must
//!   not undo what that thread found, or the jump would be counted again. So what
//!   is known changes only under a lock, by a reading taken under it.
//! - A distance that moves to and fro by less than [`NOISE`] counts as constant.
//! - A wall clock that is slewed gains on the boot clock a little at a time (not
//!   on Linux, where slewing moves both alike). A rise of at most [`SLIVER`] is
//!   followed without being counted, as long as such rises stay below a
//!   thousandth of the time.
//!
//! A step back counts for nothing, and a step forward after it in full: whoever
//! took a lease between the two cannot tell a clock that is set right again from
//! a machine that was frozen, and only one of these mistakes is safe. A wall
//! clock that is set to and fro thus shortens leases each time it goes forth.
//!
//! What may be missing from the time that passed by the wall clock: twice
//! [`NOISE`] and a thousandth. The drift allowance of a lease, 2 ms and one
//! percent, covers that.

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

/// A distance of the clocks that differs by no more than this is the same, in ns.
const NOISE: i64 = 500_000;
/// The greatest rise of the distance that slewing explains, in ns.
const SLIVER: u64 = 1_000_000;
/// Slewing stays below one part in this many.
const SLEWING: u64 = 1_000;
/// Boot clocks further apart than this, in ns, make a reading worth taking again …
const TORN: u64 = 50_000;
/// … but only so often: what a torn reading proves is true all the same.
const READINGS: usize = 8;
/// No distance yet. Clocks that show it are 292 years apart.
const UNKNOWN: i64 = i64::MIN;

/// What is known of the wall clock's jumps.
#[derive(Debug)]
pub(super) struct Skips {
    /// Wall clock minus boot clock, in ns.
    distance: AtomicI64,
    /// All jumps forward so far, in ns.
    skipped: AtomicU64,
    /// When `distance` last moved, by the boot clock. Who moves it has the lock.
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

    /// The time now.
    pub(super) fn now(&self, clocks: &impl Clocks) -> Moment {
        let boot = clocks.boot();
        let distance = minus(clocks.wall(), boot);
        let is_as_known =
            distance.abs_diff(self.distance.load(Ordering::Acquire)) <= NOISE.unsigned_abs();
        let boot = if is_as_known { boot } else { self.look(clocks) };
        Moment::from_nanos(boot.saturating_add(self.skipped.load(Ordering::Acquire)))
    }

    /// Finds out whether the distance has changed. Returns the boot clock.
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
        // After `skipped`: who sees the new distance sees the jump it was, too.
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
    /// The sharpest of a few readings; mostly the first is sharp enough.
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
