//! The holder of a lock and those waiting for it, seen without taking it.

use super::{
    advice::RENAME,
    grant_id::GrantId,
    judgement::{Judgement, Told, judge, parts_of, reservation},
};
use crate::node::Node;
use redlatch_core::{
    Fault, FencingToken, KeyState, LineState, OwnerParts, Quarantine, Refusal, Reply, Standing,
    Ticket, Vote, Waiter, Waiting,
    token::owner_of,
    vote::{DATA, of_nodes},
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

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
    /// What is known about the holder, or about the client that the lock is reserved
    /// for. `None` for a lock of another library, and if there is no conclusion.
    pub owner: Option<OwnerParts>,
    /// The clients waiting in line, in order; only the first ones of a very long line.
    /// Requests that wait outside the line ([`fair(false)`](crate::LockRequest::fair))
    /// are not listed.
    pub line: Vec<WaiterStatus>,
    /// How many clients wait in line.
    pub waiters: usize,
    /// The holder's grant or, if nobody holds the lock, every grant of which some node still
    /// has a key. A [forced release](crate::observer::Observer::force_release) may remove
    /// these.
    pub grants: Vec<GrantId>,
    /// Each node's answer, in the order the nodes were given.
    pub nodes: Vec<NodeStatus>,
}

/// One client waiting in line, however many of its tasks wait.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaiterStatus {
    /// What is known about it; `None` if it said nothing.
    pub owner: Option<OwnerParts>,
    /// When it began to wait, as time since 1970. Nodes bring this within a second of
    /// their own clock.
    pub since: Duration,
    /// On how many nodes it is in line.
    pub nodes: usize,
}

/// The conclusion from the nodes' answers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockState {
    /// A majority of all nodes may vote and has no key: the lock can be taken.
    Free,
    /// A majority of all nodes has the same key: somebody holds the lock, unless the key
    /// [is no lock](LockState::is_data).
    Held {
        /// The owner's label; `None` for a lock of another library.
        owner: Option<String>,
        /// How long a majority keeps it without renewal; `None` if it never
        /// expires.
        remaining: Option<Duration>,
        /// The number that a majority of the nodes has in its fencing register. Names
        /// with the same hash share a register, so this is the holder's fencing token
        /// or a later one. `None` if the registers differ, for a lock of another
        /// library, and if no lock was ever fenced.
        fencing_token: Option<FencingToken>,
    },
    /// Nobody holds the lock: it was released, and is reserved for the next in line,
    /// who has not taken it yet.
    Reserved {
        /// The label of the client that it is reserved for, if known.
        owner: Option<String>,
        /// How long until the reservation lapses.
        remaining: Option<Duration>,
    },
    /// None of these: nodes are down or quarantined, or an attempt is in progress.
    Unclear(Doubt),
}

/// Why it is unclear who holds a lock. Its `Display` says it in words;
/// [`Status::nodes`] has the answer of each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Doubt {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many of them did not answer.
    pub silent: usize,
    /// How many of them answered, but cannot be used: a wrong password, a replica, a
    /// missing permission. [`Status::nodes`] says why.
    pub unusable: usize,
    /// How many of them answered, but may not vote: they are new or restarted, or serve
    /// other clients.
    pub quarantined: usize,
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
    /// Why the node refuses writes, though it can be read; `None` if it does not, or was not
    /// asked: only an [`Observer`](crate::observer::Observer) asks.
    pub refuses: Option<Refusal>,
}

/// The key under the name of a lock on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
    /// No lock: it is reserved for the next in line.
    Reserved {
        /// The label of the client that it is reserved for, if known.
        owner: Option<String>,
        /// How long until the reservation lapses.
        remaining: Option<Duration>,
    },
    /// Unknown: the node did not answer, or its answer makes no sense.
    Failed(Fault),
}

impl LockState {
    /// Returns whether other data has the lock's name, so that nobody can take the lock.
    #[must_use]
    pub fn is_data(&self) -> bool {
        matches!(self, LockState::Held { owner: None, remaining: None, .. })
    }
}

impl NodeKey {
    /// Returns whether the key is not a lock, but other data.
    #[must_use]
    pub fn is_data(&self) -> bool {
        matches!(self, NodeKey::Held { owner: None, remaining: None })
    }
}

impl Status {
    /// Combines the nodes' answers with their lines and their standings, where those
    /// were asked for.
    pub(crate) fn new(
        nodes: &[Arc<dyn Node>],
        replies: &[Reply],
        lines: &[Reply],
        standings: Vec<Option<Standing>>,
    ) -> Self {
        let nodes: Vec<NodeStatus> = nodes
            .iter()
            .zip(replies)
            .zip(standings)
            .map(|((node, reply), standing)| NodeStatus {
                node: node.name().into(),
                key: node_key(reply),
                quarantine: standing.and_then(|standing| standing.quarantine().cloned()),
                refuses: None,
            })
            .collect();
        let told = nodes.iter().zip(replies).filter_map(|(node, reply)| {
            Some(Told { key: first_key(reply)?, may_vote: node.quarantine.is_none() })
        });
        let Judgement { mut state, owner, grants } = judge(&told.collect::<Vec<_>>(), nodes.len());
        if let LockState::Unclear(doubt) = &mut state {
            doubt.unusable = nodes.iter().filter(|node| node.is_unusable()).count();
            doubt.silent -= doubt.unusable;
        }
        let (line, waiters) = line_of(lines);
        Status { state, owner, line, waiters, grants, nodes }
    }
}

impl NodeStatus {
    /// Whether it answers, but with a fault.
    fn is_unusable(&self) -> bool {
        matches!(&self.key, NodeKey::Failed(fault) if !fault.is_silence())
    }
}

fn first_key(reply: &Reply) -> Option<&KeyState> {
    match reply {
        Reply::Keys(keys) => keys.first(),
        _ => None,
    }
}

/// The waiters that the nodes report, in order, and how many there are.
fn line_of(replies: &[Reply]) -> (Vec<WaiterStatus>, usize) {
    let lines = || {
        replies.iter().filter_map(|reply| match reply {
            Reply::Line(line) => Some(line),
            _ => None,
        })
    };
    let mut waiters: BTreeMap<Waiter, Vec<&Waiting>> = BTreeMap::new();
    for waiting in lines().flat_map(|LineState { first, .. }| first) {
        waiters.entry(waiting.ticket.waiter).or_default().push(waiting);
    }
    let mut line: Vec<(Ticket, WaiterStatus)> = waiters
        .into_values()
        .filter_map(|told| {
            let ticket = told.iter().map(|waiting| waiting.ticket).min()?;
            let owner = told.iter().find_map(|waiting| parts_of(waiting));
            let since = Duration::from_micros(ticket.arrived);
            Some((ticket, WaiterStatus { owner, since, nodes: told.len() }))
        })
        .collect();
    line.sort_by_key(|(ticket, _)| *ticket);
    let count = lines().map(|line| line.count).max().unwrap_or(0).max(line.len());
    (line.into_iter().map(|(_, waiter)| waiter).collect(), count)
}

fn node_key(reply: &Reply) -> NodeKey {
    match reply {
        Reply::Vote(Vote::Failed(fault)) => NodeKey::Failed(fault.clone()),
        reply => match first_key(reply) {
            Some(KeyState::Free) => NodeKey::Free,
            Some(key @ KeyState::Held { value, remaining, .. }) => {
                if let Some((waiting, remaining)) = reservation(key) {
                    let owner = parts_of(&waiting).map(|parts| parts.label);
                    return NodeKey::Reserved { owner, remaining };
                }
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
            data if data.is_data() => write!(f, "not available: {DATA}; {RENAME}"),
            LockState::Held { owner, remaining, .. } => write_held(f, owner.as_ref(), *remaining),
            LockState::Reserved { owner, .. } => write_reserved(f, owner.as_ref()),
            LockState::Unclear(doubt) => write!(f, "unclear: {doubt}"),
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Doubt { nodes, silent, unusable, quarantined } = *self;
        let does = if silent == 1 { "does" } else { "do" };
        let answer = if unusable == 1 { "answers" } else { "answer" };
        let of = |count| of_nodes(count, nodes);
        let parts = [
            (silent > 0).then(|| format!("{} {does} not answer", of(silent))),
            (unusable > 0).then(|| format!("{} {answer}, but cannot be used", of(unusable))),
            (quarantined > 0).then(|| format!("{} may not vote", of(quarantined))),
            // A majority answered and may vote, and yet there is no conclusion.
            (2 * (silent + unusable + quarantined) < nodes)
                .then(|| "the nodes' keys differ; an attempt may be in progress".into()),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
    }
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeKey::Free => f.write_str("free"),
            data if data.is_data() => write!(f, "not available: {DATA}"),
            NodeKey::Held { owner, remaining } => write_held(f, owner.as_ref(), *remaining),
            NodeKey::Reserved { owner, .. } => write_reserved(f, owner.as_ref()),
            NodeKey::Failed(fault) => write!(f, "{fault}"),
        }
    }
}

fn write_reserved(f: &mut fmt::Formatter<'_>, owner: Option<&String>) -> fmt::Result {
    f.write_str("not held, reserved for the next in line")?;
    owner.map_or(Ok(()), |owner| write!(f, ": {owner}"))
}

fn write_held(
    f: &mut fmt::Formatter<'_>,
    owner: Option<&String>,
    remaining: Option<Duration>,
) -> fmt::Result {
    let owner = owner.map_or("another owner", String::as_str);
    match remaining {
        Some(remaining) => write!(f, "held by {owner} for another {remaining:.1?}"),
        None => write!(f, "held by {owner} forever"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Memory;
    use redlatch_core::Cause;

    fn key(value: &str) -> Reply {
        let value = Some(value.as_bytes().into());
        let remaining = Some(Duration::from_secs(1));
        Reply::Keys([KeyState::Held { value, remaining, number: None }].into())
    }

    fn status(replies: &[Reply; 3], out: usize) -> Status {
        let nodes = [(); 3].map(|()| Arc::new(Memory::new("memory:")) as Arc<dyn Node>);
        let forgot = || Standing::Quarantined(Quarantine::new(Cause::Forgot));
        let standing = |at: usize| if at < out { forgot() } else { Standing::Admitted };
        Status::new(&nodes, replies, &[], (0..3).map(|at| Some(standing(at))).collect())
    }

    fn reserved() -> Reply {
        key(&format!("redlatch:next:{}@web-1/7", "0".repeat(36)))
    }

    #[test]
    fn what_a_majority_has_reserved_or_not_at_all_is_reserved() {
        let free = || Reply::Keys([KeyState::Free].into());
        let token = || key(&format!("{}@web-2/8", "0".repeat(40)));

        let seen = status(&[reserved(), free(), token()], 0);

        let owner = Some("web-1/7".to_owned());
        let remaining = Some(Duration::from_secs(1));
        assert_eq!(seen.state, LockState::Reserved { owner, remaining });
        assert_eq!(seen.owner.and_then(|owner| owner.pid), Some(7));
        assert!(matches!(status(&[reserved(), token(), token()], 0).state, LockState::Held { .. }));
    }

    #[test]
    fn what_nodes_have_reserved_that_may_have_forgotten_the_lock_is_unclear() {
        let seen = status(&[reserved(), reserved(), reserved()], 2);

        let doubt = Doubt { nodes: 3, silent: 0, unusable: 0, quarantined: 2 };
        assert_eq!((seen.state, seen.owner), (LockState::Unclear(doubt), None));
        let seen = status(&[reserved(), reserved(), reserved()], 1);
        assert!(matches!(seen.state, LockState::Reserved { .. }));
    }

    #[test]
    fn a_node_that_answers_with_a_refusal_is_not_called_silent() {
        let unfit = || Reply::failed(Fault::Unfit("it is a replica".into()));
        let silent = || Reply::failed(Fault::Unreachable("refused".into()));

        let seen = status(&[unfit(), silent(), unfit()], 0).state;

        let LockState::Unclear(doubt) = &seen else { panic!("{seen}") };
        assert_eq!((doubt.silent, doubt.unusable), (1, 2));
        let words = "1 of 3 nodes does not answer; 2 of 3 nodes answer, but cannot be used";
        assert_eq!(seen.to_string(), format!("unclear: {words}"));
    }

    #[test]
    fn what_is_unclear_says_whether_nodes_are_down_may_not_vote_or_differ() {
        let silent = || Reply::failed(Fault::TimedOut(Duration::from_secs(1)));
        let free = || Reply::Keys([KeyState::Free].into());
        let taken = || key(&format!("{}@web-2/8", "0".repeat(40)));
        let said = |replies, out| status(&replies, out).state.to_string();

        assert_eq!(said([free(), silent(), silent()], 0), "unclear: 2 of 3 nodes do not answer");
        assert_eq!(said([free(), free(), free()], 3), "unclear: 3 of 3 nodes may not vote");
        assert_eq!(
            said([free(), free(), silent()], 2),
            "unclear: 1 of 3 nodes does not answer; 2 of 3 nodes may not vote"
        );
        assert_eq!(
            said([taken(), free(), silent()], 0),
            "unclear: 1 of 3 nodes does not answer; the nodes' keys differ; an attempt may be in \
             progress"
        );
        assert_eq!(
            said([free(), taken(), free()], 1),
            "unclear: 1 of 3 nodes may not vote; the nodes' keys differ; an attempt may be in \
             progress"
        );
    }
}
