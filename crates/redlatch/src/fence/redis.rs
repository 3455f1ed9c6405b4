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
//! gave, the write was applied; else this is what beat it. An error that begins
//! with `BADFENCE` or `BADVALUE` says what is wrong with the key, and nothing
//! was written.

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

/// How the keys begin that are not for values.
const RESERVED: &[u8] = b"redlatch:";

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

/// Why the value was not written, or may not have been.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The value and its fence would overwrite each other. Nothing was sent.
    #[error("the value {key:?} and its fence have the same key: give `fence_key` another one")]
    SameKey {
        /// The key of both.
        key: String,
    },
    /// The key is one of Redlatch's own: another value's fence, say. Nothing was
    /// sent.
    #[error("keys under `redlatch:` are reserved: the value {key:?} needs another key")]
    Reserved {
        /// The key of the value.
        key: String,
    },
    /// The key of the value is in use for something that a write must not
    /// replace. Nothing was written, and writing again will not help.
    #[error("nothing was written: the key {key:?} {what}")]
    Occupied {
        /// The key of the value.
        key: String,
        /// What is there, in words.
        what: String,
    },
    /// The server or the connection failed. Unless the server's answer says
    /// otherwise, the write may have been applied or not. A write replaces the
    /// whole value, so repeating it with the same token does no harm.
    #[error(transparent)]
    Redis(RedisError),
}

impl From<ValueError> for WriteError<ValueError> {
    fn from(error: ValueError) -> Self {
        Self::Store(error)
    }
}

impl Value {
    /// The value under that key, any bytes but not beginning with `redlatch:`.
    /// Its fence is kept under `redlatch:fence:KEY`.
    ///
    /// A lock is a key as well, named like the lock. If its server also holds
    /// the value, give the value another name: a write over a lock is refused.
    #[must_use]
    pub fn new(key: impl AsRef<[u8]>) -> Self {
        let key = key.as_ref();
        Self { key: key.to_vec(), fence: [b"redlatch:fence:", key].concat() }
    }

    /// Keeps the fence under another key. Several values may share one, if they
    /// are guarded by one lock: then they are sealed together. In a Redis Cluster
    /// the keys need a common hash tag, such as `{report}`. The key of the value
    /// itself is refused when you write.
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
    ) -> Result<(), WriteError<ValueError>> {
        let script = self.writing(token, value.as_ref())?;
        self.settle(token, script.invoke_async(connection).await)
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
    ) -> Result<(), WriteError<ValueError>> {
        let script = self.sealing(token)?;
        self.settle(token, script.invoke_async(connection).await)
    }

    /// As [`write`](Self::write), without async.
    pub fn write_blocking(
        &self,
        connection: &mut dyn ConnectionLike,
        token: FencingToken,
        value: impl AsRef<[u8]>,
    ) -> Result<(), WriteError<ValueError>> {
        let script = self.writing(token, value.as_ref())?;
        self.settle(token, script.invoke(connection))
    }

    /// As [`seal`](Self::seal), without async.
    pub fn seal_blocking(
        &self,
        connection: &mut dyn ConnectionLike,
        token: FencingToken,
    ) -> Result<(), WriteError<ValueError>> {
        let script = self.sealing(token)?;
        self.settle(token, script.invoke(connection))
    }

    fn writing(
        &self,
        token: FencingToken,
        value: &[u8],
    ) -> Result<ScriptInvocation<'static>, ValueError> {
        let mut script = self.sealing(token)?;
        script.key(&self.key[..]).arg(value);
        Ok(script)
    }

    fn sealing(&self, token: FencingToken) -> Result<ScriptInvocation<'static>, ValueError> {
        if self.key == self.fence {
            return Err(ValueError::SameKey { key: self.name() });
        }
        if self.key.starts_with(RESERVED) {
            return Err(ValueError::Reserved { key: self.name() });
        }
        let mut script = SCRIPT.key(&self.fence[..]);
        script.arg(token.get());
        Ok(script)
    }

    /// What came of it: the script answers with the greatest token seen.
    fn settle(
        &self,
        token: FencingToken,
        answer: Result<Vec<u8>, RedisError>,
    ) -> Result<(), WriteError<ValueError>> {
        let greatest = answer.map_err(|error| self.refusal(error))?;
        let greatest = parse(&String::from_utf8_lossy(&greatest))?;
        Ok(admit(Some(greatest), token)?)
    }

    /// What the script says is wrong with a key, or what the server says.
    fn refusal(&self, error: RedisError) -> WriteError<ValueError> {
        let what = error.detail().unwrap_or_default().to_owned();
        match error.code() {
            Some("BADFENCE") => WriteError::damaged(what.trim_start_matches("holds ")),
            Some("BADVALUE") => ValueError::Occupied { key: self.name(), what }.into(),
            _ => WriteError::Store(ValueError::Redis(error)),
        }
    }

    fn name(&self) -> String {
        String::from_utf8_lossy(&self.key).into_owned()
    }
}
