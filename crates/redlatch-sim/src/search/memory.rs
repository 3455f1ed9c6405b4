//! What a node has forgotten: known to the simulator, but to nobody in the simulation.
//!
//! In:  every loss of memory, admission and operator's word.
//! Out: since when the node must not vote, and which locks it has lost.

use redlatch_core::{Moment, Resource, Tag};
use std::{sync::Arc, time::Duration};

/// How long a client may take to act on a word: the look under way ends, the next
/// one begins, and its mark binds the word: three turns.
const HEARD: Duration = Duration::from_secs(3);
/// A later answer may no longer belong to that look.
const IN_TIME: Duration = Duration::from_millis(900);

#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// When it last forgot, in true time, unless it was admitted since.
    pub forgot: Option<Moment>,
    /// An operator has vouched for it since, truthfully.
    pub vouched: bool,
    /// What an operator last said about it.
    word: Option<Word>,
    /// The keys it should still have, no matter who admitted it since.
    pub lost: Vec<Lost>,
}

#[derive(Debug, Clone, Copy)]
struct Word {
    given: Moment,
    /// The client it was given to.
    to: usize,
    /// The look by which that client learns which life of the node is meant.
    look: Option<(Tag, Moment)>,
    /// The client knows.
    heard: bool,
}

/// A key that was lost before it expired.
#[derive(Debug, Clone)]
pub struct Lost {
    pub name: Resource,
    pub value: Arc<[u8]>,
    /// When it would have expired, in true time.
    pub dies: Moment,
}

impl Memory {
    /// Loses these keys.
    pub fn forgets(&mut self, now: Moment, lost: Vec<Lost>) {
        self.lost.retain(|lost| now < lost.dies);
        // A quarantined node has nothing new to forget, except keys put back.
        if self.forgot.is_none() || !lost.is_empty() {
            self.forgot = Some(now);
        }
        self.lost.extend(lost);
        self.vouched = false;
    }

    /// Whether an operator has vouched, but no client may know yet for which life of
    /// the node: if it forgets now, the word was false. Once a client knows, a restart
    /// begins another life, which the word does not cover.
    pub fn belies(&self, now: Moment, restarts: bool) -> bool {
        self.word.is_some_and(|word| now < word.given.after(HEARD) && !(word.heard && restarts))
    }

    /// An operator vouches for it, but only if that is true.
    pub fn vouch(&mut self, now: Moment, to: usize) -> bool {
        let truth = self.lost.iter().all(|lost| lost.dies <= now);
        self.vouched |= truth;
        self.word =
            truth.then_some(Word { given: now, to, look: None, heard: false }).or(self.word);
        truth
    }

    /// A client examines it.
    pub fn looked_at(&mut self, now: Moment, by: usize, tag: Tag) {
        if let Some(word) = self.word.as_mut().filter(|word| word.to == by) {
            word.look = Some((tag, now));
        }
    }

    /// A client has the answer to its look.
    pub fn answered(&mut self, now: Moment, to: usize, tag: Tag) {
        if let Some(word) = self.word.as_mut().filter(|word| word.to == to) {
            let meant = |(look, sent): (Tag, Moment)| look == tag && now < sent.after(IN_TIME);
            word.heard |= word.look.is_some_and(meant);
        }
    }

    pub fn admitted(&mut self) {
        self.forgot = None;
        self.vouched = false;
    }
}
