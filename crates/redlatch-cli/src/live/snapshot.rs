//! Everything there is to see at one moment, and what it means. Pure.

use super::{
    changes::{Change, Tally, changes},
    lock::{Lock, State, on_few_nodes, remember},
    node::{Node, Stands},
    sight::Sight,
    units::in_utc,
};
use crate::{
    doctor::{Finding, Level},
    say::millis,
};
use serde::Serialize;
use std::time::{Duration, Instant, SystemTime};

/// For how long changes are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// How many changes are remembered.
const REMEMBERED: usize = 50;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Snapshot {
    /// When it was taken.
    #[serde(serialize_with = "in_utc")]
    pub(crate) time: SystemTime,
    #[serde(skip)]
    pub(crate) at: Instant,
    /// How many nodes may vote, and how many must for a lock to be taken.
    pub(crate) votes: usize,
    pub(crate) majority: usize,
    /// Whether nodes that make a majority told all their locks: if not, some may be missing.
    pub(crate) is_complete: bool,
    /// What is wrong, worst first.
    pub(crate) findings: Vec<Finding>,
    pub(crate) nodes: Vec<Node>,
    /// By name. JSON has them where it is told which: there may be very many.
    #[serde(skip)]
    pub(crate) locks: Vec<Lock>,
    /// How many of them are held.
    pub(crate) held: usize,
    /// How many wait in line for one.
    pub(crate) waiting: usize,
    pub(crate) rates: Rates,
    /// Newest first.
    pub(crate) changes: Vec<Change>,
    #[serde(skip)]
    tallies: Vec<(Instant, Tally)>,
}

/// What was seen to happen within the last minute, at least.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub(crate) taken_per_second: f64,
    pub(crate) taken: usize,
    pub(crate) lost: usize,
    /// How long we have been looking; a minute at most.
    pub(crate) window_ms: u64,
}

impl Snapshot {
    /// Compares what is seen with what was seen before.
    pub(super) fn new(sight: Sight, before: Option<&Snapshot>) -> Self {
        let Sight { at, time, nodes, mut locks, findings } = sight;
        let votes = nodes.iter().filter(|node| node.standing == Stands::Admitted).count();
        let told = |node: &&Node| node.lists && node.standing == Stands::Admitted;
        let told = nodes.iter().filter(told).count();
        let majority = nodes.len() / 2 + 1;
        if let Some(before) = before {
            remember(&mut locks, &before.locks, at);
        }
        let mut snapshot = Snapshot {
            time,
            at,
            votes,
            majority,
            is_complete: told >= majority,
            findings,
            nodes,
            held: locks.iter().filter(|lock| lock.state == State::Held).count(),
            waiting: locks.iter().map(|lock| lock.waiters).sum(),
            locks,
            rates: Rates::default(),
            changes: Vec::new(),
            tallies: Vec::new(),
        };
        snapshot.judge();
        let happened = before.map_or(Vec::new(), |before| changes(before, &snapshot));
        snapshot.count(&happened, before);
        let known = before.into_iter().flat_map(|before| before.changes.iter().cloned());
        snapshot.changes = happened.into_iter().chain(known).take(REMEMBERED).collect();
        snapshot
    }

    /// Adds what is wrong with all of it, and sorts.
    fn judge(&mut self) {
        let nodes = self.nodes.len();
        let (votes, majority) = (self.votes, self.majority);
        if votes < majority {
            let words =
                format!("no lock can be taken: {votes} of {nodes} nodes may vote, {majority} must");
            self.findings.push(Finding::problem(words));
        } else if !self.is_complete {
            let words = "too few nodes tell their locks: some may be missing here";
            self.findings.push(Finding::warning(words));
        } else {
            self.findings.extend(on_few_nodes(&self.locks, nodes));
        }
        self.findings.retain(|finding| finding.level > Level::Note);
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    }

    /// Counts what happened within the window.
    fn count(&mut self, happened: &[Change], before: Option<&Snapshot>) {
        let known = before.map_or(Vec::new(), |before| before.tallies.clone());
        self.tallies = known;
        self.tallies.push((self.at, Tally::of(happened)));
        // The first look within the window has nothing to be compared with.
        let began = self.at.checked_sub(WINDOW);
        let first =
            self.tallies.iter().rposition(|(at, _)| began.is_some_and(|began| *at <= began));
        self.tallies.drain(..first.unwrap_or(0));
        let Some((since, _)) = self.tallies.first() else { return };
        let window = self.at - *since;
        let sum =
            |of: fn(&Tally) -> usize| self.tallies[1..].iter().map(|(_, tally)| of(tally)).sum();
        let taken: usize = sum(|tally| tally.taken);
        let per_second = if window.is_zero() { 0.0 } else { number(taken) / window.as_secs_f64() };
        self.rates = Rates {
            taken_per_second: per_second,
            taken,
            lost: sum(|tally| tally.lost),
            window_ms: millis(window),
        };
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

pub(crate) fn number(count: usize) -> f64 {
    u32::try_from(count).unwrap_or(u32::MAX).into()
}

#[cfg(test)]
mod tests;
