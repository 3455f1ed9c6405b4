//! Randomness, good enough to choose faults.

pub(crate) use redlatch_core::dice::Dice;

use crate::history;

/// Dice that differ from process to process and from call to call.
pub(crate) fn roll() -> Dice {
    Dice::of(history::now() ^ u64::from(std::process::id()).rotate_left(40), &[])
}
