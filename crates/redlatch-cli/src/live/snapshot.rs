//! Everything there is to see at one moment, and what it means. Pure.

use super::{
    changes::{Change, Kind, changes},
    lock::{Lock, State, on_few_nodes, remember},
    losses::{Losses, swallowed},
    node::{Node, Stands},
    sight::Sight,
    units::in_utc,
};
use crate::{
    doctor::{Finding, Level, too_few},
    say::millis,
};
use serde::Serialize;
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// How long a lock that was taken is counted.
const WINDOW: Duration = Duration::from_secs(60);
/// How many changes are remembered: this many everyday ones, and as many others.
const REMEMBERED: usize = 50;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Snapshot {
    /// When it was taken.
    #[serde(serialize_with = "in_utc")]
    pub(crate) time: SystemTime,
    #[serde(skip)]
    pub(crate) at: Instant,
    /// How many nodes may vote, and how many must vote for a lock to be taken.
    pub(crate) votes: usize,
    pub(crate) majority: usize,
    /// Whether a majority of the nodes listed all their locks: if not, some may be missing.
    pub(crate) is_complete: bool,
    /// What is wrong, worst first.
    pub(crate) findings: Vec<Finding>,
    pub(crate) nodes: Vec<Node>,
    /// Sorted by name. Not serialized here: there may be very many, so callers choose
    /// which ones to include.
    #[serde(skip)]
    pub(crate) locks: Vec<Lock>,
    /// How many of them are held; like the next three, `None` if no majority lists its
    /// locks.
    pub(crate) held: Option<usize>,
    /// How many wait in line for one.
    pub(crate) waiting: Option<usize>,
    /// Also `None` at the first look: there is nothing to compare with.
    pub(crate) rates: Option<Rates>,
    /// Likewise.
    pub(crate) losses: Option<Losses>,
    /// Newest first.
    pub(crate) changes: Vec<Change>,
    /// Looks within the window, and how many locks were taken before each.
    #[serde(skip)]
    taken: Vec<(Instant, usize)>,
    /// All losses, whether or not `losses` shows them now.
    #[serde(skip)]
    counted: Option<Losses>,
    /// While no majority lists its locks: the locks as they were when one last did.
    #[serde(skip)]
    before_outage: Option<Arc<[Lock]>>,
}

/// What was seen to happen within the last minute: a lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub(crate) taken_per_second: f64,
    pub(crate) taken: usize,
    /// How long we have been looking; a minute at most.
    pub(crate) window_ms: u64,
}

impl Snapshot {
    /// Compares what is seen with what was seen before.
    pub(super) fn new(sight: Sight, before: Option<&Snapshot>) -> Self {
        let Sight { at, time, nodes, mut locks, findings } = sight;
        let votes = nodes.iter().filter(|node| node.standing == Stands::Admitted).count();
        let told = nodes.iter().filter(|node| node.is_told()).count();
        let majority = nodes.len() / 2 + 1;
        let is_complete = told >= majority;
        let outage = before.is_some_and(|before| before.is_cut_off_from(&nodes));
        if let Some(before) = before {
            let known = before.known().filter(|_| is_complete).unwrap_or(&before.locks);
            remember(&mut locks, known, outage, at);
        }
        if !is_complete {
            for lock in &mut locks {
                lock.waiters = None;
            }
        }
        let held = || locks.iter().filter(|lock| lock.state == State::Held).count();
        let mut snapshot = Snapshot {
            time,
            at,
            votes,
            majority,
            is_complete,
            findings,
            nodes,
            held: is_complete.then(held),
            waiting: locks
                .iter()
                .map(|lock| lock.waiters)
                .sum::<Option<usize>>()
                .filter(|_| is_complete),
            locks,
            rates: None,
            losses: None,
            changes: Vec::new(),
            taken: Vec::new(),
            counted: None,
            before_outage: before.filter(|_| !is_complete).and_then(Snapshot::kept),
        };
        let happened = before.map_or(Vec::new(), |before| changes(before, &snapshot, outage));
        snapshot.count(&happened, before);
        snapshot.changes = latest(happened, before);
        snapshot.judge();
        snapshot
    }

    /// Whether locks may have come and gone unseen between then and now: no majority
    /// listed its locks, or none has kept them since.
    fn is_cut_off_from(&self, nodes: &[Node]) -> bool {
        let has_kept = |(node, before): &(&Node, &Node)| node.has_kept(before);
        !self.is_complete || nodes.iter().zip(&self.nodes).filter(has_kept).count() < self.majority
    }

    /// All locks, as they were when a majority last listed them; `None` if none ever has.
    pub(super) fn known(&self) -> Option<&[Lock]> {
        if self.is_complete { Some(&self.locks) } else { self.before_outage.as_deref() }
    }

    /// The same, for as long as an outage lasts.
    fn kept(&self) -> Option<Arc<[Lock]>> {
        if self.is_complete {
            Some(self.locks.as_slice().into())
        } else {
            self.before_outage.clone()
        }
    }

    /// Adds the findings about all nodes and locks together, and sorts.
    fn judge(&mut self) {
        let nodes = self.nodes.len();
        let (votes, majority) = (self.votes, self.majority);
        if votes < majority {
            self.findings.push(Finding::problem(too_few(votes, nodes)));
        } else if !self.is_complete {
            let words = "no majority of the nodes lists its locks: some may be missing here";
            self.findings.push(Finding::warning(words));
        } else {
            self.findings.extend(on_few_nodes(&self.locks, nodes));
            self.findings.extend(swallowed(&self.changes, self.time));
        }
        self.findings.retain(|finding| finding.level > Level::Note);
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    }

    /// Counts what happened: locks taken, within the window; locks lost, since the first look.
    fn count(&mut self, happened: &[Change], before: Option<&Snapshot>) {
        let taken = happened.iter().filter(|change| change.kind == Kind::Taken).count();
        self.taken = before.map_or(Vec::new(), |before| before.taken.clone());
        self.counted = before.and_then(|before| before.counted).map(|losses| losses.and(happened));
        if !self.is_complete {
            return;
        }
        self.taken.push((self.at, taken));
        self.losses = self.counted;
        self.counted.get_or_insert(Losses::since(self.time));
        // The first look within the window has nothing to compare with.
        let began = self.at.checked_sub(WINDOW);
        let first = self.taken.iter().rposition(|(at, _)| began.is_some_and(|began| *at <= began));
        self.taken.drain(..first.unwrap_or(0));
        let since = self.taken.first().map(|(at, _)| *at).filter(|at| *at < self.at);
        self.rates = since.map(|since| {
            let taken: usize = self.taken[1..].iter().map(|(_, taken)| taken).sum();
            let window = self.at - since;
            let taken_per_second = number(taken) / window.as_secs_f64();
            Rates { taken_per_second, taken, window_ms: millis(window) }
        });
    }

    pub(crate) fn has_majority(&self) -> bool {
        self.votes >= self.majority
    }

    pub(crate) fn standing(&self, stands: Stands) -> usize {
        self.nodes.iter().filter(|node| node.standing.counted() == stands).count()
    }

    /// The worst that is wrong.
    pub(crate) fn worst(&self) -> Option<Level> {
        self.findings.first().map(|finding| finding.level)
    }
}

/// Changes, newest first. Everyday changes do not push out the others.
fn latest(happened: Vec<Change>, before: Option<&Snapshot>) -> Vec<Change> {
    let known = before.into_iter().flat_map(|before| before.changes.iter().cloned());
    let (mut everyday, mut others) = (0, 0);
    let is_kept = |change: &Change| {
        let count = if change.kind.is_everyday() { &mut everyday } else { &mut others };
        *count += 1;
        *count <= REMEMBERED
    };
    happened.into_iter().chain(known).filter(is_kept).collect()
}

pub(crate) fn number(count: usize) -> f64 {
    u32::try_from(count).unwrap_or(u32::MAX).into()
}

#[cfg(test)]
mod tests;
