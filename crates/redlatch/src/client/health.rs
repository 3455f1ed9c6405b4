//! The state of the nodes.

use crate::observer::{NodeStanding, Standing, fault_in_words, of_nodes};
use redlatch_core::{Agreement, Fault, Reply};
use std::fmt;

/// The state of every node, in the order the nodes were given. Returned by
/// [`Locks::health`](crate::Locks::health).
///
/// Its `Display` says how many nodes vote, and why the others do not.
///
/// # Example
///
/// A readiness check:
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let locks = redlatch::Locks::memory(3);
/// let health = locks.health().await?;
/// if !health.has_majority() {
///     return Err(health.to_string().into()); // not ready
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The nodes.
    pub nodes: Vec<NodeStanding>,
    /// What this client wants all clients of the nodes to agree on.
    pub(super) ours: Option<Agreement>,
}

impl Health {
    /// Returns how many nodes vote.
    #[must_use]
    pub fn voting(&self) -> usize {
        self.nodes.iter().filter(|node| node.standing == Standing::Admitted).count()
    }

    /// Returns whether enough nodes vote to grant a lock: more than half of all.
    #[must_use]
    pub fn has_majority(&self) -> bool {
        2 * self.voting() > self.nodes.len()
    }
}

/// Replaces the standing of a node that may vote but now refuses writes: a request for a
/// lock would get an error.
pub(super) fn unless_refusing(standing: Standing, facts: &Reply) -> Standing {
    match (&standing, facts) {
        (Standing::Admitted, Reply::Facts(facts)) => facts
            .refuses
            .map_or(standing, |why| Standing::Failed(Fault::Unfit(why.to_string().into()))),
        _ => standing,
    }
}

/// How many nodes vote, and why each of the others does not.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (voting, nodes) = (self.voting(), self.nodes.len());
        let vote = if (voting, nodes) == (1, 1) { "votes" } else { "vote" };
        write!(f, "{} {vote}", of_nodes(voting, nodes))?;
        for NodeStanding { node, standing } in &self.nodes {
            match standing {
                Standing::Quarantined(out) => match &self.ours {
                    Some(ours) => write!(f, "; {node}: {}", out.for_client_of(ours))?,
                    None => write!(f, "; {node}: {out}")?,
                },
                Standing::Failed(fault) => write!(f, "; {node}: {}", fault_in_words(fault))?,
                _ => {}
            }
        }
        Ok(())
    }
}
