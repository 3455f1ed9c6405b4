//! Reports to the `metrics` facade what [`telemetry`](crate::telemetry) documents.
//!
//! In:  outcomes, votes and times, from the places that also log them.
//! Out: counters, gauges and histograms of the recorder that the process has installed.
//!
//! Without the feature `metrics`, `no_meter` stands in for it.
//!
//! Labels are the nodes' names and fixed words: never a lock's name or its token.

use super::{ASKS_AT_ONCE, LeaseEnd};
use crate::{driver::clock::Clock, telemetry::name};
use metrics::{Key, Label, Level, Metadata, counter, gauge, histogram, with_recorder};
use redlatch_core::{AcquireError, Ballot, Fault, Moment, Reply, Tag, Vote, lease::Loss};
use std::{collections::HashMap, sync::Arc, time::Duration};

const METADATA: Metadata<'_> = Metadata::new("redlatch", Level::INFO, Some("redlatch"));

/// The keys of each node, created once because every vote needs them.
#[derive(Debug)]
pub(crate) struct Meter {
    nodes: Box<[NodeKeys]>,
}

#[derive(Debug)]
struct NodeKeys {
    /// In the order of [`VOTES`].
    votes: [Key; VOTES.len()],
    round_trip: Key,
}

const VOTES: [&str; 5] = ["granted", "refused", "quarantined", "failed", "timed-out"];
const TIMED_OUT: usize = VOTES.len() - 1;

impl Meter {
    pub(super) fn of(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        let keys = |node: Arc<str>| {
            let node = Label::new("node", node);
            let vote = |outcome| {
                let labels = vec![node.clone(), Label::from_static_parts("outcome", outcome)];
                Key::from_parts(name::VOTES, labels)
            };
            let round_trip = Key::from_parts(name::ROUND_TRIP, vec![node.clone()]);
            NodeKeys { votes: VOTES.map(vote), round_trip }
        };
        Meter { nodes: names.into_iter().map(keys).collect() }
    }

    /// A round is over: nodes that timed out did not vote.
    pub(super) fn round(&self, ballot: &Ballot) {
        for (node, cast) in ballot.casts().iter().enumerate() {
            if matches!(cast.vote, Vote::Failed(Fault::TimedOut(_))) {
                self.vote(node, TIMED_OUT);
            }
        }
    }

    fn vote(&self, node: usize, outcome: usize) {
        let key = &self.nodes[node].votes[outcome];
        with_recorder(|recorder| recorder.register_counter(key, &METADATA).increment(1));
    }

    fn round_trip(&self, node: usize, took: Duration) {
        let key = &self.nodes[node].round_trip;
        with_recorder(|recorder| recorder.register_histogram(key, &METADATA).record(took));
    }
}

/// When each command that has not been answered yet was sent.
#[derive(Debug, Default)]
pub(super) struct OnTheWay(HashMap<(usize, Tag), Moment>);

impl OnTheWay {
    pub(super) fn sent(&mut self, clock: Clock, node: usize, tag: Tag) {
        self.0.insert((node, tag), clock.now());
    }

    /// Counts a node's answer. Commands with the same tag count as one.
    pub(super) fn replied(
        &mut self,
        now: Moment,
        node: usize,
        (tag, reply): (Tag, &Reply),
        meter: &Meter,
    ) {
        let sent = self.0.remove(&(node, tag));
        if self.0.is_empty() {
            self.0.shrink_to(ASKS_AT_ONCE); // frees the memory that a crowd needed
        }
        let outcome = outcome_of(reply);
        if let Some(sent) = sent
            && !matches!(reply, Reply::Vote(Vote::Failed(_)))
        {
            meter.round_trip(node, now.since(sent));
        }
        if let Some(outcome) = outcome {
            meter.vote(node, outcome);
        }
    }
}

/// Its index in [`VOTES`].
fn outcome_of(reply: &Reply) -> Option<usize> {
    let Reply::Vote(vote) = reply else { return None };
    Some(match vote {
        Vote::Granted | Vote::Numbered(_) => 0,
        Vote::Held(_) | Vote::Gone => 1,
        Vote::Quarantined(_) => 2,
        Vote::Failed(Fault::TimedOut(_)) => TIMED_OUT,
        Vote::Failed(_) => 3,
        _ => return None,
    })
}

pub(super) fn attempt(failed: Option<&AcquireError>) {
    let outcome = match failed {
        None => "granted",
        Some(AcquireError::Held(_)) => "held",
        Some(AcquireError::NoMajority(_)) => "no-majority",
        Some(AcquireError::Quarantined { .. }) => "quarantined",
        Some(AcquireError::TooSlow { .. }) => "too-slow",
        Some(_) => return, // no node was asked
    };
    counter!(name::ATTEMPTS, "outcome" => outcome).increment(1);
}

pub(super) fn renewal(is_kept: bool) {
    let outcome = if is_kept { "ok" } else { "failed" };
    counter!(name::RENEWALS, "outcome" => outcome).increment(1);
}

/// A lock that is held. Counted when it ends.
#[derive(Debug)]
pub(super) struct Holding {
    since: Moment,
}

impl Holding {
    pub(super) fn begin(clock: Clock) -> Self {
        Holding { since: clock.now() }
    }

    pub(super) fn end(&self, clock: Clock, end: &LeaseEnd) {
        histogram!(name::HOLD).record(clock.now().since(self.since));
        let cause = match end {
            LeaseEnd::Released | LeaseEnd::HandedOver => return,
            LeaseEnd::Lost(Loss::MaxHold) => "max-hold",
            LeaseEnd::Lost(Loss::Gone(_)) => "gone",
            LeaseEnd::Lost(_) => "expired",
            LeaseEnd::Stopped => "stopped",
        };
        counter!(name::LOSSES, "cause" => cause).increment(1);
    }
}

/// A waiting request. Counted when it is over, even if it is dropped before that.
pub(crate) struct Waiting {
    since: Moment,
    clock: Clock,
    outcome: &'static str,
}

impl Waiting {
    pub(crate) fn since(since: Moment, clock: Clock) -> Self {
        Waiting { since, clock, outcome: "cancelled" }
    }

    pub(crate) fn end_as(mut self, outcome: &'static str) {
        self.outcome = outcome;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let waited = self.clock.now().since(self.since);
        histogram!(name::WAIT, "outcome" => self.outcome).record(waited);
    }
}

/// Counts one more, or one fewer, client for which a node does not vote.
pub(super) fn not_voting(node: &Arc<str>, why: &'static str, change: f64) {
    gauge!(name::NODE_NOT_VOTING, "node" => node.clone(), "why" => why).increment(change);
}
