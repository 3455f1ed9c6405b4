//! The `redis` crate without a lock library: Redlock as one would write it by
//! hand over a multiplexed connection to each node.

use super::{TTL, hosted::AsyncLock};
use anyhow::bail;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use redis::{
    Client, Cmd, IntoConnectionInfo as _, Script, Value,
    aio::{ConnectionLike as _, MultiplexedConnection},
    io::tcp::TcpSettings,
};
use rustix::rand::{GetRandomFlags, getrandom};
use std::sync::Arc;

pub(crate) const NAME: &str = "redis";

const COMPARE_AND_DELETE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

#[derive(Clone)]
pub(crate) struct Bare {
    nodes: Arc<[MultiplexedConnection]>,
    release: Arc<Script>,
}

pub(crate) struct Held {
    resource: String,
    token: [u8; 20],
}

impl Bare {
    pub(crate) async fn connect(urls: &[String]) -> anyhow::Result<Self> {
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
    async fn majority(&self, command: Cmd, yes: &Value) -> anyhow::Result<()> {
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
                return Ok(());
            }
        }
        bail!("only {granted} of {} nodes said yes", self.nodes.len())
    }
}

impl AsyncLock for Bare {
    type Held = Held;

    async fn acquire(&self, resource: &str) -> anyhow::Result<Held> {
        let mut token = [0; 20];
        getrandom(&mut token, GetRandomFlags::empty())?;
        let mut take = redis::cmd("SET");
        take.arg(resource).arg(&token).arg("NX").arg("PX").arg(TTL.as_millis());
        self.majority(take, &Value::Okay).await?;
        Ok(Held { resource: resource.to_owned(), token })
    }

    async fn release(&self, held: Held) -> anyhow::Result<()> {
        let mut release = redis::cmd("EVALSHA");
        release.arg(self.release.get_hash()).arg(1).arg(held.resource).arg(&held.token);
        self.majority(release, &Value::Int(1)).await
    }
}

/// A client whose sockets send at once; the crate's default is to wait.
pub(crate) fn client(url: &str) -> anyhow::Result<Client> {
    let settings = TcpSettings::default().set_nodelay(true);
    Ok(Client::open(url.into_connection_info()?.set_tcp_settings(settings))?)
}
