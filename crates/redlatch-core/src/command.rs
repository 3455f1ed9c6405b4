//! What a node is asked, and what it answers.
//!
//! A node carries out one command at a time, all or nothing, and answers each
//! once. It never decides and never retries.

use crate::{
    fence::{FencingToken, Proposal},
    quarantine::{Fingerprint, Mark, Marker},
    quorum::{Fault, Vote},
    resource::{Resource, Resources},
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
        /// With fencing: move the registers of the resources to one number (see
        /// [`Proposal::settle`]) and answer it as [`Vote::Numbered`].
        fence: Option<Proposal>,
        /// With the restart guard: vote only if admitted by this agreement, and
        /// otherwise answer [`Vote::Quarantined`].
        guard: Option<Fingerprint>,
    },
    /// If every key holds the token, move the registers of the resources to at
    /// least `to`. Answer: [`Vote::Numbered`] with the greatest of them now, or
    /// [`Vote::Gone`].
    Raise {
        /// What is locked.
        resources: Resources,
        /// The value the keys must have.
        token: Token,
        /// The number the registers shall reach.
        to: FencingToken,
        /// As for a take.
        guard: Option<Fingerprint>,
    },
    /// Set every key to the token, to live for `ttl`, if none of them exists:
    /// puts a lease that was just proved held back on a node that lost it. A
    /// node that is out does so, too, but not one that serves another agreement.
    /// Answer: [`Vote::Granted`], [`Vote::Held`] or [`Vote::Quarantined`].
    Plant {
        /// What is locked.
        resources: Resources,
        /// The value to set.
        token: Token,
        /// How long the keys live, in whole milliseconds.
        ttl: Duration,
        /// The agreement of the restart guard.
        guard: Option<Fingerprint>,
    },
    /// If every key holds the token, let each live for at least `ttl` from now;
    /// never shorten one. Answer: [`Vote::Granted`] or [`Vote::Gone`]. A node
    /// that is out grants it as well where the keys are, and is otherwise
    /// [`Vote::Quarantined`]: it has not forgotten this lock.
    Extend {
        /// What is locked.
        resources: Resources,
        /// The value the keys must have.
        token: Token,
        /// How long the keys shall live, in whole milliseconds.
        ttl: Duration,
        /// With fencing: the registers of the resources shall be at least this.
        fence: Option<FencingToken>,
        /// As for a take.
        guard: Option<Fingerprint>,
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
    /// Tell some of the locks that are held, in small steps that hold up nobody.
    /// Answer: [`Reply::Page`].
    List {
        /// What the names must be like: see [`glob`](crate::glob).
        pattern: Arc<[u8]>,
        /// Where the last page ended; none for the first.
        after: Option<Arc<[u8]>>,
    },
    /// Tell what matters to locks. Answer: [`Reply::Facts`].
    Examine,
    /// The same; and if the node is out, leave a [`Mark`] unless one of its
    /// present run is there. A node is out if its marker is of another run, or
    /// if it has none. Another agreement's marker stays, unless it is replaced:
    /// then the node is out from now on, and reserved for this agreement.
    Watch {
        /// By which agreement.
        guard: Fingerprint,
        /// What makes the mark different from every other.
        nonce: u64,
        /// Take the node from the clients of another agreement.
        replace: bool,
    },
    /// If the mark is still there, and of the present run: let every register
    /// count from `floor` on, and put the marker in the mark's place, all at
    /// once. Answer: [`Vote::Granted`] or [`Vote::Gone`].
    Admit {
        /// By which agreement.
        guard: Fingerprint,
        /// The agreement in words, for those who have another.
        agreement: Arc<str>,
        /// Which mark.
        mark: Arc<str>,
        /// The greatest number that a majority of the other nodes has given: no
        /// register of the node is below it from now on.
        floor: Option<FencingToken>,
    },
}

impl Command {
    /// The agreement by which the node must be admitted to carry it out, or at
    /// least not serve another one.
    #[must_use]
    pub fn guard(&self) -> Option<Fingerprint> {
        match self {
            Command::Take { guard, .. }
            | Command::Raise { guard, .. }
            | Command::Plant { guard, .. }
            | Command::Extend { guard, .. } => *guard,
            _ => None,
        }
    }
}

/// One node's answer to one command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reply {
    /// To a command that changes something; a fault to any command.
    Vote(Vote),
    /// To [`Command::Inspect`]: one state per resource, in their order.
    Keys(Box<[KeyState]>),
    /// To [`Command::Identify`].
    Identity(Identity),
    /// To [`Command::List`].
    Page(Page),
    /// To [`Command::Examine`] and [`Command::Watch`].
    Facts(Box<Facts>),
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
        /// What the fencing register of the resource stands at; none if it has
        /// never moved. Names that hash alike share it, so it is the number of
        /// who holds the key, or a later one.
        number: Option<FencingToken>,
    },
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Different for every server, for every start of one, and for every time it
    /// was promoted from a replica. Without spaces.
    pub run: Arc<str>,
    /// Kind and version, for people: `redis 7.0.15`.
    pub version: Arc<str>,
}

/// Some of the locks that a node holds. Locks of other libraries, whose values
/// look like any other, are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Page {
    /// The locks. One may come twice, on two pages.
    pub locks: Box<[HeldKey]>,
    /// Where this page ended; none if it was the last.
    pub next: Option<Arc<[u8]>>,
}

/// One lock on one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeldKey {
    /// What is locked.
    pub name: Resource,
    /// What signs it.
    pub value: Arc<[u8]>,
    /// How long the key lives on; none if it never expires.
    pub remaining: Option<Duration>,
}

/// What matters to locks, as a node tells it; none where it does not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Who it is.
    pub identity: Identity,
    /// Its wall clock: the time since 1970.
    pub clock: Option<Duration>,
    /// How long it has been up.
    pub uptime: Option<Duration>,
    /// What it may do when its memory is full, if that is limited: `noeviction`
    /// keeps every key.
    pub eviction: Option<Arc<str>>,
    /// How many keys it has thrown away for want of memory.
    pub evicted: Option<u64>,
    /// Whether every change is written to disk.
    pub journal: Option<bool>,
    /// How many replicas it has, which will not be asked.
    pub replicas: Option<u32>,
    /// It was a replica of another server: what that one did not pass on in
    /// time is forgotten.
    pub promoted: bool,
    /// It can be seen that nothing was flushed, swapped or evicted since it
    /// started: what it has not got, it has not had in this life.
    pub intact: bool,
    /// The greatest number that any of its fencing registers has reached.
    pub highest: Option<FencingToken>,
    /// Which life of it was admitted to vote, and by which agreement.
    pub marker: Option<Marker>,
    /// The last agreement by which it was.
    pub agreement: Option<Arc<str>>,
    /// It is out, and only clients of this agreement may admit it.
    pub reserved: Option<Fingerprint>,
    /// It is out, and has been seen so.
    pub mark: Option<Mark>,
    /// It is out for so long still, by what the client that looks has seen: no
    /// node says so itself.
    pub remaining: Option<Duration>,
}

impl Facts {
    /// Of a node that tells nothing more.
    #[must_use]
    pub fn of(identity: Identity) -> Self {
        Facts {
            identity,
            clock: None,
            uptime: None,
            eviction: None,
            evicted: None,
            journal: None,
            replicas: None,
            promoted: false,
            intact: false,
            highest: None,
            marker: None,
            agreement: None,
            reserved: None,
            mark: None,
            remaining: None,
        }
    }
}
