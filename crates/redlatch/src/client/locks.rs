//! The connected nodes, and the locks on them.

use super::{
    Builder, ConnectError, Health, HealthError, InvalidRequest, LockRequest, Status, StatusError,
    TryLockRequest, connect::SURVEY_TIME, health, request::Defaults, settings::Settings,
};
use crate::{
    driver::{
        both,
        clock::Clock,
        engine::{Handle, Shared, spawn_here},
    },
    node::Node,
    observer::NodeStanding,
    testing::Leases,
};
use redlatch_core::{Command, Resource, Resources};
use std::{fmt, sync::Arc};

/// Locks on a set of nodes. Cheap to clone; all clones share one engine.
///
/// [`lock`](Self::lock) waits for a lock, [`try_lock`](Self::try_lock) takes it
/// only if it is free, [`lock_all`](Self::lock_all) takes several together.
///
/// # Example
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use redlatch::Locks;
/// use std::time::Duration;
///
/// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let locks = Locks::connect(nodes).await?;
/// let guard = locks.lock("invoice:42").wait(Duration::from_secs(5)).await?;
/// // … charge the invoice …
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Locks {
    pub(crate) handle: Handle,
    pub(crate) defaults: Arc<Defaults>,
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = self.handle.shared.nodes.iter().map(|node| node.name()).collect();
        f.debug_struct("Locks").field("nodes", &nodes).finish_non_exhaustive()
    }
}

impl Locks {
    /// Connects to nodes by their addresses (see
    /// [`node::parse`](crate::node::parse)), with default settings.
    ///
    /// Use 1, 3 or 5 nodes. A lock takes a majority of all of them, so an even number works
    /// but gains nothing: of 2, both must be up, and 4 survive the loss of one, like 3.
    ///
    /// A minority of nodes that cannot be reached, or cannot vote (a wrong password, a
    /// replica, an expired certificate), is not an error. A warning names them, and so
    /// do the votes of every lock.
    ///
    /// # Errors
    ///
    /// Fails if fewer than a majority of the nodes can be reached, or if the list
    /// of nodes is wrong: one server twice, a cluster, a load balancer. See
    /// [`ConnectError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: dropping the future closes the connections it opened.
    pub async fn connect<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Locks, ConnectError> {
        Locks::builder().nodes(urls).connect().await
    }

    /// Returns the settings for locks on a set of nodes: change them, then connect.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns locks on `nodes` in-memory nodes, for tests. Time is virtual if the
    /// runtime's clock is paused. [`testing`](crate::testing) can break the nodes.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime, in one without timers, and if `nodes` is zero.
    #[must_use]
    pub fn memory(nodes: usize) -> Locks {
        crate::testing::Nodes::new(nodes).locks()
    }

    /// Requests a lock, and waits for it if another owner holds it. Nothing happens
    /// until the request is awaited.
    ///
    /// A name is 1 to 1024 bytes of any value, and must not start with `redlatch:`. The lock
    /// is a key with that name on the servers: if they also hold other data, give locks a
    /// prefix that no other key has.
    ///
    /// Locks are not re-entrant: a second request for a lock that this process holds
    /// waits like any other, and the error then says that another task of this process
    /// holds it, if the lock has the [label](crate::Builder::owner) of this client.
    ///
    /// # Errors
    ///
    /// [`LockError::Held`](crate::LockError::Held) if another owner still holds the
    /// lock when the [wait](LockRequest::wait) ends. See
    /// [`LockError`](crate::LockError) for the rest.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: dropping the future undoes the attempt on every node.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// # use std::time::Duration;
    /// let guard = locks.lock("report").ttl(Duration::from_secs(5)).await?;
    /// # drop(guard);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lock(&self, resource: impl AsRef<[u8]>) -> LockRequest {
        LockRequest(self.settings(one(resource)))
    }

    /// Requests a lock without waiting. Awaited, the request returns `None` if
    /// another owner holds the lock.
    ///
    /// # Errors
    ///
    /// Any [`LockError`](crate::LockError), but [`Held`](crate::LockError::Held) only if a
    /// majority of the nodes has other data, a key without a TTL, under the lock's name: no
    /// owner will ever release that. Give the lock another name. (With
    /// [`fencing(false)`](crate::Builder::fencing) and without the restart guard, nodes do not
    /// say what kind of key it is: the request returns `None`, but [`status`](Self::status)
    /// says so.)
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: dropping the future undoes the attempt on every node.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// let guard = locks.try_lock("report").await?;
    /// assert!(guard.is_some());
    /// assert!(locks.try_lock("report").await?.is_none(), "it is held");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_lock(&self, resource: impl AsRef<[u8]>) -> TryLockRequest {
        TryLockRequest(self.settings(one(resource)))
    }

    /// Requests several resources together, under one lease: all of them or none.
    /// At most 64, each named once.
    ///
    /// Two requests that overlap cannot deadlock, whatever the order of their names. Such a
    /// request does not wait in line: it retries after random pauses (see
    /// [`fair`](LockRequest::fair)).
    ///
    /// # Errors
    ///
    /// As [`lock`](Locks::lock). A set of names that cannot be locked is
    /// [`InvalidRequest::Resource`].
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: dropping the future undoes the attempt on every node.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// let both = locks.lock_all(["account:1", "account:2"]).await?;
    /// assert!(locks.try_lock("account:2").await?.is_none(), "it is held");
    /// both.release().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lock_all<N: AsRef<[u8]>>(&self, resources: impl IntoIterator<Item = N>) -> LockRequest {
        LockRequest(self.settings(Resources::new(resources).map_err(Into::into)))
    }

    /// Requests several resources together, like [`lock_all`](Locks::lock_all),
    /// without waiting. Awaited, the request returns `None` if another owner holds
    /// any of them.
    ///
    /// # Errors
    ///
    /// As [`try_lock`](Locks::try_lock).
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: dropping the future undoes the attempt on every node.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// let one = locks.lock("account:1").await?;
    /// let both = locks.try_lock_all(["account:1", "account:2"]).await?;
    /// assert!(both.is_none(), "one of them is held");
    /// assert!(locks.try_lock("account:2").await?.is_some(), "nothing was left locked");
    /// # drop(one);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_lock_all<N: AsRef<[u8]>>(
        &self,
        resources: impl IntoIterator<Item = N>,
    ) -> TryLockRequest {
        TryLockRequest(self.settings(Resources::new(resources).map_err(Into::into)))
    }

    /// Returns who holds a lock, as each node sees it, and who waits for it, without
    /// taking it.
    ///
    /// A node has one second to answer.
    ///
    /// # Errors
    ///
    /// Fails if no lock can have this name, or if the engine is gone. A node that
    /// does not answer is not an error: see
    /// [`NodeKey::Failed`](crate::NodeKey::Failed).
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: nothing changes on the nodes.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// let guard = locks.lock("deploy").owner("ci-7").await?;
    ///
    /// let status = locks.status("deploy").await?;
    ///
    /// println!("{}; {} waiting", status.state, status.waiters);
    /// for node in &status.nodes {
    ///     println!("  {}: {}", node.node, node.key);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn status(&self, resource: impl AsRef<[u8]>) -> Result<Status, StatusError> {
        let resource = Resource::new(resource).map_err(InvalidRequest::from)?;
        let shared = &self.handle.shared;
        let line = Command::Line { resource: resource.clone() };
        let line = self.handle.survey(line, SURVEY_TIME);
        let keys = Command::Inspect { resources: resource.into() };
        let keys = self.handle.survey(keys, SURVEY_TIME);
        let facts = async {
            match &shared.admission {
                Some(_) => self.handle.survey(Command::Examine, SURVEY_TIME).await.map(Some),
                None => Ok(None),
            }
        };
        let (keys, (line, facts)) = both(keys, both(line, facts)).await;
        let told = keys.and_then(|keys| Ok((keys, line?, facts?)));
        let (keys, line, facts) = told.map_err(|_| StatusError::Stopped)?;
        let standings = match facts {
            Some(facts) => {
                let standings = shared.standings(&facts);
                shared.log_standings(&standings);
                standings.into_iter().map(Some).collect()
            }
            None => vec![None; shared.nodes.len()],
        };
        Ok(Status::new(&shared.nodes, &keys, &line, standings))
    }

    /// Returns the state of every node now: whether it votes, may not vote yet, refuses
    /// writes or does not answer, and why. For readiness checks and operators' dashboards.
    ///
    /// A node has one second to answer. No lock is taken. A server that answers but refuses
    /// writes (full memory, too few replicas, a full disk) does not vote: its standing is
    /// [`Failed`](crate::Standing::Failed) with the reason.
    ///
    /// # Errors
    ///
    /// [`HealthError::Stopped`] if the engine is gone. A node that is down is not
    /// an error.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: nothing changes on the nodes.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
    /// #     .block_on(async {
    /// let nodes = redlatch::testing::Nodes::new(3);
    /// let locks = nodes.locks();
    /// nodes.fail(2);
    ///
    /// let health = locks.health().await?;
    ///
    /// assert!(health.has_majority(), "two of three are enough");
    /// assert_eq!(health.to_string(), "2 of 3 nodes vote; memory:2: unreachable: a test made it fail");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn health(&self) -> Result<Health, HealthError> {
        let shared = &self.handle.shared;
        let facts = self.handle.survey(Command::Examine, SURVEY_TIME).await;
        let facts = facts.map_err(|_| HealthError::Stopped)?;
        let standings = shared.standings(&facts);
        shared.log_standings(&standings);
        let standings = standings.into_iter().zip(&facts);
        let standings = standings.map(|(standing, facts)| health::unless_refusing(standing, facts));
        let nodes = shared.nodes.iter().zip(standings);
        let nodes =
            nodes.map(|(node, standing)| NodeStanding { node: node.name().into(), standing });
        Ok(Health { nodes: nodes.collect(), ours: shared.agreement().cloned() })
    }

    /// Waits until nothing is left to undo: every lost, cancelled or released lock
    /// is gone from every node that answers.
    ///
    /// If a node does not answer, this waits until any keys left on it must have expired,
    /// about a TTL. A test that freezes nodes should resume them first: a command that
    /// reaches a node only after its connection has broken is not undone. A lock that
    /// such a command takes stays for its TTL, and a place in line for 30 s.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: the undo continues in the background.
    pub async fn settled(&self) {
        self.handle.settled().await;
    }

    /// Stops listening for wakes on all nodes. Call it before a process exits without
    /// dropping its runtime: on a `file:` node it removes the socket, which would otherwise
    /// stay until a later client finds it.
    ///
    /// Locks that are held stay held; requests that still wait check again by themselves.
    pub fn hang_up(&self) {
        self.handle.shared.nodes.iter().for_each(|node| node.hang_up());
    }

    pub(super) fn settings(&self, resources: Result<Resources, InvalidRequest>) -> Settings {
        Settings::new(self.handle.clone(), &self.defaults, resources)
    }

    /// Locks on nodes that need no checks, with the engine on this runtime.
    pub(crate) fn on(nodes: Arc<[Arc<dyn Node>]>, clock: Clock, leases: Arc<Leases>) -> Locks {
        let shared = Shared::new(nodes, clock).listing(Some(leases));
        let handle = spawn_here(shared).expect("a tokio runtime with timers is needed here");
        Locks { handle, defaults: Arc::new(Builder::default().defaults()) }
    }
}

pub(crate) fn one(resource: impl AsRef<[u8]>) -> Result<Resources, InvalidRequest> {
    Ok(Resource::new(resource)?.into())
}
