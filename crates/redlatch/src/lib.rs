//! A distributed lock on N independent Redis or Valkey servers, with honest
//! leases.
//!
//! **What it does not promise:** a lock with a timeout cannot stop a paused
//! process from writing late. Redlatch signals loss *before* the lease ends and
//! never calls a lock held that it cannot prove held; where a late write must
//! be impossible, the resource itself has to refuse it.
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
//! | you want | use |
//! |---|---|
//! | to wait for a lock, then hold it | [`Locks::lock`] |
//! | it only if it is free | [`Locks::try_lock`] |
//! | several at once, all or none | [`Locks::lock_all`] |
//! | work that stops by itself when the lock is lost | [`LockRequest::run`] |
//! | to know who holds it | [`Locks::status`] |
//! | to list locks, look at servers, force a release | [`observer`] |
//! | to hand it to another process | [`Guard::into_parts`], [`Locks::resume`] |
//! | all that without async | [`blocking`] |
//! | a late write to be refused | [`fence`] |
//! | to test your own code | [`testing`] |
//! | a server of another kind | [`node`] |
//!
//! # How it works
//!
//! A random token is set under the resource's name, if nothing is there, to
//! live for the TTL, on all nodes at once. A majority of *all* nodes makes a
//! lock; its lease counts from before the first byte was sent, less an allowance
//! for clock drift, and a grant that comes too late to be used is refused. What
//! was set by an attempt that failed, or whose caller is gone, is removed from
//! every node. The lease is extended every third of its TTL until it is
//! released, lost or has reached `max_hold`.
//!
//! # Loss
//!
//! [`Lease::is_held`] is right at the moment it is asked, by two clocks, in a
//! process that was paused, too. [`Lease::lost`] wakes you before the lease
//! ends: a thread of its own, the keeper, sees to that whatever your runtime is
//! doing. When the runtime is blocked, the keeper also extends the lease.
//!
//! # Errors
//!
//! [`LockError::Held`] means wait, [`LockError::NoQuorum`] means tell an
//! operator; both carry every node's vote ([`Votes`]). [`LockError::Busy`] means
//! that this process asks for too many locks at once.
//!
//! # Features
//!
//! `file` (default): the embedded node. `tls` (default): `rediss://`.
//! `fence-object-store`, `fence-postgres`, `fence-redis`, `fence-sqlite`: the
//! adapters of [`fence`] that need a crate. `serde`: [`FencingToken`] as a number
//! in any format.

mod admission;
pub mod blocking;
mod both;
mod clock;
mod engine;
mod error;
pub mod fence;
mod guard;
mod handover;
mod keeper;
mod locks;
pub mod node;
pub mod observer;
mod request;
mod status;
pub mod testing;
mod votes;

pub use admission::{NodeStanding, RestartGuard, Standing};
pub use error::{
    ConnectError, ExtendError, InvalidRequest, LockError, ReleaseError, ReplaceError, RunError,
    StatusError,
};
pub use guard::{Guard, Lease, LeaseParts, Lost, Released};
pub use locks::{Builder, Locks};
pub use redlatch_core::{
    Agreement, Cause, Fault, FencingToken, FencingTokenError, Holder, OwnerError, Quarantine,
    Resource, ResourceError, Tally, TermsError, Vote,
};
pub use request::{LockRequest, Try, Wait};
pub use status::{LockState, NodeKey, NodeStatus, Status};
pub use votes::{NodeVote, Votes};

/// The code in the README is code that runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
