//! The crate `rslock`, as its README uses it, on sockets that send at once.

use super::{TTL, hosted::AsyncLock};
use ::rslock::{Lock, LockManager};

pub(crate) const NAME: &str = "rslock";

#[derive(Clone)]
pub(crate) struct Rslock(LockManager);

impl Rslock {
    pub(crate) fn new(urls: &[String]) -> anyhow::Result<Self> {
        let clients: anyhow::Result<Vec<_>> =
            urls.iter().map(|url| super::redis::client(url)).collect();
        Ok(Self(LockManager::from_clients(clients?)))
    }
}

impl AsyncLock for Rslock {
    type Held = Lock;

    async fn acquire(&self, resource: &str) -> anyhow::Result<Lock> {
        Ok(self.0.lock(resource, TTL).await?)
    }

    async fn release(&self, held: Lock) -> anyhow::Result<()> {
        self.0.unlock(&held).await;
        Ok(())
    }
}
