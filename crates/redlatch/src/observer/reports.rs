//! What an observer reports.

use crate::{
    client::status::{LockState, held_state},
    node::{Node, label},
};
use redlatch_core::{Facts, Fault, HeldKey, KeyState, Resource, Vote, token::owner_of};
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
    /// The conclusion from all nodes: held, or unclear if only a minority has it.
    pub state: LockState,
    /// How many nodes have it.
    pub nodes: usize,
    /// The nodes in the largest group with the same lock token: the holder's, if
    /// the lock is held.
    pub on: Vec<Arc<str>>,
    /// The owner's label in that token; `None` for a lock of another library.
    pub owner: Option<String>,
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
    /// Whether a lock was there and was removed.
    pub outcome: Result<bool, Fault>,
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

impl Listing {
    pub(super) fn new(nodes: &[Arc<dyn Node>], told: Vec<(Vec<HeldKey>, Option<Fault>)>) -> Self {
        let majority = nodes.len() / 2 + 1;
        let mut locks: BTreeMap<Resource, BTreeMap<usize, HeldKey>> = BTreeMap::new();
        let mut failed = Vec::new();
        for (at, (found, fault)) in told.into_iter().enumerate() {
            for lock in found {
                locks.entry(lock.name.clone()).or_default().insert(at, lock);
            }
            failed.extend(fault.map(|fault| (Arc::from(nodes[at].name()), fault)));
        }
        let listed = locks.into_iter().map(|(name, keys)| {
            let count = keys.len();
            let party = largest_party(&keys);
            let owner = party.first().and_then(|at| owner_of(&keys[at].value));
            let on = party.into_iter().map(|at| Arc::from(nodes[at].name())).collect();
            // A list has no fencing numbers.
            let states = keys.into_values().map(|lock| KeyState::Held {
                value: Some(lock.value),
                remaining: lock.remaining,
                number: None,
            });
            let states: Vec<KeyState> = states.collect();
            Listed {
                name,
                state: held_state(&states.iter().collect::<Vec<_>>(), majority),
                nodes: count,
                on,
                owner,
            }
        });
        Listing { locks: listed.collect(), failed }
    }
}

/// The largest group of nodes that have the same value.
fn largest_party(keys: &BTreeMap<usize, HeldKey>) -> Vec<usize> {
    let with = |value| keys.iter().filter(move |(_, key)| key.value == value).map(|(at, _)| *at);
    let values = keys.values().map(|key| &key.value);
    let parties = values.map(|value| with(value.clone()).collect::<Vec<_>>());
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
