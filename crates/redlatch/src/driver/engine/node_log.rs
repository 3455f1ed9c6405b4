//! Logs once when a node goes down, may not vote, or is back.
//!
//! In:  what nodes answer, or fail to answer, to any command.
//! Out: one warning per change, not per attempt.
//!
//! A flapping node is logged at most every [`CALM`]. Changes meanwhile are logged
//! afterwards, if they still hold.

use super::meter;
use crate::driver::clock::Clock;
use redlatch_core::{Ballot, Cast, Fault, Moment, Quarantine, Reply, Standing, Vote};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tracing::warn;

/// How long to wait before logging another change of a node.
const CALM: Duration = Duration::from_secs(5);

/// What was last logged about each node.
#[derive(Debug)]
pub(crate) struct NodeLog {
    nodes: Mutex<Box<[Said]>>,
    /// Whether no node was logged as down or quarantined. The common case costs nothing.
    all_vote: AtomicBool,
    /// Whether a node that answers may still be one that may not vote.
    guarded: AtomicBool,
}

#[derive(Debug)]
struct Said {
    node: Arc<str>,
    is: State,
    /// Why it does not vote, until that has been logged.
    why: String,
    /// What was last logged, and when.
    logged: State,
    since: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Votes,
    /// It was down and answers again. Whether it may vote is not yet known.
    Answers,
    Down,
    Quarantined,
}

/// What an answer shows about a node.
enum Shown<'a> {
    Votes,
    /// It gives an answer that nodes that may not vote also give.
    Answers,
    Down(&'a Fault),
    Quarantined(&'a Quarantine),
}

impl NodeLog {
    pub(super) fn of(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        let said = names.into_iter().map(|node| Said {
            node,
            is: State::Votes,
            why: String::new(),
            logged: State::Votes,
            since: None,
        });
        let nodes: Box<[Said]> = said.collect();
        for said in &nodes {
            State::Down.count(&said.node, 0.0);
            State::Quarantined.count(&said.node, 0.0);
        }
        let (all_vote, guarded) = (AtomicBool::new(true), AtomicBool::new(false));
        NodeLog { nodes: Mutex::new(nodes), all_vote, guarded }
    }

    /// Sets whether there is a restart guard.
    pub(super) fn set_guarded(&self, guarded: bool) {
        self.guarded.store(guarded, Ordering::Relaxed);
    }

    /// A node answered.
    pub(super) fn reply(&self, now: Moment, node: usize, reply: &Reply) {
        self.shown(
            now,
            node,
            match reply {
                Reply::Vote(vote) => shown_by(vote),
                Reply::Deaf => None,
                _ => Some(Shown::Answers),
            },
        );
    }

    /// A round of an attempt or an extension is over; nodes that timed out did not answer.
    /// Nodes that may not vote grant extensions, too.
    pub(super) fn round(&self, clock: Clock, ballot: &Ballot, extends: bool) {
        let is_silent = |cast: &Cast| matches!(cast.vote, Vote::Failed(Fault::TimedOut(_)));
        if self.all_vote.load(Ordering::Relaxed) && !ballot.casts().iter().any(is_silent) {
            return;
        }
        let now = clock.now();
        for (node, cast) in ballot.casts().iter().enumerate() {
            match &cast.vote {
                Vote::Granted if extends => self.shown(now, node, Some(Shown::Answers)),
                Vote::Granted => self.shown(now, node, Some(Shown::Votes)),
                Vote::Failed(fault @ Fault::TimedOut(_)) => {
                    self.shown(now, node, Some(Shown::Down(fault)));
                }
                _ => {} // its answer was handled when it came
            }
        }
    }

    /// A node may vote from now on.
    pub(super) fn admitted(&self, now: Moment, node: usize) {
        self.shown(now, node, Some(Shown::Votes));
    }

    /// Somebody looked at a node.
    pub(super) fn stands(&self, now: Moment, node: usize, standing: &Standing) {
        let shown = match standing {
            Standing::Admitted => Shown::Votes,
            Standing::Quarantined(quarantine) => Shown::Quarantined(quarantine),
            _ => return, // its answer was handled when it came
        };
        self.shown(now, node, Some(shown));
    }

    fn shown(&self, now: Moment, node: usize, shown: Option<Shown<'_>>) {
        let Some(shown) = shown else { return };
        let votes = matches!(shown, Shown::Votes | Shown::Answers);
        if votes && self.all_vote.load(Ordering::Relaxed) {
            return;
        }
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes[node].see(&shown, self.guarded.load(Ordering::Relaxed));
        nodes[node].log(now);
        let all_vote =
            nodes.iter().all(|said| (said.is, said.logged) == (State::Votes, State::Votes));
        self.all_vote.store(all_vote, Ordering::Relaxed);
    }
}

impl Said {
    fn see(&mut self, shown: &Shown<'_>, guarded: bool) {
        let is = match shown {
            Shown::Answers if self.is != State::Down => return,
            Shown::Answers if guarded => State::Answers,
            Shown::Votes | Shown::Answers => State::Votes,
            Shown::Down(_) => State::Down,
            Shown::Quarantined(_) => State::Quarantined,
        };
        if is == self.is {
            return;
        }
        self.is.count(&self.node, -1.0);
        is.count(&self.node, 1.0);
        self.is = is;
        self.why = match shown {
            Shown::Votes | Shown::Answers => String::new(),
            Shown::Down(fault) => fault.to_string(),
            Shown::Quarantined(quarantine) => quarantine.to_string(),
        };
    }

    /// Logs its current state, if that is new and the last message is old enough.
    fn log(&mut self, now: Moment) {
        if self.is == self.logged || self.since.is_some_and(|since| now < since.after(CALM)) {
            return;
        }
        (self.logged, self.since) = (self.is, Some(now));
        let (node, why) = (&*self.node, std::mem::take(&mut self.why));
        match self.is {
            State::Votes => warn!(node, "node is back"),
            State::Answers => warn!(node, "node answers again, but may not vote yet"),
            State::Down => warn!(node, fault = %why, "node is down: it does not vote"),
            State::Quarantined => warn!(node, %why, "node is quarantined: it may not vote"),
        }
    }
}

impl State {
    /// Counts one more, or one fewer, client for which a node does not vote.
    fn count(self, node: &Arc<str>, change: f64) {
        match self {
            State::Votes | State::Answers => {}
            State::Down => meter::not_voting(node, "down", change),
            State::Quarantined => meter::not_voting(node, "quarantined", change),
        }
    }
}

impl Drop for NodeLog {
    fn drop(&mut self) {
        for said in self.nodes.get_mut().unwrap_or_else(PoisonError::into_inner) {
            said.is.count(&said.node, -1.0);
        }
    }
}

fn shown_by(vote: &Vote) -> Option<Shown<'_>> {
    match vote {
        Vote::Pending => None,
        Vote::Failed(fault) => Some(Shown::Down(fault)),
        Vote::Quarantined(quarantine) => Some(Shown::Quarantined(quarantine)),
        Vote::Numbered(_) | Vote::Held(_) => Some(Shown::Votes),
        // Includes the answer to a release, which nodes that may not vote also give.
        _ => Some(Shown::Answers),
    }
}
