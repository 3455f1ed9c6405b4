//! What a node has forgotten: known to the simulator, and to nobody in it.
//!
//! In:  every loss of memory, every admission, every word of an operator.
//! Out: since when the node must not vote, and which locks it would betray.

use redlatch_core::{Moment, Resource, Tag};
use std::{sync::Arc, time::Duration};

/// A word is taken up with the next look, which begins when the turn that is under
/// way is over, and binds it to the mark that is seen, or left, then: three turns.
const HEARD: Duration = Duration::from_secs(3);
/// An answer that comes later may be none to that question any more.
const IN_TIME: Duration = Duration::from_millis(900);

/// What one node has forgotten.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// When it last forgot, unless it was admitted since; in true time.
    pub forgot: Option<Moment>,
    /// An operator vouched for it since, truthfully.
    pub vouched: bool,
    /// What an operator last said of it.
    word: Option<Word>,
    /// The keys that it should still have, whoever admitted it since.
    pub lost: Vec<Lost>,
}

/// That an operator vouched.
#[derive(Debug, Clone, Copy)]
struct Word {
    given: Moment,
    /// To which client.
    to: usize,
    /// The look with which that client finds out which life of the node is meant.
    look: Option<(Tag, Moment)>,
    /// It knows.
    heard: bool,
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
    /// the node forgets now, it was not true. Once heard, it is about one life of the
    /// node, and a restart begins another.
    #[must_use]
    pub fn belies(&self, now: Moment, restarts: bool) -> bool {
        self.word.is_some_and(|word| now < word.given.after(HEARD) && !(word.heard && restarts))
    }

    /// An operator would vouch for it; only if that is the truth.
    pub fn vouch(&mut self, now: Moment, to: usize) -> bool {
        let truth = self.lost.iter().all(|lost| lost.dies <= now);
        self.vouched |= truth;
        self.word =
            truth.then_some(Word { given: now, to, look: None, heard: false }).or(self.word);
        truth
    }

    /// A client sends it a look.
    pub fn looked_at(&mut self, now: Moment, by: usize, tag: Tag) {
        if let Some(word) = self.word.as_mut().filter(|word| word.to == by) {
            word.look = Some((tag, now));
        }
    }

    /// The answer to a look is there.
    pub fn answered(&mut self, now: Moment, to: usize, tag: Tag) {
        if let Some(word) = self.word.as_mut().filter(|word| word.to == to) {
            let meant = |(look, sent): (Tag, Moment)| look == tag && now < sent.after(IN_TIME);
            word.heard |= word.look.is_some_and(meant);
        }
    }

    /// It was admitted.
    pub fn admitted(&mut self) {
        self.forgot = None;
        self.vouched = false;
    }
}
