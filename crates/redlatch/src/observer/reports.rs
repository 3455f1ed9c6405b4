//! What an observer reports.

use super::session::Found;
use crate::{
    client::{
        LockState,
        judgement::{Judgement, Told, judge},
    },
    node::{Node, label},
};
use redlatch_core::{Facts, Fault, KeyState, OwnerParts, Resource, Vote, Waiting};
use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// The locks that are held. Returned by [`Observer::list`](super::Observer::list).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The locks, sorted by name.
    pub locks: Vec<Listed>,
    /// The nodes that did not report all of their locks, and why.
    pub failed: Vec<(Arc<str>, Fault)>,
}

/// A lock that at least one node has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The locked resource.
    pub name: Resource,
    /// The conclusion from all nodes, the same as of [`status`](super::Observer::status).
    /// A lock of which only a minority of the nodes has a key is free if a majority may
    /// vote and has none: its holder lost it, or a forced release did not reach all nodes.
    pub state: LockState,
    /// How many nodes have it.
    pub nodes: usize,
    /// The nodes in the largest group with the same lock token: the holder's, if
    /// the lock is held.
    pub on: Vec<Arc<str>>,
    /// The owner's label in that token; `None` for a lock of another library.
    pub owner: Option<String>,
    /// What is known of that owner.
    pub owner_parts: Option<OwnerParts>,
    /// How many wait in line for it.
    pub waiters: usize,
}

/// The result of a forced release on one node. Returned by
/// [`Observer::force_release`](super::Observer::force_release).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forced {
    /// The node's name.
    pub node: Arc<str>,
    /// The owner's label; `None` if there was no lock, or one of another library.
    pub owner: Option<String>,
    /// What was there, or why that is not known.
    pub outcome: Result<Removal, Fault>,
}

/// What a forced release found on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// A lock, which was removed.
    Removed,
    /// Nobody's lock: no key, or one that is reserved for the next in line.
    Free,
    /// A lock of another grant, which stays.
    Other,
    /// A key that is not a lock, and stays: it does not expire, is not a string, or
    /// is one of more than 64 KiB.
    NoLock,
}

/// One node's report about itself. Returned by
/// [`Observer::examine`](super::Observer::examine).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Examined {
    /// The node's name.
    pub node: Arc<str>,
    /// Its address, without secrets.
    pub address: Arc<str>,
    /// What it reports, or why it cannot be a node.
    pub facts: Result<Facts, Fault>,
    /// How long one question and its answer take.
    pub round_trip: Duration,
    /// How far its clock is ahead of ours, in seconds; negative if it is behind.
    pub ahead: Option<f64>,
    /// The result of trying a lock.
    pub trial: Trial,
}

/// The result of trying a lock on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trial {
    /// The lock was taken, extended, released and looked up.
    Passed,
    /// No lock was tried.
    Skipped,
    /// A step failed.
    Failed {
        /// The step.
        step: &'static str,
        /// The node's answer.
        vote: Vote,
    },
}

impl Examined {
    /// Returns the node as people see it: its name, followed by its address if that
    /// differs, as in `a (redis://localhost:6379)`.
    #[must_use]
    pub fn label(&self) -> Cow<'_, str> {
        label(&self.node, &self.address)
    }
}

/// What one node says about all locks.
pub(super) struct NodeListing {
    pub(super) found: Vec<Found>,
    /// Why there may be more.
    pub(super) fault: Option<Fault>,
    pub(super) may_vote: bool,
}

impl Listing {
    pub(super) fn new(nodes: &[Arc<dyn Node>], told: Vec<NodeListing>) -> Self {
        let mut locks: BTreeMap<Resource, BTreeMap<usize, Found>> = BTreeMap::new();
        let (mut failed, mut denies) = (Vec::new(), Vec::new());
        for (at, node) in told.into_iter().enumerate() {
            for lock in node.found {
                locks.entry(lock.key.name.clone()).or_default().insert(at, lock);
            }
            denies.push(node.fault.is_none().then_some(node.may_vote));
            failed.extend(node.fault.map(|fault| (Arc::from(nodes[at].name()), fault)));
        }
        let listed = locks.into_iter().map(|(name, keys)| Listed::new(name, &keys, nodes, &denies));
        Listing { locks: listed.collect(), failed }
    }
}

impl Listed {
    /// `denies` says of each node that told all of its locks whether it may vote.
    fn new(
        name: Resource,
        keys: &BTreeMap<usize, Found>,
        nodes: &[Arc<dyn Node>],
        denies: &[Option<bool>],
    ) -> Self {
        let party = largest_party(keys);
        let owner_parts = party.first().and_then(|at| parts_in(&keys[at].key.value));
        let states = denies.iter().enumerate().filter_map(|(at, may_vote)| match keys.get(&at) {
            Some(lock) => Some((lock.state(), may_vote.unwrap_or(false))),
            None => may_vote.map(|may_vote| (KeyState::Free, may_vote)),
        });
        let states: Vec<_> = states.collect();
        let told = states.iter().map(|(key, may_vote)| Told { key, may_vote: *may_vote });
        let majority = nodes.len() / 2 + 1;
        let Judgement { state, .. } = judge(&told.collect::<Vec<_>>(), majority);
        Listed {
            name,
            state,
            nodes: keys.len(),
            on: party.into_iter().map(|at| Arc::from(nodes[at].name())).collect(),
            owner: owner_parts.as_ref().map(|parts| parts.label.clone()),
            owner_parts,
            waiters: keys.values().map(|lock| lock.key.waiters).max().unwrap_or(0),
        }
    }
}

/// What is known of the holder of a key with this value, or of the client that it
/// is reserved for.
fn parts_in(value: &[u8]) -> Option<OwnerParts> {
    let reserved = || OwnerParts::parse(Waiting::reserved_in(value)?.owner.as_deref()?);
    OwnerParts::of_value(value).or_else(reserved)
}

/// The largest group of nodes that have the same value.
fn largest_party(keys: &BTreeMap<usize, Found>) -> Vec<usize> {
    let with = |value| keys.iter().filter(move |(_, found)| found.key.value == value);
    let values = keys.values().map(|found| &found.key.value);
    let parties = values.map(|value| with(value.clone()).map(|(at, _)| *at).collect::<Vec<_>>());
    parties.max_by_key(Vec::len).unwrap_or_default()
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trial::Passed => f.write_str("a lock can be taken, extended and released"),
            Trial::Skipped => f.write_str("no lock was tried"),
            Trial::Failed { step, vote } => write!(f, "it could not {step} a lock: {vote}"),
        }
    }
}
