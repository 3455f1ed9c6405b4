//! What happened between two looks, as far as they can tell. Pure.

use super::{
    lock::{Lock, State},
    node::{Node, Stands},
    snapshot::Snapshot,
    units::in_utc,
};
use serde::Serialize;
use std::{collections::BTreeMap, time::SystemTime};

/// Something that happened to a lock or a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    /// When it was seen.
    #[serde(serialize_with = "in_utc")]
    pub(crate) time: SystemTime,
    pub(crate) kind: Kind,
    /// The lock, or the node.
    pub(crate) name: String,
    /// What happened to it.
    pub(crate) words: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// A lock was taken, also by another owner.
    Taken,
    /// A lock is free again.
    Freed,
    /// A lock ended, or lost its majority, before its holder released it.
    Lost,
    /// A node went down, or into quarantine.
    Out,
    /// A node may vote again.
    Back,
}

/// How much happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) taken: usize,
    pub(super) lost: usize,
}

impl Tally {
    pub(super) fn of(changes: &[Change]) -> Self {
        let count = |kind| changes.iter().filter(|change| change.kind == kind).count();
        Tally { taken: count(Kind::Taken), lost: count(Kind::Lost) }
    }
}

/// What happened from one snapshot to the next. About locks, only if both saw them all: a
/// lock that nobody told about is not a lock that is free.
pub(super) fn changes(before: &Snapshot, now: &Snapshot) -> Vec<Change> {
    let mut happened: Vec<(Kind, String, String)> = Vec::new();
    let nodes = now.nodes.iter().filter_map(|node| {
        let was = before.nodes.iter().find(|was| was.name == node.name)?;
        of_node(was, node).map(|(kind, words)| (kind, node.label(), words))
    });
    happened.extend(nodes);
    if before.is_complete && now.is_complete {
        of_locks(before, now, &mut happened);
    }
    let seen = |(kind, name, words)| Change { time: now.time, kind, name, words };
    happened.into_iter().map(seen).collect()
}

fn of_node(was: &Node, node: &Node) -> Option<(Kind, String)> {
    if was.standing == node.standing {
        return None;
    }
    let reason = node.reason.as_deref().unwrap_or_default();
    Some(match node.standing {
        Stands::Admitted => (Kind::Back, "admitted again".into()),
        Stands::Quarantined => (Kind::Out, format!("quarantined: {reason}")),
        Stands::Down => (Kind::Out, format!("down: {reason}")),
        Stands::Unusable => (Kind::Out, format!("cannot be used: {reason}")),
    })
}

fn of_locks(before: &Snapshot, now: &Snapshot, happened: &mut Vec<(Kind, String, String)>) {
    let by_id = |snapshot: &'_ Snapshot| -> BTreeMap<String, usize> {
        let locks = snapshot.locks.iter().enumerate();
        locks.map(|(at, lock)| (lock.id.clone(), at)).collect()
    };
    let (known, present) = (by_id(before), by_id(now));
    for lock in &now.locks {
        let was = known.get(&lock.id).map(|at| &before.locks[*at]);
        for (kind, words) in of_lock(was, lock, now) {
            happened.push((kind, lock.name.clone(), words));
        }
    }
    let is_gone = |was: &&Lock| was.is_someones() && !present.contains_key(&was.id);
    for was in before.locks.iter().filter(is_gone) {
        let (kind, words) = if was.has_run_out(now.at) {
            (Kind::Lost, format!("ended: {} had not renewed it", was.whose()))
        } else {
            (Kind::Freed, format!("free; {} had it", was.whose()))
        };
        happened.push((kind, was.name.clone(), words));
    }
}

fn of_lock(was: Option<&Lock>, lock: &Lock, now: &Snapshot) -> Vec<(Kind, String)> {
    let owner = lock.whose();
    let was = was.filter(|was| was.is_someones());
    match (was, lock.state) {
        (None, State::Held) => vec![(Kind::Taken, format!("taken by {owner}"))],
        (Some(was), State::Held) if was.owner == lock.owner && !lock.is_retaken(was) => Vec::new(),
        (Some(was), State::Held) if was.owner == lock.owner => {
            vec![(Kind::Taken, format!("taken again by {owner}"))]
        }
        (Some(was), State::Held) if was.has_run_out(now.at) => vec![
            (Kind::Taken, format!("taken by {owner}")),
            (Kind::Lost, format!("{} had not renewed it", was.whose())),
        ],
        (Some(was), State::Held) => {
            vec![(Kind::Taken, format!("passed from {} to {owner}", was.whose()))]
        }
        (Some(was), State::Reserved) => {
            vec![(Kind::Freed, format!("free; {} had it, and {owner} is next", was.whose()))]
        }
        // For the second time: not one that is being released.
        (Some(was), state) if state.is_on_few() && was.state.is_on_few() => {
            vec![(Kind::Lost, format!("no majority: {}", lock.where_it_is(now.nodes.len())))]
        }
        _ => Vec::new(),
    }
}
