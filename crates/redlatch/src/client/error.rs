//! What can go wrong: one enum per operation.
//!
//! One variant per thing the caller would *do* about it; the facts, and every
//! node's vote, are inside.

use super::{
    advice::{RENAME, about_conflicts, about_logins, about_vouching, not_yet},
    grant_id::GrantIdError,
    guard::Lost,
    votes::Votes,
};
use crate::node::UrlError;
use redlatch_core::{
    Agreement, Fault, OwnerError, ResourceError, TermsError, Vote, vote::of_nodes,
};
use std::{fmt, sync::Arc, time::Duration};

const NO_GUARD: &str = "the restart guard is off, so this client admits no node; turn it on with \
                        `restart_guard`, or `--restart-guard on`";

/// What is wrong with a list of nodes. No node was contacted.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum NodesError {
    /// The list is empty. Give 1, 3 or 5 nodes.
    #[error("no node was given; give 1, 3 or 5")]
    None,
    /// An address cannot be parsed. Correct it.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A node is listed twice: its vote would count twice. Remove one.
    #[error("the node {0} was given twice; each votes once")]
    Twice(Arc<str>),
    /// Two nodes have the same name. Clients agree on nodes by name, so each node
    /// needs its own.
    #[error("{first} and {second} have the same name, {name}; give each node a different name")]
    SameName {
        /// The name of both.
        name: Arc<str>,
        /// The first address.
        first: Arc<str>,
        /// The second address.
        second: Arc<str>,
    },
}

/// Why [`Builder::connect_lazy`](crate::Builder::connect_lazy) failed. No node was
/// contacted.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LazyError {
    /// The list of nodes is wrong. Correct it.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// The defaults for all locks do not fit together. Correct them.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// There is no tokio runtime here, or one without timers or I/O, or no thread can be
    /// started. Call it inside a runtime with `enable_all`, or use
    /// [`dedicated_thread`](crate::Builder::dedicated_thread).
    ///
    /// Tokio can be asked for its timers and I/O only in a way that panics if they are
    /// missing. The panic is caught, but a panic hook sees it, and with `panic = "abort"` it
    /// ends the process.
    #[error("no engine can be started: {0}")]
    NoRuntime(Arc<str>),
}

/// Why connecting to the nodes failed.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The list of nodes is wrong. Correct it.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// The defaults for all locks do not fit together. Correct them.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// As [`LazyError::NoRuntime`].
    #[error("no engine can be started: {0}")]
    NoRuntime(Arc<str>),
    /// Two addresses reach the same server: its vote would count twice. Give each
    /// node its own server.
    #[error("{first} and {second} are the same server; each node needs its own")]
    SameServer {
        /// The first address.
        first: Arc<str>,
        /// The second address.
        second: Arc<str>,
    },
    /// So many servers answer but cannot be nodes that no lock could be granted, or an
    /// address leads to something that can never be a node. The votes say why, and what
    /// to change.
    #[error("{}", failed(_0))]
    Unfit(Votes),
    /// Fewer than a majority of the nodes can be used, and some of the others do not answer.
    /// Retry, or use [`connect_lazy`](crate::Builder::connect_lazy), which contacts no node.
    /// Nodes that answer and cannot be used need somebody to see to them; the votes say why.
    #[error("{}", failed(_0))]
    NoMajority(Votes),
    /// Too many nodes serve clients with another list of nodes or other times, so
    /// that no lock could be granted; the votes show them. All clients of a set of
    /// nodes must use the same settings; `redlatch admit --replace` changes them.
    /// Without the restart guard, one node whose clients use another list is
    /// enough: their locks would not exclude ours.
    #[error("the nodes serve clients with other settings: {_0}{advice}", advice = about_conflicts(_0))]
    Disagree(Votes),
    /// The engine stopped while it connected. Connect again, in a runtime that
    /// stays alive.
    #[error("{STOPPED}")]
    Stopped,
}

/// Says how many nodes failed, and how. One address that can never be a node is enough: the
/// list is wrong.
fn failed(votes: &Votes) -> String {
    let is_wrong = |vote: &Vote| matches!(vote, Vote::Failed(Fault::WrongAddress(_)));
    if votes.iter().any(|node| is_wrong(&node.vote)) {
        return format!("the list of nodes is wrong: {}", votes.of(is_wrong));
    }
    let failed = votes.of(|vote| matches!(vote, Vote::Failed(_)));
    format!("{}: {failed}", no_majority(votes))
}

/// Says why there is no majority.
fn no_majority(votes: &Votes) -> String {
    let tally = votes.tally();
    if tally.nodes == 1 { tally.to_string() } else { format!("no majority, {tally}") }
}

impl From<LazyError> for ConnectError {
    fn from(error: LazyError) -> Self {
        match error {
            LazyError::Nodes(error) => error.into(),
            LazyError::Invalid(error) => error.into(),
            LazyError::NoRuntime(reason) => ConnectError::NoRuntime(reason),
        }
    }
}

/// Why nodes were not admitted, replaced or watched. Returned by
/// [`Observer::admit`](crate::observer::Observer::admit),
/// [`replace`](crate::observer::Observer::replace) and
/// [`watch`](crate::observer::Observer::watch).
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// The restart guard is off, so this client admits no node. Turn it on.
    #[error("{NO_GUARD}")]
    NoGuard,
    /// Two addresses reach the same server: the right list would be locked out of
    /// it. Correct the list.
    #[error("{first} and {second} are the same server; each node needs its own")]
    SameServer {
        /// The first address.
        first: Arc<str>,
        /// The second address.
        second: Arc<str>,
    },
    /// There is no tokio runtime here, or one without timers or I/O. Call it inside one
    /// with `enable_all`.
    #[error("no engine can be started: {0}")]
    NoRuntime(Arc<str>),
    /// The engine stopped with its runtime. Call it again.
    #[error("{STOPPED}")]
    Stopped,
}

/// The message of every error that means the engine is gone.
macro_rules! ended {
    () => {
        "the engine was stopped; its runtime has shut down, or this process was forked"
    };
}
const ENDED: &str = ended!();

/// The same, with what to do.
pub(super) const STOPPED: &str = concat!(ended!(), ": connect again");

/// Why nodes must not be taken from their clients while those are working. Returned
/// by [`Observer::may_replace`](crate::observer::Observer::may_replace).
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// The restart guard is off, so nodes belong to no agreement. Turn it on.
    #[error("{NO_GUARD}")]
    NoGuard,
    /// A node does not answer. Bring it back, or remove it from the list.
    #[error("{node} does not say what its clients agree on: {fault}")]
    Unseen {
        /// The node.
        node: Arc<str>,
        /// Why it does not answer.
        fault: Fault,
    },
    /// A majority of their nodes and one of ours could exist at the same time.
    /// Change the list by one node at a time.
    #[error(
        "the clients of {node} use {}, and this client uses {}: both lists could have a majority \
         at once",
        theirs.as_deref().map_or_else(|| "nodes that are not known".into(), |theirs| used(theirs, ours)),
        listed(ours)
    )]
    TooDifferent {
        /// The node.
        node: Arc<str>,
        /// What its clients agree on, if known.
        theirs: Option<Box<Agreement>>,
        /// What we want them to agree on.
        ours: Box<Agreement>,
    },
    /// One of their nodes has forgotten its locks, and with them the fencing tokens
    /// it gave; the nodes that know them may be the ones leaving the list. Wait
    /// until it votes for its present clients again, then change the list.
    #[error(
        "{node} may have forgotten its locks and fencing tokens: it has to vote for its present \
         clients again before the list changes"
    )]
    Forgot {
        /// The node.
        node: Arc<str>,
    },
    /// Somebody else is taking the node for another list. Let them finish.
    #[error("{node} is being taken by clients with yet another list of nodes, or other times")]
    UnderWay {
        /// The node.
        node: Arc<str>,
    },
}

/// The nodes of another list, and the times if those differ, too.
fn used(theirs: &Agreement, ours: &Agreement) -> String {
    let times = Agreement::new(ours.nodes().iter().cloned(), theirs.max_ttl(), theirs.skew());
    let differ = (times.max_ttl(), times.skew()) != (ours.max_ttl(), ours.skew());
    let times = if differ { format!(" with {}", ours.difference(&times)) } else { String::new() };
    listed(theirs) + &times
}

fn listed(agreement: &Agreement) -> String {
    format!("[{}]", agreement.nodes().join(", "))
}

/// A request that cannot be met whatever the nodes say. Nothing was sent.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// A name, or a set of names, that cannot be locked.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// Times that do not fit together.
    #[error(transparent)]
    Terms(#[from] TermsError),
    /// A label that cannot be part of a lock token.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// [`Builder::admit_new_servers`](crate::Builder::admit_new_servers) was set for
    /// [`connect_lazy`](crate::Builder::connect_lazy), which examines no server. Use
    /// [`connect`](crate::Builder::connect), or leave the setting out.
    #[error(
        "`admit_new_servers` has no effect with `connect_lazy`, which examines no server; use \
         `connect`, or leave it out"
    )]
    VouchesUnseen,
    /// [`LeaseParts`](crate::LeaseParts) without a lock token. Pass on what
    /// [`into_parts`](crate::Guard::into_parts) returned.
    #[error("the lock token is empty; pass on all parts of the lease")]
    NoLockToken,
    /// The request sets both `no_renewal` and a setting of renewal. Remove one.
    #[error(
        "no_renewal and {setting} contradict each other: without renewal a lease ends after one \
         TTL; leave out one of the two"
    )]
    NoRenewal {
        /// The setting that needs renewal: `max_hold` or `renew_every`.
        setting: &'static str,
    },
}

/// Why a lock was not granted. Whatever the attempt set on a node is being removed.
///
/// `try_lock` returns `None` instead of [`Held`](LockError::Held), unless the lock can never
/// be free because other data has its name.
///
/// # Example
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let locks = redlatch::Locks::memory(3);
/// use redlatch::LockError;
///
/// match locks.lock("report").await {
///     Ok(guard) => guard.release().await.map(drop)?,
///     Err(LockError::Held { .. }) => println!("another instance is on it"),
///     Err(LockError::Quarantined { remaining, .. }) => println!("retry in {remaining:?}"),
///     Err(error) => eprintln!("{error}"), // names every node and its vote
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The request itself is wrong. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// Another owner holds the lock. Wait, or retry later. If the text says that the key
    /// has no TTL, other data has this name: give the lock another one.
    #[error("{}{}: {votes}", votes.subject(), taken(votes))]
    Held {
        /// The votes of the last attempt.
        votes: Votes,
    },
    /// Too many nodes failed: no majority is left. Tell an operator.
    #[error(
        "{}{}: {votes}{}",
        votes.subject(),
        no_majority(votes),
        about_conflicts(votes)
    )]
    NoMajority {
        /// The votes of the last attempt.
        votes: Votes,
    },
    /// Too many nodes are new or restarted and do not vote yet (see
    /// [`RestartGuard`](crate::RestartGuard)). Try again after `remaining`, or wait for
    /// longer than that. If no lock that they may have forgotten can still be in use, skip
    /// the wait with the command in `admit`; in development and CI,
    /// [`Builder::admit_new_servers`](crate::Builder::admit_new_servers) skips it for
    /// new servers, if all nodes answer. The text names the nodes that failed.
    ///
    /// Returned at once if waiting cannot help: `remaining` is longer than what is left
    /// of the wait, and the other nodes are no majority.
    #[error(
        "{}{}; try again later, or, if no forgotten lock can still be in use, skip the wait: \
         `{admit}`{}{}",
        votes.subject(),
        not_yet(votes, *remaining),
        about_logins(votes),
        about_vouching(votes)
    )]
    Quarantined {
        /// The votes of the last attempt.
        votes: Votes,
        /// The time until a majority may vote, as far as known.
        remaining: Option<Duration>,
        /// The command that skips the wait, without logins. For nodes that no command can
        /// reach (in memory, custom ones), `Observer::admit`: see
        /// [`Observer::admit`](crate::observer::Observer::admit).
        admit: Arc<str>,
    },
    /// A majority granted the lock, but too late to be of use. Use a longer TTL, or a smaller
    /// [`min_validity`](crate::LockRequest::min_validity).
    #[error(
        "{}granted after {elapsed:.1?}, too late to be of use; use a longer `ttl`, or a smaller \
         `min_validity`: {votes}",
        votes.subject()
    )]
    TooSlow {
        /// How long the grant took.
        elapsed: Duration,
        /// The votes of the last attempt.
        votes: Votes,
    },
    /// This process requests more locks at once than the nodes can grant within the
    /// wait. No node was asked for this one. Request fewer at once, or wait longer.
    #[error(
        "{name}: busy: waited {waited:.1?} in this process for its turn, {waiting} other requests \
         still wait"
    )]
    Busy {
        /// What was to be locked.
        name: Arc<str>,
        /// How long the request waited for its turn.
        waited: Duration,
        /// How many other requests of this process still wait for their turn.
        waiting: usize,
    },
    /// The engine is gone, with its runtime. Connect again, in a runtime that stays
    /// alive (see [several runtimes](crate#several-runtimes)).
    #[error("{STOPPED}")]
    Stopped,
}

/// What holds a lock that was refused, and on how many nodes.
fn taken(votes: &Votes) -> String {
    let on = of_nodes(votes.tally().refused, votes.tally().nodes);
    let mut holders = votes.iter().filter_map(|node| node.vote.holder());
    match holders.find(|holder| holder.is_data()) {
        Some(data) if votes.are_of_data() => {
            format!("not available on {on}: {data}; {RENAME}")
        }
        _ => format!("held by {} on {on}", whom(votes)),
    }
}

/// Who holds a lock that was refused. A task that requests a lock it holds waits for itself.
fn whom(votes: &Votes) -> &'static str {
    if votes.are_held_here() {
        "another task of this process (locks are not re-entrant)"
    } else {
        "another owner"
    }
}

/// Why an extension failed, or may have failed.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The requested TTL is not allowed. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The lock is no longer ours. Stop.
    #[error("no longer held: {0}")]
    Lost(Lost),
    /// No majority answered. The lease keeps its old end; retry.
    #[error("{}outcome unknown, {}: {votes}", votes.subject(), votes.tally())]
    Unknown {
        /// Every node's vote.
        votes: Votes,
    },
}

/// Why it is not known whether a lock was released. It is being removed in the
/// background, and expires no later than its TTL.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// No majority answered. There is nothing to do.
    #[error("{}it is not known whether the lock is released: {votes}", votes.subject())]
    Unknown {
        /// Every node's vote.
        votes: Votes,
    },
    /// The engine is gone, with its runtime. As it ends, it removes its locks, on a
    /// best-effort basis.
    #[error("it is not known whether the lock is released: {ENDED}")]
    Stopped,
}

/// Why a lease that was taken apart was not released. Returned by
/// [`Locks::release_parts`](crate::Locks::release_parts).
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReleasePartsError {
    /// The parts cannot be those of a lock. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// It is not known whether the lock was released.
    #[error(transparent)]
    Release(#[from] ReleaseError),
}

/// Why a lease that was taken apart cannot be resumed. The lock stays as it was,
/// perhaps extended. Returned by [`Locks::resume`](crate::Locks::resume).
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The parts cannot be those of a lock. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The time to resume the parts is over: so little of the lease is left that its loss
    /// would be signalled at once. No node was asked, so another process may have resumed the parts,
    /// and hold the lock by them. Request the lock anew, and do not
    /// [release](crate::Locks::release_parts) the parts: that would take it away.
    #[error(
        "these parts could only be resumed until {ago:.1?} ago, so no node was asked; another process \
         may have resumed them: request the lock anew, and do not release the parts"
    )]
    TooLate {
        /// For how long it has been too late.
        ago: Duration,
    },
    /// The lock is no longer held. Acquire it again.
    #[error("the lease that was handed over is no longer held: {0}")]
    Lost(Lost),
    /// No majority answered. Retry before the lease ends.
    #[error("{}{}: {votes}", votes.subject(), no_majority(votes))]
    NoMajority {
        /// Every node's vote.
        votes: Votes,
    },
    /// The engine is gone, with its runtime. Connect again.
    #[error("{STOPPED}")]
    Stopped,
}

/// Why work did not finish under the lock. Returned by
/// [`LockRequest::run`](crate::LockRequest::run).
///
/// # Example
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let locks = redlatch::Locks::memory(3);
/// use redlatch::RunError;
///
/// match locks.lock("report").run(|_lease| async { "report.pdf" }).await {
///     Ok(file) => println!("wrote {file}"),
///     Err(RunError::Late { value: file, lost }) => println!("check {file}: {lost}"),
///     Err(RunError::Lost(lost)) => println!("half done, start over: {lost}"),
///     Err(error) => println!("not started: {error}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<T> {
    /// The lock was not granted; the work never started.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lock was lost; the work was stopped half done.
    #[error("stopped because the lock was lost: {0}")]
    Lost(Lost),
    /// The work finished, but the lock was lost by then: another owner may have had it
    /// in the meantime. Whether the value is of use depends on what the work did.
    #[error("finished too late, the lock had been lost: {lost}")]
    Late {
        /// The value that the work returned.
        value: T,
        /// How the lock was lost.
        lost: Lost,
    },
}

/// Why [`Locks::health`](crate::Locks::health) failed.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum HealthError {
    /// The engine is gone, with its runtime. Connect again.
    #[error("{STOPPED}")]
    Stopped,
}

/// Why [`Locks::status`](crate::Locks::status) failed.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// No lock can have this name. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The engine is gone, with its runtime. Connect again.
    #[error("{STOPPED}")]
    Stopped,
}

redlatch_core::debug_is_display!(
    NodesError,
    LazyError,
    ConnectError,
    AdmitError,
    ReplaceError,
    InvalidRequest,
    LockError,
    ExtendError,
    ReleaseError,
    ReleasePartsError,
    ResumeError,
    HealthError,
    StatusError,
    GrantIdError,
    Lost
);

impl<T> fmt::Debug for RunError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        client::advice::Vouching,
        node::{Memory, Node},
    };
    use redlatch_core::Ballot;

    fn of(cast: &[Vote]) -> Votes {
        let mut ballot = Ballot::of(cast.len());
        let nodes = (0..cast.len()).map(|at| Arc::new(Memory::new(format!("n{at}"))) as _);
        let nodes: Vec<Arc<dyn Node>> = nodes.collect();
        for (node, vote) in cast.iter().enumerate() {
            ballot.cast(node, vote.clone(), Duration::ZERO);
        }
        Votes::new(&nodes, &ballot, None, Vouching::Impossible)
    }

    #[test]
    fn connecting_in_vain_names_the_nodes_that_failed_and_how_many_they_are() {
        let unfit = || Vote::Failed(Fault::Unfit("WRONGPASS".into()));
        let down = || Vote::Failed(Fault::Unreachable("refused".into()));
        let cluster = || Vote::Failed(Fault::WrongAddress("it is part of a cluster".into()));
        let unfit_too = ConnectError::Unfit(of(&[unfit(), unfit(), Vote::Granted]));
        let mixed = ConnectError::NoMajority(of(&[unfit(), down(), Vote::Granted]));
        let alone = ConnectError::Unfit(of(&[unfit()]));
        let wrong = ConnectError::Unfit(of(&[cluster(), down(), Vote::Granted]));

        let each = "n0: cannot be used: WRONGPASS; n1: cannot be used: WRONGPASS";
        assert_eq!(unfit_too.to_string(), format!("no majority, 2 of 3 nodes failed: {each}"));
        let each = "n0: cannot be used: WRONGPASS; n1: unreachable: refused";
        assert_eq!(mixed.to_string(), format!("no majority, 2 of 3 nodes failed: {each}"));
        let only = "the only node failed: n0: cannot be used: WRONGPASS";
        assert_eq!(alone.to_string(), only);
        let list = "the list of nodes is wrong: n0: not a node: it is part of a cluster";
        assert_eq!(wrong.to_string(), list);
    }

    #[test]
    fn errors_in_the_settings_are_as_readable_where_main_prints_them() {
        let url = crate::node::parse("localhost").unwrap_err();
        let empty = ResourceError::Empty;
        let digits = "x".parse::<redlatch_core::FencingToken>().unwrap_err();

        assert_eq!(format!("{url:?}"), url.to_string());
        assert_eq!(format!("{empty:?}"), empty.to_string());
        assert_eq!(format!("{digits:?}"), digits.to_string());
    }
}
