//! Which grant of a lock a key belongs to, without the secret that could release it.

use std::{fmt, str::FromStr};

/// Identifies one grant of a lock: the same on every node for as long as its holder keeps
/// it, and different for the next grant, even to the same owner.
///
/// It is a 64-bit hash of a lock token, which has 160 random bits, so it may be shown.
///
/// # Example
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let locks = redlatch::Locks::memory(3);
/// let first = locks.lock("deploy").await?;
/// let seen = locks.status("deploy").await?.grants;
/// first.release().await?;
/// let _second = locks.lock("deploy").await?;
///
/// assert_ne!(locks.status("deploy").await?.grants, seen);
/// assert_eq!(seen[0].to_string().parse(), Ok(seen[0]));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId(u64);

impl GrantId {
    /// The grant of a key with this value.
    pub(crate) fn of(value: &[u8]) -> Self {
        // FNV-1a.
        GrantId(value.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }
}

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A text that is not a [`GrantId`].
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a grant is named by 16 hex digits")]
pub struct GrantIdError;

impl FromStr for GrantId {
    type Err = GrantIdError;

    fn from_str(text: &str) -> Result<Self, GrantIdError> {
        let is_id = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| is_id);
        number.map(GrantId).ok_or(GrantIdError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_sixteen_hex_digits_and_nothing_else() {
        let id = GrantId::of(b"");

        assert_eq!(id.to_string(), "cbf29ce484222325");
        assert_eq!("cbf29ce484222325".parse(), Ok(id));
        assert_ne!(GrantId::of(b"a"), GrantId::of(b"b"));
        for text in ["", "1", "+bf29ce484222325", "cbf29ce4842223250"] {
            assert_eq!(text.parse::<GrantId>(), Err(GrantIdError), "{text}");
        }
    }
}
