//! Every node's vote, with the node's name: what an error tells an operator.

use crate::node::{Node, OtherName, label};
use redlatch_core::{Ballot, Tally, Vote};
use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

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
}

impl Votes {
    pub(crate) fn new(nodes: &[Arc<dyn Node>], ballot: &Ballot) -> Self {
        let votes = nodes.iter().zip(ballot.casts()).map(|(node, cast)| {
            let (name, vote) = (Arc::from(node.name()), cast.vote.clone());
            let is_name = node.address() == node.name();
            let address = if is_name { Arc::clone(&name) } else { node.address().into() };
            NodeVote { node: name, address, vote, after: cast.after }
        });
        Votes { nodes: votes.collect(), tally: ballot.tally() }
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
        let Vote::Quarantined(quarantine) = &self.vote else { return None };
        OtherName::of(&quarantine.cause, &self.node, &self.address)
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
        for (at, node) in self.iter().enumerate() {
            let (separator, vote) = (if at == 0 { "" } else { "; " }, &node.vote);
            write!(f, "{separator}{}: {vote}", node.label())?;
            if let Some(other) = node.other_name() {
                write!(f, "; {other}")?;
            }
            // Zero means that the time was not measured.
            let measured = node.after.filter(|after| !after.is_zero());
            let answered = !matches!(vote, Vote::Pending | Vote::Failed(_));
            if let (true, Some(after)) = (answered, measured) {
                write!(f, " ({after:.1?})")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_shows_how_long_it_took_if_that_was_measured() {
        let said = |after| {
            let (node, address): (Arc<str>, Arc<str>) = ("a".into(), "a".into());
            let vote = NodeVote { node, address, vote: Vote::Granted, after };
            Votes { nodes: [vote].into(), tally: Ballot::of(1).tally() }.to_string()
        };

        assert_eq!(said(Some(Duration::from_millis(3))), "a: granted (3.0ms)");
        assert_eq!(said(Some(Duration::ZERO)), "a: granted");
        assert_eq!(said(None), "a: granted");
    }
}
