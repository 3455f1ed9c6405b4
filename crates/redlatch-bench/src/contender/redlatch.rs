//! Redlatch itself: once as plain Redlock, which is what the others do, and once
//! as it is by default, with fencing tokens and the restart guard.

use super::{TTL, hosted::AsyncLock};
use ::redlatch::{Builder, Guard, Locks, RestartGuard};

pub(crate) const NAME: &str = "redlatch";
pub(crate) const GUARDED: &str = "redlatch guarded";

#[derive(Clone)]
pub(crate) struct Redlatch(Locks);

impl Redlatch {
    /// One `SET NX PX` per node.
    pub(crate) async fn plain(urls: &[String]) -> anyhow::Result<Self> {
        let plain = Locks::builder().nodes(urls).fencing(false).restart_guard(RestartGuard::Off);
        Ok(Self(plain.connect().await?))
    }

    /// With fencing tokens and the restart guard.
    pub(crate) async fn guarded(urls: &[String]) -> anyhow::Result<Self> {
        Ok(Self(guarded(urls).await?.connect().await?))
    }
}

/// The default settings, on servers that somebody has vouched for: they were
/// started a moment ago.
pub(crate) async fn guarded(urls: &[String]) -> anyhow::Result<Builder> {
    let builder = Locks::builder().nodes(urls).restart_guard(RestartGuard::On);
    let observer = builder.observer()?;
    let nodes = observer.standings().await;
    observer.admit(&nodes.into_iter().map(|node| node.node).collect::<Vec<_>>()).await?;
    Ok(builder)
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
