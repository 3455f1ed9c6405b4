//! Redlatch itself, as its README uses it: once as plain Redlock, which is what
//! the others do, and once with fencing tokens.

use ::redlatch::{Guard, Locks, RestartGuard};

use super::TTL;
use super::hosted::AsyncLock;

pub(crate) const NAME: &str = "redlatch";
pub(crate) const FENCED: &str = "redlatch fenced";

#[derive(Clone)]
pub(crate) struct Redlatch(Locks);

impl Redlatch {
    pub(crate) async fn connect(urls: &[String], fencing: bool) -> anyhow::Result<Self> {
        let builder = Locks::builder().nodes(urls).restart_guard(RestartGuard::Off);
        Ok(Self(builder.fencing(fencing).connect().await?))
    }
}

impl AsyncLock for Redlatch {
    type Held = Guard;

    async fn acquire(&self, resource: &str) -> anyhow::Result<Guard> {
        Ok(self.0.lock(resource).ttl(TTL).await?)
    }

    async fn release(&self, held: Guard) -> anyhow::Result<()> {
        held.release().await?;
        Ok(())
    }
}
