//! A value in memory that refuses stale writes.
//!
//! In:  a token and a closure. Out: what the closure returns, or who was faster.
//!
//! Promise: the closure runs only if its token is admitted, and alone.

use super::{Stale, admit};
use crate::FencingToken;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value of this process that refuses stale writes.
///
/// What for, in one process? A server whose clients hold the locks: each sends
/// its token along with its request. And it stands in for a real place in
/// tests.
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
    /// A register that has seen no token.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { state: Mutex::new(State { greatest: None, value }) }
    }

    /// Runs the closure on the value if the token is admitted. All others wait
    /// meanwhile.
    ///
    /// If the closure panics, the value stays as it left it, and the token
    /// counts as seen.
    pub fn write<R>(
        &self,
        token: FencingToken,
        write: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Stale> {
        let mut state = self.lock();
        admit(state.greatest, token)?;
        state.greatest = Some(token);
        Ok(write(&mut state.value))
    }

    /// Has smaller tokens refused from now on. Do this before you read.
    pub fn seal(&self, token: FencingToken) -> Result<(), Stale> {
        self.write(token, |_| ())
    }

    /// Runs the closure on the value as it is. Needs no token: reading late
    /// harms nobody until something is written.
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.lock().value)
    }

    /// The greatest token seen.
    #[must_use]
    pub fn greatest(&self) -> Option<FencingToken> {
        self.lock().greatest
    }

    /// The value, without its fence.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).value
    }

    /// A panic in a closure breaks the value at most, never the fence.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
