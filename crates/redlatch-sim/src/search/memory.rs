//! What a node has forgotten: known to the simulator, and to nobody in it.
//!
//! In:  every loss of memory, every admission, every word of an operator.
//! Out: since when the node must not vote, and which locks it would betray.

use redlatch_core::{Moment, Resource};
use std::{sync::Arc, time::Duration};

/// A word is taken up with the next look, which begins when the turn that is under
/// way is over, and binds it to the mark that is seen, or left, then: three turns.
const HEARD: Duration = Duration::from_secs(3);

/// What one node has forgotten.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// When it last forgot, unless it was admitted since; in true time.
    pub forgot: Option<Moment>,
    /// An operator vouched for it since, truthfully.
    pub vouched: bool,
    /// When an operator last vouched for it.
    word: Option<Moment>,
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
        // A node that is out has nothing new to forget, but for keys put back.
        if self.forgot.is_none() || !lost.is_empty() {
            self.forgot = Some(now);
        }
        self.lost.extend(lost);
        self.vouched = false;
    }

    /// Whether an operator's word was given that no client may have heard yet: if
    /// the node forgets now, it was not true.
    #[must_use]
    pub fn belies(&self, now: Moment) -> bool {
        self.word.is_some_and(|word| now < word.after(HEARD))
    }

    /// An operator would vouch for it; only if that is the truth.
    pub fn vouch(&mut self, now: Moment) -> bool {
        let truth = self.lost.iter().all(|lost| lost.dies <= now);
        self.vouched |= truth;
        self.word = truth.then_some(now).or(self.word);
        truth
    }

    /// It was admitted.
    pub fn admitted(&mut self) {
        self.forgot = None;
        self.vouched = false;
    }
}
