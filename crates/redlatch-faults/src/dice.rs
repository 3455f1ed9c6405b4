//! Chance, good enough to choose faults by.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::history;

/// `SplitMix64`.
#[derive(Debug)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    /// Differs from process to process and from call to call.
    pub(crate) fn new() -> Self {
        Self { state: history::now() ^ u64::from(std::process::id()).rotate_left(40) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).expect("fits");
        usize::try_from(self.next() % bound).expect("below a usize")
    }

    /// One of several.
    pub(crate) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// A time in between.
    pub(crate) fn between(&mut self, range: RangeInclusive<Duration>) -> Duration {
        let (least, most) = range.into_inner();
        let span = u64::try_from(most.saturating_sub(least).as_nanos()).unwrap_or(u64::MAX - 1);
        least + Duration::from_nanos(self.next() % (span + 1))
    }
}
