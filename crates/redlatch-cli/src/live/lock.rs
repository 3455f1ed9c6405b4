//! A lock, as it was seen, and what only earlier looks can show about it.

use super::units::{in_millis, maybe_in_utc, whole_millis};
use crate::{doctor::Finding, look::NAMELESS};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Lock {
    /// Its exact name, percent-encoded; `name` is for people.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) owner: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) user: Option<String>,
    pub(crate) command: Option<String>,
    /// When its holder took it, by the holder's clock.
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
    /// How many wait in line for it; `None` if no majority says.
    pub(crate) waiters: Option<usize>,
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
    /// Whether it is on few nodes for the first time, and was held before.
    #[serde(skip)]
    pub(super) was_held: bool,
    /// Whether that was before an outage.
    #[serde(skip)]
    pub(super) is_unseen: bool,
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
    /// Nobody has it, though a minority of the nodes still has a key: an attempt is in
    /// progress, its holder lost it, or a forced release did not reach that node.
    Free,
    /// None of these: no majority says.
    Unclear,
}

impl State {
    /// Whether no majority of the nodes has it or has reserved it for somebody.
    pub(crate) fn is_on_few(self) -> bool {
        matches!(self, State::Free | State::Unclear)
    }
}

impl Lock {
    pub(crate) fn whose(&self) -> &str {
        self.owner.as_deref().unwrap_or(NAMELESS)
    }

    /// Whether its name or its owner contains this text, ignoring case.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let matches = |whole: &str| whole.to_lowercase().contains(&text);
        matches(&self.name) || self.owner.as_deref().is_some_and(matches)
    }

    pub(crate) fn where_it_is(&self, nodes: usize) -> String {
        let verb = if self.on == 1 { "has" } else { "have" };
        format!("{} of {nodes} nodes {verb} {}'s lock", self.on, self.whose())
    }

    /// Whether its owner has had it ever since, as far as looks can show.
    pub(super) fn is_same_grant(&self, before: &Lock) -> bool {
        self.owner == before.owner && self.since == before.since
    }

    /// Whether somebody had it: a look while it is being released finds it on few nodes.
    pub(super) fn is_someones(&self) -> bool {
        self.state == State::Held || self.was_held
    }

    pub(super) fn has_run_out(&self, at: Instant) -> bool {
        self.runs_out.is_some_and(|end| end <= at)
    }
}

/// Locks that only a minority of the nodes has, although a majority was asked. A lock
/// that is seen like that for the first time is an attempt in progress.
pub(super) fn on_few_nodes(locks: &[Lock], nodes: usize) -> Option<Finding> {
    let is_on_few = |lock: &&Lock| lock.state.is_on_few() && !lock.seen.is_zero();
    let mut few = locks.iter().filter(is_on_few);
    let first = few.next()?;
    let more = match few.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let (name, on) = (&first.name, first.where_it_is(nodes));
    let state = match first.state {
        State::Free => "is free, but",
        _ => "is unclear:",
    };
    Some(Finding::warning(format!("the lock {name}{more} {state} {on}")))
}

/// Carries over what only an earlier look can show, even one before an outage.
pub(super) fn remember(locks: &mut [Lock], before: &[Lock], outage: bool, at: Instant) {
    let before: BTreeMap<&str, &Lock> = before.iter().map(|lock| (&*lock.id, lock)).collect();
    for lock in locks {
        let is_same = |known: &&&Lock| lock.is_same_grant(known);
        let Some(known) = before.get(&*lock.id).filter(is_same) else {
            continue;
        };
        let was_held = known.state == State::Held || (outage && known.was_held);
        if was_held && lock.state.is_on_few() {
            lock.was_held = true;
            lock.is_unseen = outage;
            lock.runs_out = known.runs_out;
        }
        if lock.state != known.state {
            continue;
        }
        lock.first_seen = known.first_seen;
        lock.seen = at.saturating_duration_since(known.first_seen);
        lock.held_for = lock.held_for.max(lock.seen);
        lock.longest = known.longest.max(lock.longest);
        lock.is_renewed = lock.remaining.is_none_or(|left| left >= lock.longest / 2);
        lock.runs_out =
            lock.remaining.filter(|_| !lock.is_renewed).and_then(|left| at.checked_add(left));
    }
}
