//! What a node is asked, and what it answers.
//!
//! A node carries out one command at a time, all or nothing, and answers each
//! once. It never decides and never retries.

use crate::{
    quorum::{Fault, Vote},
    resource::Resources,
    token::Token,
};
use alloc::{boxed::Box, sync::Arc};
use core::time::Duration;

/// One command to one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Command {
    /// Set every key to the token, to live for `ttl`, if none of them exists.
    /// Answer: [`Vote::Granted`] or [`Vote::Held`].
    Take {
        /// What to lock.
        resources: Resources,
        /// The value to set.
        token: Token,
        /// How long the keys live, in whole milliseconds.
        ttl: Duration,
    },
    /// If every key holds the token, let each live for at least `ttl` from now;
    /// never shorten one. Answer: [`Vote::Granted`] or [`Vote::Gone`].
    Extend {
        /// What is locked.
        resources: Resources,
        /// The value the keys must have.
        token: Token,
        /// How long the keys shall live, in whole milliseconds.
        ttl: Duration,
    },
    /// Delete each key that holds the token, and no other. Answer:
    /// [`Vote::Granted`] if every key was ours, otherwise [`Vote::Gone`].
    Release {
        /// What to unlock.
        resources: Resources,
        /// The value the keys must have.
        token: Token,
    },
    /// Tell what stands under each key. Answer: [`Reply::Keys`].
    Inspect {
        /// What to look at.
        resources: Resources,
    },
    /// Tell who you are. Answer: [`Reply::Identity`].
    Identify,
}

/// One node's answer to one command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reply {
    /// To a take, an extension or a release; a fault to any command.
    Vote(Vote),
    /// To [`Command::Inspect`]: one state per resource, in their order.
    Keys(Box<[KeyState]>),
    /// To [`Command::Identify`].
    Identity(Identity),
}

impl Reply {
    /// The reply of a node that could not vote.
    #[must_use]
    pub fn failed(fault: Fault) -> Self {
        Reply::Vote(Vote::Failed(fault))
    }
}

/// What stands under one key of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeyState {
    /// Nothing: the lock is free there.
    Free,
    /// A value: somebody's lock.
    Held {
        /// The value itself; none for a key of another type.
        value: Option<Arc<[u8]>>,
        /// How long the key lives on; none if it never expires.
        remaining: Option<Duration>,
    },
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Different for every server, and for every start of one.
    pub run: Arc<str>,
    /// Kind and version, for people: `redis 7.0.15`.
    pub version: Arc<str>,
}
