//! What a node has forgotten: known to the simulator, and to nobody in it.
//!
//! In:  every loss of memory, every admission, every word of an operator.
//! Out: since when the node must not vote, and which locks it would betray.

use redlatch_core::{Moment, Resource};
use std::sync::Arc;

/// What one node has forgotten.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// When it last forgot, unless it was admitted since; in true time.
    pub forgot: Option<Moment>,
    /// An operator vouched for it since, truthfully.
    pub vouched: bool,
    /// The keys that it should still have, whoever admitted it since.
    pub lost: Vec<Lost>,
}

/// A key that is gone before its time.
#[derive(Debug, Clone)]
pub struct Lost {
    /// What was locked.
    pub name: Resource,
    /// What it was signed with.
    pub value: Arc<[u8]>,
    /// When it would have died, in true time.
    pub dies: Moment,
}

impl Memory {
    /// All of these are gone.
    pub fn forgets(&mut self, now: Moment, lost: Vec<Lost>) {
        self.lost.retain(|lost| now < lost.dies);
        self.lost.extend(lost);
        self.forgot = Some(now);
        self.vouched = false;
    }

    /// An operator would vouch for it; only if that is the truth.
    pub fn vouch(&mut self, now: Moment) -> bool {
        let truth = self.lost.iter().all(|lost| lost.dies <= now);
        self.vouched |= truth;
        truth
    }

    /// It was admitted.
    pub fn admitted(&mut self) {
        self.forgot = None;
        self.vouched = false;
    }
}
