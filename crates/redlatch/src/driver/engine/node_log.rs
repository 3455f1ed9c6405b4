//! Logs once when a node goes down, may not vote, or is back.
//!
//! In:  what nodes answer, or fail to answer, to any command.
//! Out: one warning per change, not per attempt.
//!
//! A node that flaps is logged at most every [`CALM`].

use super::meter;
use crate::driver::clock::Clock;
use redlatch_core::{Ballot, Cast, Fault, Moment, Quarantine, Reply, Vote};
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
    /// No node was logged as down or out: the common case costs nothing.
    all_vote: AtomicBool,
}

#[derive(Debug)]
struct Said {
    node: Arc<str>,
    is: State,
    since: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Votes,
    Down,
    Out,
}

/// What an answer shows about a node.
enum Shown<'a> {
    Votes,
    /// It answers something that a node which may not vote answers too.
    Answers,
    Down(&'a Fault),
    Out(&'a Quarantine),
}

impl NodeLog {
    pub(super) fn of(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        let said = names.into_iter().map(|node| Said { node, is: State::Votes, since: None });
        let nodes: Box<[Said]> = said.collect();
        for said in &nodes {
            State::Down.count(&said.node, 0.0);
            State::Out.count(&said.node, 0.0);
        }
        NodeLog { nodes: Mutex::new(nodes), all_vote: AtomicBool::new(true) }
    }

    /// A node answered.
    pub(super) fn reply(&self, now: Moment, node: usize, reply: &Reply) {
        self.shown(
            now,
            node,
            match reply {
                Reply::Vote(vote) => shown_by(vote),
                _ => Some(Shown::Answers),
            },
        );
    }

    /// A round is over; nodes that timed out did not answer.
    pub(super) fn round(&self, clock: Clock, ballot: &Ballot) {
        let is_silent = |cast: &Cast| matches!(cast.vote, Vote::Failed(Fault::TimedOut(_)));
        if self.all_vote.load(Ordering::Relaxed) && !ballot.casts().iter().any(is_silent) {
            return;
        }
        let now = clock.now();
        for (node, cast) in ballot.casts().iter().enumerate() {
            match &cast.vote {
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

    fn shown(&self, now: Moment, node: usize, shown: Option<Shown<'_>>) {
        let Some(shown) = shown else { return };
        let votes = matches!(shown, Shown::Votes | Shown::Answers);
        if votes && self.all_vote.load(Ordering::Relaxed) {
            return;
        }
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let said = &mut nodes[node];
        let is = match &shown {
            Shown::Votes => State::Votes,
            Shown::Answers if said.is == State::Down => State::Votes,
            Shown::Answers => return,
            Shown::Down(_) => State::Down,
            Shown::Out(_) => State::Out,
        };
        if is == said.is || said.since.is_some_and(|since| now < since.after(CALM)) {
            return;
        }
        said.is.count(&said.node, -1.0);
        is.count(&said.node, 1.0);
        (said.is, said.since) = (is, Some(now));
        let node = &*said.node;
        match shown {
            Shown::Votes | Shown::Answers => warn!(node, "node is back"),
            Shown::Down(fault) => warn!(node, %fault, "node is down: it does not vote"),
            Shown::Out(why) => warn!(node, %why, "node is out: it may not vote"),
        }
        let all_vote = nodes.iter().all(|said| said.is == State::Votes);
        self.all_vote.store(all_vote, Ordering::Relaxed);
    }
}

impl State {
    /// Counts one client more, or less, for which a node is out.
    fn count(self, node: &Arc<str>, change: f64) {
        match self {
            State::Votes => {}
            State::Down => meter::out(node, "down", change),
            State::Out => meter::out(node, "quarantined", change),
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
        Vote::Quarantined(quarantine) => Some(Shown::Out(quarantine)),
        Vote::Numbered(_) | Vote::Held(_) => Some(Shown::Votes),
        // Also the answer to a release, which a node that may not vote gives too.
        _ => Some(Shown::Answers),
    }
}
