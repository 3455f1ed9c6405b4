//! Writes that a late holder cannot make.
//!
//! A lock with a timeout cannot stop a process that was paused past its lease
//! from writing when it wakes up. The place it writes to can: every grant
//! comes with a greater [`FencingToken`], and the place refuses a token that is
//! smaller than one it has seen. Here are places that do.
//!
//! | you write to | use | feature |
//! |---|---|---|
//! | memory of this process | [`Register`] | |
//! | a file | [`File`] | |
//! | a value in Redis | `fence::redis` | `fence-redis` |
//! | tables in PostgreSQL | `fence::postgres` | `fence-postgres` |
//! | tables in SQLite | `fence::sqlite` | `fence-sqlite` |
//! | an object in S3, GCS, Azure | `fence::object_store` | `fence-object-store` |
//! | anything else | [`admit`], under whatever makes check and write one | |
//!
//! # The rule
//!
//! A write is applied if its token is at least the greatest seen, which it then
//! becomes. Equal is fine: a holder may write as often as it likes. Check and
//! write are one step that nobody gets between. A write that is not applied
//! changes nothing, and says which token beat it: [`Stale`].
//!
//! Stale is an error, not a value to look at: who is stale must stop, and that
//! is what `?` does.
//!
//! # Seal, read, write
//!
//! A holder whose write depends on what it has read must **seal** first: write
//! its token alone. Else a late write of its predecessor may come between its
//! read and its write, and be overwritten unseen.
//!
//! ```
//! use redlatch::{blocking::Locks, fence::Register};
//!
//! let locks = Locks::connect(["memory:"])?;
//! let late = locks.lock("account:7").acquire()?.fencing_token().expect("fencing is on");
//! let balance = Register::new(100);
//!
//! let guard = locks.lock("account:7").acquire()?;
//! let token = guard.fencing_token().expect("fencing is on");
//! balance.seal(token)?;
//! let read = balance.read(|cents| *cents);
//! let stale = balance.write(late, |cents| *cents = 0).unwrap_err();
//! assert_eq!(stale.beaten_by, token);
//! balance.write(token, |cents| *cents = read - 30)?;
//!
//! assert_eq!(balance.into_inner(), 70);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A guard has no token only where fencing was switched off.
//!
//! # What it does not do
//!
//! It refuses what is late; it does not keep two holders from working at one
//! time. It guards the one place that checks: a job that writes to two places
//! needs a fence in both, and mail that was sent is sent. And it trusts the
//! place to remember: a restored backup brings back an old number.

mod file;
#[cfg(feature = "fence-object-store")]
pub mod object_store;
#[cfg(feature = "fence-postgres")]
pub mod postgres;
#[cfg(feature = "fence-redis")]
pub mod redis;
mod register;
#[cfg(feature = "fence-sqlite")]
pub mod sqlite;

pub use file::{File, FileError};
pub use register::Register;

use crate::FencingToken;

/// Whether a write with `token` may be applied where `greatest` is the greatest
/// token seen: the rule, for a fence of your own.
///
/// Whoever is let in must write `token` down as the greatest seen, in one step
/// with the write itself.
///
/// ```
/// use redlatch::{FencingToken, fence::{self, Stale}};
///
/// struct Valve { open: bool, fence: Option<FencingToken> }
///
/// impl Valve {
///     fn turn(&mut self, token: FencingToken, open: bool) -> Result<(), Stale> {
///         fence::admit(self.fence, token)?;
///         self.fence = Some(token);
///         self.open = open;
///         Ok(())
///     }
/// }
/// # let [late, token] = [1, 2].map(|number| FencingToken::new(number).unwrap());
/// # let mut valve = Valve { open: false, fence: None };
/// # valve.turn(token, true).unwrap();
/// # valve.turn(late, false).unwrap_err();
/// # assert!(valve.open);
/// ```
pub fn admit(greatest: Option<FencingToken>, token: FencingToken) -> Result<(), Stale> {
    match greatest {
        Some(beaten_by) if beaten_by > token => Err(Stale { token, beaten_by }),
        _ => Ok(()),
    }
}

/// A greater token was here first: nothing was written. The lock is somebody
/// else's now. Stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("stale: {token} was beaten by {beaten_by}")]
pub struct Stale {
    /// The token of the write.
    pub token: FencingToken,
    /// The greatest token seen.
    pub beaten_by: FencingToken,
}

/// Why a fenced write is not known to be applied.
#[derive(Debug, thiserror::Error)]
pub enum WriteError<E> {
    /// A greater token was here first: nothing was written. Stop.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// Where the greatest token should be, there is something else. Nothing was
    /// written, and nothing will be until an operator puts a token back: one
    /// that is at least the greatest ever granted.
    #[error(
        "the fence is damaged: it holds {found:?}, which is not a fencing token; \
         nothing was written: put back a token at least as great as any granted"
    )]
    Damaged {
        /// What is there.
        found: Box<str>,
    },
    /// Another writer is between its check and the end of its write, and does
    /// not finish. Nothing was written. Begin again while the lock is yours.
    #[error("nothing was written: {0}")]
    Busy(#[source] E),
    /// The place failed or refused. Unless its error says otherwise, the write
    /// may have been applied or not. A write that says what the new value *is*
    /// can be repeated with the same token; one that says how to *change* the
    /// old one (`cents = cents - 30`) would be applied twice: seal, read, and
    /// see whether it is there.
    #[error(transparent)]
    Store(E),
}

impl<E> WriteError<E> {
    /// What beat the write, if that is why.
    #[must_use]
    pub fn stale(&self) -> Option<Stale> {
        match self {
            Self::Stale(stale) => Some(*stale),
            Self::Damaged { .. } | Self::Busy(_) | Self::Store(_) => None,
        }
    }

    fn damaged(found: impl Into<Box<str>>) -> Self {
        Self::Damaged { found: found.into() }
    }
}

/// What places write down and answer: digits.
fn parse<E>(text: &str) -> Result<FencingToken, WriteError<E>> {
    text.parse().map_err(|_| WriteError::damaged(text))
}

/// What came of a write, where the place answers with the greatest token seen,
/// this one counted in.
#[cfg(any(feature = "fence-postgres", feature = "fence-sqlite"))]
fn settle<E>(token: FencingToken, greatest: i64) -> Result<(), WriteError<E>> {
    let seen = u64::try_from(greatest).ok().and_then(FencingToken::new);
    let seen = seen.ok_or_else(|| WriteError::damaged(greatest.to_string()))?;
    Ok(admit(Some(seen), token)?)
}

/// The token as databases have it. It fits: it is below 2^53.
#[cfg(any(feature = "fence-postgres", feature = "fence-sqlite"))]
fn bigint(token: FencingToken) -> i64 {
    token.get().cast_signed()
}

/// The code in the guide is code that runs.
#[cfg(all(
    doctest,
    feature = "fence-object-store",
    feature = "fence-postgres",
    feature = "fence-redis",
    feature = "fence-sqlite"
))]
#[doc = include_str!("../../../docs/fencing.md")]
struct Guide;

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: u64) -> FencingToken {
        FencingToken::new(number).expect("a token")
    }

    #[test]
    fn only_a_smaller_token_is_stale() {
        assert_eq!(admit(None, token(1)), Ok(()));
        assert_eq!(admit(Some(token(5)), token(6)), Ok(()));
        assert_eq!(admit(Some(token(5)), token(5)), Ok(()));
        assert_eq!(
            admit(Some(token(5)), token(4)),
            Err(Stale { token: token(4), beaten_by: token(5) })
        );
    }

    #[test]
    fn what_is_no_token_is_not_taken_for_one() {
        for text in ["", "0", "-1", "+1", " 5", "5\n", "1e3", "9007199254740992"] {
            let error = parse::<Stale>(text).expect_err(text);

            assert!(matches!(error, WriteError::Damaged { found } if *found == *text));
        }
        assert_eq!(parse::<Stale>("9007199254740991").ok(), FencingToken::new(FencingToken::MAX));
    }
}
