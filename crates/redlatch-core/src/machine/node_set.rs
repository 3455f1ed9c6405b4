//! Sets of nodes, cheap to copy.

use crate::vote::Ballot;

/// A set of nodes. All nodes from the 64th on share its last bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodeSet(u64);

impl NodeSet {
    pub(super) const NONE: NodeSet = NodeSet(0);

    pub(super) fn all(nodes: usize) -> Self {
        NodeSet(if nodes >= 64 { u64::MAX } else { (1 << nodes) - 1 })
    }

    pub(super) fn one(node: usize) -> Self {
        NodeSet::NONE.with(node)
    }

    pub(super) fn refusing(ballot: &Ballot) -> Self {
        let refused = |(node, vote): (usize, bool)| vote.then_some(node);
        let votes = ballot.casts().iter().map(|cast| cast.vote.holder().is_some());
        votes.enumerate().filter_map(refused).fold(NodeSet::NONE, NodeSet::with)
    }

    pub(super) fn with(self, node: usize) -> Self {
        NodeSet(self.0 | bit(node))
    }

    pub(super) fn without(self, other: NodeSet) -> Self {
        NodeSet(self.0 & !other.0)
    }

    pub(super) fn contains(self, node: usize) -> bool {
        self.0 & bit(node) != 0
    }

    pub(super) fn count(self) -> usize {
        self.0.count_ones() as usize
    }
}

fn bit(node: usize) -> u64 {
    1 << node.min(63)
}
