//! The nodes, connected, and the locks on them.

use crate::{
    admission::{RestartGuard, admit_at_start, guarded, quarantine, refuse_another_list},
    both::both,
    clock::Clock,
    engine::{Handle, Place, spawn_here, spawn_thread},
    error::{ConnectError, InvalidRequest, StatusError},
    node::{self, Node},
    request::{Defaults, LockRequest, Try, Wait},
    status::Status,
};
use redlatch_core::{
    Ballot, Command, Fault, Owner, Reply, Resource, Resources, Terms, Vote,
    config::{DEFAULT_TTL, Wanted, WantedRenewal},
    fence::DEFAULT_SKEW,
};
use std::{sync::Arc, time::Duration};

/// How long nodes may take to answer for the first time, and to tell a status.
pub(crate) const FIRST_ANSWER: Duration = Duration::from_secs(1);
/// How long they may take if a majority is there: who hangs costs no more.
const QUICK_ANSWER: Duration = Duration::from_millis(100);

/// Locks on N nodes. Cheap to clone; all clones share one engine.
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
#[derive(Debug, Clone)]
pub struct Locks {
    pub(crate) handle: Handle,
    pub(crate) defaults: Arc<Defaults>,
}

impl Locks {
    /// Connects to nodes by their addresses (see [`node::parse`]).
    ///
    /// Nodes that cannot be reached, or cannot vote as they are (a wrong password,
    /// a replica, an expired certificate), are no error while a majority can. They
    /// are named in a warning, and in the votes of every lock. A list of nodes that
    /// is wrong is an error: one server twice, a cluster, a load balancer.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future closes what was opened.
    pub async fn connect<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Locks, ConnectError> {
        Locks::builder().nodes(urls).connect().await
    }

    /// Settings for all locks of these nodes.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Locks on `nodes` nodes in memory, for tests: with virtual time where the
    /// runtime's is paused. [`testing`](crate::testing) can break the nodes.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and with no nodes.
    #[must_use]
    pub fn memory(nodes: usize) -> Locks {
        crate::testing::Nodes::new(nodes).locks()
    }

    /// Asks for a lock. Nothing happens before the request is awaited.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future undoes what there is of the lock, on every node.
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
    pub fn lock(&self, resource: impl AsRef<[u8]>) -> LockRequest<Wait> {
        self.request(one(resource))
    }

    /// Asks for a lock without waiting: none if another owner has it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future undoes what there is of the lock, on every node.
    pub fn try_lock(&self, resource: impl AsRef<[u8]>) -> LockRequest<Try> {
        self.request(one(resource))
    }

    /// Asks for several resources at once: all of them or none, one lease.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future undoes what there is of the lock, on every node.
    pub fn lock_all<N: AsRef<[u8]>>(
        &self,
        resources: impl IntoIterator<Item = N>,
    ) -> LockRequest<Wait> {
        self.request(Resources::new(resources).map_err(Into::into))
    }

    /// As [`lock_all`](Locks::lock_all), without waiting.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future undoes what there is of the lock, on every node.
    pub fn try_lock_all<N: AsRef<[u8]>>(
        &self,
        resources: impl IntoIterator<Item = N>,
    ) -> LockRequest<Try> {
        self.request(Resources::new(resources).map_err(Into::into))
    }

    /// Who holds a lock, by every node, without taking it.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn status(&self, resource: impl AsRef<[u8]>) -> Result<Status, StatusError> {
        let resources = one(resource)?;
        let place = &self.handle.place;
        let keys = self.handle.survey(Command::Inspect { resources }, FIRST_ANSWER);
        let facts = async {
            match &place.guard {
                Some(_) => self.handle.survey(Command::Examine, FIRST_ANSWER).await.map(Some),
                None => Ok(None),
            }
        };
        let (keys, facts) = both(keys, facts).await;
        let (keys, facts) =
            keys.and_then(|keys| Ok((keys, facts?))).map_err(|_| StatusError::Stopped)?;
        let facts = |node| facts.as_ref().and_then(|facts| facts.get(node));
        let nodes = 0..place.nodes.len();
        let quarantines = nodes.map(|node| {
            let guard = place.guard.as_ref()?;
            quarantine(facts(node)?, |facts| guarded(facts, guard, node))
        });
        Ok(Status::new(&place.nodes, &keys, quarantines.collect()))
    }

    /// Waits until nothing is left to undo: every lost, cancelled or released
    /// lock is off every node that answers.
    ///
    /// # Cancel safety
    ///
    /// Safe: the undoing goes on.
    pub async fn settled(&self) {
        self.handle.settled().await;
    }

    pub(crate) fn request<M>(
        &self,
        resources: Result<Resources, InvalidRequest>,
    ) -> LockRequest<M> {
        LockRequest::new(self.handle.clone(), &self.defaults, resources)
    }

    /// Locks on nodes that need no checks, with the engine on this runtime.
    pub(crate) fn on(nodes: Arc<[Arc<dyn Node>]>, clock: Clock) -> Locks {
        let handle = spawn_here(Place::new(nodes, clock)).expect("a tokio runtime is needed here");
        Locks { handle, defaults: Arc::new(Builder::default().defaults()) }
    }
}

pub(crate) fn one(resource: impl AsRef<[u8]>) -> Result<Resources, InvalidRequest> {
    Ok(Resource::new(resource)?.into())
}

/// Settings for all locks of some nodes.
///
/// # Example
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let locks = redlatch::Locks::builder()
///     .nodes(["redis://a", "redis://b", "redis://c"])
///     .ttl(Duration::from_secs(5))
///     .owner("billing-7")
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Builder {
    nodes: Vec<Result<Arc<dyn Node>, node::UrlError>>,
    wanted: Wanted,
    wait: Duration,
    owner: Option<Result<Owner, InvalidRequest>>,
    fencing: bool,
    pub(crate) restart_guard: Option<RestartGuard>,
    pub(crate) skew: Duration,
    dedicated_thread: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            nodes: Vec::new(),
            wanted: Wanted::default(),
            wait: DEFAULT_TTL,
            owner: None,
            fencing: true,
            restart_guard: None,
            skew: DEFAULT_SKEW,
            dedicated_thread: false,
        }
    }
}

impl Builder {
    /// Adds a node by its address (see [`node::parse`]).
    #[must_use]
    pub fn node(mut self, url: impl AsRef<str>) -> Self {
        self.nodes.push(node::parse(url.as_ref()));
        self
    }

    /// Adds nodes by their addresses.
    #[must_use]
    pub fn nodes<U: AsRef<str>>(self, urls: impl IntoIterator<Item = U>) -> Self {
        urls.into_iter().fold(self, Builder::node)
    }

    /// Adds a node of a kind of your own.
    #[must_use]
    pub fn custom_node(mut self, node: Arc<dyn Node>) -> Self {
        self.nodes.push(Ok(node));
        self
    }

    /// The TTL unless a lock asks for another. Default 10 s.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.wanted.ttl = ttl;
        self
    }

    /// The longest TTL any lock may ask for. Default 30 s. With the restart
    /// guard all clients of the same nodes must agree on it: a node that was
    /// restarted does not vote for that long.
    #[must_use]
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.wanted.max_ttl = max_ttl;
        self
    }

    /// How long to wait for a lock unless it asks otherwise. Default 10 s.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long a lock may be held unless it asks otherwise. Default one hour.
    #[must_use]
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        let every = self.wanted.renewal.take().and_then(|renewal| renewal.every);
        self.wanted.renewal = Some(WantedRenewal { every, max_hold });
        self
    }

    /// How long one node may take to answer. Default `ttl / 20`, between 5 and
    /// 500 ms.
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.wanted.node_timeout = Some(timeout);
        self
    }

    /// The label that operators see on the nodes. Default `host/pid`.
    #[must_use]
    pub fn owner(mut self, label: impl AsRef<str>) -> Self {
        self.owner = Some(Owner::new(label).map_err(Into::into));
        self
    }

    /// Whether grants get a fencing token. Default: they do. Without, a take is
    /// plain Redlock: one `SET NX PX`, which costs the servers less.
    #[must_use]
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.fencing = fencing;
        self
    }

    /// Whether nodes that may have forgotten locks are kept from voting. Default:
    /// [`On`](RestartGuard::On) for several nodes, [`Off`](RestartGuard::Off)
    /// for one. All clients of the same nodes should have it: one without asks
    /// nodes that may have forgotten another's lock.
    #[must_use]
    pub fn restart_guard(mut self, guard: RestartGuard) -> Self {
        self.restart_guard = Some(guard);
        self
    }

    /// How far the clocks of clients and nodes may be apart before fencing
    /// tokens cost a second round trip. Default 30 s. With the restart guard all
    /// clients must agree on it, and a node that was restarted does not vote for
    /// so much longer than `max_ttl`.
    #[must_use]
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// Runs the engine on a thread of its own instead of the caller's runtime.
    /// It costs two thread hops per call, and does not depend on how busy the
    /// runtime is. Dropping the last clone waits until nothing is left to undo,
    /// for half a second at most.
    #[must_use]
    pub fn dedicated_thread(mut self) -> Self {
        self.dedicated_thread = true;
        self
    }

    /// Connects.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future closes what was opened.
    pub async fn connect(self) -> Result<Locks, ConnectError> {
        let nodes = self.checked_nodes()?;
        let defaults = self.defaults();
        if let Some(Err(error)) = self.owner {
            return Err(error.into());
        }
        Terms::check(&defaults.wanted).map_err(InvalidRequest::from)?;
        let (guard, agreement) = (self.guard(&nodes), self.agreement(&nodes));
        let agreement = Arc::new(agreement);
        let place = Place::new(nodes, Clock::System).guarded(guard).counting(agreement.clone());
        let handle = if self.dedicated_thread { spawn_thread(place) } else { spawn_here(place) };
        let handle = handle.map_err(|error| ConnectError::NoRuntime(error.to_string().into()))?;
        if handle.place.guard.is_some() {
            check_servers(&handle).await?;
            admit_at_start(&handle).await?;
        } else {
            let (servers, told) = both(check_servers(&handle), ledgers(&handle)).await;
            servers?;
            refuse_another_list(&handle, &told?, &agreement)?;
        }
        Ok(Locks { handle, defaults: Arc::new(defaults) })
    }

    pub(crate) fn checked_nodes(&self) -> Result<Arc<[Arc<dyn Node>]>, ConnectError> {
        let nodes = self.nodes.iter().cloned().collect::<Result<Vec<_>, _>>()?;
        if nodes.is_empty() {
            return Err(ConnectError::NoNodes);
        }
        for (at, node) in nodes.iter().enumerate() {
            let name = node.name();
            let private = name == "memory:"; // each of these is one of its own
            if !private && nodes[..at].iter().any(|earlier| earlier.name() == name) {
                return Err(ConnectError::Twice(name.into()));
            }
        }
        Ok(nodes.into())
    }

    fn defaults(&self) -> Defaults {
        let owner = self.owner.clone().and_then(Result::ok).unwrap_or_else(host_and_pid);
        let fencing = self.fencing.then_some(self.skew);
        let terms = Terms::check(&self.wanted).ok();
        Defaults { wanted: self.wanted.clone(), terms, wait: self.wait, owner, fencing }
    }

    pub(crate) fn longest_ttl(&self) -> Duration {
        self.wanted.max_ttl
    }
}

/// `host/pid`, with what cannot stand in a label left out.
fn host_and_pid() -> Owner {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    let host: String = host.chars().filter(char::is_ascii_graphic).take(200).collect();
    let label = format!("{host}/{}", std::process::id());
    Owner::new(label).expect("graphic ASCII of at most 211 bytes is a label")
}

/// Asks every node who it is; refuses what cannot be a set of nodes.
async fn check_servers(handle: &Handle) -> Result<(), ConnectError> {
    match introduced(handle, QUICK_ANSWER).await {
        Err(ConnectError::NoQuorum(_)) => introduced(handle, FIRST_ANSWER).await,
        settled => settled,
    }
}

/// A minority that cannot vote, for whatever reason, is no reason to refuse.
async fn introduced(handle: &Handle, patience: Duration) -> Result<(), ConnectError> {
    let ballot = identities(handle, patience).await?;
    let votes = handle.place.votes(&ballot);
    let wrong = |vote: &Vote| matches!(vote, Vote::Failed(Fault::WrongAddress(_)));
    let unfit = |vote: &Vote| matches!(vote, Vote::Failed(Fault::Unfit(_)));
    let useless = votes.iter().filter(|node| unfit(&node.vote));
    let tally = ballot.tally();
    let hopeless = useless.clone().count() > tally.nodes - tally.majority();
    if hopeless || votes.iter().any(|node| wrong(&node.vote)) {
        return Err(ConnectError::Unfit(votes));
    }
    if tally.granted < tally.majority() {
        return Err(ConnectError::NoQuorum(votes));
    }
    for node in useless {
        tracing::warn!(node = %node.node, fault = %node.vote, "it will not vote as it is");
    }
    Ok(())
}

/// Who answers, as votes; an error if one server answers for two nodes.
pub(crate) async fn identities(
    handle: &Handle,
    patience: Duration,
) -> Result<Ballot, ConnectError> {
    let nodes = &handle.place.nodes;
    let replies = handle.survey(Command::Identify, patience).await;
    let replies = replies.map_err(|_| ConnectError::Stopped)?;
    let mut ballot = Ballot::of(nodes.len());
    let mut runs: Vec<(&str, Arc<str>)> = Vec::new();
    for (node, reply) in replies.iter().enumerate() {
        let vote = match reply {
            Reply::Identity(identity) => {
                let name = nodes[node].name();
                if let Some((first, _)) = runs.iter().find(|(_, run)| *run == identity.run) {
                    let (first, second) = (Arc::from(*first), Arc::from(name));
                    return Err(ConnectError::SameServer { first, second });
                }
                runs.push((name, identity.run.clone()));
                Vote::Granted
            }
            Reply::Vote(vote) => vote.clone(),
            _ => Vote::Failed(Fault::Nonsense("not an answer to who it is".into())),
        };
        ballot.cast(node, vote, Duration::ZERO);
    }
    Ok(ballot)
}

/// Asks every node what it keeps for the restart guard, and waits longer if too
/// few tell at once.
async fn ledgers(handle: &Handle) -> Result<Box<[Reply]>, ConnectError> {
    let ask = async |patience| {
        let told = handle.survey(Command::Ledger, patience).await;
        told.map_err(|_| ConnectError::Stopped)
    };
    let told = ask(QUICK_ANSWER).await?;
    let tell = told.iter().filter(|reply| matches!(reply, Reply::Ledger(_))).count();
    if 2 * tell > told.len() { Ok(told) } else { ask(FIRST_ANSWER).await }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Memory;
    use tokio::time::Instant;

    /// Nodes of which some are mute, and how long connecting to them takes.
    async fn connecting(nodes: usize, mute: usize) -> (Result<(), ConnectError>, Duration) {
        let nodes: Vec<_> = (0..nodes).map(|n| Memory::new(format!("memory:{n}"))).collect();
        nodes[..mute].iter().for_each(Memory::pause);
        let nodes = nodes.into_iter().map(|node| Arc::new(node) as Arc<dyn Node>).collect();
        let handle = spawn_here(Place::new(nodes, Clock::Tokio)).unwrap();
        let begin = Instant::now();
        (check_servers(&handle).await, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_minority_that_hangs_holds_up_connecting_for_a_moment_only() {
        let (result, took) = connecting(5, 2).await;

        assert!(result.is_ok(), "{result:?}");
        assert!(took < 2 * QUICK_ANSWER, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_majority_that_hangs_has_longer_to_answer_before_it_is_an_error() {
        let (result, took) = connecting(5, 3).await;

        assert!(matches!(result, Err(ConnectError::NoQuorum(_))), "{result:?}");
        assert!(took >= FIRST_ANSWER, "{took:?}");
    }
}
