//! Real servers with locks on them, and words for what a test does to both.
//!
//! Times are generous on purpose: the machine may be busy with other tests. Tests
//! check the order of events, or what the lease's own clock says, and hardly ever
//! how long something took.
#![allow(dead_code, reason = "no test needs all of it")]

pub(crate) mod child;
pub(crate) mod log;
pub(crate) mod turncoat;
pub(crate) mod wire;

use redlatch::{Builder, Guard, LockError, Locks, NodeKey, RestartGuard, Standing, Votes};
use redlatch_testbed::{Flavour, Server, ServerOptions, Servers};
use std::{future::Future, sync::Arc, time::Duration};

pub(crate) const SEC: Duration = Duration::from_secs(1);
pub(crate) const MS: Duration = Duration::from_millis(1);
/// Far longer than anything takes that a test waits for.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// The name most tests lock.
pub(crate) const NAME: &str = "invoice:42";
/// What another library would write.
pub(crate) const FOREIGN: &str = "value-of-another-library";

/// Servers that serve as nodes.
pub(crate) struct Fleet {
    pub(crate) servers: Servers,
}

impl Fleet {
    pub(crate) fn of(nodes: usize) -> Self {
        Fleet { servers: Servers::start(nodes).expect("servers") }
    }

    pub(crate) fn with(nodes: usize, options: &ServerOptions) -> Self {
        Fleet { servers: Servers::start_with(nodes, options).expect("servers") }
    }

    /// One of each flavour: Redis 7, Redis 6.2 and Valkey.
    pub(crate) fn mixed() -> Self {
        let options = Flavour::ALL.map(|flavour| Server::options().flavour(flavour));
        Fleet { servers: Servers::start_each(options).expect("servers") }
    }

    /// Nodes and a client of theirs.
    pub(crate) async fn with_locks(nodes: usize) -> (Self, Locks) {
        let fleet = Fleet::of(nodes);
        let locks = fleet.locks().await;
        (fleet, locks)
    }

    pub(crate) async fn with_two_clients(nodes: usize) -> (Self, Locks, Locks) {
        let (fleet, locks) = Fleet::with_locks(nodes).await;
        let other = fleet.locks().await;
        (fleet, locks, other)
    }

    pub(crate) fn with_blocking(nodes: usize) -> (Self, redlatch::blocking::Locks) {
        let fleet = Fleet::of(nodes);
        let locks = fleet.blocking();
        (fleet, locks)
    }

    /// Locks that are patient with a busy machine.
    pub(crate) async fn locks(&self) -> Locks {
        self.builder().connect().await.expect("locks")
    }

    pub(crate) fn blocking(&self) -> redlatch::blocking::Locks {
        self.builder().connect_blocking().expect("locks")
    }

    pub(crate) fn builder(&self) -> Builder {
        patient().nodes(self.servers.urls())
    }

    /// Puts another library's lock on one node.
    pub(crate) fn plant(&self, node: usize, name: &str) {
        let planted = self.servers[node].run(&["SET", name, FOREIGN, "NX", "PX", "60000"]);
        assert!(planted.is_ok(), "{name} on node {node}: {planted:?}");
    }

    /// Removes a key by hand; whether it was there.
    pub(crate) fn remove(&self, node: usize, name: &str) -> bool {
        self.servers[node].run(&["DEL", name]).int() == Some(1)
    }

    pub(crate) fn remove_everywhere(&self, name: &str) {
        for node in 0..self.servers.len() {
            self.remove(node, name);
        }
    }

    /// A lock without renewal whose key is on every node.
    pub(crate) async fn lock_on_all(&self, locks: &Locks) -> Guard {
        let guard = locks.lock(NAME).no_renewal().await.expect("a lock");
        soon("every node has the key", || self.nodes_with(NAME) == self.servers.len()).await;
        guard
    }

    /// On how many nodes the name has a key.
    pub(crate) fn nodes_with(&self, name: &str) -> usize {
        let has = |server: &&Server| server.keys().iter().any(|key| key == name);
        self.servers.iter().filter(has).count()
    }

    /// What stands under the name on one node.
    pub(crate) fn value(&self, node: usize, name: &str) -> Option<String> {
        self.servers[node].run(&["GET", name]).text()
    }

    /// How long the key lives on, by that node.
    pub(crate) fn time_to_live(&self, node: usize, name: &str) -> Duration {
        let pttl = self.servers[node].run(&["PTTL", name]).int().unwrap_or(0);
        Duration::from_millis(u64::try_from(pttl).unwrap_or(0))
    }

    /// How often one node was sent a command, such as `set`.
    pub(crate) fn calls(&self, node: usize, command: &str) -> u64 {
        let stats = self.servers[node].run(&["INFO", "commandstats"]).text().unwrap_or_default();
        let line = format!("cmdstat_{command}:calls=");
        let found = stats.lines().find_map(|stat| stat.strip_prefix(&line));
        found.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
    }

    /// How many connections one node has, besides the one that asks.
    pub(crate) fn connections(&self, node: usize) -> usize {
        let list = self.servers[node].run(&["CLIENT", "LIST"]).text().unwrap_or_default();
        list.lines().filter(|line| !line.contains("cmd=client")).count()
    }

    /// Every key on every node; nothing when all is tidy.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.servers.keys_everywhere().concat()
    }

    /// Waits until the client has nothing left to do; no node has a key then.
    #[track_caller]
    pub(crate) fn is_tidy_after(&self, locks: &Locks) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            in_time(locks.settled()).await;
            assert_eq!(self.keys(), [""; 0], "{caller}: keys are left");
        }
    }

    /// Waits until no node has a key.
    #[track_caller]
    pub(crate) fn is_tidy_soon(&self) -> impl Future<Output = ()> {
        soon("no key is left on any node", || self.keys().is_empty())
    }
}

/// Settings under which a slow machine is not taken for a slow node. The TTL is
/// longer than a test waits for anything: no key goes away by itself meanwhile.
///
/// Without the restart guard, which has tests of its own: servers that have just
/// been started would not vote for a minute.
pub(crate) fn patient() -> Builder {
    let builder = Locks::builder().restart_guard(RestartGuard::Off);
    builder.ttl(30 * SEC).node_timeout(3 * SEC).wait(Duration::ZERO)
}

/// Vouches for all nodes, as an operator does: they may vote then.
pub(crate) async fn vouch(builder: &Builder) {
    let observer = builder.observer().expect("an observer");
    let names: Vec<Arc<str>> = observer.nodes().map(Arc::from).collect();
    let standings = observer.admit(&names).await.expect("an answer");
    assert!(standings.iter().all(|node| node.standing == Standing::Admitted), "{standings:?}");
}

/// Waits until a condition holds, without blocking the runtime.
#[track_caller]
pub(crate) fn soon(what: &str, condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    soon_at(caller, what, condition)
}

async fn soon_at(
    caller: &std::panic::Location<'_>,
    what: &str,
    mut condition: impl FnMut() -> bool,
) {
    let deadline = std::time::Instant::now() + LIMIT;
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "{caller}: not so after {LIMIT:?}: {what}");
        tokio::time::sleep(5 * MS).await;
    }
}

/// Waits for something that must come.
#[track_caller]
pub(crate) fn in_time<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        let done = tokio::time::timeout(LIMIT, future).await;
        done.unwrap_or_else(|_| panic!("{caller}: nothing within {LIMIT:?}"))
    }
}

/// Waits for something that must come, on a thread of its own.
#[track_caller]
pub(crate) fn by_deadline<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    waiting.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("nothing within {LIMIT:?}"))
}

/// The votes of a lock that another owner has.
#[track_caller]
pub(crate) fn held(result: Result<Guard, LockError>) -> Votes {
    match result {
        Err(LockError::Held { votes }) => votes,
        other => panic!("expected it to be held, got {other:?}"),
    }
}

/// The votes of a lock that no majority voted on.
#[track_caller]
pub(crate) fn no_majority(result: Result<Guard, LockError>) -> Votes {
    match result {
        Err(LockError::NoMajority { votes } | LockError::Quarantined { votes, .. }) => votes,
        other => panic!("expected no majority, got {other:?}"),
    }
}

/// Takes and releases until every node has the key.
pub(crate) async fn until_all_vote(locks: &Locks) {
    let deadline = std::time::Instant::now() + LIMIT;
    loop {
        let taken = locks.lock(NAME).wait(SEC).await;
        // Asked behind the take, on the same connections.
        let status = locks.status(NAME).await.expect("a status");
        if taken.is_ok() && status.nodes.iter().all(|node| is_held(&node.key)) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "still: {taken:?} {status:?}");
        drop(taken);
        tokio::time::sleep(20 * MS).await;
    }
}

/// Whether a node said that there is a lock.
pub(crate) fn is_held(key: &NodeKey) -> bool {
    matches!(key, NodeKey::Held { .. })
}
