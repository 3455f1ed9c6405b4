//! The crate `rslock`: with default settings, and with a short retry delay.

use super::{
    TTL_MS,
    caller::{Caller, Lock},
    redis::client,
};
use anyhow::bail;
use rslock::{Lock as Held, LockManager};
use std::time::{Duration, Instant};

const TUNED: Duration = Duration::from_millis(5);

pub(super) struct Rslock(LockManager);

impl Rslock {
    pub(super) fn as_it_comes(urls: &[String]) -> anyhow::Result<Self> {
        let clients: anyhow::Result<Vec<_>> = urls.iter().map(|url| client(url)).collect();
        Ok(Self(LockManager::from_clients(clients?)))
    }

    pub(super) fn tuned(urls: &[String]) -> anyhow::Result<Self> {
        let Self(mut manager) = Self::as_it_comes(urls)?;
        manager.set_retry(100, TUNED);
        Ok(Self(manager))
    }
}

impl Lock for Rslock {
    type Caller = LockManager;

    async fn caller(&self) -> anyhow::Result<LockManager> {
        Ok(self.0.clone())
    }
}

impl Caller for LockManager {
    type Held = Held;

    async fn acquire(&mut self, key: &str, wait: Duration) -> anyhow::Result<Held> {
        // It gives up after a few tries: waiting means to ask again.
        let deadline = Instant::now() + wait;
        while Instant::now() < deadline {
            if let Ok(held) = self.lock(key, Duration::from_millis(TTL_MS)).await {
                return Ok(held);
            }
        }
        bail!("not granted within {wait:?}")
    }

    async fn release(&mut self, held: Held) -> anyhow::Result<()> {
        self.unlock(&held).await;
        Ok(())
    }
}
