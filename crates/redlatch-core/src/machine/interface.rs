//! What goes into the machine and what comes out of it.

use crate::{
    acquire,
    command::{Command, Reply},
    config::Terms,
    extend,
    fence::{FencingToken, WallClock},
    lease::{Deadlines, Loss},
    line::InLine,
    moment::Moment,
    owner::Owner,
    release,
    resource::Resources,
    standing::Standing,
    token::Token,
    vote::Ballot,
};
use alloc::boxed::Box;
use core::time::Duration;

/// Identifies one operation. The driver counts ids up from zero and never reuses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub(super) u64);

impl OpId {
    /// Ids from here on belong to undos that the machine starts itself, for lost attempts.
    pub(super) const INTERNAL: u64 = 1 << 63;
    /// The one operation that watches over all quarantined nodes.
    pub(super) const ADMISSION: OpId = OpId(u64::MAX);

    /// Returns the id with this number, which must be below 2^63.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        OpId(number & !Self::INTERNAL)
    }
}

/// Identifies the command that a reply answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    pub(super) op: OpId,
    pub(super) round: u32,
}

impl Tag {
    /// Returns a tag for a command that the driver sends for its own purposes. The driver
    /// chooses the number; no machine uses these tags.
    #[must_use]
    pub const fn of_driver(number: u32) -> Self {
        Tag { op: OpId(u64::MAX - 1), round: number }
    }

    /// The tag of unsolicited replies ([`Reply::Woken`], [`Reply::Deaf`]).
    pub const WAKE: Tag = Tag { op: OpId(u64::MAX - 2), round: 0 };
}

/// An event for the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// Acquire a lock.
    Acquire(OpId, Order),
    /// Take over a lease that was acquired elsewhere. Until it is extended, nothing but its
    /// [deadlines](Adopted::deadlines) is known about it.
    Adopt(OpId, Adopted),
    /// Extend the lease now, by this TTL.
    Extend(OpId, Duration),
    /// Release the lock and answer with the outcome.
    Release(OpId),
    /// The caller is gone: undo everything, answer nothing.
    Cancel(OpId),
    /// Stop managing the lease, but leave its keys alone.
    Forget(OpId),
    /// Someone else extended the lease; it now ends at this moment.
    Extended(OpId, Moment),
    /// Someone else signalled the loss: let the lease end, no matter what the nodes
    /// say.
    GivenUp(OpId),
    /// Send the same command to every node and answer with all replies.
    Survey(OpId, Command, Duration),
    /// Check which nodes may vote and admit those that are ready. Answers once a majority
    /// may vote, or once there is nothing left to do but wait.
    Admit(OpId, Vouch),
    /// A node answered.
    Reply {
        /// The node's index.
        node: usize,
        /// The tag of the command it answers.
        tag: Tag,
        /// The node's answer.
        reply: Reply,
    },
    /// Time has passed.
    Tick,
}

/// A request for a lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Order {
    /// What to lock.
    pub resources: Resources,
    /// Its TTL, timeouts and renewal.
    pub terms: Terms,
    /// The owner's name, which becomes part of the lock token.
    pub owner: Owner,
    /// How long to retry or to wait for a turn. At least one attempt is made, unless no
    /// turn comes up by then or within the node timeout, whichever is later.
    pub wait_until: Moment,
    /// The wall clock that fencing numbers are proposed from; `None` without fencing.
    pub fencing: Option<WallClock>,
    /// How to wait in line, first come first served; `None` to retry after random pauses.
    pub line: Option<InLine>,
}

/// A lease that was acquired elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Adopted {
    /// What is locked.
    pub resources: Resources,
    /// Its terms from here on.
    pub terms: Terms,
    /// Its lock token.
    pub token: Token,
    /// The moment until which it is known to be held.
    pub usable_until: Moment,
    /// When `max_hold` ends it: see [`hold_until`](crate::lease::hold_until).
    pub hold_until: Moment,
    /// Whether this machine renews the lease from now on and puts its key back on nodes
    /// that lost it. Only one machine may do that, or a key could be planted after its
    /// release. The others act only on request.
    pub keeps: bool,
    /// Its fencing token, which every extension carries.
    pub fence: Option<FencingToken>,
}

impl Adopted {
    /// Returns the times at which something must happen to the lease.
    #[must_use]
    pub fn deadlines(&self) -> Deadlines {
        Deadlines::of(&self.terms, self.usable_until, self.hold_until)
    }
}

/// What an operator vouches for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Vouch {
    /// These nodes have forgotten no lock that could still be held: admit them at once.
    pub remembers: Box<[usize]>,
    /// Take these nodes over from clients with another agreement, and admit them
    /// once all locks of those clients have expired.
    pub replace: Box<[usize]>,
    /// All nodes are new: admit them at once, provided that all of them answer and no
    /// client ever admitted any of them. If even one was admitted, the servers are not new.
    pub new: bool,
    /// Answer only after checking all nodes, even if a majority may already vote. Always
    /// the case for callers that vouch.
    pub patient: bool,
}

/// An action for the driver.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send a command to a node.
    Send {
        /// The node's index.
        node: usize,
        /// Must come back with the reply.
        tag: Tag,
        /// The command.
        command: Command,
    },
    /// The answer to [`Input::Acquire`].
    Acquired(OpId, Result<Grant, acquire::AcquireError>),
    /// The answer to [`Input::Extend`].
    Extended(OpId, Result<Kept, extend::ExtendError>),
    /// The answer to [`Input::Release`].
    Released(OpId, release::Decision),
    /// The answer to [`Input::Survey`], in node order.
    Surveyed(OpId, Box<[Reply]>),
    /// The answer to [`Input::Admit`]: each node's standing, in node order.
    Standings(OpId, Box<[Standing]>),
    /// This node may vote again.
    Admitted(usize),
    /// The lease was extended.
    Kept(OpId, Kept),
    /// This ballot did not extend the lease. Its end does not change; if the lease is
    /// renewed, another attempt follows.
    NotKept(OpId, Ballot),
    /// An attempt failed; the next one follows after this pause.
    Retrying(OpId, acquire::AcquireError, Duration),
    /// The lease is lost, or will be before anything can be done about it.
    Lost(OpId, Loss),
}

/// A lock that was won: everything its holder needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grant {
    /// What is locked.
    pub resources: Resources,
    /// Its terms, as ordered.
    pub terms: Terms,
    /// Its lock token.
    pub token: Token,
    /// When its lease ends, and when something must happen before that.
    pub deadlines: Deadlines,
    /// The votes at the moment a majority was complete.
    pub ballot: Ballot,
    /// Its fencing token, if fencing is on.
    pub fence: Option<FencingToken>,
    /// Whether the nodes first answered with different numbers, so that agreeing on one
    /// took a second round trip.
    pub second_round: bool,
}

/// A lease that was extended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kept {
    /// When it now ends, and when something must happen before that.
    pub deadlines: Deadlines,
    /// The votes at the moment a majority was complete.
    pub ballot: Ballot,
}
