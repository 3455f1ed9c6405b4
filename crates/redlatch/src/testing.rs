//! Nodes for your own tests: break them, lose a lock, in virtual time.
//!
//! The locks are the real thing, on [`Memory`] nodes and on tokio's clock. In a
//! `#[tokio::test(start_paused = true)]` nobody waits: whenever all tasks are
//! idle, time jumps to the next timer, for the locks and for your code alike.
//! That needs tokio's feature `test-util`.
//!
//! # Example
//!
//! A job must stop when its lock is lost. As a test:
//!
//! ```
//! use redlatch::{Lost, testing::Nodes};
//! use std::time::Duration;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
//! #     .block_on(async {
//! // #[tokio::test(start_paused = true)]
//! // async fn the_job_stops_when_its_lock_is_lost() {
//! let nodes = Nodes::new(5);
//! let guard = nodes.locks().lock("nightly-job").await?;
//! nodes.pause(0);
//! nodes.fail(1);
//!
//! tokio::time::sleep(Duration::from_secs(600)).await;
//! assert!(guard.is_held(), "two nodes of five may be down, for as long as they like");
//!
//! nodes.lose(&guard);
//! assert!(!guard.is_held());
//! assert!(matches!(guard.lost().await, Lost::Gone { .. }));
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{
    Guard, Locks, Resource,
    clock::Clock,
    engine::LeaseEnd,
    node::{Memory, Node},
};
use redlatch_core::{Ballot, Vote, lease::Loss};
use std::{sync::Arc, time::Duration};

/// Nodes in memory that a test can break. Clones are the same nodes.
///
/// Nodes are counted from zero, in the order in which votes are listed.
#[derive(Debug, Clone)]
pub struct Nodes {
    memories: Arc<[Memory]>,
    nodes: Arc<[Arc<dyn Node>]>,
}

impl Nodes {
    /// That many nodes, in order and without locks.
    ///
    /// # Panics
    ///
    /// Without any node.
    #[must_use]
    pub fn new(count: usize) -> Self {
        assert!(count > 0, "locks need at least one node");
        let memories: Arc<[_]> = (0..count).map(|n| Memory::new(format!("memory:{n}"))).collect();
        let nodes = memories.iter().map(|memory| Arc::new(memory.clone()) as Arc<dyn Node>);
        Nodes { nodes: nodes.collect(), memories }
    }

    /// Locks on these nodes, on tokio's clock.
    ///
    /// Each call is a client of its own: two of them compete for a lock as two
    /// processes do.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
    /// #     .block_on(async {
    /// let nodes = redlatch::testing::Nodes::new(3);
    /// let (ours, theirs) = (nodes.locks(), nodes.locks());
    ///
    /// let guard = ours.lock("invoice:42").await?;
    ///
    /// assert!(theirs.try_lock("invoice:42").await?.is_none());
    /// # drop(guard);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn locks(&self) -> Locks {
        Locks::on(self.nodes.clone(), Clock::Tokio)
    }

    /// Freezes a node: from now on it does and answers nothing.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[track_caller]
    pub fn pause(&self, node: usize) {
        self.node(node).pause();
    }

    /// Lets a frozen node go on: it does and answers what has come meanwhile,
    /// however old it is.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[track_caller]
    pub fn resume(&self, node: usize) {
        self.node(node).resume();
    }

    /// Makes a node forget all locks, as a restart without persistence does.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[track_caller]
    pub fn forget(&self, node: usize) {
        self.node(node).forget();
    }

    /// Makes a node carry out each command that much after it was sent. Zero
    /// makes it quick again.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[track_caller]
    pub fn slow(&self, node: usize, delay: Duration) {
        self.node(node).slow(delay);
    }

    /// Makes a node unreachable. It keeps its locks.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[track_caller]
    pub fn fail(&self, node: usize) {
        self.node(node).fail(true);
    }

    /// Mends a node, whatever was done to it: it is reachable, quick and not
    /// frozen. What it forgot stays forgotten.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[track_caller]
    pub fn recover(&self, node: usize) {
        let node = self.node(node);
        node.fail(false);
        node.slow(Duration::ZERO);
        node.resume();
    }

    /// What is locked on a node, by anybody, sorted by name.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
    /// #     .block_on(async {
    /// let nodes = redlatch::testing::Nodes::new(3);
    /// let locks = nodes.locks();
    ///
    /// drop(locks.lock("invoice:42").await?);
    /// locks.settled().await;
    ///
    /// assert!(nodes.locked(0).is_empty(), "nothing is left behind");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn locked(&self, node: usize) -> Vec<Resource> {
        self.node(node).keys()
    }

    /// Loses this lock now: no node has it any more, and the guard knows, as
    /// [`Lost::Gone`](crate::Lost::Gone). A lock that is not held stays as it
    /// is.
    ///
    /// # Panics
    ///
    /// If the guard is not of these nodes.
    #[track_caller]
    pub fn lose(&self, guard: &Guard) {
        let cell = guard.cell();
        assert!(
            Arc::ptr_eq(&cell.place.nodes, &self.nodes),
            "this guard was not taken with `locks()` of these nodes"
        );
        let mut ballot = Ballot::of(self.memories.len());
        for (node, memory) in self.memories.iter().enumerate() {
            memory.remove_lock(&cell.resources, &cell.token);
            ballot.cast(node, Vote::Gone, Duration::ZERO);
        }
        cell.end(LeaseEnd::Lost(Loss::Gone(ballot)));
    }

    #[track_caller]
    fn node(&self, node: usize) -> &Memory {
        let count = self.memories.len();
        let found = self.memories.get(node);
        found.unwrap_or_else(|| panic!("there is no node {node}: {count} are counted from 0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockError, Lost, Released};

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_lock_that_is_lost_by_hand_is_lost_at_once_and_free_for_others() {
        let nodes = Nodes::new(3);
        let guard = nodes.locks().lock_all(["a", "b"]).await.unwrap();
        let waiting = tokio::spawn({
            let lease = guard.lease();
            async move { lease.lost().await }
        });
        tokio::task::yield_now().await;
        let start = tokio::time::Instant::now();

        nodes.lose(&guard);

        assert!(!guard.is_held());
        assert!(matches!(waiting.await.unwrap(), Lost::Gone { .. }));
        let other = nodes.locks().try_lock_all(["a", "b"]).await.unwrap();
        assert!(other.is_some());
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(guard.release().await.unwrap(), Released::AlreadyGone);
        assert!(other.unwrap().is_held());
    }

    #[tokio::test(start_paused = true)]
    async fn what_others_hold_by_now_is_not_lost_with_an_old_guard() {
        let nodes = Nodes::new(3);
        let old = nodes.locks().lock("a").await.unwrap();
        nodes.lose(&old);
        let new = nodes.locks().lock("a").await.unwrap();

        nodes.lose(&old);

        tokio::time::sleep(100 * SECOND).await;
        assert!(new.is_held());
        assert_eq!(nodes.locked(0).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn frozen_slow_and_unreachable_nodes_take_no_part_until_they_recover() {
        let nodes = Nodes::new(5);
        let locks = nodes.locks();
        nodes.pause(0);
        nodes.slow(1, 3600 * SECOND);
        nodes.fail(2);

        let refused = locks.lock("a").wait(Duration::ZERO).await;
        assert!(matches!(refused, Err(LockError::NoQuorum { .. })), "{refused:?}");

        (0..3).for_each(|node| nodes.recover(node));
        locks.settled().await;
        let start = tokio::time::Instant::now();
        let _guard = locks.lock("b").await.unwrap();
        tokio::task::yield_now().await;
        for node in 0..5 {
            let names: Vec<_> = nodes.locked(node).iter().map(ToString::to_string).collect();
            assert_eq!(names, ["b"], "on node {node}");
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_survives_a_minority_that_forgets_and_dies_with_a_majority() {
        let nodes = Nodes::new(3);
        let guard = nodes.locks().lock("a").await.unwrap();

        nodes.forget(0);
        tokio::time::sleep(60 * SECOND).await;
        assert!(guard.is_held());
        assert_eq!(nodes.locked(0).len(), 1, "planted again");

        nodes.forget(1);
        nodes.forget(2);
        let start = tokio::time::Instant::now();
        assert!(matches!(guard.lost().await, Lost::Gone { .. }));
        assert!(start.elapsed() < 10 * SECOND, "{:?}", start.elapsed());
    }

    #[tokio::test]
    #[should_panic(expected = "there is no node 3: 3 are counted from 0")]
    async fn a_node_that_is_not_there_is_a_mistake_in_the_test() {
        Nodes::new(3).pause(3);
    }

    #[tokio::test]
    #[should_panic(expected = "was not taken with `locks()` of these nodes")]
    async fn a_guard_of_other_nodes_is_a_mistake_in_the_test() {
        let guard = Nodes::new(3).locks().lock("a").await.unwrap();

        Nodes::new(3).lose(&guard);
    }
}
