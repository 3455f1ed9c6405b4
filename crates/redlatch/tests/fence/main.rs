//! Late writes are refused, on the real things.

mod file;
#[cfg(all(feature = "fence-postgres", feature = "fence-sqlite"))]
mod guide;
mod history;
#[cfg(feature = "fence-object-store")]
mod object_store;
mod planted;
#[cfg(feature = "fence-postgres")]
mod postgres;
#[cfg(feature = "fence-redis")]
mod redis;
mod register;
#[cfg(feature = "fence-sqlite")]
mod sqlite;
mod suite;

use redlatch::{
    FencingToken,
    fence::{Stale, WriteError},
};
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).expect("a token")
}

/// What beat the write; it must have been beaten.
#[track_caller]
fn beaten_by<T, E>(result: Result<T, WriteError<E>>) -> u64
where
    T: std::fmt::Debug,
    E: std::fmt::Debug,
{
    let error = result.expect_err("a stale write");
    let stale: Stale = error.stale().unwrap_or_else(|| panic!("not stale, but {error:?}"));
    stale.beaten_by.get()
}

/// A directory that is gone with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("redlatch-fence-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a new directory");
        Scratch(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
