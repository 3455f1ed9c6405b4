//! A value in Redis that refuses stale writes.
//!
//! In:  a token and the new value. Out: the key set, or who was faster.
//!
//! Promise: check and write are one script on one server.
//! Needs: a server that does not forget the fence. It must not evict keys that
//! never expire (`noeviction` or a `volatile-` policy), and what it loses in a
//! crash or a failover, the fence loses with it.
//!
//! The value is a plain string under its own key, so readers need nothing but
//! `GET`. The greatest token is kept in digits under a second key. A stray
//! `SET` by someone who knows nothing of tokens leaves the fence alone.
//!
//! # Another client
//!
//! The script is all there is to it; any client in any language can run it:
//!
//! ```text
//! EVAL <WRITE> 2 <fence key> <value key> <token> <value>    writes
//! EVAL <WRITE> 1 <fence key> <token>                        seals
//! ```
//!
//! It returns the greatest token seen, in digits. If that is the token you
//! gave, the write was applied; else this is what beat it.

use super::{WriteError, admit, parse};
use crate::FencingToken;
use ::redis::{
    ConnectionLike, RedisError, Script, ScriptInvocation, aio::ConnectionLike as AsyncConnection,
};
use std::sync::LazyLock;

/// The script that checks and writes, for use with another client.
///
/// ```
/// assert!(redlatch::fence::redis::WRITE.contains("redis.call('SET', KEYS[2], ARGV[2])"));
/// ```
pub const WRITE: &str = include_str!("redis/write.lua");

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(WRITE));

/// A value in Redis that refuses stale writes, over a connection of yours.
///
/// ```no_run
/// use redlatch::{FencingToken, fence::redis::Value};
///
/// # async fn example(token: FencingToken) -> Result<(), Box<dyn std::error::Error>> {
/// let client = redis::Client::open("redis://127.0.0.1")?;
/// let mut connection = client.get_multiplexed_async_connection().await?;
/// let total = Value::new("report:total");
///
/// total.seal(&mut connection, token).await?;
/// let before: Option<u64> = redis::cmd("GET").arg("report:total").query_async(&mut connection).await?;
/// let after = before.unwrap_or(0) + 1;
/// total.write(&mut connection, token, after.to_string()).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    key: Vec<u8>,
    fence: Vec<u8>,
}

impl Value {
    /// The value under that key, any bytes. Its fence is kept under
    /// `redlatch:fence:KEY`.
    #[must_use]
    pub fn new(key: impl AsRef<[u8]>) -> Self {
        let key = key.as_ref();
        Self { key: key.to_vec(), fence: [b"redlatch:fence:", key].concat() }
    }

    /// Keeps the fence under another key. Several values may share one, if they
    /// are guarded by one lock: then they are sealed together. In a Redis Cluster
    /// the keys need a common hash tag, such as `{report}`.
    #[must_use]
    pub fn fence_key(mut self, key: impl AsRef<[u8]>) -> Self {
        self.fence = key.as_ref().to_vec();
        self
    }

    /// Sets the value if the token is admitted, and drops its expiry.
    ///
    /// # Cancel safety
    ///
    /// Dropped half-way, the write may have been applied or not.
    pub async fn write(
        &self,
        connection: &mut impl AsyncConnection,
        token: FencingToken,
        value: impl AsRef<[u8]>,
    ) -> Result<(), WriteError<RedisError>> {
        settle(token, self.writing(token, value.as_ref()).invoke_async(connection).await)
    }

    /// Has smaller tokens refused from now on. Do this before you read.
    ///
    /// # Cancel safety
    ///
    /// Dropped half-way, the seal may have been applied or not.
    pub async fn seal(
        &self,
        connection: &mut impl AsyncConnection,
        token: FencingToken,
    ) -> Result<(), WriteError<RedisError>> {
        settle(token, self.sealing(token).invoke_async(connection).await)
    }

    /// As [`write`](Self::write), without async.
    pub fn write_blocking(
        &self,
        connection: &mut dyn ConnectionLike,
        token: FencingToken,
        value: impl AsRef<[u8]>,
    ) -> Result<(), WriteError<RedisError>> {
        settle(token, self.writing(token, value.as_ref()).invoke(connection))
    }

    /// As [`seal`](Self::seal), without async.
    pub fn seal_blocking(
        &self,
        connection: &mut dyn ConnectionLike,
        token: FencingToken,
    ) -> Result<(), WriteError<RedisError>> {
        settle(token, self.sealing(token).invoke(connection))
    }

    fn writing(&self, token: FencingToken, value: &[u8]) -> ScriptInvocation<'static> {
        let mut script = self.sealing(token);
        script.key(&self.key[..]).arg(value);
        script
    }

    fn sealing(&self, token: FencingToken) -> ScriptInvocation<'static> {
        let mut script = SCRIPT.key(&self.fence[..]);
        script.arg(token.get());
        script
    }
}

/// What came of it: the script answers with the greatest token seen.
fn settle(
    token: FencingToken,
    answer: Result<Vec<u8>, RedisError>,
) -> Result<(), WriteError<RedisError>> {
    let greatest = answer.map_err(WriteError::Store)?;
    let greatest = parse(&String::from_utf8_lossy(&greatest))?;
    Ok(admit(Some(greatest), token)?)
}
