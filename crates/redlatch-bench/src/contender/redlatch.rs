//! Redlatch itself, as its README uses it.

use ::redlatch::{Guard, Locks};

use super::TTL;
use super::hosted::AsyncLock;

pub(crate) const NAME: &str = "redlatch";

#[derive(Clone)]
pub(crate) struct Redlatch(Locks);

impl Redlatch {
    pub(crate) async fn connect(urls: &[String]) -> anyhow::Result<Self> {
        Ok(Self(Locks::connect(urls).await?))
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
