//! The handle, a lease as one word: `acquire` prints it, `extend` and `release` need it.
//!
//! `rl1:TTL:UNTIL:FENCE:TOKEN:NAME[:NAME…]`, times in milliseconds, `UNTIL` since
//! 1970, `FENCE` the fencing token or 0.

use crate::percent;
use redlatch::{FencingToken, LeaseParts};
use std::{
    ffi::OsString,
    fmt,
    os::unix::ffi::OsStringExt as _,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const KIND: &str = "rl1";

/// A lease that no process renews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) LeaseParts);

/// Text that is not a handle. The error doesn't show it: it may contain a lock token.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a handle; it is what `redlatch acquire` prints, and starts with rl1:")]
pub(crate) struct NotAHandle;

impl Handle {
    /// The names of the locks.
    pub(crate) fn names(&self) -> Vec<OsString> {
        self.0.resources.iter().map(|name| OsString::from_vec(name.clone())).collect()
    }

    pub(crate) fn until_ms(&self) -> u128 {
        self.0.usable_until.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fence = self.0.fencing_token.map_or(0, FencingToken::get);
        let mut text = format!("{KIND}:{}:{}:{fence}", self.0.ttl.as_millis(), self.until_ms());
        for part in [&self.0.lock_token].into_iter().chain(&self.0.resources) {
            text.push(':');
            percent::encode(&mut text, part);
        }
        f.write_str(&text)
    }
}

impl FromStr for Handle {
    type Err = NotAHandle;

    fn from_str(text: &str) -> Result<Self, NotAHandle> {
        let mut parts = text.trim().split(':');
        if parts.next() != Some(KIND) {
            return Err(NotAHandle);
        }
        let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or(NotAHandle);
        let (ttl, until, fence): (u64, u64, u64) = (number()?, number()?, number()?);
        let ttl = Duration::from_millis(ttl);
        let until = UNIX_EPOCH.checked_add(Duration::from_millis(until));
        let usable_until: SystemTime = until.ok_or(NotAHandle)?;
        let fencing_token = FencingToken::new(fence);
        let mut bytes = parts.map(|part| percent::decode(part).ok_or(NotAHandle));
        let lock_token = bytes.next().ok_or(NotAHandle)??;
        let resources = bytes.collect::<Result<Vec<_>, _>>()?;
        if resources.is_empty() {
            return Err(NotAHandle);
        }
        Ok(Handle(LeaseParts { resources, lock_token, ttl, usable_until, fencing_token }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_the_shell() {
        let handle = Handle(LeaseParts {
            resources: vec![b"deploy:web".to_vec(), b"\xff 'x'".to_vec()],
            lock_token: b"0123@host/1".to_vec(),
            ttl: Duration::from_secs(30),
            usable_until: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
            fencing_token: FencingToken::new(77),
        });

        let text = handle.to_string();

        assert_eq!(text, "rl1:30000:1700000000123:77:0123@host/1:deploy%3aweb:%ff%20%27x%27");
        assert_eq!(format!(" {text}\n").parse(), Ok(handle));
    }

    #[test]
    fn anything_else_is_not_a_handle() {
        for text in
            ["", "deploy", "rl2:1:1:0:t:n", "rl1:1:1:0:t", "rl1:x:1:0:t:n", "rl1:1:1:0:t:%4"]
        {
            assert_eq!(text.parse::<Handle>(), Err(NotAHandle), "{text}");
        }
    }
}
