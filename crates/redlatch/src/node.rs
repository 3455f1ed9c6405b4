//! The servers that vote.
//!
//! A node translates commands for its server, and the server's answers into replies. It
//! keeps commands that concern the same resource in order and answers each exactly once. It
//! never decides and never retries: that is the core's job. There is one file per kind of
//! node, and every kind passes the same suite, `conformance`. To run it on your own node,
//! enable the feature of that name and call `conformance::check` in a test.
//!
//! Commands, replies and their parts are in [`core`].
//!
//! # Example
//!
//! A kind of node that passes everything on to another one:
//!
//! ```
//! use redlatch::node::{Clock, Command, Link, Memory, Node, Reply, Tag};
//! use std::task::Context;
//!
//! #[derive(Debug)]
//! struct Passing(Memory);
//!
//! struct PassingLink(Box<dyn Link>);
//!
//! impl Node for Passing {
//!     fn name(&self) -> &str {
//!         self.0.name()
//!     }
//!
//!     fn open(&self, clock: Clock) -> Box<dyn Link> {
//!         Box::new(PassingLink(self.0.open(clock)))
//!     }
//! }
//!
//! impl Link for PassingLink {
//!     fn send(&mut self, tag: Tag, command: Command) {
//!         self.0.send(tag, command);
//!     }
//!
//!     fn poll(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
//!         self.0.poll(cx, replies);
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let node = Passing(Memory::new("passing"));
//! let locks = redlatch::Locks::builder().custom_node(std::sync::Arc::new(node)).connect().await?;
//! assert!(locks.lock("report").await?.is_held());
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
#[cfg(feature = "file")]
mod file;
mod heeding;
mod memory;
mod name;
mod redis;
mod servers;
mod threaded;
mod url;

pub use crate::driver::clock::Clock;
#[doc(no_inline)]
pub use redlatch_core as core;
use redlatch_core::Fault;
#[doc(no_inline)]
pub use redlatch_core::{Command, Reply, Tag};
use std::{fmt::Debug, task::Context};

#[cfg(feature = "file")]
pub use file::File;
pub(crate) use heeding::Heeding;
pub use memory::Memory;
pub use name::OtherName;
pub(crate) use name::label;
pub(crate) use redis::refusal_in;
pub use redis::{REDIS_PERMISSIONS, Redis};
pub(crate) use servers::Servers;
pub use threaded::{Store, Threaded};
pub use url::{UrlError, parse};

/// A way to reach one server.
///
/// A node may keep a *line* for each lock: a take that finds the lock held leaves a
/// [`Ticket`](redlatch_core::Ticket), and a release reserves the lock for the first in line
/// and wakes that client. A node without lines is just as safe: it ignores the tickets,
/// answers [`Held`](redlatch_core::Vote::Held) without `ahead`, and deletes the key on
/// release. Its clients then learn that the lock is free by asking again.
pub trait Node: Debug + Send + Sync {
    /// Returns the node's name. All clients must use the same name for a node,
    /// because they compare their lists of nodes by name. Errors show it, so it
    /// must not contain secrets.
    fn name(&self) -> &str;

    /// Returns the node's address, without secrets. Operators see it next to the name.
    /// Default: the name.
    fn address(&self) -> &str {
        self.name()
    }

    /// Returns the URL that [`parse`] reads as this node: its address, name and options,
    /// but no user and no password. Errors that suggest a command include it. Default:
    /// `None`, for a node that has no such URL.
    fn url(&self) -> Option<String> {
        None
    }

    /// Returns whether the node's address has a user or a password that [`url`](Self::url)
    /// leaves out. Errors that suggest a command then ask for it. Default: `false`.
    fn has_login(&self) -> bool {
        false
    }

    /// Returns whether a server has ever answered at the address. If none has, the
    /// address may be mistyped, and errors say so. Default: `true`.
    fn has_answered(&self) -> bool {
        true
    }

    /// Returns what a connection attempt is waiting for, if that hints at a mistake in the
    /// address. Errors about a missing answer show it. Default: `None`.
    fn hint(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether the node's links need tokio's I/O driver (`enable_io`). If they do,
    /// connecting in a runtime without it is refused. Default: `false`.
    fn needs_io(&self) -> bool {
        false
    }

    /// Opens a new link to the node. It need not connect before the first
    /// command. The caller is inside a tokio runtime.
    fn open(&self, clock: Clock) -> Box<dyn Link>;

    /// Stops listening for wakes on every link, at once. Called when the process is about to exit
    /// and may not get to drop its links, to remove anything that would outlive it. Default: does
    /// nothing.
    fn hang_up(&self) {}
}

/// Adds to a missing answer what the connection to the node is waiting for, if known.
pub(crate) fn explained(node: &dyn Node, fault: Fault) -> Fault {
    match (fault, node.hint()) {
        (Fault::TimedOut(waited), Some(hint)) => Fault::Connecting { waited, hint },
        (fault, _) => fault,
    }
}

/// A connection to one node that carries out commands in order.
///
/// Dropping it closes the connection. Commands sent but not yet answered then
/// have an unknown outcome.
///
/// On a node that keeps lines, the first command with a
/// [ticket](redlatch_core::Command::ticket) also tells it which client the link belongs to:
/// from then on [`poll`](Link::poll) reports every key that the node reserves for that
/// client. A wake is only a hint. It may be lost or repeated: clients that get none ask
/// again by themselves. Once a client has no link left, its tickets are skipped.
pub trait Link: Send {
    /// Queues a command. It runs after all earlier ones that concern any of the same
    /// resources, and [`poll`](Link::poll) returns its reply with the same tag, exactly
    /// once.
    fn send(&mut self, tag: Tag, command: Command);

    /// Makes progress without blocking: sends queued commands and appends the replies that
    /// have arrived, in the order in which the commands ran. Registers the waker for
    /// further progress: after that, a link is polled again when it has been woken or sent
    /// a command, and need not be polled in between.
    ///
    /// Also appends wakes, as [`Woken`](redlatch_core::Reply::Woken) with [`Tag::WAKE`],
    /// whether or not a command is in progress. When a connection breaks and the node can no
    /// longer wake the client until it is asked again, appends
    /// [`Deaf`](redlatch_core::Reply::Deaf), after the replies that fail with the connection.
    fn poll(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>);
}
