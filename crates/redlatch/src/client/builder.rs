//! Settings, and what they build: locks, or an observer.

use super::{
    ConnectError, InvalidRequest, LazyError, Locks, NodesError, RestartGuard,
    advice::Vouching,
    blocking,
    connect::{admit_at_start, check_servers, ledgers, refuse_another_list},
    request::Defaults,
    signature::Signature,
};
use crate::{
    driver::{
        both,
        clock::Clock,
        engine::{Shared, spawn_here, spawn_thread},
    },
    node::{self, Node},
    observer::Observer,
    testing::Leases,
};
use redlatch_core::{
    Admission, Agreement, Owner, OwnerParts, Terms,
    config::{DEFAULT_TTL, Wanted, WantedRenewal, check_poll_max},
    fence::DEFAULT_SKEW,
    line::{DEFAULT_LOCAL_BATCH, DEFAULT_POLL_MAX},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// The alternative if the engine cannot run on the caller's runtime.
const OR_THREAD: &str = ", or give the engine its own thread with `dedicated_thread`";

/// Settings for all locks on a set of nodes.
///
/// Start with [`Locks::builder`], and end with the call that fits:
///
/// | call | gives |
/// |---|---|
/// | [`connect`](Self::connect) | [`Locks`]; fails unless a majority of the nodes answers |
/// | [`connect_lazy`](Self::connect_lazy) | [`Locks`] that connect on demand |
/// | [`connect_blocking`](Self::connect_blocking) | [`blocking::Locks`] |
/// | [`connect_lazy_blocking`](Self::connect_lazy_blocking) | those, connecting on demand |
/// | [`observer`](Self::observer) | an [`Observer`], which takes no locks |
///
/// Settings are checked by that call, not before. Those of locks (`ttl`, `wait`,
/// `max_hold`, `node_timeout`, `owner`, `fair`) are defaults that each request can
/// change; the others hold for all locks.
///
/// All clients of the same nodes must agree on the list of nodes,
/// [`max_ttl`](Self::max_ttl) and [`skew`](Self::skew), and should use the same
/// [`restart_guard`](Self::restart_guard).
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
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Builder {
    nodes: Vec<Result<Arc<dyn Node>, node::UrlError>>,
    wanted: Wanted,
    wait: Duration,
    owner: Option<Result<String, InvalidRequest>>,
    owner_details: OwnerParts,
    fencing: bool,
    fair: bool,
    poll_max: Duration,
    local_batch: u32,
    pub(crate) restart_guard: Option<RestartGuard>,
    pub(crate) skew: Duration,
    admit_new_servers: bool,
    dedicated_thread: bool,
    clock: Clock,
    /// In tests: the list of all leases.
    leases: Option<Arc<Leases>>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            nodes: Vec::new(),
            wanted: Wanted::default(),
            wait: DEFAULT_TTL,
            owner: None,
            owner_details: OwnerParts::default(),
            fencing: true,
            fair: true,
            poll_max: DEFAULT_POLL_MAX,
            local_batch: DEFAULT_LOCAL_BATCH,
            restart_guard: None,
            skew: DEFAULT_SKEW,
            admit_new_servers: false,
            dedicated_thread: false,
            clock: Clock::System,
            leases: None,
        }
    }
}

impl Builder {
    /// For tests: virtual time, and leases that a test can lose.
    pub(crate) fn in_tests(leases: Arc<Leases>) -> Self {
        // In-memory nodes are new in every test.
        let admit_new_servers = true;
        let leases = Some(leases);
        Builder { clock: Clock::Tokio, leases, admit_new_servers, ..Builder::default() }
    }

    /// Adds a node by its address (see [`node::parse`](crate::node::parse)).
    ///
    /// All clients must use the same name for a node. The name is the address, unless you
    /// give it one: if clients reach a server by different addresses, write
    /// `redis://localhost:7001?name=a`. An address that cannot be parsed is reported when
    /// you connect.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use redlatch::{ConnectError, Locks, NodesError};
    ///
    /// let refused = Locks::builder().node("localhost:6379").connect().await;
    ///
    /// let Err(ConnectError::Nodes(NodesError::Url(error))) = refused else { panic!() };
    /// assert!(error.to_string().contains("it has no scheme"));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn node(mut self, url: impl AsRef<str>) -> Self {
        self.nodes.push(node::parse(url.as_ref()));
        self
    }

    /// Adds nodes by their addresses, as [`node`](Self::node) does.
    #[must_use]
    pub fn nodes<U: AsRef<str>>(self, urls: impl IntoIterator<Item = U>) -> Self {
        urls.into_iter().fold(self, Builder::node)
    }

    /// Adds a node of a custom kind (see [`node`](crate::node)).
    #[must_use]
    pub fn custom_node(mut self, node: Arc<dyn Node>) -> Self {
        self.nodes.push(Ok(node));
        self
    }

    /// Sets the default TTL of locks. Default 10 s.
    ///
    /// See [`LockRequest::ttl`](crate::LockRequest::ttl).
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.wanted.ttl = ttl;
        self
    }

    /// Sets the longest TTL that a lock may ask for. Default 30 s.
    ///
    /// Renewal makes longer TTLs unnecessary in most cases: a lock can be held for much
    /// longer than its TTL.
    ///
    /// With the restart guard, all clients of the same nodes must use the same
    /// value, and a longer one costs more: a restarted node does not vote for
    /// `max_ttl + skew`. `redlatch admit --replace --all` changes it for a set of nodes.
    #[must_use]
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.wanted.max_ttl = max_ttl;
        self
    }

    /// Sets how long requests wait for a lock by default. Default 10 s.
    ///
    /// See [`LockRequest::wait`](crate::LockRequest::wait).
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets how long a lock may be held by default. Default 1 h.
    ///
    /// See [`LockRequest::max_hold`](crate::LockRequest::max_hold).
    #[must_use]
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        let every = self.wanted.renewal.take().and_then(|renewal| renewal.every);
        self.wanted.renewal = Some(WantedRenewal { every, max_hold });
        self
    }

    /// Sets how long one node may take to vote. Default `ttl / 20`, between 5 and
    /// 500 ms. See [`LockRequest::node_timeout`](crate::LockRequest::node_timeout).
    ///
    /// Only votes depend on it. A connection may take 2 s; the first answer, and those
    /// to [`status`](crate::Locks::status) and [`health`](crate::Locks::health), 1 s;
    /// each answer to an [`Observer`] 2 s.
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.wanted.node_timeout = Some(timeout);
        self
    }

    /// Sets the label that operators see on the nodes. Default `host/pid`.
    ///
    /// See [`LockRequest::owner`](crate::LockRequest::owner).
    #[must_use]
    pub fn owner(mut self, label: impl AsRef<str>) -> Self {
        let label = label.as_ref();
        self.owner = Some(Owner::new(label).map(|_| label.into()).map_err(Into::into));
        self
    }

    /// Sets what else operators see about this process on the nodes, in
    /// [`Status::owner`](crate::Status::owner): its user and its command, and its host and
    /// process id if you want to show others than its own. The label and `since` are
    /// ignored.
    ///
    /// By default, only the host and the process id are shown. The details are part of the
    /// lock's value, so anyone who may read the locks can read them. Long texts are cut.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use redlatch::{Locks, OwnerParts};
    ///
    /// let mut details = OwnerParts::default();
    /// details.user = Some("ada".into());
    /// details.command = Some("backup".into());
    /// let locks = Locks::builder().node("memory:").owner_details(details).connect().await?;
    ///
    /// let guard = locks.lock("deploy").await?;
    /// let owner = locks.status("deploy").await?.owner.expect("it is ours");
    /// assert_eq!(owner.command.as_deref(), Some("backup"));
    /// assert_eq!(owner.pid, Some(std::process::id()));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn owner_details(mut self, details: OwnerParts) -> Self {
        self.owner_details = details;
        self
    }

    /// Sets whether grants carry a fencing token. Default `true`.
    ///
    /// Without one, taking a lock is plain Redlock: a single `SET NX PX`, which
    /// costs the servers less, but [`Lease::fencing_token`](crate::Lease::fencing_token)
    /// is `None`, so nothing can refuse the writes of a holder that was paused past its
    /// lease. Clients with and without fencing exclude each other as usual.
    #[must_use]
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.fencing = fencing;
        self
    }

    /// Sets whether requests wait in line by default. Default `true`.
    ///
    /// See [`LockRequest::fair`](crate::LockRequest::fair).
    #[must_use]
    pub fn fair(mut self, fair: bool) -> Self {
        self.fair = fair;
        self
    }

    /// Sets the longest pause between two checks of a lock that another library holds, for
    /// the first in line. It checks more often at first, and while the lock changes hands.
    /// Default 250 ms, at most 1 s, at least 1 ms.
    ///
    /// A lock that Redlatch holds need not be checked: its release wakes the next in line.
    #[must_use]
    pub fn poll_max(mut self, poll_max: Duration) -> Self {
        self.poll_max = poll_max;
        self
    }

    /// Sets how many times in a row a process passes a lock on among its own callers
    /// while callers of other processes wait. Default 4.
    ///
    /// Passing a lock on within a process is faster than between processes, so a higher
    /// value gives more throughput and less fairness. With zero, processes take turns.
    ///
    /// A process has one place in line, whatever the number of its callers. When it has had
    /// its turns, its next caller joins the line again, with an arrival at most a second
    /// back. So callers of other processes that came later than that caller, but have
    /// waited for longer than a second, are served first.
    #[must_use]
    pub fn local_batch(mut self, turns: u32) -> Self {
        self.local_batch = turns;
        self
    }

    /// Sets whether nodes that may have forgotten locks are kept from voting.
    /// Default: [`On`](RestartGuard::On) for several nodes,
    /// [`Off`](RestartGuard::Off) for one.
    ///
    /// All clients of the same nodes should use the guard: a client without it
    /// counts the votes of nodes that may have forgotten another client's lock.
    ///
    /// New servers do not vote at first either. In development and CI, use
    /// [`admit_new_servers`](Self::admit_new_servers); tests that restart servers
    /// on purpose may turn the guard off.
    ///
    /// See [`RestartGuard`] for what it protects from and what the settings mean.
    #[must_use]
    pub fn restart_guard(mut self, guard: RestartGuard) -> Self {
        self.restart_guard = Some(guard);
        self
    }

    /// Vouches that new servers hold no locks, so that they vote at once instead of
    /// after `max_ttl + skew`. For development and CI, where servers are started for a
    /// run and thrown away.
    ///
    /// Servers count as new if all of them answer when [`connect`](Self::connect)
    /// examines them, their databases are empty, and none has ever been admitted, has
    /// granted a fenced lock, or has lost keys since it started. If any of them shows that
    /// it was used, this setting has no effect: a restarted server waits as usual.
    ///
    /// Do not use it in production: a server that has lost everything shows nothing. If
    /// *all* servers are empty when `connect` examines them, even if they were restarted
    /// one after the other, they look new, and locks that are still in use would be
    /// granted again.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = redlatch::Locks::builder()
    ///     .nodes(["redis://localhost:6371", "redis://localhost:6372", "redis://localhost:6373"])
    ///     .admit_new_servers()
    ///     .connect()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn admit_new_servers(mut self) -> Self {
        self.admit_new_servers = true;
        self
    }

    /// Sets how far the clocks of clients and nodes may be apart before fencing
    /// tokens cost a second round trip. Default 30 s.
    ///
    /// Clocks that are further apart cost time, not safety. With the restart guard, all
    /// clients must use the same value, and a restarted node does not vote for
    /// `max_ttl + skew`.
    #[must_use]
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// Runs the engine on its own thread instead of the caller's runtime.
    ///
    /// Each call then costs two thread hops, but does not depend on how busy the
    /// runtime is, and the [`Locks`] can be used from several runtimes (see [several
    /// runtimes](crate#several-runtimes)). Dropping the last clone of the [`Locks`] blocks
    /// until every undo is done, for at most half a second.
    ///
    /// # Example
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = redlatch::Locks::builder().node("memory:"); // or redis://…
    /// let locks = builder.dedicated_thread().connect_lazy()?; // outside any runtime
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    ///
    /// let guard = locks.lock("report").await?;
    /// assert!(guard.is_held());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })
    /// # }
    /// ```
    #[must_use]
    pub fn dedicated_thread(mut self) -> Self {
        self.dedicated_thread = true;
        self
    }

    /// Connects to the nodes, and checks that each answers, that no server is listed twice,
    /// and whether each node may vote.
    ///
    /// A minority of nodes that hang delays it only for a moment; if no majority answers, it
    /// fails after about a second. A service that may start before its servers uses
    /// [`connect_lazy`](Builder::connect_lazy).
    ///
    /// # Errors
    ///
    /// Fails if the settings are wrong, if fewer than a majority of the nodes
    /// answer, or if the servers cannot form a set of nodes. See [`ConnectError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: dropping the future closes the connections it opened. Nodes
    /// that it admitted stay admitted.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use redlatch::{ConnectError, Locks};
    /// use std::time::Duration;
    ///
    /// let builder = Locks::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]);
    /// let locks = loop {
    ///     match builder.clone().connect().await {
    ///         Ok(locks) => break locks,
    ///         // It says which nodes are down, and which need somebody to see to them.
    ///         Err(error @ ConnectError::NoMajority(_)) => eprintln!("retrying: {error}"),
    ///         Err(error) => return Err(error.into()), // waiting would not help
    ///     }
    ///     tokio::time::sleep(Duration::from_secs(1)).await;
    /// };
    /// # drop(locks);
    /// # Ok(()) }
    /// ```
    pub async fn connect(self) -> Result<Locks, ConnectError> {
        let admit_new_servers = self.admit_new_servers;
        let vouching = if self.leases.is_some() {
            Vouching::Impossible // the test kit vouches by itself
        } else if admit_new_servers {
            Vouching::Wanted
        } else {
            Vouching::Possible
        };
        let locks = self.start(vouching)?;
        let handle = &locks.handle;
        if handle.shared.admission.is_some() {
            check_servers(handle).await?;
            admit_at_start(handle, admit_new_servers).await?;
        } else {
            let (servers, told) = both(check_servers(handle), ledgers(handle)).await;
            servers?;
            refuse_another_list(handle, &told?)?;
        }
        Ok(locks)
    }

    /// Returns locks without contacting any node, for a service that may start
    /// before its servers. The first call that needs the nodes connects to them.
    ///
    /// What [`connect`](Builder::connect) would refuse shows up in the votes instead,
    /// before any of them counts: a server listed twice votes once, and a server whose
    /// clients use another list of nodes does not vote. The votes in the error of a
    /// lock, and [`Locks::health`], say so. New servers wait like restarted ones:
    /// [`admit_new_servers`](Builder::admit_new_servers) needs `connect`, which
    /// examines all of them, and is refused here.
    ///
    /// # Errors
    ///
    /// Fails if the settings are wrong, or if the engine cannot start: outside a
    /// tokio runtime, use [`dedicated_thread`](Self::dedicated_thread). See
    /// [`LazyError`].
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use redlatch::{LockError, Locks};
    /// use std::time::Duration;
    ///
    /// // Nothing listens there yet, and that is not an error …
    /// let locks = Locks::builder().node("redis://127.0.0.1:1").connect_lazy()?;
    ///
    /// // … until someone requests a lock.
    /// let refused = locks.lock("report").wait(Duration::ZERO).await;
    /// assert!(matches!(refused, Err(LockError::NoMajority { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect_lazy(self) -> Result<Locks, LazyError> {
        if self.admit_new_servers && self.leases.is_none() {
            return Err(InvalidRequest::VouchesUnseen.into());
        }
        self.start(Vouching::Impossible)
    }

    /// Checks the settings and starts the engine.
    fn start(self, vouching: Vouching) -> Result<Locks, LazyError> {
        let nodes = self.checked_nodes()?;
        let defaults = self.defaults();
        if let Some(Err(error)) = self.owner {
            return Err(error.into());
        }
        Terms::check(&defaults.wanted).map_err(InvalidRequest::from)?;
        check_poll_max(self.poll_max).map_err(InvalidRequest::from)?;
        let (admission, agreement) = (self.admission(&nodes), self.agreement(&nodes));
        // A dedicated thread has no virtual time.
        let clock = if self.dedicated_thread { Clock::System } else { self.clock };
        let shared = Shared::new(nodes, clock).admitting(admission).counting(agreement.into());
        let shared = shared.with_vouching(vouching).listing(self.leases);
        let shared = shared.signing(defaults.owner.as_str());
        let handle = if self.dedicated_thread { spawn_thread(shared) } else { spawn_here(shared) };
        let or_thread = if self.dedicated_thread { "" } else { OR_THREAD };
        let handle =
            handle.map_err(|error| LazyError::NoRuntime(format!("{error}{or_thread}").into()))?;
        Ok(Locks { handle, defaults: Arc::new(defaults) })
    }

    /// Connects like [`connect`](Builder::connect), for code without async. The
    /// engine runs on its own thread.
    ///
    /// # Errors
    ///
    /// As [`connect`](Builder::connect).
    ///
    /// # Example
    ///
    /// ```
    /// let locks = redlatch::Locks::builder().node("memory:").connect_blocking()?;
    /// let guard = locks.lock("report").acquire()?;
    /// assert!(guard.is_held());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect_blocking(self) -> Result<blocking::Locks, ConnectError> {
        blocking::connect(self.dedicated_thread())
    }

    /// Returns locks like [`connect_lazy`](Builder::connect_lazy), for code without
    /// async. The engine runs on its own thread.
    ///
    /// # Errors
    ///
    /// As [`connect_lazy`](Builder::connect_lazy).
    pub fn connect_lazy_blocking(self) -> Result<blocking::Locks, LazyError> {
        self.dedicated_thread().connect_lazy().map(blocking::Locks)
    }

    pub(crate) fn checked_nodes(&self) -> Result<Arc<[Arc<dyn Node>]>, NodesError> {
        let of = self.nodes.len();
        let nodes = self.nodes.iter().cloned().enumerate();
        let nodes = nodes.map(|(at, node)| node.map_err(|error| error.at(at, of)));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        if nodes.is_empty() {
            return Err(NodesError::None);
        }
        for (at, node) in nodes.iter().enumerate() {
            let (name, address) = (node.name(), node.address());
            let private = name == "memory:"; // every one of these is a different node
            let earlier = || nodes[..at].iter().filter(|_| !private);
            if earlier().any(|earlier| earlier.address() == address) {
                return Err(NodesError::Twice(address.into()));
            }
            if let Some(first) = earlier().find(|earlier| earlier.name() == name) {
                let [first, second] = [first.address(), address].map(Arc::from);
                return Err(NodesError::SameName { name: name.into(), first, second });
            }
        }
        Ok(nodes.into())
    }

    pub(super) fn defaults(&self) -> Defaults {
        let signature = Signature::new(self.owner_details.clone());
        let label = self.owner.as_ref().and_then(|label| label.as_deref().ok());
        let owner = label.and_then(|label| signature.owner(label).ok());
        let owner = owner.unwrap_or_else(|| signature.default_owner());
        let fencing = self.fencing.then_some(self.skew);
        let terms = Terms::check(&self.wanted).ok();
        Defaults {
            wanted: self.wanted.clone(),
            terms,
            changed_terms: Mutex::default(),
            wait: self.wait,
            owner,
            signature,
            fencing,
            fair: self.fair,
            poll_max: self.poll_max,
            local_batch: self.local_batch,
        }
    }

    pub(crate) fn longest_ttl(&self) -> Duration {
        self.wanted.max_ttl
    }

    /// The restart guard with these settings.
    pub(crate) fn admission(&self, nodes: &[Arc<dyn Node>]) -> Option<Admission> {
        let default = if nodes.len() > 1 { RestartGuard::On } else { RestartGuard::Off };
        let strict = match self.restart_guard.unwrap_or(default) {
            RestartGuard::Off => return None,
            RestartGuard::On => false,
            RestartGuard::Strict => true,
        };
        Some(Admission::new(names(nodes), self.longest_ttl(), self.skew, strict))
    }

    /// What all clients of these nodes must agree on.
    pub(crate) fn agreement(&self, nodes: &[Arc<dyn Node>]) -> Agreement {
        Agreement::new(names(nodes), self.longest_ttl(), self.skew)
    }

    /// Returns an [`Observer`] of these nodes, which takes no locks: it reads who holds
    /// what, examines nodes, admits them and releases locks by force. It opens its own
    /// connections, when it needs them.
    ///
    /// # Errors
    ///
    /// Fails if the list of nodes is wrong. See [`NodesError`].
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let observer = redlatch::Locks::builder().node("memory:").observer()?;
    /// for lock in observer.list("*").await.locks {
    ///     println!("{}: {}", lock.name, lock.state);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn observer(&self) -> Result<Observer, NodesError> {
        let nodes = self.checked_nodes()?;
        let (admission, agreement) = (self.admission(&nodes), self.agreement(&nodes));
        Ok(Observer { nodes, admission, agreement })
    }
}

fn names(nodes: &[Arc<dyn Node>]) -> impl Iterator<Item = Arc<str>> {
    nodes.iter().map(|node| Arc::from(node.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time as the documentation writes it.
    fn said(time: Duration) -> String {
        match time.as_millis() {
            millis if millis % 3_600_000 == 0 => format!("{} h", millis / 3_600_000),
            millis if millis % 1000 == 0 => format!("{} s", millis / 1000),
            millis => format!("{millis} ms"),
        }
    }

    /// The documentation of a method, on one line.
    fn doc(source: &str, method: &str) -> String {
        let (before, _) = source.split_once(&format!("pub fn {method}(")).unwrap();
        let above = before.lines().rev().map(str::trim);
        let above = above.skip_while(|line| !line.starts_with("///"));
        let mut lines: Vec<_> = above.map_while(|line| line.strip_prefix("///")).collect();
        lines.reverse();
        lines.join("")
    }

    #[test]
    fn the_table_of_defaults_in_the_documentation_is_that_of_the_code() {
        let Builder { wanted, wait, skew, .. } = Builder::default();
        let max_hold = wanted.renewal.as_ref().unwrap().max_hold;
        let node_timeout =
            |ttl: Duration| Terms::check(&Wanted { ttl, ..wanted.clone() }).unwrap().node_timeout;
        let second = Duration::from_secs(1);
        let part = second.as_nanos() / node_timeout(second).as_nanos();
        let [least, most] = [second / 20, wanted.max_ttl].map(|ttl| node_timeout(ttl).as_millis());

        for (what, default) in [
            ("TTL", said(wanted.ttl)),
            ("wait for a held lock", said(wait)),
            ("longest time held", said(max_hold)),
            ("`max_ttl`, `skew`", format!("{} each", said(wanted.max_ttl))),
            ("node timeout", format!("TTL / {part}, {least} to {most} ms")),
        ] {
            let row = format!("\n//! | {what} | {default} | ");
            assert!(include_str!("../lib.rs").contains(&row), "no row {row:?}");
        }
        assert_eq!(wanted.max_ttl, skew);
    }

    #[test]
    fn every_setter_names_the_default_that_the_code_has() {
        let of = Builder::default();
        let max_hold = of.wanted.renewal.as_ref().unwrap().max_hold;
        let [builder, request] = [include_str!("builder.rs"), include_str!("settings.rs")];

        for (source, setter, default) in [
            (builder, "ttl", said(of.wanted.ttl)),
            (builder, "max_ttl", said(of.wanted.max_ttl)),
            (builder, "wait", said(of.wait)),
            (builder, "max_hold", said(max_hold)),
            (builder, "skew", said(of.skew)),
            (builder, "fencing", format!("`{}`", of.fencing)),
            (builder, "fair", format!("`{}`", of.fair)),
            (builder, "poll_max", said(of.poll_max)),
            (builder, "local_batch", of.local_batch.to_string()),
            (request, "ttl", said(of.wanted.ttl)),
            (request, "wait", said(of.wait)),
            (request, "max_hold", said(max_hold)),
            (request, "fair", format!("`{}`", of.fair)),
        ] {
            let (doc, default) = (doc(source, setter), format!("Default {default}"));
            let rest = doc.split_once(&default).unwrap_or_else(|| panic!("{setter}: {doc}")).1;
            assert!(rest.starts_with(['.', ',']), "{setter}: {doc}");
        }
    }
}
