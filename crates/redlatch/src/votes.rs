//! Every node's vote, with the node's name: what an error tells an operator.

use crate::node::Node;
use redlatch_core::{Ballot, Tally, Vote};
use std::{fmt, sync::Arc, time::Duration};

/// The votes of all nodes, in the order the nodes were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Votes {
    nodes: Box<[NodeVote]>,
    tally: Tally,
}

/// One node's vote.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeVote {
    /// The node, as it is named in errors: its address without secrets.
    pub node: Arc<str>,
    /// What it answered, or why it did not.
    pub vote: Vote,
    /// How long it took to answer; none if it has not.
    pub after: Option<Duration>,
}

impl Votes {
    pub(crate) fn new(nodes: &[Arc<dyn Node>], ballot: &Ballot) -> Self {
        let name = |node: &Arc<dyn Node>| Arc::from(node.name());
        let votes = nodes.iter().zip(ballot.casts()).map(|(node, cast)| NodeVote {
            node: name(node),
            vote: cast.vote.clone(),
            after: cast.after,
        });
        Votes { nodes: votes.collect(), tally: ballot.tally() }
    }

    /// How many nodes voted how.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// The votes, one by one.
    pub fn iter(&self) -> std::slice::Iter<'_, NodeVote> {
        self.nodes.iter()
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
        for (at, NodeVote { node, vote, after }) in self.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{node}: {vote}")?;
            // Nobody answers in no time at all: it was not measured.
            let measured = after.filter(|after| !after.is_zero());
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
            let vote = NodeVote { node: "a".into(), vote: Vote::Granted, after };
            Votes { nodes: [vote].into(), tally: Ballot::of(1).tally() }.to_string()
        };

        assert_eq!(said(Some(Duration::from_millis(3))), "a: granted (3.0ms)");
        assert_eq!(said(Some(Duration::ZERO)), "a: granted");
        assert_eq!(said(None), "a: granted");
    }
}
