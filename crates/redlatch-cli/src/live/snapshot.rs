//! Everything there is to see at one moment, and what it means. Pure.

use super::{
    changes::{Change, Tally, changes},
    sight::Sight,
};
use crate::{
    doctor::{Finding, Level},
    say::millis,
};
use serde::{Serialize, Serializer};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

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

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Node {
    #[serde(rename = "node")]
    pub(crate) name: String,
    /// Unless that is its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    pub(crate) standing: Stands,
    /// How long it stays in quarantine.
    #[serde(rename = "remaining_ms", serialize_with = "in_millis")]
    pub(crate) left: Option<Duration>,
    /// Why it may not vote.
    pub(crate) reason: Option<String>,
    #[serde(rename = "round_trip_ms", serialize_with = "in_exact_millis")]
    pub(crate) round_trip: Option<Duration>,
    /// In seconds; negative if it is behind.
    #[serde(rename = "clock_ahead_s")]
    pub(crate) clock_ahead: Option<f64>,
    /// Whether it tells its locks.
    pub(crate) lists: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stands {
    Admitted,
    Quarantined,
    /// It answers, but cannot be a node as it is.
    Unusable,
    Down,
}

impl Stands {
    /// Those that metrics tell apart.
    pub(crate) const COUNTED: [Stands; 3] = [Stands::Admitted, Stands::Quarantined, Stands::Down];

    /// As metrics tell it.
    pub(crate) fn counted(self) -> Self {
        if self == Stands::Unusable { Stands::Down } else { self }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Stands::Admitted => "admitted",
            Stands::Quarantined => "quarantined",
            Stands::Unusable => "unusable",
            Stands::Down => "down",
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Lock {
    /// Its name exactly, percent-encoded; `name` is for people.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) owner: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) user: Option<String>,
    pub(crate) command: Option<String>,
    /// Since when its holder has it, by the holder's clock.
    #[serde(serialize_with = "maybe_in_utc")]
    pub(crate) since: Option<SystemTime>,
    /// How long that is; if it is not known, how long it has been seen.
    #[serde(rename = "held_ms", serialize_with = "whole_millis")]
    pub(crate) held_for: Duration,
    /// When it was first seen like this.
    #[serde(skip)]
    pub(crate) first_seen: Instant,
    #[serde(rename = "seen_ms", serialize_with = "whole_millis")]
    pub(crate) seen: Duration,
    /// How many wait in line for it.
    pub(crate) waiters: usize,
    /// The holder's fencing token, or a later one.
    pub(crate) fencing_token: Option<u64>,
    /// How long it lasts unless it is renewed; `None` if it never expires, or is unclear.
    #[serde(rename = "remaining_ms", serialize_with = "in_millis")]
    pub(crate) remaining: Option<Duration>,
    /// The most that was ever left.
    #[serde(skip)]
    pub(crate) longest: Duration,
    /// Whether it is renewed often enough: `run` does so when a third of the TTL is over.
    pub(crate) is_renewed: bool,
    /// When it ends, if it is not renewed.
    #[serde(skip)]
    pub(super) runs_out: Option<Instant>,
    /// Whether it is unclear for the first time, and was held before.
    #[serde(skip)]
    pub(super) was_held: bool,
    /// How many nodes have it.
    #[serde(rename = "nodes")]
    pub(crate) on: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// A majority of the nodes has it.
    Held,
    /// Nobody has it: it is reserved for the next in line.
    Reserved,
    /// Only a minority has it: an attempt is in progress, or nodes are missing.
    Unclear,
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
            self.findings.extend(unclear(&self.locks, nodes));
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

impl Node {
    /// The node as people see it.
    pub(crate) fn label(&self) -> String {
        match &self.address {
            Some(address) => format!("{} ({address})", self.name),
            None => self.name.clone(),
        }
    }
}

impl Lock {
    pub(crate) fn whose(&self) -> &str {
        self.owner.as_deref().unwrap_or("another client")
    }

    /// Whether its name or its owner contains this, in any case.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let matches = |whole: &str| whole.to_lowercase().contains(&text);
        matches(&self.name) || self.owner.as_deref().is_some_and(matches)
    }

    pub(crate) fn where_it_is(&self, nodes: usize) -> String {
        let verb = if self.on == 1 { "has" } else { "have" };
        format!("{} of {nodes} nodes {verb} {}'s lock", self.on, self.whose())
    }

    /// Whether it was taken anew, as far as can be seen, by the same owner.
    pub(super) fn is_retaken(&self, before: &Lock) -> bool {
        self.since != before.since
    }

    /// Whether somebody had it: a look while it is being released finds it unclear.
    pub(super) fn is_someones(&self) -> bool {
        self.state == State::Held || self.was_held
    }

    pub(super) fn has_run_out(&self, at: Instant) -> bool {
        self.runs_out.is_some_and(|end| end <= at)
    }
}

/// Locks that only a minority of the nodes has, although enough nodes were asked. What is
/// unclear for the first time is an attempt in progress.
fn unclear(locks: &[Lock], nodes: usize) -> Option<Finding> {
    let is_unclear = |lock: &&Lock| lock.state == State::Unclear && !lock.seen.is_zero();
    let mut unclear = locks.iter().filter(is_unclear);
    let first = unclear.next()?;
    let more = match unclear.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let (name, on) = (&first.name, first.where_it_is(nodes));
    Some(Finding::warning(format!("the lock {name}{more} is unclear: {on}")))
}

/// Carries over what only an earlier look can know.
fn remember(locks: &mut [Lock], before: &[Lock], at: Instant) {
    let before: BTreeMap<&str, &Lock> = before.iter().map(|lock| (&*lock.id, lock)).collect();
    for lock in locks {
        let is_same = |known: &&&Lock| known.owner == lock.owner && !lock.is_retaken(known);
        let Some(known) = before.get(&*lock.id).filter(is_same) else {
            continue;
        };
        if lock.state != known.state {
            lock.was_held = known.state == State::Held && lock.state == State::Unclear;
            lock.runs_out = known.runs_out.filter(|_| lock.was_held);
            continue;
        }
        lock.first_seen = known.first_seen;
        lock.seen = at.saturating_duration_since(known.first_seen);
        lock.held_for = lock.held_for.max(lock.seen);
        lock.longest = known.longest.max(lock.longest);
        lock.is_renewed = lock.remaining.is_none_or(|left| left >= lock.longest / 2);
        lock.runs_out = lock.remaining.filter(|_| !lock.is_renewed).map(|left| at + left);
    }
}

pub(crate) fn number(count: usize) -> f64 {
    u32::try_from(count).unwrap_or(u32::MAX).into()
}

#[expect(clippy::ref_option, reason = "serde hands it over like this")]
fn in_millis<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(millis).serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde hands it over like this")]
fn in_exact_millis<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| (time.as_secs_f64() * 1e6).round() / 1e3).serialize(to)
}

pub(super) fn in_utc<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_millis(*time))
}

#[expect(clippy::ref_option, reason = "serde hands it over like this")]
fn maybe_in_utc<S: Serializer>(time: &Option<SystemTime>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| humantime::format_rfc3339_millis(time).to_string()).serialize(to)
}

fn whole_millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    millis(*time).serialize(serializer)
}

#[cfg(test)]
mod tests;
