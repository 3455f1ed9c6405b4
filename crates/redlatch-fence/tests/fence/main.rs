//! Late writes are refused, on the real things.

mod file;
mod guide;
mod history;
mod object_store;
mod planted;
mod postgres;
mod redis;
mod register;
mod sqlite;
mod suite;

use redlatch::{
    FencingToken,
    fence::{FileError, Stale},
};
use redlatch_fence::WriteError;

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).expect("a token")
}

/// Why a place did not write: it may be that the token was stale.
trait Refusal: std::error::Error {
    fn stale(&self) -> Option<Stale>;
}

impl Refusal for Stale {
    fn stale(&self) -> Option<Stale> {
        Some(*self)
    }
}

impl Refusal for FileError {
    fn stale(&self) -> Option<Stale> {
        self.stale()
    }
}

impl<E: std::error::Error + 'static> Refusal for WriteError<E> {
    fn stale(&self) -> Option<Stale> {
        self.stale()
    }
}

/// What beat the write; it must have been beaten.
#[track_caller]
fn beaten_by<T: std::fmt::Debug>(result: Result<T, impl Refusal>) -> u64 {
    let error = result.expect_err("a stale write");
    let stale: Stale = error.stale().unwrap_or_else(|| panic!("not stale, but {error:?}"));
    stale.beaten_by.get()
}
