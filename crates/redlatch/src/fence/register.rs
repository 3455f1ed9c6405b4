//! A value in memory that refuses stale writes.
//!
//! In:  a token and a closure. Out: what the closure returns, or the token that
//! beat it.
//!
//! Promise: the closure runs only if its token is accepted, and runs alone.

use super::{Stale, accept};
use crate::FencingToken;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value in this process that refuses stale writes.
///
/// It is useful in a server whose clients hold the locks and send their tokens
/// with each request, and in tests, as a stand-in for real storage.
///
/// ```
/// use redlatch::{FencingToken, fence::Register};
///
/// # let [late, token] = [17, 18].map(|number| FencingToken::new(number).unwrap());
/// let log = Register::new(Vec::new());
///
/// let length = log.write(token, |lines| {
///     lines.push("charged");
///     lines.len()
/// })?;
/// let stale = log.write(late, |lines| lines.clear()).unwrap_err();
///
/// assert_eq!(length, 1);
/// assert_eq!(stale.beaten_by, token);
/// assert_eq!(log.read(Vec::len), 1);
/// # Ok::<(), redlatch::fence::Stale>(())
/// ```
#[derive(Debug, Default)]
pub struct Register<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug, Default)]
struct State<T> {
    greatest: Option<FencingToken>,
    value: T,
}

impl<T> Register<T> {
    /// Creates a register that has seen no token.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { state: Mutex::new(State { greatest: None, value }) }
    }

    /// Runs the closure on the value if the token is accepted. All other
    /// callers wait meanwhile.
    ///
    /// If the closure panics, the value stays as the closure left it, and the
    /// token counts as seen.
    ///
    /// # Errors
    ///
    /// [`Stale`] if a greater token came first; the closure did not run.
    pub fn write<R>(
        &self,
        token: FencingToken,
        write: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Stale> {
        let mut state = self.lock();
        accept(state.greatest, token)?;
        state.greatest = Some(token);
        Ok(write(&mut state.value))
    }

    /// Refuses smaller tokens from now on. Call it before you read.
    ///
    /// # Errors
    ///
    /// [`Stale`] if a greater token came first.
    pub fn seal(&self, token: FencingToken) -> Result<(), Stale> {
        self.write(token, |_| ())
    }

    /// Runs the closure on the current value. Needs no token: a late read does
    /// no harm until something is written.
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.lock().value)
    }

    /// Returns the greatest token seen.
    #[must_use]
    pub fn greatest(&self) -> Option<FencingToken> {
        self.lock().greatest
    }

    /// Returns the value, discarding its fence.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).value
    }

    /// Ignores poisoning: a panic in a closure can break the value, never the fence.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
