//! What can go wrong, one enum per thing a caller can try.
//!
//! One variant per thing the caller would *do* about it; the facts, and every
//! node's vote, are inside.

use crate::{guard::Lost, node::UrlError, votes::Votes};
use redlatch_core::{Agreement, Fault, OwnerError, ResourceError, TermsError};
use std::{sync::Arc, time::Duration};

/// Why there is no connection to the nodes.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No node was given. Give 1, 3 or 5.
    #[error("no node was given; give 1, 3 or 5")]
    NoNodes,
    /// An address cannot be read.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// One address stands twice in the list: its vote would count twice.
    #[error("the node {0} was given twice; each votes once")]
    Twice(Arc<str>),
    /// Two addresses reach one server: its vote would count twice.
    #[error("{first} and {second} are one and the same server; each node must be one of its own")]
    SameServer {
        /// The first address.
        first: Arc<str>,
        /// The other one.
        second: Arc<str>,
    },
    /// So many servers answer but cannot be nodes as they are that no lock could be
    /// had, or an address leads to what can never be one: the votes say why.
    #[error("a server cannot be a node: {0}")]
    Unfit(Votes),
    /// Fewer than a majority can be reached.
    #[error("too few nodes can be reached: {0}")]
    NoQuorum(Votes),
    /// So many nodes serve clients with another list of nodes, or other times,
    /// that no lock could be had: the votes show them. All clients of some nodes
    /// must have the same; `redlatch admit --replace` changes it. Without the
    /// restart guard: one node serves clients with another list of nodes, whose
    /// locks would not exclude ours.
    #[error("the nodes serve clients with other settings: {0}")]
    Disagree(Votes),
    /// There is no restart guard, so every node may vote.
    #[error("there is no restart guard, so every node may vote; turn it on")]
    NoGuard,
    /// The defaults for all locks do not fit together.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// There is no tokio runtime here, or no thread can be started.
    #[error("no engine can be started: {0}")]
    NoRuntime(Arc<str>),
    /// The engine was stopped while it connected.
    #[error(
        "the engine was stopped; its runtime has shut down, or stayed behind in a fork: connect again"
    )]
    Stopped,
}

/// Why nodes must not be taken from the clients that have them, while those are
/// at work.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// There is no restart guard, so no node belongs to anybody.
    #[error("there is no restart guard, so every node may vote; turn it on")]
    NoGuard,
    /// A node does not answer. Bring it back, or leave it out of the list.
    #[error("{node} does not tell what its clients agree on: {fault}")]
    Unseen {
        /// Which node.
        node: Arc<str>,
        /// Why it does not.
        fault: Fault,
    },
    /// A majority of their nodes and one of ours could both exist. Change the
    /// list by one node at a time.
    #[error(
        "the clients of {node} have {}, and ours is {}: a majority of each could exist",
        theirs.as_deref().map_or_else(|| "a list that is not known".into(), in_a_line),
        in_a_line(ours)
    )]
    TooDifferent {
        /// Which node.
        node: Arc<str>,
        /// What its clients agree on, if it is known.
        theirs: Option<Box<Agreement>>,
        /// What we would have them agree on.
        ours: Box<Agreement>,
    },
    /// Somebody else is taking the node for a list of their own. Let them end.
    #[error("{node} is being taken by clients with yet another list of nodes, or other times")]
    UnderWay {
        /// Which node.
        node: Arc<str>,
    },
}

fn in_a_line(agreement: &Agreement) -> String {
    Agreement::in_one_line(&agreement.to_string())
}

/// A request that cannot be met whatever the nodes say. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// A name, or a set of names, that cannot be locked.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// Times that do not fit together.
    #[error(transparent)]
    Terms(#[from] TermsError),
    /// A label that cannot stand in a token.
    #[error(transparent)]
    Owner(#[from] OwnerError),
}

/// Why a lock was not taken. Whatever was set on a node is being removed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The request itself is wrong. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// Another owner has it. Wait, or try again later.
    #[error("held by another owner on {} of {} nodes: {votes}", votes.tally().refused, votes.tally().nodes)]
    Held {
        /// The votes of the last attempt.
        votes: Votes,
    },
    /// Too many nodes failed. Tell an operator.
    #[error("no majority, {}: {votes}", votes.tally())]
    NoQuorum {
        /// The votes of the last attempt.
        votes: Votes,
    },
    /// A majority granted it, but too late to be of use. Raise the TTL.
    #[error("granted after {elapsed:?}, too late to be of use: {votes}")]
    TooSlow {
        /// How long the grant took.
        elapsed: Duration,
        /// The votes of the last attempt.
        votes: Votes,
    },
    /// This process asks for more locks at once than the nodes can grant in the
    /// time it waits: no node was asked for this one. Ask for fewer at once, or
    /// wait longer.
    #[error(
        "busy: waited {waited:.1?} in this process for its turn, {waiting} other requests still wait"
    )]
    Busy {
        /// How long it waited for its turn.
        waited: Duration,
        /// How many other requests of this process still wait for theirs.
        waiting: usize,
    },
    /// A lease that was handed over is no longer held.
    #[error("the lease that was handed over is no longer held: {0}")]
    Lost(Lost),
    /// The engine is gone with its runtime.
    #[error(
        "the engine was stopped; its runtime has shut down, or stayed behind in a fork: connect again"
    )]
    Stopped,
}

/// Why a lease is not known to be longer now.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The TTL asked for is not allowed. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The lock is no longer ours. Stop.
    #[error("no longer held: {0}")]
    Lost(Lost),
    /// Too few nodes answered. The lease stands until its old end; try again.
    #[error("not known, {}: {votes}", votes.tally())]
    Unknown {
        /// Every node's vote.
        votes: Votes,
    },
}

/// Why it is not known whether a lock was given back. It is being removed in
/// the background, and its TTL ends it at the latest.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// What is to be released cannot be a lock. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// Too few nodes answered.
    #[error("not known whether it is released: {votes}")]
    Unknown {
        /// Every node's vote.
        votes: Votes,
    },
    /// The engine is gone with its runtime.
    #[error(
        "the engine was stopped; its runtime has shut down, or stayed behind in a fork: connect again"
    )]
    Stopped,
}

/// Why guarded work did not come to its end under the lock.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not taken; the work never started.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lock was lost; the work was stopped.
    #[error("stopped because the lock was lost: {0}")]
    Lost(#[from] Lost),
}

/// Why the state of a lock cannot be told.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// The name cannot be one of a lock.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The engine is gone with its runtime.
    #[error(
        "the engine was stopped; its runtime has shut down, or stayed behind in a fork: connect again"
    )]
    Stopped,
}
