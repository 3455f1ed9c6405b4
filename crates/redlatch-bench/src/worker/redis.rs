//! The `redis` crate without a lock library: Redlock as one would write it by hand
//! over a multiplexed connection to each node. A caller that is refused retries after 5 ms.

use super::{
    TTL_MS,
    caller::{Caller, Lock},
};
use anyhow::bail;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use redis::{
    Client, Cmd, IntoConnectionInfo as _, Script, Value,
    aio::{ConnectionLike as _, MultiplexedConnection},
    io::tcp::TcpSettings,
};
use rustix::rand::{GetRandomFlags, getrandom};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const RETRY: Duration = Duration::from_millis(5);

const COMPARE_AND_DELETE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

#[derive(Clone)]
pub(super) struct ByHand {
    nodes: Arc<[MultiplexedConnection]>,
    release: Arc<Script>,
}

pub(super) struct Held {
    key: String,
    token: [u8; 20],
}

impl ByHand {
    pub(super) async fn connect(urls: &[String]) -> anyhow::Result<Self> {
        let release = Script::new(COMPARE_AND_DELETE);
        let mut nodes = Vec::with_capacity(urls.len());
        for url in urls {
            let mut node = client(url)?.get_multiplexed_async_connection().await?;
            release.load_async(&mut node).await?;
            nodes.push(node);
        }
        Ok(Self { nodes: nodes.into(), release: Arc::new(release) })
    }

    /// Sends the command to all nodes and returns at the majority's answers.
    async fn majority(&self, command: Cmd, yes: &Value) -> bool {
        let command = Arc::new(command);
        let needed = self.nodes.len() / 2 + 1;
        let mut votes: FuturesUnordered<_> = self
            .nodes
            .iter()
            .cloned()
            .map(|mut node| {
                let command = Arc::clone(&command);
                async move { node.req_packed_command(&command).await }
            })
            .collect();
        let mut granted = 0;
        while let Some(vote) = votes.next().await {
            granted += usize::from(vote.is_ok_and(|vote| vote == *yes));
            if granted == needed {
                // Not dropped: the crate does not send a command whose future is
                // gone before its driver took it up.
                tokio::spawn(votes.for_each(|_| async {}));
                return true;
            }
        }
        false
    }
}

impl Lock for ByHand {
    type Caller = Self;

    async fn caller(&self) -> anyhow::Result<Self> {
        Ok(self.clone())
    }
}

impl Caller for ByHand {
    type Held = Held;

    async fn acquire(&mut self, key: &str, wait: Duration) -> anyhow::Result<Held> {
        let deadline = Instant::now() + wait;
        while Instant::now() < deadline {
            let mut token = [0; 20];
            getrandom(&mut token, GetRandomFlags::empty())?;
            let mut take = redis::cmd("SET");
            take.arg(key).arg(&token).arg("NX").arg("PX").arg(TTL_MS);
            let held = Held { key: key.to_owned(), token };
            if self.majority(take, &Value::Okay).await {
                return Ok(held);
            }
            self.release(held).await?;
            tokio::time::sleep(RETRY).await;
        }
        bail!("not granted within {wait:?}")
    }

    async fn release(&mut self, held: Held) -> anyhow::Result<()> {
        let mut release = redis::cmd("EVALSHA");
        release.arg(self.release.get_hash()).arg(1).arg(held.key).arg(&held.token);
        self.majority(release, &Value::Int(1)).await;
        Ok(())
    }
}

/// A client whose sockets send at once; the crate's default is to wait.
pub(super) fn client(url: &str) -> anyhow::Result<Client> {
    let settings = TcpSettings::default().set_nodelay(true);
    Ok(Client::open(url.into_connection_info()?.set_tcp_settings(settings))?)
}
