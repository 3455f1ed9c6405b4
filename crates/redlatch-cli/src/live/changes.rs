//! What happened between two looks, as far as they show it. Pure.

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
    /// A lock was held before an outage but not after it: nobody could see whether it
    /// was released or lost.
    Unseen,
    /// A node went down, or into quarantine, or restarted.
    Trouble,
    /// A node may vote again.
    Back,
}

impl Kind {
    /// Whether it happens all the time where nothing is wrong.
    pub(super) fn is_everyday(self) -> bool {
        matches!(self, Kind::Taken | Kind::Freed)
    }
}

/// What happened from one snapshot to the next. Covers locks only if all of them are
/// visible now: a lock that no node reported need not be free. After an outage, locks are
/// compared with those before it.
pub(super) fn changes(before: &Snapshot, now: &Snapshot, outage: bool) -> Vec<Change> {
    let mut happened: Vec<(Kind, String, String)> = Vec::new();
    let nodes = now.nodes.iter().filter_map(|node| {
        let was = before.nodes.iter().find(|was| was.name == node.name)?;
        of_node(was, node).map(|(kind, words)| (kind, node.label(), words))
    });
    happened.extend(nodes);
    if let Some(known) = before.known().filter(|_| now.is_complete) {
        let since = Since { known, outage };
        of_locks(&since, now, &mut happened);
    }
    let seen = |(kind, name, words)| Change { time: now.time, kind, name, words };
    happened.into_iter().map(seen).collect()
}

fn of_node(was: &Node, node: &Node) -> Option<(Kind, String)> {
    if was.standing == node.standing {
        let words = "restarted: it may have forgotten locks";
        return node.has_restarted(was).then(|| (Kind::Trouble, words.to_owned()));
    }
    let reason = node.reason.as_deref().unwrap_or_default();
    Some(match node.standing {
        Stands::Admitted => (Kind::Back, "admitted again".into()),
        Stands::Quarantined => (Kind::Trouble, format!("quarantined: {reason}")),
        Stands::Refusing => (Kind::Trouble, reason.into()),
        Stands::Down => (Kind::Trouble, format!("down: {reason}")),
        Stands::Unusable => (Kind::Trouble, format!("cannot be used: {reason}")),
    })
}

/// What the locks are compared with.
struct Since<'a> {
    known: &'a [Lock],
    /// Whether there was an outage between then and now.
    outage: bool,
}

fn of_locks(since: &Since<'_>, now: &Snapshot, happened: &mut Vec<(Kind, String, String)>) {
    let by_id = |locks: &'_ [Lock]| -> BTreeMap<String, usize> {
        locks.iter().enumerate().map(|(at, lock)| (lock.id.clone(), at)).collect()
    };
    let (known, present) = (by_id(since.known), by_id(&now.locks));
    for lock in &now.locks {
        let was = known.get(&lock.id).map(|at| &since.known[*at]);
        let was = was.filter(|was| was.is_someones());
        let what = if since.outage { after_outage(was, lock) } else { of_lock(was, lock, now) };
        happened.extend(what.into_iter().map(|(kind, words)| (kind, lock.name.clone(), words)));
    }
    let is_gone = |was: &&Lock| was.is_someones() && !present.contains_key(&was.id);
    for was in since.known.iter().filter(is_gone) {
        let (kind, words) = if since.outage { unseen(was) } else { gone(was, now) };
        happened.push((kind, was.name.clone(), words));
    }
}

fn of_lock(was: Option<&Lock>, lock: &Lock, now: &Snapshot) -> Vec<(Kind, String)> {
    let owner = lock.whose();
    match (was, lock.state) {
        (None, State::Held) => vec![(Kind::Taken, format!("taken by {owner}"))],
        (Some(was), State::Held) if lock.is_same_grant(was) => Vec::new(),
        (Some(was), state) if was.is_unseen && !state.is_on_few() => after_outage(Some(was), lock),
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
        // The next owner's attempt is in its place.
        (Some(was), state) if state.is_on_few() && !lock.is_same_grant(was) => {
            vec![gone(was, now)]
        }
        // Seen twice, so it is not just being released.
        (Some(was), state) if state.is_on_few() && was.state.is_on_few() => {
            vec![(Kind::Lost, format!("no majority: {}", lock.where_it_is(now.nodes.len())))]
        }
        _ => Vec::new(),
    }
}

/// What happened to a lock that is gone.
fn gone(was: &Lock, now: &Snapshot) -> (Kind, String) {
    if was.is_unseen {
        unseen(was)
    } else if was.has_run_out(now.at) {
        (Kind::Lost, format!("ended: {} had not renewed it", was.whose()))
    } else {
        (Kind::Freed, format!("free; {} had it", was.whose()))
    }
}

/// What happened to a lock from before an outage until now. If only a minority has it,
/// the next look decides.
fn after_outage(was: Option<&Lock>, lock: &Lock) -> Vec<(Kind, String)> {
    let is_taken = lock.state == State::Held && !was.is_some_and(|was| lock.is_same_grant(was));
    let taken = is_taken.then(|| (Kind::Taken, format!("taken by {}", lock.whose())));
    // Somebody else's attempt is in its place, or a reservation.
    let is_another = was.is_some_and(|was| !lock.is_same_grant(was));
    let is_over = is_another || lock.state == State::Reserved;
    taken.into_iter().chain(was.filter(|_| is_over).map(unseen)).collect()
}

fn unseen(was: &Lock) -> (Kind, String) {
    let words = "gone during the outage: released or lost, nobody could see";
    (Kind::Unseen, format!("{}'s lock is {words}", was.whose()))
}
