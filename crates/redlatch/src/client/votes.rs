//! Every node's vote, with the node's name, for errors that operators read.

use super::advice::{Vouching, node_options};
use crate::{
    node::{Node, OtherName, explained, label},
    observer::fault_in_words,
};
use redlatch_core::{Agreement, Ballot, Cause, Holder, Resources, Tally, Vote};
use std::{borrow::Cow, fmt, fmt::Write as _, sync::Arc, time::Duration};

/// The votes of all nodes, in the order the nodes were given.
///
/// Errors carry them. Their `Display` is one line: each node's name, its vote, and
/// the time it took.
///
/// # Example
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let locks = redlatch::Locks::memory(3);
/// let guard = locks.lock("report").await?;
/// for node in &guard.votes() {
///     println!("{}: {} after {:?}", node.label(), node.vote, node.after);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Votes {
    nodes: Box<[NodeVote]>,
    tally: Tally,
    asked: Asked,
    /// Whether a client in this process holds the lock that was refused.
    held_here: bool,
    /// What was to be locked, if the votes are about a lock.
    wanted: Option<Box<Resources>>,
    /// Only if a node is quarantined.
    ours: Option<Arc<Ours>>,
}

/// What the nodes were asked for, which tells what a node that agreed has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Lock,
    Extension,
    Release,
    /// Only which server it is.
    Identity,
}

/// What this client calls the nodes, and what it wants all clients to agree on. Needed
/// for advice on nodes that may not vote.
#[derive(Debug, PartialEq, Eq)]
struct Ours {
    options: String,
    agreement: Option<Agreement>,
    /// Whether the addresses have logins; the options leave them out.
    have_logins: bool,
    /// Which nodes have never answered.
    never_answered: Box<[bool]>,
    vouching: Vouching,
}

/// One node's vote.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeVote {
    /// The node's name: its address without secrets, unless it was given a name.
    pub node: Arc<str>,
    /// Its address, without secrets.
    pub address: Arc<str>,
    /// Its answer, or why there is none.
    pub vote: Vote,
    /// How long it took to answer; `None` if it did not.
    pub after: Option<Duration>,
    other_name: Option<Arc<OtherName>>,
}

impl Votes {
    pub(crate) fn new(
        nodes: &[Arc<dyn Node>],
        ballot: &Ballot,
        agreement: Option<&Agreement>,
        vouching: Vouching,
    ) -> Self {
        let votes = nodes.iter().zip(ballot.casts()).map(|(node, cast)| {
            let name: Arc<str> = node.name().into();
            let vote = match cast.vote.clone() {
                Vote::Failed(fault) => Vote::Failed(explained(&**node, fault)),
                vote => vote,
            };
            let is_name = node.address() == node.name();
            let address = if is_name { Arc::clone(&name) } else { node.address().into() };
            let other_name = match &vote {
                Vote::Quarantined(quarantine) => OtherName::of(&quarantine.cause, &**node),
                _ => None,
            };
            let other_name = other_name.map(Arc::new);
            NodeVote { node: name, address, vote, after: cast.after, other_name }
        });
        let tally = ballot.tally();
        let ours = (tally.quarantined > 0).then(|| {
            Arc::new(Ours {
                options: node_options(nodes),
                agreement: agreement.cloned(),
                have_logins: nodes.iter().any(|node| node.has_login()),
                never_answered: nodes.iter().map(|node| !node.has_answered()).collect(),
                vouching,
            })
        });
        let nodes = votes.collect();
        Votes { nodes, tally, asked: Asked::Lock, held_here: false, wanted: None, ours }
    }

    /// The same votes, from nodes that were asked for this.
    pub(crate) fn on_being(self, asked: Asked) -> Self {
        Votes { asked, ..self }
    }

    /// The same votes, with whether a client in this process holds the lock.
    pub(crate) fn held_here(self, held_here: bool) -> Self {
        Votes { held_here, ..self }
    }

    /// The same votes, about these resources.
    pub(crate) fn on(self, wanted: Resources) -> Self {
        Votes { wanted: Some(wanted.into()), ..self }
    }

    /// How a sentence about what was to be locked begins.
    pub(super) fn subject(&self) -> String {
        self.wanted.as_ref().map_or(String::new(), |wanted| format!("{wanted}: "))
    }

    /// Whether a client in this process holds the lock that was refused.
    pub(super) fn are_held_here(&self) -> bool {
        self.held_here
    }

    /// Returns whether other data under the lock's name rules out a majority.
    #[must_use]
    pub fn are_of_data(&self) -> bool {
        let is_data = |node: &&NodeVote| node.vote.holder().is_some_and(Holder::is_data);
        self.tally.nodes - self.iter().filter(is_data).count() < self.tally.majority()
    }

    /// The options that name all nodes to the command; only known if a node is quarantined.
    pub(super) fn options(&self) -> &str {
        self.ours.as_ref().map_or("", |ours| &ours.options)
    }

    /// Whether the options lack logins.
    pub(super) fn have_logins(&self) -> bool {
        self.ours.as_ref().is_some_and(|ours| ours.have_logins)
    }

    /// Whether this node has never answered; only known if a node is quarantined.
    pub(super) fn never_answered(&self, node: usize) -> bool {
        self.ours.as_ref().is_some_and(|ours| ours.never_answered[node])
    }

    /// Whether this client could vouch for new servers.
    pub(super) fn vouching(&self) -> Vouching {
        self.ours.as_ref().map_or(Vouching::Impossible, |ours| ours.vouching)
    }

    /// Returns what this client wants all clients of the nodes to agree on. `None` unless a
    /// node is quarantined: only then does it matter.
    #[must_use]
    pub fn agreement(&self) -> Option<&Agreement> {
        self.ours.as_ref()?.agreement.as_ref()
    }

    /// A vote in words.
    fn words(&self, node: &NodeVote) -> String {
        match (&node.vote, self.agreement()) {
            (Vote::Granted, _) => match self.asked {
                Asked::Lock => "granted",
                Asked::Extension => "extended",
                Asked::Release => "released",
                Asked::Identity => "answers",
            }
            .into(),
            (Vote::Quarantined(quarantine), Some(ours)) => quarantine.for_client_of(ours),
            (Vote::Failed(fault), _) => fault_in_words(fault),
            (vote, _) => vote.to_string(),
        }
    }

    /// A vote in words. The settings of other clients are described for the first node only.
    fn brief_words(&self, at: usize) -> String {
        let words = self.words(&self.nodes[at]);
        let disagrees = |node: &&NodeVote| match &node.vote {
            Vote::Quarantined(quarantine) => matches!(quarantine.cause, Cause::Disagrees(_)),
            _ => false,
        };
        let earlier = self.nodes[..at].iter().filter(disagrees);
        match earlier.into_iter().find(|earlier| self.words(earlier) == words) {
            Some(first) => format!("quarantined like {}", first.node),
            None => words,
        }
    }

    /// The votes of this kind, in words.
    pub(super) fn of(&self, is_meant: impl Fn(&Vote) -> bool) -> String {
        let meant = self.iter().enumerate().filter(|(_, node)| is_meant(&node.vote));
        let told = meant.map(|(at, node)| {
            let mut told = format!("{}: {}", node.label(), self.brief_words(at));
            if let Some(other) = node.other_name() {
                let _ = write!(told, "; {other}");
            }
            // Zero means that the time was not measured.
            let measured = node.after.filter(|after| !after.is_zero());
            let answered = !matches!(node.vote, Vote::Pending | Vote::Failed(_));
            if let (true, Some(after)) = (answered, measured) {
                let _ = write!(told, " ({after:.1?})");
            }
            told
        });
        told.collect::<Vec<_>>().join("; ")
    }

    /// Returns how many nodes voted which way.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Iterates over the votes.
    pub fn iter(&self) -> std::slice::Iter<'_, NodeVote> {
        self.nodes.iter()
    }
}

impl NodeVote {
    /// Returns the node as people see it: its name, followed by its address if that
    /// differs, as in `a (redis://localhost:6379)`.
    #[must_use]
    pub fn label(&self) -> Cow<'_, str> {
        label(&self.node, &self.address)
    }

    /// Returns the name that the node's clients use for it, if it does not vote for
    /// us because they have another list of nodes.
    #[must_use]
    pub fn other_name(&self) -> Option<OtherName> {
        self.other_name.as_deref().cloned()
    }
}

impl<'a> IntoIterator for &'a Votes {
    type Item = &'a NodeVote;
    type IntoIter = std::slice::Iter<'a, NodeVote>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of(|_| true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Memory;
    use redlatch_core::Quarantine;

    fn votes(cast: &[Vote], after: Duration) -> Votes {
        let mut ballot = Ballot::of(cast.len());
        let nodes = (0..cast.len()).map(|at| Arc::new(Memory::new(format!("n{at}"))) as _);
        for (node, vote) in cast.iter().enumerate() {
            ballot.cast(node, vote.clone(), after);
        }
        let second = Duration::from_secs(1);
        let ours = Agreement::new(["n0".into(), "n1".into()], second, second);
        Votes::new(&nodes.collect::<Vec<_>>(), &ballot, Some(&ours), Vouching::Possible)
    }

    #[test]
    fn a_vote_shows_how_long_it_took_if_that_was_measured() {
        let said = |after| votes(&[Vote::Granted], after).to_string();

        assert_eq!(said(Duration::from_millis(3)), "n0: granted (3.0ms)");
        assert_eq!(said(Duration::ZERO), "n0: granted");
    }

    #[test]
    fn a_node_that_was_asked_for_no_lock_grants_none() {
        for (asked, agreed) in [
            (Asked::Identity, "answers"),
            (Asked::Extension, "extended"),
            (Asked::Release, "released"),
        ] {
            let votes = votes(&[Vote::Granted, Vote::Gone], Duration::ZERO).on_being(asked);

            assert_eq!(votes.to_string(), format!("n0: {agreed}; n1: no longer ours"));
        }
    }

    #[test]
    fn what_other_clients_have_is_said_once_and_only_where_it_differs() {
        let second = Duration::from_secs(1);
        let names = || ["n0", "n1"].map(Arc::from);
        let theirs = Agreement::new(names(), 2 * second, second);
        let out = |node| {
            let theirs = theirs.at(node).to_string();
            Vote::Quarantined(Quarantine::new(Cause::Disagrees(Some(theirs.into()))))
        };

        let told = votes(&[out("n0"), out("n1")], Duration::ZERO).to_string();

        let first = "n0: quarantined: its clients have max_ttl 2s instead of 1s";
        assert_eq!(told, format!("{first}; n1: quarantined like n0"));
    }
}
