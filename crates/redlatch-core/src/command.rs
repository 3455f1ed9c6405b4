//! The commands that a node executes, and its answers.
//!
//! A node executes one command at a time, atomically, and answers each once. It
//! never decides and never retries.

use crate::{
    agreement::Fingerprint,
    fence::{FencingToken, Proposal},
    ledger::Ledger,
    line::{LineState, Place, Then, Ticket, Wake},
    quarantine::{Mark, Marker},
    resource::{Resource, Resources},
    token::Token,
    vote::{Fault, Vote},
};
use alloc::{boxed::Box, sync::Arc};
use core::{fmt, time::Duration};

/// One command to one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Command {
    /// Sets every key to the token, for `ttl`, if none of them exists. Answer:
    /// [`Vote::Granted`] or [`Vote::Held`]. A key that is reserved for the ticket of
    /// `place`, or for a later one, counts as free; the later ticket goes back into line.
    Take {
        /// What to lock.
        resources: Resources,
        /// The value to set.
        token: Token,
        /// How long the keys live, in whole milliseconds.
        ttl: Duration,
        /// With fencing: moves the resources' registers to one number (see
        /// [`Proposal::settle`]) and answers with it as [`Vote::Numbered`].
        fence: Option<Proposal>,
        /// With the restart guard: votes only if admitted by this agreement, and otherwise
        /// answers [`Vote::Quarantined`].
        fingerprint: Option<Fingerprint>,
        /// Joins the line for the first key that exists, if the take is not granted and the key
        /// does not hold the token. The answer then says how many are ahead.
        place: Option<Place>,
    },
    /// If every key holds the token, moves the resources' registers to at least `to`.
    /// Answer: [`Vote::Numbered`] with the highest of them, or [`Vote::Gone`].
    Raise {
        /// What is locked.
        resources: Resources,
        /// The value the keys must have.
        token: Token,
        /// The number that the registers must reach.
        to: FencingToken,
        /// As for a take.
        fingerprint: Option<Fingerprint>,
    },
    /// Sets every key to the token, for `ttl`, if none of them exists: puts a lease that
    /// has just been proven back on a node that lost it. A quarantined node does so, too,
    /// if it has a mark of this agreement. Answer: [`Vote::Granted`], [`Vote::Held`] or
    /// [`Vote::Quarantined`].
    Plant {
        /// What is locked.
        resources: Resources,
        /// The value to set.
        token: Token,
        /// How long the keys live, in whole milliseconds.
        ttl: Duration,
        /// The restart guard's agreement.
        fingerprint: Option<Fingerprint>,
        /// A key that is reserved for this ticket counts as free.
        ticket: Option<Ticket>,
    },
    /// If every key holds the token, lets each live for at least `ttl` from now; never
    /// shortens its life. Answer: [`Vote::Granted`] or [`Vote::Gone`]. A quarantined node
    /// grants it, too, if it has the keys and a mark of this agreement, because it has not
    /// forgotten this lock; otherwise it answers [`Vote::Quarantined`].
    Extend {
        /// What is locked.
        resources: Resources,
        /// The value the keys must have.
        token: Token,
        /// How long the keys must live, in whole milliseconds.
        ttl: Duration,
        /// With fencing: the lowest number that the resources' registers may have.
        fence: Option<FencingToken>,
        /// As for a take.
        fingerprint: Option<Fingerprint>,
    },
    /// Deletes each key that holds the token, and no other. If somebody waits in line,
    /// reserves the key for the first waiter instead, and wakes that client. Answer:
    /// [`Vote::Granted`] if every key was ours, otherwise [`Vote::Gone`].
    Release {
        /// What to unlock.
        resources: Resources,
        /// The value the keys must have.
        token: Token,
        /// What to do about our own place in line.
        then: Option<Then>,
    },
    /// Reads each key. Answer: [`Reply::Keys`].
    Inspect {
        /// The keys to read.
        resources: Resources,
    },
    /// Reads the line for a key. Answer: [`Reply::Line`].
    Line {
        /// The key.
        resource: Resource,
    },
    /// Identifies the server. Answer: [`Reply::Identity`].
    Identify,
    /// Lists some of the locks held, in small steps that block nobody. Answer:
    /// [`Reply::Page`].
    List {
        /// The pattern that names must match: see [`glob`](crate::glob).
        pattern: Arc<[u8]>,
        /// Where the last page ended; `None` for the first.
        after: Option<Arc<[u8]>>,
    },
    /// Lists some of the keys that may be locks of other libraries: those that expire
    /// and are not ours. Works in small steps, like `List`. Answer: [`Reply::Page`],
    /// with empty values.
    Others {
        /// Where the last page ended; `None` for the first.
        after: Option<Arc<[u8]>>,
    },
    /// Reports everything that matters to locks. Answer: [`Reply::Facts`].
    Examine,
    /// Does the same and, if the node is quarantined, leaves a [`Mark`] unless its current
    /// run already has one. A node is quarantined if it has no marker, or one of another
    /// run. The marker of another agreement stays unless `replace` is set; then the node is
    /// quarantined from now on, and reserved for this agreement.
    Watch {
        /// The agreement of the client.
        fingerprint: Fingerprint,
        /// Makes the mark unique.
        nonce: u64,
        /// Whether to take the node over from clients of another agreement.
        replace: bool,
    },
    /// Reports only what the node keeps for the restart guard, because clients without the
    /// guard ask often. Answer: [`Reply::Ledger`].
    Ledger,
    /// If the mark is still there and of the current run, raises every register to at least
    /// `floor` and replaces the mark with the marker, atomically. Answer: [`Vote::Granted`]
    /// or [`Vote::Gone`].
    Admit {
        /// The agreement of the client.
        fingerprint: Fingerprint,
        /// The agreement as text, for clients that have another one.
        agreement: Arc<str>,
        /// The mark that must be there.
        mark: Arc<str>,
        /// The highest number that the other nodes that answered have given: from now on none
        /// of this node's registers is below it.
        floor: Option<FencingToken>,
    },
}

impl Command {
    /// Returns the agreement that the node checks before it executes the command.
    #[must_use]
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        match self {
            Command::Take { fingerprint, .. }
            | Command::Raise { fingerprint, .. }
            | Command::Plant { fingerprint, .. }
            | Command::Extend { fingerprint, .. } => *fingerprint,
            _ => None,
        }
    }

    /// Returns the ticket that the command carries. Its client is woken over the link that
    /// sent the command.
    #[must_use]
    pub fn ticket(&self) -> Option<Ticket> {
        match self {
            Command::Take { place, .. } => place.map(|place| place.ticket),
            Command::Plant { ticket, .. } => *ticket,
            Command::Release { then, .. } => then.map(|then| match then {
                Then::Leave(ticket) | Then::Wait(ticket) | Then::Pass(ticket) => ticket,
            }),
            _ => None,
        }
    }
}

/// One node's answer to one command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reply {
    /// To a command that changes something. A fault is the answer to any command.
    Vote(Vote),
    /// To [`Command::Inspect`]: one state per resource, in order.
    Keys(Box<[KeyState]>),
    /// To [`Command::Line`].
    Line(LineState),
    /// To [`Command::Identify`].
    Identity(Identity),
    /// To [`Command::List`] and [`Command::Others`].
    Page(Page),
    /// To [`Command::Examine`] and [`Command::Watch`].
    Facts(Box<Facts>),
    /// To [`Command::Ledger`].
    Ledger(Box<Ledger>),
    /// Unsolicited ([`Tag::WAKE`](crate::Tag::WAKE)): a key is reserved for us.
    Woken(Wake),
    /// Unsolicited, like a wake: the connection over which the node would have woken us is
    /// gone. The node skips us until it is asked again.
    Deaf,
}

impl Reply {
    /// Creates the reply of a node that could not vote.
    #[must_use]
    pub fn failed(fault: Fault) -> Self {
        Reply::Vote(Vote::Failed(fault))
    }

    /// Returns what the node said about itself, if it was asked.
    pub(crate) fn facts(&self) -> Option<&Facts> {
        match self {
            Reply::Facts(facts) => Some(facts),
            _ => None,
        }
    }
}

/// The state of one key on one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeyState {
    /// No key: the lock is free there.
    Free,
    /// A value: someone holds the lock, or it is reserved
    /// ([`Waiting::reserved_in`](crate::line::Waiting::reserved_in)).
    Held {
        /// The value itself; `None` for a key of another type.
        value: Option<Arc<[u8]>>,
        /// How long until the key expires; `None` if it never does.
        remaining: Option<Duration>,
        /// The number in the resource's fencing register; `None` if it never moved.
        /// Names with the same hash share a register, so it is the number of the
        /// key's holder or a later one.
        number: Option<FencingToken>,
    },
}

/// How a node identifies itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Unique to each server, each start of it, and each promotion from a replica.
    /// Contains no spaces.
    pub run: Arc<str>,
    /// Kind and version, for people: `redis 7.0.15`.
    pub version: Arc<str>,
}

/// Some of the locks that a node holds or has reserved for the next in line. Other
/// libraries' locks are left out, since their values look like any other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Page {
    /// The locks. One may appear on two pages.
    pub locks: Box<[HeldKey]>,
    /// How many keys were left out because this user may not read them.
    pub denied: usize,
    /// Where this page ended; `None` for the last.
    pub next: Option<Arc<[u8]>>,
}

/// One lock on one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeldKey {
    /// What is locked.
    pub name: Resource,
    /// Its lock token, or for whom it is reserved
    /// ([`Waiting::reserved_in`](crate::line::Waiting::reserved_in)).
    pub value: Arc<[u8]>,
    /// How long until the key expires; `None` if it never does.
    pub remaining: Option<Duration>,
    /// How many wait in line for it.
    pub waiters: usize,
}

/// Everything about a node that matters to locks; `None` for what it does not report.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The server's identity.
    pub identity: Identity,
    /// Its wall clock, as time since 1970.
    pub clock: Option<Duration>,
    /// How long it has been up.
    pub uptime: Option<Duration>,
    /// Its eviction policy, if its memory is limited; `noeviction` keeps every key.
    pub eviction: Option<Arc<str>>,
    /// How many keys it has evicted for lack of memory.
    pub evicted: Option<u64>,
    /// Why it would refuse to grant a lock to anyone now.
    pub refuses: Option<Refusal>,
    /// The ACL rules that its user lacks to wake waiters and to be woken, as in `ACL SETUSER`.
    pub unwoken: Option<Arc<str>>,
    /// Whether every change is written to disk.
    pub journal: Option<bool>,
    /// How many replicas it has. They never vote.
    pub replicas: Option<u32>,
    /// How many clients are connected to it.
    pub clients: Option<u64>,
    /// How many clients it accepts.
    pub max_clients: Option<u64>,
    /// Whether it was once a replica of another server, and so lacks whatever that server
    /// did not replicate in time.
    pub promoted: bool,
    /// Whether it can prove that nothing was flushed, swapped or evicted since it started:
    /// a missing key was never there in this run.
    pub intact: bool,
    /// Whether it holds nothing but what it keeps for admission: no lock, and no other key
    /// that may be one.
    pub empty: bool,
    /// The highest number that any of its fencing registers has reached.
    pub highest: Option<FencingToken>,
    /// Which run of it was admitted to vote, and by which agreement.
    pub marker: Option<Marker>,
    /// The last agreement by which it was admitted.
    pub agreement: Option<Arc<str>>,
    /// Set if it is quarantined and only clients of this agreement may admit it.
    pub reserved: Option<Fingerprint>,
    /// Set if it is quarantined and a client has marked it.
    pub mark: Option<Mark>,
}

/// Why a server that answers refuses writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Its memory is full, and it evicts nothing.
    MemoryFull,
    /// It cannot save its data.
    CannotSave,
    /// The disk with its file is full.
    DiskFull,
    /// Fewer replicas follow it than it requires.
    TooFewReplicas,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::MemoryFull => "its memory is full (maxmemory)",
            Refusal::CannotSave => "it cannot save its data to disk",
            Refusal::DiskFull => "its disk is full",
            Refusal::TooFewReplicas => "too few replicas follow it (min-replicas-to-write)",
        })
    }
}

impl Facts {
    /// Creates the facts of a node that reports only its identity.
    #[must_use]
    pub fn of(identity: Identity) -> Self {
        Facts {
            identity,
            clock: None,
            uptime: None,
            eviction: None,
            evicted: None,
            refuses: None,
            unwoken: None,
            journal: None,
            replicas: None,
            clients: None,
            max_clients: None,
            promoted: false,
            intact: false,
            empty: false,
            highest: None,
            marker: None,
            agreement: None,
            reserved: None,
            mark: None,
        }
    }
}
