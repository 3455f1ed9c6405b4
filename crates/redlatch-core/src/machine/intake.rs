//! Queues callers until the nodes can take another attempt.
//!
//! Only attempts and undos that a majority has not yet answered count: waiting for a
//! minority delays nobody. Undos, releases and extensions never wait; when they keep the
//! nodes busy, new attempts wait.

use super::OpId;
use crate::{
    acquire::{AcquireError, Attempt},
    config::Terms,
    moment::Moment,
    pace::{FEWEST, Pace},
    vote::{Ballot, Cast, Vote},
};
use alloc::collections::BTreeSet;
use core::time::Duration;

/// The load that an operation puts on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Load {
    /// None that counts towards the limit.
    None,
    /// An attempt that a majority has not answered.
    Attempt,
    /// An undo that a majority has not answered.
    Undo,
    /// An undo that only waits for a minority.
    Tail,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Intake {
    pace: Pace,
    /// Waiting operations by number: first come, first served.
    waiting: BTreeSet<(u64, OpId)>,
    attempts: usize,
    undos: usize,
    tails: usize,
    /// The votes on the last attempt, if it failed because of the nodes.
    trouble: Option<Ballot>,
}

impl Intake {
    /// Returns whether an attempt may start at once.
    pub(super) fn is_open(&self) -> bool {
        !self.is_crowded() && self.has_room()
    }

    /// Returns whether anyone is waiting. Without a queue there is nothing to learn from.
    pub(super) fn is_crowded(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Joins the queue under an earlier number, or at the end.
    pub(super) fn enter(&mut self, id: OpId, number: Option<u64>) -> u64 {
        let last = || self.waiting.last().map_or(0, |(last, _)| last + 1);
        let number = number.unwrap_or_else(last);
        self.waiting.insert((number, id));
        number
    }

    pub(super) fn leave(&mut self, id: OpId, number: u64) {
        self.waiting.remove(&(number, id));
    }

    /// Removes and returns the next operation that may start, if there is room.
    pub(super) fn next(&mut self) -> Option<OpId> {
        if !self.has_room() {
            return None;
        }
        self.waiting.pop_first().map(|(_, id)| id)
    }

    /// Records that an operation's load has changed.
    pub(super) fn shift(&mut self, before: Load, after: Load) {
        if before != after {
            if let Some(count) = self.count(before) {
                *count -= 1;
            }
            if let Some(count) = self.count(after) {
                *count += 1;
            }
        }
    }

    /// Returns how many undos are in progress.
    pub(super) fn undos(&self) -> usize {
        self.undos + self.tails
    }

    /// Learns from an attempt that has been decided.
    pub(super) fn decided(
        &mut self,
        now: Moment,
        attempt: &Attempt,
        terms: &Terms,
        error: Option<&AcquireError>,
    ) {
        let (elapsed, in_use) = (attempt.elapsed(now), self.is_crowded());
        match majority_answered_after(attempt.ballot()) {
            Some(took) => self.pace.answered(now, took, terms.node_timeout, in_use),
            None if elapsed >= terms.node_timeout => self.pace.unanswered(now, elapsed),
            None => {} // refused connections say nothing about what nodes can bear
        }
        self.trouble =
            match error {
                Some(
                    AcquireError::NoMajority(ballot) | AcquireError::Quarantined { ballot, .. },
                ) if in_use => Some(ballot.clone()),
                _ => None,
            };
    }

    /// Returns the error for a caller whose turn never came. If the nodes are
    /// failing, that is the reason, not the other callers.
    pub(super) fn why_not(&self, waited: Duration) -> AcquireError {
        match &self.trouble {
            Some(ballot) => AcquireError::no_majority(ballot.clone()),
            None => AcquireError::Busy { waited, waiting: self.waiting.len() },
        }
    }

    fn has_room(&self) -> bool {
        // Unanswered undos must not block every attempt, or nobody would notice the
        // outage.
        self.attempts < FEWEST || self.attempts + self.undos < self.pace.limit()
    }

    fn count(&mut self, load: Load) -> Option<&mut usize> {
        match load {
            Load::None => None,
            Load::Attempt => Some(&mut self.attempts),
            Load::Undo => Some(&mut self.undos),
            Load::Tail => Some(&mut self.tails),
        }
    }
}

/// Returns whether a majority of the nodes has answered or failed.
pub(super) fn is_settled(ballot: &Ballot) -> bool {
    let tally = ballot.tally();
    tally.nodes - tally.pending >= tally.majority()
}

/// Returns how long a majority took to answer, or `None` if fewer have.
fn majority_answered_after(ballot: &Ballot) -> Option<Duration> {
    let majority = ballot.tally().majority();
    let answer = |cast: &Cast| match cast.vote {
        Vote::Pending | Vote::Failed(_) => None,
        _ => cast.after,
    };
    let answers = || ballot.casts().iter().filter_map(answer);
    // The usual case: the last of them has just completed the majority.
    if answers().count() == majority {
        return answers().max();
    }
    answers().filter(|took| answers().filter(|other| other <= took).count() >= majority).min()
}
