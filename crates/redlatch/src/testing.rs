//! Nodes for your own tests: break them or lose a lock, in virtual time.
//!
//! The locks are the real ones, on [`Memory`] nodes and tokio's clock. In a
//! `#[tokio::test(start_paused = true)]` nothing really waits: whenever all tasks
//! are idle, time jumps to the next timer, for the locks and for your code alike.
//! This needs tokio's `test-util` feature.
//!
//! Code without async is tested on the same nodes, in real time:
//! `nodes.builder().connect_blocking()`.
//!
//! # Example
//!
//! A test that a job stops when its lock is lost:
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
//! nodes.lose("nightly-job");
//! assert!(!guard.is_held());
//! assert!(matches!(guard.lost().await, Lost::Gone { .. }));
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{
    Builder, Locks, Resource,
    driver::{
        clock::Clock,
        engine::{LeaseCell, LeaseEnd},
    },
    node::{Memory, Node},
};
use redlatch_core::{Ballot, Vote, lease::Loss, resource::Shown};
use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

/// In-memory nodes that a test can break. Clones share the same nodes.
///
/// Nodes are numbered from zero, in the order in which votes are listed.
#[derive(Debug, Clone)]
pub struct Nodes {
    memories: Arc<[Memory]>,
    leases: Arc<Leases>,
}

/// The leases of all clients of some nodes; a test may lose any of them.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<Vec<Weak<LeaseCell>>>);

impl Leases {
    pub(crate) fn add(&self, cell: &Arc<LeaseCell>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|cell| cell.strong_count() > 0);
        all.push(Arc::downgrade(cell));
    }

    pub(crate) fn of(&self, resource: &Resource) -> Option<Arc<LeaseCell>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = all.iter().filter_map(Weak::upgrade).filter(|cell| cell.is_held());
        held.find(|cell| cell.resources.iter().any(|name| name == resource))
    }
}

impl Nodes {
    /// Creates `count` working nodes without locks.
    ///
    /// # Panics
    ///
    /// Panics if `count` is zero.
    #[must_use]
    pub fn new(count: usize) -> Self {
        assert!(count > 0, "locks need at least one node");
        let memories: Arc<[_]> = (0..count).map(|n| Memory::new(format!("memory:{n}"))).collect();
        Nodes { memories, leases: Arc::default() }
    }

    /// Returns locks on these nodes, on tokio's clock, without the restart guard.
    ///
    /// Each call makes a new client: two clients compete for a lock like two processes.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
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
        Locks::on(self.all().collect(), Clock::Tokio, self.leases.clone())
    }

    /// Returns settings for locks on these nodes, for what [`locks`](Nodes::locks)
    /// leaves out: the restart guard, other defaults, code without async.
    ///
    /// The clock is tokio's, or the machine's with a [dedicated
    /// thread](Builder::dedicated_thread).
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
    /// #     .block_on(async {
    /// use redlatch::{Standing, testing::Nodes};
    /// use std::time::Duration;
    ///
    /// let nodes = Nodes::new(3);
    /// let locks = nodes.builder().connect().await?; // with the restart guard
    ///
    /// nodes.forget(0); // it restarts without its locks …
    /// let health = locks.health().await?;
    /// assert!(matches!(health.nodes[0].standing, Standing::Quarantined(_)));
    ///
    /// let guard = locks.lock("nightly-job").await?;
    /// tokio::time::sleep(Duration::from_secs(120)).await;
    /// assert_eq!(locks.health().await?.voting(), 3, "… and is admitted again");
    /// # drop(guard);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Without async, and therefore in real time:
    ///
    /// ```
    /// let nodes = redlatch::testing::Nodes::new(3);
    /// let locks = nodes.builder().connect_blocking()?;
    /// let guard = locks.lock("nightly-job").acquire()?;
    ///
    /// nodes.lose("nightly-job");
    ///
    /// assert!(!guard.is_held());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn builder(&self) -> Builder {
        self.all().fold(Builder::in_tests(self.leases.clone()), Builder::custom_node)
    }

    fn all(&self) -> impl Iterator<Item = Arc<dyn Node>> {
        self.memories.iter().map(|memory| Arc::new(memory.clone()) as Arc<dyn Node>)
    }

    /// Freezes a node: it executes and answers nothing until it is resumed.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    #[track_caller]
    pub fn pause(&self, node: usize) {
        self.node(node).pause();
    }

    /// Resumes a frozen node: it executes and answers everything that arrived in
    /// the meantime, however old.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    #[track_caller]
    pub fn resume(&self, node: usize) {
        self.node(node).resume();
    }

    /// Makes a node forget all locks, like a restart without persistence.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    #[track_caller]
    pub fn forget(&self, node: usize) {
        self.node(node).forget();
    }

    /// Makes a node execute each command `delay` after it was sent. Zero makes it
    /// fast again.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    #[track_caller]
    pub fn slow(&self, node: usize, delay: Duration) {
        self.node(node).slow(delay);
    }

    /// Makes a node unreachable. It keeps its locks.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    #[track_caller]
    pub fn fail(&self, node: usize) {
        self.node(node).fail(true);
    }

    /// Repairs a node, whatever was done to it: it is reachable, fast and not
    /// frozen. What it forgot stays forgotten.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    #[track_caller]
    pub fn recover(&self, node: usize) {
        let node = self.node(node);
        node.fail(false);
        node.slow(Duration::ZERO);
        node.resume();
    }

    /// Returns what is locked on a node, by any client, sorted by name.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
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

    /// Loses the lock on this resource now: its key disappears from every node, and its
    /// guard reports [`Lost::Gone`](crate::Lost::Gone). For a lock on several
    /// resources, name any of them.
    ///
    /// # Panics
    ///
    /// Panics if no client of these nodes holds the lock.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
    /// #     .block_on(async {
    /// let nodes = redlatch::testing::Nodes::new(3);
    /// let guard = nodes.locks().lock("nightly-job").await?;
    ///
    /// nodes.lose("nightly-job");
    ///
    /// assert!(!guard.is_held());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn lose(&self, resource: impl AsRef<[u8]>) {
        let name = Shown(resource.as_ref()).to_string();
        let cell = Resource::new(resource).ok().and_then(|resource| self.leases.of(&resource));
        let cell = cell.unwrap_or_else(|| panic!("no client of these nodes holds `{name}`"));
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
        found
            .unwrap_or_else(|| panic!("there is no node {node}: there are {count}, counted from 0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockError, Lost, Released, Standing};

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

        nodes.lose("b");

        assert!(!guard.is_held());
        assert!(matches!(waiting.await.unwrap(), Lost::Gone { .. }));
        let other = nodes.locks().try_lock_all(["a", "b"]).await.unwrap();
        assert!(other.is_some());
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(guard.release().await.unwrap(), Released::AlreadyGone);
        assert!(other.unwrap().is_held());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_lost_is_the_lock_that_is_held_and_not_an_old_guard_of_it() {
        let nodes = Nodes::new(3);
        let old = nodes.locks().lock("a").await.unwrap();
        nodes.lose("a");
        let new = nodes.locks().lock("a").await.unwrap();
        let other = nodes.locks().lock("b").await.unwrap();

        nodes.lose("a");

        assert!(!old.is_held() && !new.is_held());
        tokio::time::sleep(100 * SECOND).await;
        assert!(other.is_held());
        assert_eq!(nodes.locked(0).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn with_the_restart_guard_a_node_that_forgets_is_quarantined_for_its_minute() {
        let nodes = Nodes::new(3);
        let locks = nodes.builder().connect().await.unwrap();
        assert_eq!(locks.health().await.unwrap().voting(), 3);
        let guard = locks.lock("a").await.unwrap();

        nodes.forget(0);

        let out = locks.health().await.unwrap();
        assert!(matches!(out.nodes[0].standing, Standing::Quarantined(_)), "{out}");
        tokio::time::sleep(120 * SECOND).await;
        assert!(guard.is_held());
        assert_eq!(locks.health().await.unwrap().voting(), 3);
        nodes.lose("a");
        assert!(!guard.is_held());
    }

    #[test]
    fn a_lock_of_code_without_async_is_lost_at_once() {
        let nodes = Nodes::new(3);
        let locks = nodes.builder().connect_blocking().unwrap();
        let guard = locks.lock("a").acquire().unwrap();

        nodes.lose("a");

        assert!(!guard.is_held());
        assert!(matches!(guard.lost(), Lost::Gone { .. }));
        assert!(locks.try_lock("a").acquire().unwrap().is_some(), "it is free");
    }

    #[test]
    fn nodes_are_tidy_when_the_runtime_of_a_client_is_dropped() {
        let nodes = Nodes::new(3);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let guard = runtime.block_on(async { nodes.locks().lock("a").await }).unwrap();
        nodes.slow(2, SECOND); // nobody waits for it

        drop(runtime);

        assert!(!guard.is_held());
        for node in 0..2 {
            assert_eq!(nodes.locked(node), [], "on node {node}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn frozen_slow_and_unreachable_nodes_take_no_part_until_they_recover() {
        let nodes = Nodes::new(5);
        let locks = nodes.locks();
        nodes.pause(0);
        nodes.slow(1, 3600 * SECOND);
        nodes.fail(2);

        let refused = locks.lock("a").wait(Duration::ZERO).await;
        assert!(matches!(refused, Err(LockError::NoMajority { .. })), "{refused:?}");

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
    #[should_panic(expected = "there is no node 3: there are 3, counted from 0")]
    async fn a_node_that_is_not_there_is_a_mistake_in_the_test() {
        Nodes::new(3).pause(3);
    }

    #[tokio::test]
    #[should_panic(expected = "no client of these nodes holds `a`")]
    async fn losing_what_nobody_holds_is_a_mistake_in_the_test() {
        Nodes::new(3).lose("a");
    }
}
