//! The embedded node: a file shared by the processes of one machine.
//!
//! In:  commands. Out: replies, from an `SQLite` database in the file.
//!
//! Promise: the same as other kinds of node, for any number of processes at
//! once, even if some are killed in the middle of a command. A reboot frees
//! every lock; a change of the wall clock frees none.
//! Needs: one machine and a local file system. Use of one file from two
//! machines at once is detected, but only after the fact.

mod boot;
mod database;
mod opening;
#[cfg(test)]
mod tests;
mod trust;
mod wakes;

use super::{Link, Node, Threaded, url::encode};
use crate::driver::clock::Clock;
use database::Database;
use redlatch_core::{Command, Reply, Tag, Wake};
use std::{
    path::{self, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use wakes::Ear;

/// The embedded node: a file shared by the processes of one machine.
///
/// Nothing has to be installed or started. The file is created on first use, accessible only
/// to its owner. Its directory must exist: a mistyped path would be another node. Two more
/// files belong to it, `…-wal` and `…-shm`: to start afresh, stop all processes that use the
/// file and delete all three. A client that had the file open does not create it again: if
/// the file was deleted or moved, the node fails for this client until the file is back, and
/// the client's leases end in time. While clients wait in line, there is also a directory
/// `…-wake`, with one socket per waiting client for its wakes; if sockets cannot be created,
/// clients find out by asking again.
///
/// In a world-writable directory such as `/tmp`, only the file's owner can use it; a
/// file that others could replace is refused.
///
/// Locks expire by the machine's boot clock, whichever [`Clock`] the engine uses, because
/// all processes have to agree on it.
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
    address: String,
    path: PathBuf,
    /// Whether this client has had the file open. From then on, it never creates the
    /// file.
    was_open: Arc<AtomicBool>,
    /// The wake sockets of the open links.
    ears: Arc<Mutex<Vec<Weak<Ear>>>>,
}

impl File {
    /// Creates a node in the file at `path`. Nothing is opened or created yet.
    ///
    /// A relative path is resolved against the current directory now.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let path = path::absolute(&path).unwrap_or(path);
        let address = format!("file:{}", path.display());
        File {
            name: address.clone(),
            address,
            path,
            was_open: Arc::default(),
            ears: Arc::default(),
        }
    }

    /// Sets the node's name.
    pub(super) fn named(self, name: String) -> Self {
        File { name, ..self }
    }

    fn ears(&self) -> MutexGuard<'_, Vec<Weak<Ear>>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node for File {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn url(&self) -> Option<String> {
        let url = format!("file:{}", encode(&self.path.to_string_lossy()));
        let named = self.name != self.address;
        Some(if named { format!("{url}?name={}", encode(&self.name)) } else { url })
    }

    fn open(&self, _: Clock) -> Box<dyn Link> {
        let path = self.path.clone();
        let (told, wakes) = unbounded_channel();
        let ear = Arc::<Ear>::default();
        let mut ears = self.ears();
        ears.retain(|ear| ear.strong_count() > 0);
        ears.push(Arc::downgrade(&ear));
        let shared = ear.clone();
        let was_open = self.was_open.clone();
        let open = move || {
            let had_it = was_open.load(Ordering::SeqCst);
            let database = if had_it { Database::reopen(&path) } else { Database::open(&path) }?;
            was_open.store(true, Ordering::SeqCst);
            Ok(database.telling(told.clone(), shared.clone()))
        };
        Box::new(FileLink { commands: Threaded::new(open), wakes, ear })
    }

    fn hang_up(&self) {
        self.ears().iter().filter_map(Weak::upgrade).for_each(|ear| ear.close());
    }
}

/// A link: the thread that executes commands, and the wakes from other processes.
struct FileLink {
    commands: Threaded,
    wakes: UnboundedReceiver<Wake>,
    ear: Arc<Ear>,
}

impl Drop for FileLink {
    /// Closes the socket at once: a process that is about to exit does not wait for its
    /// database to be closed.
    fn drop(&mut self) {
        self.ear.close();
    }
}

impl Link for FileLink {
    fn send(&mut self, tag: Tag, command: Command) {
        self.commands.send(tag, command);
    }

    fn poll(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
        self.commands.poll(cx, replies);
        while let Poll::Ready(Some(wake)) = self.wakes.poll_recv(cx) {
            replies.push((Tag::WAKE, Reply::Woken(wake)));
        }
    }
}
