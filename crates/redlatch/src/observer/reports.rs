//! What an observer reports.

use super::session::Found;
use crate::{
    client::{
        LockState,
        judgement::{Judgement, Told, judge},
    },
    node::{Node, label, refusal_in},
};
use redlatch_core::{Facts, Fault, KeyState, OwnerParts, Refusal, Resource, Vote, Waiting};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

/// The locks that are held. Returned by [`Observer::list`](super::Observer::list).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The locks, sorted by name.
    pub locks: Vec<Listed>,
    /// The nodes that did not report all of their locks, and why.
    pub failed: Vec<(Arc<str>, Fault)>,
    /// The nodes that have keys that this user may not read, and about how many. They may
    /// be locks, and are left out.
    pub unread: Vec<(Arc<str>, usize)>,
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
    /// The owner's label in that lock token; `None` for a lock of another library.
    pub owner: Option<String>,
    /// What is known about that owner.
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
#[non_exhaustive]
pub enum Removal {
    /// A lock, which was removed.
    Removed,
    /// There was no lock: no key, or one that is reserved for the next in line.
    Free,
    /// A lock of another grant, which stays.
    Other,
    /// A key that is not a lock, and stays: it does not expire, is not a string, or is
    /// a string of more than 64 KiB.
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

    /// Returns why it would refuse to grant a lock now, whoever asks; `None` if it would
    /// not, or if that is not known.
    #[must_use]
    pub fn refuses(&self) -> Option<Refusal> {
        match &self.facts {
            Ok(facts) => facts.refuses,
            Err(fault) => refusal(fault),
        }
    }
}

/// Returns why a node that failed like this refuses all writes; `None` if it
/// failed for another reason.
///
/// # Example
///
/// ```
/// use redlatch::{Fault, observer::{Refusal, refusal}};
///
/// let fault = Fault::Refused("OOM command not allowed".into());
/// assert_eq!(refusal(&fault), Some(Refusal::MemoryFull));
/// ```
#[must_use]
pub fn refusal(fault: &Fault) -> Option<Refusal> {
    let (Fault::Refused(why) | Fault::Unfit(why)) = fault else { return None };
    let all =
        [Refusal::MemoryFull, Refusal::CannotSave, Refusal::DiskFull, Refusal::TooFewReplicas];
    let is_worded = |refusal: &Refusal| why.ends_with(&refusal.to_string());
    // SQLite's message contains no code for it.
    let is_full = || why.ends_with("disk is full").then_some(Refusal::DiskFull);
    all.into_iter().find(is_worded).or_else(is_full).or_else(|| refusal_in(why))
}

/// Why a node failed, in words.
pub(crate) fn fault_in_words(fault: &Fault) -> String {
    refusal(fault).map_or_else(|| fault.to_string(), |why| format!("it refuses writes: {why}"))
}

/// What one node says about all locks.
pub(super) struct NodeListing {
    pub(super) found: Vec<Found>,
    /// How many keys this user may not read.
    pub(super) unread: usize,
    /// Why there may be more.
    pub(super) fault: Option<Fault>,
    pub(super) may_vote: bool,
    /// The keys that it has under the names of locks that only other nodes list.
    pub(super) others: BTreeMap<Resource, KeyState>,
}

impl NodeListing {
    /// The ones of these names that it did not list, if it listed all it has.
    pub(super) fn missing(&self, names: &BTreeSet<Resource>) -> Vec<Resource> {
        if self.fault.is_some() {
            return Vec::new();
        }
        let listed: BTreeSet<_> = self.found.iter().map(|lock| &lock.key.name).collect();
        names.iter().filter(|name| !listed.contains(name)).cloned().collect()
    }
}

impl Listing {
    pub(super) fn new(nodes: &[Arc<dyn Node>], told: Vec<NodeListing>) -> Self {
        let mut locks: BTreeMap<Resource, BTreeMap<usize, Found>> = BTreeMap::new();
        let (mut failed, mut unread, mut silent) = (Vec::new(), Vec::new(), Vec::new());
        for (at, node) in told.into_iter().enumerate() {
            for lock in node.found {
                locks.entry(lock.key.name.clone()).or_default().insert(at, lock);
            }
            let others = node.fault.is_none().then_some(node.others);
            silent.push(Silent { others, may_vote: node.may_vote });
            let name: Arc<str> = nodes[at].name().into();
            unread.extend((node.unread > 0).then(|| (name.clone(), node.unread)));
            failed.extend(node.fault.map(|fault| (name, fault)));
        }
        let listed = locks.into_iter().map(|(name, keys)| Listed::new(name, &keys, nodes, &silent));
        Listing { locks: listed.collect(), failed, unread }
    }
}

/// A node that does not list a lock, and what that means.
struct Silent {
    /// What else it has there; `None` if it did not list all of its locks.
    others: Option<BTreeMap<Resource, KeyState>>,
    may_vote: bool,
}

impl Silent {
    fn key(&self, name: &Resource) -> Option<KeyState> {
        Some(self.others.as_ref()?.get(name).cloned().unwrap_or(KeyState::Free))
    }
}

impl Listed {
    fn new(
        name: Resource,
        keys: &BTreeMap<usize, Found>,
        nodes: &[Arc<dyn Node>],
        silent: &[Silent],
    ) -> Self {
        let states = silent.iter().enumerate().filter_map(|(at, node)| match keys.get(&at) {
            Some(lock) => Some((at, lock.state(), node.may_vote && node.others.is_some())),
            None => Some((at, node.key(&name)?, node.may_vote)),
        });
        let states: Vec<_> = states.collect();
        let told = states.iter().map(|(_, key, may_vote)| Told { key, may_vote: *may_vote });
        let majority = nodes.len() / 2 + 1;
        let Judgement { state, owner, .. } = judge(&told.collect::<Vec<_>>(), nodes.len());
        let listed = keys.iter().map(|(at, lock)| (*at, Some(&*lock.key.value)));
        let mut party = largest_party(&listed.collect::<Vec<_>>());
        let (mut on, mut owner_parts) =
            (keys.len(), party.first().and_then(|at| parts_in(&keys[at].key.value)));
        if matches!(state, LockState::Held { .. }) && party.len() < majority {
            // Keys that are not listed were decisive: another library's, or new ones.
            let all = states.iter().filter_map(|(at, key, _)| match key {
                KeyState::Held { value, .. } => Some((*at, value.as_deref())),
                KeyState::Free => None,
            });
            party = largest_party(&all.collect::<Vec<_>>());
            (on, owner_parts) = (party.len(), owner);
        }
        Listed {
            name,
            state,
            nodes: on,
            on: party.into_iter().map(|at| Arc::from(nodes[at].name())).collect(),
            owner: owner_parts.as_ref().map(|parts| parts.label.clone()),
            owner_parts,
            waiters: keys.values().map(|lock| lock.key.waiters).max().unwrap_or(0),
        }
    }
}

/// What is known about the holder of a key with this value, or about the client that it
/// is reserved for.
fn parts_in(value: &[u8]) -> Option<OwnerParts> {
    let reserved = || OwnerParts::parse(Waiting::reserved_in(value)?.owner.as_deref()?);
    OwnerParts::of_value(value).or_else(reserved)
}

/// The largest group of nodes that have the same value.
fn largest_party(keys: &[(usize, Option<&[u8]>)]) -> Vec<usize> {
    let with = |value| keys.iter().filter(move |(_, other)| *other == value).map(|(at, _)| *at);
    let parties = keys.iter().map(|(_, value)| with(*value).collect::<Vec<_>>());
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
