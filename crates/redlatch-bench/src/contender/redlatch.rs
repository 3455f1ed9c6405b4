//! Redlatch itself. Takes part as soon as the library can lock.
//!
//! What is to stand here, once `redlatch` is a dependency:
//!
//! ```ignore
//! #[derive(Clone)]
//! pub(crate) struct Redlatch(Locks);
//!
//! impl AsyncLock for Redlatch {
//!     type Held = Guard;
//!
//!     async fn acquire(&self, resource: &str) -> anyhow::Result<Guard> {
//!         Ok(self.0.lock(resource).ttl(TTL).await?)
//!     }
//!
//!     async fn release(&self, held: Guard) -> anyhow::Result<()> {
//!         held.release().await?;
//!         Ok(())
//!     }
//! }
//! ```
//!
//! and in [`all`](super::all):
//!
//! ```ignore
//! Box::new(Hosted::connect(redlatch::NAME, on, async { Ok(Redlatch(Locks::connect(urls).await?)) })?)
//! ```
//!
//! The others do plain Redlock, so it competes without fencing; with fencing it
//! is a second contender under a name of its own.

pub(crate) const NAME: &str = "redlatch";
