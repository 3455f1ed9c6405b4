//! The servers that vote.
//!
//! A node translates commands into what its server understands and answers
//! back. It keeps their order, answers each exactly once, never decides and
//! never retries: that is the core's business. One file per kind of node; each
//! kind passes the same [`conformance`] suite, which is open to yours, too.

pub mod conformance;
#[cfg(feature = "file")]
mod file;
mod heeding;
mod memory;
mod redis;
mod threaded;
mod url;

pub use crate::clock::Clock;
use redlatch_core::{Command, Reply, Tag};
use std::{fmt::Debug, task::Context};

#[cfg(feature = "file")]
pub use file::File;
pub(crate) use heeding::Heeding;
pub use memory::Memory;
pub use redis::{REDIS_PERMISSIONS, Redis};
pub use threaded::{Store, Threaded};
pub use url::{UrlError, parse};

/// A way to reach one server.
pub trait Node: Debug + Send + Sync {
    /// How people see the node. Secrets do not belong here.
    fn name(&self) -> &str;

    /// A new connection to it, or what there is instead. Nothing has to happen
    /// before the first command; the caller is inside a tokio runtime.
    fn open(&self, clock: Clock) -> Box<dyn Link>;
}

/// One ordered line of commands to a node.
///
/// Dropping it closes the connection. Commands that were sent and not answered
/// have an unknown outcome then.
pub trait Link: Send {
    /// Hands over a command. It is carried out after all earlier ones, and its
    /// reply comes out of [`poll`](Link::poll) with the same tag, exactly once.
    fn send(&mut self, tag: Tag, command: Command);

    /// Moves what can be moved without waiting: sends what was handed over,
    /// appends the replies that have come, in order. Arranges for a wake-up
    /// when there is more to move.
    fn poll(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>);
}
