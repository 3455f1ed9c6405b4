//! Future events, ordered by time; at the same time, in the order in which they were
//! pushed.

use redlatch_core::Moment;
use std::collections::BTreeMap;

pub(crate) struct Queue<T> {
    entries: BTreeMap<(Moment, u64), T>,
    pushed: u64,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Queue { entries: BTreeMap::new(), pushed: 0 }
    }

    pub(crate) fn push(&mut self, at: Moment, entry: T) {
        self.pushed += 1;
        self.entries.insert((at, self.pushed), entry);
    }

    pub(crate) fn pop(&mut self) -> Option<(Moment, T)> {
        self.entries.pop_first().map(|((at, _), entry)| (at, entry))
    }
}
