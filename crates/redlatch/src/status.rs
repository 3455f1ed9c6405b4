//! Who holds a lock, without taking it.

use crate::node::Node;
use redlatch_core::{Fault, FencingToken, KeyState, Quarantine, Reply, Vote, token::owner_of};
use std::{fmt, sync::Arc, time::Duration};

/// What the nodes say about one lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// What it amounts to.
    pub state: LockState,
    /// What each node says, in the order the nodes were given.
    pub nodes: Vec<NodeStatus>,
}

/// What the nodes' answers amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockState {
    /// A majority of all nodes may vote and has no key: it can be taken.
    Free,
    /// A majority of all nodes has the same key: somebody holds it.
    Held {
        /// Whose it is; none for a lock of another library.
        owner: Option<String>,
        /// How long a majority keeps it without renewal; none if for ever.
        remaining: Option<Duration>,
        /// The greatest number that its fencing register has on a node that
        /// keeps it. Names that hash alike share a register, so it is the
        /// holder's fencing token, or a later one. None for a lock of another
        /// library, and where no lock was ever fenced.
        fencing_token: Option<FencingToken>,
    },
    /// Neither: nodes are down or quarantined, or an attempt is under way.
    Unclear,
}

/// What one node says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The node, as it is named in errors.
    pub node: Arc<str>,
    /// What stands there.
    pub key: NodeKey,
    /// Why it may not vote; none if it may, or if there is no restart guard.
    /// That it has no key says nothing then: it may have forgotten it.
    pub quarantine: Option<Quarantine>,
}

/// What stands under the name of a lock on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKey {
    /// Nothing.
    Free,
    /// A lock.
    Held {
        /// Whose it is; none for a lock of another library.
        owner: Option<String>,
        /// How long it stays without renewal; none if for ever.
        remaining: Option<Duration>,
    },
    /// Not known: the node did not answer.
    Failed(Fault),
}

impl Status {
    /// What the nodes answered, and which of them are quarantined.
    pub(crate) fn new(
        nodes: &[Arc<dyn Node>],
        replies: &[Reply],
        quarantines: Vec<Option<Quarantine>>,
    ) -> Self {
        let keys: Vec<&KeyState> = replies.iter().filter_map(first_key).collect();
        let majority = nodes.len() / 2 + 1;
        let nodes: Vec<NodeStatus> = nodes
            .iter()
            .zip(replies)
            .zip(quarantines)
            .map(|((node, reply), quarantine)| NodeStatus {
                node: node.name().into(),
                key: node_key(reply),
                quarantine,
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

/// Held if a majority has one and the same value.
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
        // The longest first, for ever before all: the majority's last goes then.
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
