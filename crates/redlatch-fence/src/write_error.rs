//! Why a fenced write failed, and how to read the storage's answer.

#[cfg(any(
    feature = "object-store",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
))]
use redlatch_core::FencingToken;
use redlatch_core::fence::Stale;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use redlatch_core::fence::accept;

/// Why a fenced write failed, or may have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError<E> {
    /// A greater token came first: nothing was written. Stop.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The fence holds something that is not a token. Nothing was written, and
    /// nothing will be until an operator restores a token at least as great as
    /// any ever granted.
    #[error(
        "the fence is damaged: it holds {found:?}, which is not a fencing token; \
         nothing was written: put back a token at least as great as any granted"
    )]
    Damaged {
        /// What it holds.
        found: Box<str>,
    },
    /// Another writer has passed its check and did not finish in time. Nothing
    /// was written. Retry while you still hold the lock.
    #[error("nothing was written: {0}")]
    Busy(#[source] E),
    /// The storage failed or refused. Unless its error says otherwise, the write may or
    /// may not have been applied. A write that sets the new value is safe to repeat
    /// with the same token. A write that *changes* the old value (`cents = cents - 30`)
    /// could be applied twice: seal, read, and see whether it was applied.
    #[error(transparent)]
    Store(E),
}

impl<E> WriteError<E> {
    /// Returns the token that beat the write, if that is why it failed.
    #[must_use]
    pub fn stale(&self) -> Option<Stale> {
        match self {
            Self::Stale(stale) => Some(*stale),
            Self::Damaged { .. } | Self::Busy(_) | Self::Store(_) => None,
        }
    }
}

/// For the modules of this crate.
#[cfg(any(feature = "object-store", feature = "postgres", feature = "redis", feature = "sqlite"))]
impl<E> WriteError<E> {
    pub(crate) fn damaged(found: impl Into<Box<str>>) -> Self {
        Self::Damaged { found: found.into() }
    }
}

/// Parses a token, which is stored in decimal.
#[cfg(any(feature = "object-store", feature = "redis"))]
pub(crate) fn parse<E>(text: &str) -> Result<FencingToken, WriteError<E>> {
    text.parse().map_err(|_| WriteError::damaged(text))
}

/// The result of a write, judging by the greatest token seen, including this one.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn settle<E>(token: FencingToken, greatest: i64) -> Result<(), WriteError<E>> {
    let seen = u64::try_from(greatest).ok().and_then(FencingToken::new);
    let seen = seen.ok_or_else(|| WriteError::damaged(greatest.to_string()))?;
    Ok(accept(Some(seen), token)?)
}

/// The token as a database integer. It fits: it is below 2^53.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn bigint(token: FencingToken) -> i64 {
    token.get().cast_signed()
}

#[cfg(all(test, any(feature = "object-store", feature = "redis")))]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_token_is_not_taken_for_one() {
        for text in ["", "0", "-1", "+1", " 5", "5\n", "1e3", "9007199254740992"] {
            let error = parse::<Stale>(text).expect_err(text);

            assert!(matches!(error, WriteError::Damaged { found } if *found == *text));
        }
        assert_eq!(parse::<Stale>("9007199254740991").ok(), FencingToken::new(FencingToken::MAX));
    }
}
