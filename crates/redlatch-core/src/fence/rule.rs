//! The rule of every fence: refuse a token smaller than one already seen.

use super::FencingToken;

/// Checks whether a write with `token` may be applied, given the `greatest` token
/// seen so far. Use it to build your own fence.
///
/// If it may, record `token` as the greatest seen, atomically with the write.
///
/// # Errors
///
/// If a greater token has been seen.
///
/// # Example
///
/// ```
/// use redlatch_core::fence::{self, FencingToken, Stale};
///
/// struct Valve { open: bool, fence: Option<FencingToken> }
///
/// impl Valve {
///     fn turn(&mut self, token: FencingToken, open: bool) -> Result<(), Stale> {
///         fence::accept(self.fence, token)?;
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
pub fn accept(greatest: Option<FencingToken>, token: FencingToken) -> Result<(), Stale> {
    match greatest {
        Some(beaten_by) if beaten_by > token => Err(Stale { token, beaten_by }),
        _ => Ok(()),
    }
}

/// A greater token was here first, so nothing was written. Someone else has the
/// lock now. Stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("stale: {token} was beaten by {beaten_by}")]
pub struct Stale {
    /// The token of the write.
    pub token: FencingToken,
    /// The greatest token seen.
    pub beaten_by: FencingToken,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: u64) -> FencingToken {
        FencingToken::new(number).expect("a token")
    }

    #[test]
    fn only_a_smaller_token_is_stale() {
        assert_eq!(accept(None, token(1)), Ok(()));
        assert_eq!(accept(Some(token(5)), token(6)), Ok(()));
        assert_eq!(accept(Some(token(5)), token(5)), Ok(()));
        assert_eq!(
            accept(Some(token(5)), token(4)),
            Err(Stale { token: token(4), beaten_by: token(5) })
        );
    }
}
