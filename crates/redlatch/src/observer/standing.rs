//! One node's standing with the restart guard, by name.

use redlatch_core::Standing;
use std::sync::Arc;

/// One node's standing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStanding {
    /// The node's name.
    pub node: Arc<str>,
    /// Whether it may vote.
    pub standing: Standing,
}
