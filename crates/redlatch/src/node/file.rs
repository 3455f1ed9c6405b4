//! The embedded node: a file that the processes of one machine share.
//!
//! In:  commands. Out: replies, by an `SQLite` database in the file.
//!
//! Promise: what the other kinds of node promise, for any number of processes
//! at once, also if some are killed in mid-command. A reboot frees every lock;
//! a change of the wall clock frees none.
//! Needs: one machine and a local file system. A file that is used from two
//! machines at once is noticed, but only after the fact.

mod boot;
mod database;
mod opening;
#[cfg(test)]
mod tests;
mod trust;

use super::{Link, Node, Threaded};
use crate::clock::Clock;
use database::Database;
use std::path::{self, PathBuf};

/// The embedded node: a file that the processes of one machine share.
///
/// Nothing has to be installed or started. The file and its directories are
/// made on the first use, for the eyes of their owner alone. Next to the file
/// stand two more, `…-wal` and `…-shm`, which belong to it: to start afresh,
/// stop all processes that use the file and delete the three together.
///
/// In a directory that everybody may write to, such as `/tmp`, the file serves its
/// owner alone; where others could replace it, it is refused.
///
/// Locks last by the machine's boot clock, whatever [`Clock`] the engine uses,
/// because other processes have to agree on it.
///
/// # Example
///
/// ```
/// use redlatch::node::{File, Node};
///
/// let node = File::new("/var/lib/invoices/locks.db");
///
/// assert_eq!(node.name(), "file:/var/lib/invoices/locks.db");
/// ```
#[derive(Debug, Clone)]
pub struct File {
    name: String,
    path: PathBuf,
}

impl File {
    /// A node in the file at `path`. Nothing is opened or made yet.
    ///
    /// A relative path counts from the current directory of this moment.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let path = path::absolute(&path).unwrap_or(path);
        File { name: format!("file:{}", path.display()), path }
    }
}

impl Node for File {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, _: Clock) -> Box<dyn Link> {
        let path = self.path.clone();
        Box::new(Threaded::new(move || Database::open(&path)))
    }
}
