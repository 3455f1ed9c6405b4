//! A distributed lock on N independent Redis or Valkey servers, with honest
//! leases.
//!
//! **What it does not promise:** a lock with a timeout cannot stop a paused
//! process from writing late. Redlatch signals loss *before* the lease ends, and
//! never reports a lock as held unless it can prove it. Where a late write must be
//! impossible, the resource itself has to refuse it: see [`fence`].
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use redlatch::Locks;
//! use std::time::Duration;
//!
//! # let locks = Locks::memory(3);
//! # async fn connect() -> Result<(), redlatch::ConnectError> {
//! let locks = Locks::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]).await?;
//! # Ok(()) }
//!
//! let guard = locks.lock("invoice:42").ttl(Duration::from_secs(10)).await?;
//! assert!(guard.is_held());
//! guard.release().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which call
//!
//! | you want to | use |
//! |---|---|
//! | wait for a lock, then hold it | [`Locks::lock`] |
//! | take a lock only if it is free | [`Locks::try_lock`] |
//! | lock several resources, all or none | [`Locks::lock_all`] |
//! | run work that stops when the lock is lost | [`LockRequest::run`] |
//! | start before the servers do | [`Builder::connect_lazy`] |
//! | know whether locks can be granted now | [`Locks::health`] |
//! | know who holds a lock | [`Locks::status`] |
//! | list locks, examine servers, force a release | [`observer`] |
//! | hand a lock to another process | [`Guard::into_parts`], [`Locks::resume`] |
//! | do all of this without async | [`blocking`] |
//! | have late writes refused | [`fence`] |
//! | test your own code | [`testing`] |
//! | use another kind of server | [`node`] |
//! | see in your telemetry what locks do | [`telemetry`] |
//!
//! # How it works
//!
//! An attempt sets a random lock token under the resource's name on all nodes at
//! once, if nothing is there, with the TTL as its expiry. A majority of *all* nodes
//! makes a grant. The lease counts from before the first byte was sent, minus an
//! allowance for clock drift; a grant that comes too late to be of use is refused.
//! What a failed or cancelled attempt has set is removed from every node. The lease
//! is extended every third of its TTL until it is released, lost, or has lasted for
//! `max_hold`.
//!
//! # Defaults
//!
//! A service waits and retries; a scheduled job runs for a long time, or is skipped. So the
//! defaults of the command `redlatch` differ from those of the library:
//!
//! | | library | `redlatch run` |
//! |---|---|---|
//! | TTL | 10 s | 30 s |
//! | wait for a held lock | 10 s | 0 s |
//! | longest time held | 1 h | 24 h |
//! | `max_ttl`, `skew` | 30 s each | 30 s each |
//! | node timeout | TTL / 20, 5 to 500 ms | the same; TTL / 6, at most 5 s, if all nodes are files |
//!
//! `max_ttl` and `skew` must be the same for all clients of the same nodes; the others
//! may differ.
//!
//! # The restart guard
//!
//! A server that restarts empty has forgotten its locks, and would help grant them a
//! second time. With several nodes, a server that may have forgotten locks does not
//! vote until all of them have expired: for `max_ttl + skew`, one minute by default.
//! New servers are treated the same way, because nobody can tell them apart:
//! [`LockError::Quarantined`] says how much time is left, and
//! [`Builder::admit_new_servers`] skips the wait in development and CI. An operator can
//! vouch for servers with `redlatch admit` or [`observer::Observer::admit`]. All clients
//! must use the same nodes, `max_ttl` and `skew`. See [`RestartGuard`].
//!
//! # Loss
//!
//! [`Lease::is_held`] is right at the moment of the call, even in a process that was
//! paused: it reads two clocks. [`Lease::lost`] wakes you before the lease ends. A
//! separate thread, the keeper, makes sure of that, whatever your runtime is doing. If the
//! runtime is blocked, the keeper also extends the lease.
//!
//! # Several runtimes
//!
//! The engine of a [`Locks`] is a task on the runtime in which it was connected, and
//! ends with that runtime: every later call fails with [`LockError::Stopped`]. It
//! also stands still while nobody drives a `current_thread` runtime: calls from elsewhere
//! wait until somebody does. With a single runtime that lives as long as the process, such
//! as that of `#[tokio::main]`, a [`Locks`] may be a `static`.
//!
//! Where runtimes come and go (`#[tokio::test]`, `actix` workers, a library called
//! from many programs), give the engine its own thread
//! ([`Builder::dedicated_thread`]; [`blocking`] always does). Its locks can be
//! awaited on any runtime, or on none, and outlive each of them:
//!
//! ```
//! use redlatch::Locks;
//! use std::sync::LazyLock;
//!
//! static LOCKS: LazyLock<Locks> = LazyLock::new(|| {
//!     let builder = Locks::builder().node("memory:"); // or redis://…
//!     builder.dedicated_thread().connect_lazy().expect("the settings are valid")
//! });
//!
//! # fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
//! #     tokio::runtime::Builder::new_current_thread().enable_all().build()
//! # }
//! for _ in 0..2 {
//!     let guard = runtime()?.block_on(async { LOCKS.lock("report").await })?;
//!     assert!(guard.is_held(), "though its runtime is gone");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A `static` is never dropped: release locks before `main` ends, or they stay until
//! their TTL ends.
//!
//! # Logs, spans, metrics
//!
//! Redlatch logs through [`tracing`](https://docs.rs/tracing): one warning when a node goes
//! down, answers again, may not vote, or votes again; when the extensions of a lease begin
//! to fail, a lock is lost or a runtime is blocked; and when no majority may vote at the
//! start. There is no warning per attempt. For spans and metrics, see [`telemetry`].
//!
//! # Errors
//!
//! Each operation has its own error type, with only the failures it can have.
//! [`LockError::Held`] means wait; [`LockError::NoMajority`] means tell an operator;
//! [`LockError::Quarantined`] means that servers are new or restarted and will vote
//! soon. All three carry every node's vote ([`Votes`]). [`LockError::Busy`] means that
//! this process requests too many locks at once.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `tls` (default) | `rediss://`, with rustls |
//! | `file` | the embedded node, with bundled SQLite |
//! | `serde` | [`FencingToken`] as a number in any format |
//! | `tokio-util` | `Lease::cancellation_token` |
//! | `metrics` | counters, gauges and histograms, through the `metrics` facade: see [`telemetry`] |
//! | `conformance` | the test suite that every kind of [`node`] passes, to run on your own |
//!
//! Fenced writes to databases and object stores are in a separate crate,
//! [`redlatch-fence`](https://docs.rs/redlatch-fence).
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(unix))]
compile_error!("redlatch needs a Unix, and is tested on Linux; on Windows, run it in WSL");

mod client;
mod driver;
pub mod fence;
pub mod node;
pub mod observer;
pub mod telemetry;
pub mod testing;

pub use client::{
    AdmitError, Builder, ConnectError, Doubt, ExtendError, GrantId, GrantIdError, Guard, Health,
    HealthError, InvalidRequest, LazyError, Lease, LeaseParts, LockError, LockRequest, LockState,
    Locks, Lost, NodeKey, NodeStatus, NodeVote, NodesError, ReleaseError, ReleasePartsError,
    Released, ReplaceError, RestartGuard, ResumeError, RunError, Status, StatusError,
    TryLockRequest, Votes, WaiterStatus, blocking,
};
pub use observer::NodeStanding;
pub use redlatch_core::{
    Agreement, Cause, Fault, FencingToken, FencingTokenError, Holder, OwnerError, OwnerParts,
    Quarantine, Resource, ResourceError, Standing, Tally, TermsError, Vote,
};

/// Runs the README's code as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
