//! Redlatch itself: with default settings, that is, fencing tokens and (on several nodes) the
//! restart guard, and as plain Redlock, which is what the others do.

use super::caller::{Caller, Lock};
use ::redlatch::{Guard, Locks, RestartGuard};
use std::time::Duration;

pub(super) struct Redlatch(Locks);

impl Redlatch {
    pub(super) async fn connect(urls: &[String], ttl_ms: u64) -> anyhow::Result<Self> {
        let builder = Locks::builder().nodes(urls).ttl(Duration::from_millis(ttl_ms));
        Ok(Self(builder.admit_new_servers().connect().await?))
    }

    pub(super) async fn plain(urls: &[String]) -> anyhow::Result<Self> {
        let plain = Locks::builder().nodes(urls).fencing(false).restart_guard(RestartGuard::Off);
        Ok(Self(plain.connect().await?))
    }
}

impl Lock for Redlatch {
    type Caller = Locks;

    async fn caller(&self) -> anyhow::Result<Locks> {
        Ok(self.0.clone())
    }
}

impl Caller for Locks {
    type Held = Guard;

    async fn acquire(&mut self, key: &str, wait: Duration) -> anyhow::Result<Guard> {
        Ok(self.lock(key).wait(wait).await?)
    }

    async fn release(&mut self, held: Guard) -> anyhow::Result<()> {
        held.release().await?;
        Ok(())
    }

    fn fencing_token(held: &Guard) -> u64 {
        held.fencing_token().map_or(0, ::redlatch::FencingToken::get)
    }
}
