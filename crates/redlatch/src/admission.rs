//! The restart guard: which nodes may vote, and an operator's word for them.
//!
//! In:  the nodes, and what their clients agree on.
//! Out: where each node stands.
//!
//! The deciding is the core's ([`redlatch_core::quarantine`]); every client
//! with the guard watches over the nodes and admits them when they may be.

use crate::{
    clock::Clock,
    engine::{Handle, Place, spawn_here},
    error::{ConnectError, ReplaceError},
    locks::{Builder, FIRST_ANSWER, identities},
    node::Node,
    observer::Observer,
};
use redlatch_core::{
    Agreement, Ballot, Cause, Facts, Fault, Guard, Quarantine, Reply, Vote, machine::Vouch,
};
use std::{sync::Arc, time::Duration};

/// Whether a node that may have forgotten locks is kept from voting until they
/// are over.
///
/// A server without persistence forgets its locks when it restarts; one with
/// it may forget the last second, or come back with an old dump; a promoted
/// replica forgets what its master did not pass on. One such node of three is
/// enough for two owners of one lock. With the guard every node carries a marker
/// that every vote compares: a node that lost it is quarantined for
/// `max_ttl + skew`, 60 s by default, and then admitted again by any client.
///
/// A server forgets that it was promoted after `repl-backlog-ttl`, an hour by
/// default: keep that longer than `max_ttl + skew`, or use
/// [`Strict`](RestartGuard::Strict), which does not trust its uptime.
///
/// See [`Builder::restart_guard`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartGuard {
    /// Every node votes at any time. The default for one node.
    Off,
    /// Nodes that may have forgotten locks do not vote. New nodes do at once if
    /// all nodes of the list are new, and have been up for `max_ttl + skew`. The
    /// default for several nodes.
    On,
    /// The same, and what a server says of its uptime and its clock is not
    /// trusted: somebody must have watched it for the whole time.
    Strict,
}

/// Where one node stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStanding {
    /// The node, as it is named in errors.
    pub node: Arc<str>,
    /// Whether it may vote.
    pub standing: Standing,
}

/// Whether a node may vote.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It may. Without the guard every node may, unless the clients that have it
    /// count other nodes.
    Admitted,
    /// It may not, for this reason.
    Quarantined(Quarantine),
    /// It does not answer.
    Failed(Fault),
}

impl Builder {
    /// The guard that these settings ask for.
    pub(crate) fn guard(&self, nodes: &[Arc<dyn Node>]) -> Option<Guard> {
        let default = if nodes.len() > 1 { RestartGuard::On } else { RestartGuard::Off };
        let strict = match self.restart_guard.unwrap_or(default) {
            RestartGuard::Off => return None,
            RestartGuard::On => false,
            RestartGuard::Strict => true,
        };
        Some(Guard::new(names(nodes), self.longest_ttl(), self.skew, strict))
    }

    /// What all clients of these nodes must agree on.
    pub(crate) fn agreement(&self, nodes: &[Arc<dyn Node>]) -> Agreement {
        Agreement::new(names(nodes), self.longest_ttl(), self.skew)
    }
}

fn names(nodes: &[Arc<dyn Node>]) -> impl Iterator<Item = Arc<str>> {
    nodes.iter().map(|node| Arc::from(node.name()))
}

/// Looks at the nodes, and admits those that may be. An error if no lock could
/// ever be had.
pub(crate) async fn admit_at_start(handle: &Handle) -> Result<(), ConnectError> {
    let place = &handle.place;
    let Some(guard) = &place.guard else { return Ok(()) };
    let replies = handle.guard(Vouch::default()).await.map_err(|_| ConnectError::Stopped)?;
    let ballot = ballot(&replies, |node, facts| guarded(facts, guard, node));
    let disagree = ballot.casts().iter().filter(|cast| {
        matches!(&cast.vote, Vote::Quarantined(quarantine) if quarantine.cause.is_conflict())
    });
    let tally = ballot.tally();
    if disagree.count() > tally.nodes - tally.majority() {
        return Err(ConnectError::Disagree(place.votes(&ballot)));
    }
    if tally.granted < tally.majority() {
        tracing::warn!(votes = %place.votes(&ballot), "too few nodes may vote yet");
    }
    Ok(())
}

/// For a client without the guard: an error if the clients of a node that have
/// it count other nodes than these, or if too few nodes tell. The others are
/// asked again ahead of every vote.
pub(crate) fn refuse_another_list(
    handle: &Handle,
    told: &[Reply],
    ours: &Agreement,
) -> Result<(), ConnectError> {
    let (nodes, mut ballot) = (&handle.place.nodes, Ballot::of(told.len()));
    for (node, reply) in told.iter().enumerate() {
        let vote = match reply {
            Reply::Ledger(ledger) => match ledger.other_nodes(&ours.at(nodes[node].name())) {
                None => Vote::Granted,
                Some(cause) => Vote::Quarantined(Quarantine::new(cause)),
            },
            Reply::Vote(vote) => vote.clone(),
            _ => Vote::Failed(Fault::Nonsense("not an answer to the question".into())),
        };
        ballot.cast(node, vote, Duration::ZERO);
    }
    let (tally, votes) = (ballot.tally(), handle.place.votes(&ballot));
    if tally.quarantined > 0 {
        return Err(ConnectError::Disagree(votes));
    }
    if tally.granted < tally.majority() {
        return Err(ConnectError::NoQuorum(votes));
    }
    Ok(())
}

/// Where the nodes stand, as votes.
fn ballot(replies: &[Reply], stands: impl Fn(usize, &Facts) -> Standing) -> Ballot {
    let mut ballot = Ballot::of(replies.len());
    for (node, reply) in replies.iter().enumerate() {
        let vote = match standing(reply, |facts| stands(node, facts)) {
            Standing::Admitted => Vote::Granted,
            Standing::Quarantined(quarantine) => Vote::Quarantined(quarantine),
            Standing::Failed(fault) => Vote::Failed(fault),
        };
        ballot.cast(node, vote, Duration::ZERO);
    }
    ballot
}

impl Observer {
    /// The names of the nodes, as in errors, in the order they were given.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name())
    }

    /// What all clients of these nodes that have the restart guard must agree
    /// on; with the guard off, what this one would.
    #[must_use]
    pub fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// The restart guard, by the settings and the number of nodes.
    #[must_use]
    pub fn restart_guard(&self) -> RestartGuard {
        match &self.guard {
            None => RestartGuard::Off,
            Some(guard) if guard.strict => RestartGuard::Strict,
            Some(_) => RestartGuard::On,
        }
    }

    /// Where every node stands, without changing that.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn standings(&self) -> Vec<NodeStanding> {
        let facts = self.facts().await;
        let told = self.nodes.iter().zip(facts).enumerate();
        let told = told.map(|(at, (node, facts))| NodeStanding {
            node: node.name().into(),
            standing: match facts {
                Ok(facts) => self.standing(at, &facts),
                Err(fault) => Standing::Failed(fault),
            },
        });
        told.collect()
    }

    /// Where a node stands that says this of itself: the one that was given first
    /// is 0.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[must_use]
    pub fn standing(&self, node: usize, facts: &Facts) -> Standing {
        match &self.guard {
            Some(guard) => guarded(facts, guard, node),
            None => unguarded(facts, &self.agreement.at(self.nodes[node].name())),
        }
    }

    /// An operator's word that these nodes have forgotten no lock that could
    /// still be held: they are admitted at once. The nodes are named as in
    /// errors.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave nodes admitted or not.
    pub async fn admit(&self, nodes: &[Arc<str>]) -> Result<Vec<NodeStanding>, ConnectError> {
        let remembers = self.positions(nodes);
        let (handle, guard) = self.guarded().await?;
        let vouch = Vouch { remembers, ..Vouch::default() };
        self.vouch(&handle, &guard, vouch).await
    }

    /// Whether nodes may be taken one by one from clients with another list of
    /// nodes or other times while those are at work
    /// ([`replace`](Self::replace)): only if a majority of their nodes and one
    /// of ours always share a node. That holds for the same list, and for one
    /// node more or less.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn may_replace(&self) -> Result<(), ReplaceError> {
        let guard = self.guard.as_ref().ok_or(ReplaceError::NoGuard)?;
        for (at, (node, facts)) in self.nodes.iter().zip(self.facts().await).enumerate() {
            let node = || Arc::from(node.name());
            let facts = facts.map_err(|fault| ReplaceError::Unseen { node: node(), fault })?;
            if !facts.objection(guard.fingerprint(at)).is_some_and(|cause| cause.is_conflict()) {
                continue;
            }
            if facts.marker.is_none() {
                return Err(ReplaceError::UnderWay { node: node() });
            }
            let theirs = facts.agreement.as_deref().and_then(Agreement::parse);
            if !theirs.as_ref().is_some_and(|theirs| guard.agreement.may_follow(theirs)) {
                let (node, ours) = (node(), Box::new(guard.agreement.clone()));
                return Err(ReplaceError::TooDifferent {
                    node,
                    theirs: theirs.map(Box::new),
                    ours,
                });
            }
        }
        Ok(())
    }

    /// Takes these nodes from the clients that have another list of nodes or
    /// other times, unasked ([`may_replace`](Self::may_replace) tells whether
    /// that is safe while they are at work); they are admitted for ours once all locks of the others are
    /// over, which [`watch`](Self::watch) waits for. Until then they vote for
    /// nobody.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave nodes taken away or not.
    pub async fn replace(&self, nodes: &[Arc<str>]) -> Result<Vec<NodeStanding>, ConnectError> {
        let replace = self.positions(nodes);
        let (handle, guard) = self.guarded().await?;
        let vouch = Vouch { replace, ..Vouch::default() };
        self.vouch(&handle, &guard, vouch).await
    }

    /// Watches over the nodes and admits those that may be, until all may vote
    /// or `enough` says so, which is asked after every look.
    ///
    /// # Cancel safety
    ///
    /// Safe: the watching ends.
    pub async fn watch(
        &self,
        mut enough: impl FnMut(&[NodeStanding]) -> bool,
    ) -> Result<Vec<NodeStanding>, ConnectError> {
        let (handle, guard) = self.guarded().await?;
        loop {
            let look = Vouch { patient: true, ..Vouch::default() };
            let standings = self.vouch(&handle, &guard, look).await?;
            let all = standings.iter().all(|node| node.standing == Standing::Admitted);
            if enough(&standings) || all {
                return Ok(standings);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// A client of these nodes that only admits. Where one server answers for two
    /// of them it must not: the right list would be locked out.
    async fn guarded(&self) -> Result<(Handle, Guard), ConnectError> {
        let guard = self.guard.clone().ok_or(ConnectError::NoGuard)?;
        let place = Place::new(self.nodes.clone(), Clock::System).guarded(Some(guard.clone()));
        let handle = spawn_here(place);
        let handle = handle.map_err(|error| ConnectError::NoRuntime(error.to_string().into()))?;
        identities(&handle, FIRST_ANSWER).await?;
        Ok((handle, guard))
    }

    async fn vouch(
        &self,
        handle: &Handle,
        guard: &Guard,
        vouch: Vouch,
    ) -> Result<Vec<NodeStanding>, ConnectError> {
        let replies = handle.guard(vouch).await.map_err(|_| ConnectError::Stopped)?;
        let names = names(&self.nodes);
        let told = names.zip(&replies).enumerate();
        let told = told.map(|(at, (node, reply))| NodeStanding {
            node,
            standing: standing(reply, |facts| guarded(facts, guard, at)),
        });
        Ok(told.collect())
    }

    fn positions(&self, wanted: &[Arc<str>]) -> Box<[usize]> {
        let at = self.nodes.iter().enumerate();
        at.filter(|(_, node)| wanted.iter().any(|name| **name == *node.name()))
            .map(|(at, _)| at)
            .collect()
    }
}

/// How long to wait from one look to the next.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

fn standing(reply: &Reply, stands: impl FnOnce(&Facts) -> Standing) -> Standing {
    match reply {
        Reply::Facts(facts) => stands(facts),
        Reply::Vote(Vote::Failed(fault)) => Standing::Failed(fault.clone()),
        _ => Standing::Failed(Fault::Nonsense("not an answer to the question".into())),
    }
}

/// Why a node's word about locks does not count, if it says so.
pub(crate) fn quarantine(
    reply: &Reply,
    stands: impl FnOnce(&Facts) -> Standing,
) -> Option<Quarantine> {
    match standing(reply, stands) {
        Standing::Quarantined(quarantine) => Some(quarantine),
        Standing::Admitted | Standing::Failed(_) => None,
    }
}

/// Where a node stands for a client without the guard.
fn unguarded(facts: &Facts, ours: &Agreement) -> Standing {
    let cause = facts.other_nodes(ours).map(Quarantine::new);
    cause.map_or(Standing::Admitted, Standing::Quarantined)
}

/// Where a node stands for a client with the guard.
pub(crate) fn guarded(facts: &Facts, guard: &Guard, node: usize) -> Standing {
    let Some(cause) = facts.objection(guard.fingerprint(node)) else {
        return Standing::Admitted;
    };
    let mut quarantine = Quarantine::new(cause);
    quarantine.remaining = match &quarantine.cause {
        Cause::Forgot => facts.remaining.or_else(|| facts.out_until(guard)),
        _ => None,
    };
    Standing::Quarantined(quarantine)
}
