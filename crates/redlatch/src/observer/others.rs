//! Keys that may be locks of other libraries.

use crate::node::Node;
use redlatch_core::{Fault, HeldKey, Resource};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// The keys that may be locks of other libraries. Returned by
/// [`Observer::others`](super::Observer::others).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Others {
    /// The keys, sorted by name.
    pub keys: Vec<OtherKey>,
    /// The nodes on which there may be more, and why.
    pub unseen: Vec<(Arc<str>, Unseen)>,
}

/// A key that may be a lock of another library, on at least one node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherKey {
    /// Its name: the resource that it may lock.
    pub name: Resource,
    /// The nodes that have it.
    pub on: Vec<Arc<str>>,
    /// How long until it has expired on all of them.
    pub remaining: Duration,
}

/// Why a node may have more keys than were seen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unseen {
    /// It could not be read.
    Failed(Fault),
    /// It has too many keys to check all of them.
    TooMany,
    /// It has this many keys that this user may not read.
    Denied(usize),
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unseen::Failed(fault) => write!(f, "{fault}"),
            Unseen::TooMany => f.write_str("it has too many keys to look at all of them"),
            Unseen::Denied(1) => f.write_str("this user may not read 1 key"),
            Unseen::Denied(many) => write!(f, "this user may not read {many} keys"),
        }
    }
}

impl Others {
    pub(super) fn new(nodes: &[Arc<dyn Node>], told: Vec<(Vec<HeldKey>, Option<Unseen>)>) -> Self {
        let mut keys: BTreeMap<Resource, OtherKey> = BTreeMap::new();
        let mut unseen = Vec::new();
        for (node, (found, why)) in nodes.iter().zip(told) {
            let node: Arc<str> = node.name().into();
            for found in found {
                let name = found.name.clone();
                let key = keys.entry(found.name).or_insert_with(|| OtherKey {
                    name,
                    on: Vec::new(),
                    remaining: Duration::ZERO,
                });
                key.remaining = key.remaining.max(found.remaining.unwrap_or_default());
                // A step may return a key a second time.
                if key.on.last() != Some(&node) {
                    key.on.push(node.clone());
                }
            }
            unseen.extend(why.map(|why| (node, why)));
        }
        Others { keys: keys.into_values().collect(), unseen }
    }
}
