//! Somebody else on the same key, who knows nothing of us: plain `SET NX PX`, and
//! again 5 ms later.

use super::caller::{Caller, Lock};
use crate::contender::{TTL, redis::client};
use anyhow::bail;
use futures_util::future::join_all;
use redis::{Cmd, Script, Value, aio::MultiplexedConnection};
use rustix::rand::{GetRandomFlags, getrandom};
use std::time::{Duration, Instant};

const RETRY: Duration = Duration::from_millis(5);

const COMPARE_AND_DELETE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

#[derive(Clone)]
pub(super) struct Foreign(Vec<MultiplexedConnection>);

pub(super) struct Held {
    key: String,
    token: [u8; 20],
}

impl Foreign {
    pub(super) async fn connect(urls: &[String]) -> anyhow::Result<Self> {
        let mut nodes = Vec::new();
        for url in urls {
            let mut node = client(url)?.get_multiplexed_async_connection().await?;
            Script::new(COMPARE_AND_DELETE).load_async(&mut node).await?;
            nodes.push(node);
        }
        Ok(Self(nodes))
    }

    /// How many nodes gave this answer.
    async fn count(&mut self, command: &Cmd, yes: &Value) -> usize {
        let asked = self.0.iter_mut().map(|node| command.query_async::<Value>(node));
        let answers = join_all(asked).await;
        answers.iter().filter(|answer| answer.as_ref().is_ok_and(|value| value == yes)).count()
    }
}

impl Lock for Foreign {
    type Caller = Self;

    async fn caller(&self) -> anyhow::Result<Self> {
        Ok(self.clone())
    }
}

impl Caller for Foreign {
    type Held = Held;

    async fn acquire(&mut self, key: &str, wait: Duration) -> anyhow::Result<Held> {
        let deadline = Instant::now() + wait;
        while Instant::now() < deadline {
            let mut token = [0; 20];
            getrandom(&mut token, GetRandomFlags::empty())?;
            let mut take = redis::cmd("SET");
            take.arg(key).arg(&token).arg("NX").arg("PX").arg(TTL.as_millis());
            let held = Held { key: key.to_owned(), token };
            if self.count(&take, &Value::Okay).await > self.0.len() / 2 {
                return Ok(held);
            }
            self.release(held).await?;
            tokio::time::sleep(RETRY).await;
        }
        bail!("not granted within {wait:?}")
    }

    async fn release(&mut self, held: Held) -> anyhow::Result<()> {
        let mut release = redis::cmd("EVALSHA");
        let script = Script::new(COMPARE_AND_DELETE);
        release.arg(script.get_hash()).arg(1).arg(held.key).arg(&held.token);
        self.count(&release, &Value::Int(1)).await;
        Ok(())
    }
}
