//! Who holds a lock, without taking it.

use crate::node::Node;
use redlatch_core::{
    Fault, FencingToken, KeyState, Quarantine, Reply, Standing, Vote, token::owner_of,
};
use std::{fmt, sync::Arc, time::Duration};

/// What the nodes say about one lock. Returned by
/// [`Locks::status`](crate::Locks::status) and
/// [`Observer::status`](crate::observer::Observer::status).
///
/// # Example
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let locks = redlatch::Locks::memory(3);
/// use redlatch::LockState;
///
/// let guard = locks.lock("deploy").owner("ci-7").await?;
/// match locks.status("deploy").await?.state {
///     LockState::Held { owner, .. } => assert_eq!(owner.as_deref(), Some("ci-7")),
///     other => panic!("{other}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The conclusion from all answers.
    pub state: LockState,
    /// Each node's answer, in the order the nodes were given.
    pub nodes: Vec<NodeStatus>,
}

/// The conclusion from the nodes' answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockState {
    /// A majority of all nodes may vote and has no key: the lock can be taken.
    Free,
    /// A majority of all nodes has the same key: somebody holds the lock.
    Held {
        /// The owner's label; `None` for a lock of another library.
        owner: Option<String>,
        /// How long a majority keeps it without renewal; `None` if it never
        /// expires.
        remaining: Option<Duration>,
        /// The greatest number in its fencing register on the nodes that have the
        /// key. Names with the same hash share a register, so this is the holder's
        /// fencing token or a later one. `None` for a lock of another library, and
        /// if no lock was ever fenced.
        fencing_token: Option<FencingToken>,
    },
    /// Neither: nodes are down or quarantined, or an attempt is in progress.
    Unclear,
}

/// One node's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The node's name.
    pub node: Arc<str>,
    /// The key under the lock's name.
    pub key: NodeKey,
    /// Why the node may not vote. A missing key then says nothing: the node may
    /// have forgotten it. `None` if the node may vote or did not answer, and where
    /// nobody asked: [`Locks::status`](crate::Locks::status) without the restart
    /// guard.
    pub quarantine: Option<Quarantine>,
}

/// The key under the name of a lock on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKey {
    /// There is none.
    Free,
    /// A lock.
    Held {
        /// The owner's label; `None` for a lock of another library.
        owner: Option<String>,
        /// How long it stays without renewal; `None` if it never expires.
        remaining: Option<Duration>,
    },
    /// Unknown: the node did not answer.
    Failed(Fault),
}

impl Status {
    /// Combines the nodes' answers with their standings, where those were asked
    /// for.
    pub(crate) fn new(
        nodes: &[Arc<dyn Node>],
        replies: &[Reply],
        standings: Vec<Option<Standing>>,
    ) -> Self {
        let keys: Vec<&KeyState> = replies.iter().filter_map(first_key).collect();
        let majority = nodes.len() / 2 + 1;
        let nodes: Vec<NodeStatus> = nodes
            .iter()
            .zip(replies)
            .zip(standings)
            .map(|((node, reply), standing)| NodeStatus {
                node: node.name().into(),
                key: node_key(reply),
                quarantine: standing.and_then(|standing| standing.quarantine().cloned()),
            })
            .collect();
        let free = |node: &&NodeStatus| node.key == NodeKey::Free && node.quarantine.is_none();
        let is_free = nodes.iter().filter(free).count() >= majority;
        let state = if is_free { LockState::Free } else { held_state(&keys, majority) };
        Status { state, nodes }
    }
}

fn first_key(reply: &Reply) -> Option<&KeyState> {
    match reply {
        Reply::Keys(keys) => keys.first(),
        _ => None,
    }
}

/// Held if a majority has the same value.
pub(crate) fn held_state(keys: &[&KeyState], majority: usize) -> LockState {
    for candidate in keys {
        let KeyState::Held { value, .. } = candidate else { continue };
        let same = keys.iter().filter_map(|key| match key {
            KeyState::Held { value: other, remaining, number } if other == value => {
                Some((*remaining, *number))
            }
            _ => None,
        });
        let (mut remaining, numbers): (Vec<Option<Duration>>, Vec<_>) = same.unzip();
        if remaining.len() < majority {
            continue;
        }
        // Longest first, those that never expire before all: the last of the majority decides.
        remaining.sort_by_key(|left| std::cmp::Reverse(left.unwrap_or(Duration::MAX)));
        let owner = value.as_deref().and_then(owner_of);
        let fencing_token = numbers.into_iter().flatten().max().filter(|_| owner.is_some());
        return LockState::Held { owner, remaining: remaining[majority - 1], fencing_token };
    }
    LockState::Unclear
}

fn node_key(reply: &Reply) -> NodeKey {
    match reply {
        Reply::Vote(Vote::Failed(fault)) => NodeKey::Failed(fault.clone()),
        reply => match first_key(reply) {
            Some(KeyState::Free) => NodeKey::Free,
            Some(KeyState::Held { value, remaining, .. }) => {
                let owner = value.as_deref().and_then(owner_of);
                NodeKey::Held { owner, remaining: *remaining }
            }
            None => NodeKey::Failed(Fault::Nonsense("not an answer to the question".into())),
        },
    }
}

impl fmt::Display for LockState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockState::Free => f.write_str("free"),
            LockState::Held { owner, remaining, .. } => write_held(f, owner.as_ref(), *remaining),
            LockState::Unclear => f.write_str("unclear: no majority says the same"),
        }
    }
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeKey::Free => f.write_str("free"),
            NodeKey::Held { owner, remaining } => write_held(f, owner.as_ref(), *remaining),
            NodeKey::Failed(fault) => write!(f, "{fault}"),
        }
    }
}

fn write_held(
    f: &mut fmt::Formatter<'_>,
    owner: Option<&String>,
    remaining: Option<Duration>,
) -> fmt::Result {
    let owner = owner.map_or("another client", String::as_str);
    match remaining {
        Some(remaining) => write!(f, "held by {owner} for another {remaining:.1?}"),
        None => write!(f, "held by {owner} for ever"),
    }
}
