//! Whose turn it is: callers wait here until an attempt more may be under way.
//!
//! What counts is what a majority of the nodes still has to answer, attempts
//! and undos alike: what waits for a minority holds up nobody. Undos, releases
//! and extensions never wait; where they keep the nodes busy, new attempts do.

use super::OpId;
use crate::{
    acquire::{AcquireError, Attempt},
    config::Terms,
    moment::Moment,
    pace::{FEWEST, Pace},
    quorum::{Ballot, Cast, Vote},
};
use alloc::collections::BTreeSet;
use core::time::Duration;

/// What an operation asks of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Load {
    /// Nothing that takes turns.
    None,
    /// An attempt that no majority has answered.
    Attempt,
    /// An undo that no majority has answered.
    Undo,
    /// An undo that waits for a minority.
    Tail,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Turns {
    pace: Pace,
    /// Who waits, by their tickets: first come, first served.
    waiting: BTreeSet<(u64, OpId)>,
    attempts: usize,
    undos: usize,
    tails: usize,
    /// What the nodes answered to the last attempt, if it failed for them.
    trouble: Option<Ballot>,
}

impl Turns {
    /// Whether an attempt may start at once.
    pub(super) fn is_open(&self) -> bool {
        !self.is_crowded() && self.has_room()
    }

    /// Whether anybody waits. Only then is anything learnt: while nobody does,
    /// the past makes no difference.
    pub(super) fn is_crowded(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Gets in line: with a ticket from before, or behind all others.
    pub(super) fn enter(&mut self, id: OpId, ticket: Option<u64>) -> u64 {
        let last = || self.waiting.last().map_or(0, |(last, _)| last + 1);
        let ticket = ticket.unwrap_or_else(last);
        self.waiting.insert((ticket, id));
        ticket
    }

    pub(super) fn leave(&mut self, id: OpId, ticket: u64) {
        self.waiting.remove(&(ticket, id));
    }

    /// Who may start now, if anybody. They are in line no more.
    pub(super) fn next(&mut self) -> Option<OpId> {
        if !self.has_room() {
            return None;
        }
        self.waiting.pop_first().map(|(_, id)| id)
    }

    /// An operation asks for something else than before.
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

    /// How many undos are under way.
    pub(super) fn undos(&self) -> usize {
        self.undos + self.tails
    }

    /// An attempt has come to its end.
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
        self.trouble = match error {
            Some(AcquireError::NoQuorum(ballot)) if in_use => Some(ballot.clone()),
            _ => None,
        };
    }

    /// Why somebody who waited in vain has no lock. While the nodes fail, that
    /// is the reason, and not the others who wait.
    pub(super) fn why_not(&self, waited: Duration) -> AcquireError {
        match &self.trouble {
            Some(ballot) => AcquireError::NoQuorum(ballot.clone()),
            None => AcquireError::Busy { waited, waiting: self.waiting.len() },
        }
    }

    fn has_room(&self) -> bool {
        // Undos that nobody answers must not keep everyone from seeing so.
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

/// Whether a majority of the nodes has answered, or will not.
pub(super) fn is_settled(ballot: &Ballot) -> bool {
    let settled = ballot.casts().iter().filter(|cast| cast.vote != Vote::Pending).count();
    settled >= ballot.tally().majority()
}

/// How long a majority took to answer; none if fewer have.
fn majority_answered_after(ballot: &Ballot) -> Option<Duration> {
    let majority = ballot.tally().majority();
    let answer = |cast: &Cast| match cast.vote {
        Vote::Pending | Vote::Failed(_) => None,
        _ => cast.after,
    };
    let answers = || ballot.casts().iter().filter_map(answer);
    answers().filter(|took| answers().filter(|other| other <= took).count() >= majority).min()
}
