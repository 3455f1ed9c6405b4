//! A value in Redis that refuses stale writes.
//!
//! In:  a token and the new value. Out: the key set, or the token that beat it.
//!
//! Promise: check and write are one script on one server.
//! Needs: a server that does not forget the fence. It must not evict keys that
//! have no expiry (`noeviction` or a `volatile-` policy), and whatever it loses
//! in a crash or a failover, the fence loses too.
//!
//! The value is a plain string under its own key, so readers just use `GET`.
//! The greatest token is stored in decimal under a second key. A stray `SET` by
//! a client that knows nothing of tokens does not affect the fence.
//!
//! # Another client
//!
//! Any client in any language can run the script:
//!
//! ```text
//! EVAL <WRITE> 2 <fence key> <value key> <token> <value>    writes
//! EVAL <WRITE> 1 <fence key> <token>                        seals
//! ```
//!
//! It returns the greatest token seen, in decimal. If that is your token, the
//! write was applied; otherwise it is the token that beat yours. An error that
//! starts with `BADFENCE` or `BADVALUE` says what is wrong with the key;
//! nothing was written.

use crate::write_error::{WriteError, parse};
use ::redis::{
    ConnectionLike, RedisError, Script, ScriptInvocation, aio::ConnectionLike as AsyncConnection,
};
use redlatch_core::{FencingToken, fence::accept};
use std::sync::LazyLock;

/// The script that checks and writes, for use with another client.
///
/// ```
/// assert!(redlatch_fence::redis::WRITE.contains("redis.call('SET', KEYS[2], ARGV[2])"));
/// ```
pub const WRITE: &str = include_str!("redis/write.lua");

/// Prefix of keys that values may not use.
const RESERVED: &[u8] = b"redlatch:";

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(WRITE));

/// A value in Redis that refuses stale writes, over your own connection.
///
/// ```no_run
/// use redlatch::FencingToken;
/// use redlatch_fence::redis::Value;
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
    /// The key is reserved for Redlatch, such as another value's fence. Nothing was
    /// sent.
    #[error("keys under `redlatch:` are reserved: the value {key:?} needs another key")]
    Reserved {
        /// The key of the value.
        key: String,
    },
    /// The value's key holds something that a write must not replace. Nothing
    /// was written, and retrying will not help.
    #[error("nothing was written: the key {key:?} {what}")]
    Occupied {
        /// The key of the value.
        key: String,
        /// What it holds, in words.
        what: String,
    },
    /// The server or the connection failed. Unless the server's error says
    /// otherwise, the write may or may not have been applied. A write replaces
    /// the whole value, so it is safe to repeat with the same token.
    #[error(transparent)]
    Redis(RedisError),
}

impl From<ValueError> for WriteError<ValueError> {
    fn from(error: ValueError) -> Self {
        Self::Store(error)
    }
}

impl Value {
    /// Refers to the value under `key`: any bytes that do not start with
    /// `redlatch:`. Its fence is stored under `redlatch:fence:KEY`.
    ///
    /// A lock is also a key, with the name of its resource. If one server holds
    /// both, give the value a different name: a write over a lock is refused.
    #[must_use]
    pub fn new(key: impl AsRef<[u8]>) -> Self {
        let key = key.as_ref();
        Self { key: key.to_vec(), fence: [b"redlatch:fence:", key].concat() }
    }

    /// Stores the fence under another key. Values protected by the same lock
    /// may share one fence; they are then sealed together. In a Redis Cluster
    /// the keys need a common hash tag, such as `{report}`. Writes fail if this
    /// is the value's own key.
    #[must_use]
    pub fn fence_key(mut self, key: impl AsRef<[u8]>) -> Self {
        self.fence = key.as_ref().to_vec();
        self
    }

    /// Sets the value and removes its expiry, if the token is accepted.
    ///
    /// # Errors
    ///
    /// [`WriteError::Stale`] if a greater token came first.
    ///
    /// # Cancel safety
    ///
    /// If dropped before it completes, the write may or may not have been applied.
    pub async fn write(
        &self,
        connection: &mut impl AsyncConnection,
        token: FencingToken,
        value: impl AsRef<[u8]>,
    ) -> Result<(), WriteError<ValueError>> {
        let script = self.writing(token, value.as_ref())?;
        self.settle(token, script.invoke_async(connection).await)
    }

    /// Refuses smaller tokens from now on. Call it before you read.
    ///
    /// # Errors
    ///
    /// [`WriteError::Stale`] if a greater token came first.
    ///
    /// # Cancel safety
    ///
    /// If dropped before it completes, the seal may or may not have been applied.
    pub async fn seal(
        &self,
        connection: &mut impl AsyncConnection,
        token: FencingToken,
    ) -> Result<(), WriteError<ValueError>> {
        let script = self.sealing(token)?;
        self.settle(token, script.invoke_async(connection).await)
    }

    /// Does what [`write`](Self::write) does, blocking.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_blocking(
        &self,
        connection: &mut dyn ConnectionLike,
        token: FencingToken,
        value: impl AsRef<[u8]>,
    ) -> Result<(), WriteError<ValueError>> {
        let script = self.writing(token, value.as_ref())?;
        self.settle(token, script.invoke(connection))
    }

    /// Does what [`seal`](Self::seal) does, blocking.
    ///
    /// # Errors
    ///
    /// As [`seal`](Self::seal).
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

    /// Turns the script's answer, the greatest token seen, into a result.
    fn settle(
        &self,
        token: FencingToken,
        answer: Result<Vec<u8>, RedisError>,
    ) -> Result<(), WriteError<ValueError>> {
        let greatest = answer.map_err(|error| self.refusal(error))?;
        let greatest = parse(&String::from_utf8_lossy(&greatest))?;
        Ok(accept(Some(greatest), token)?)
    }

    /// Translates what the script says is wrong with a key, or the server's error.
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
