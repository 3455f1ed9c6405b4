//! The program that uses a client: what it does and what it was told.
//!
//! This is the part of the state that the promises are about.

use redlatch_core::Moment;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    /// How many locks it has wanted so far.
    pub(super) started: u8,
    pub(super) stage: Stage,
    /// How many more times it may check which nodes may vote.
    pub(super) looks: u8,
    /// How many more times it may extend by hand.
    pub(super) extends: u8,
    /// The greatest token granted before the current attempt began: its own must be
    /// greater.
    pub(super) floor: u64,
    /// The clients that held a lease when the current attempt began, one bit each.
    pub(super) under: u8,
    /// The current attempt has asked for a second round.
    pub(super) raised: bool,
    /// How far its client's lease clock was set forward.
    pub(super) ahead_ms: u32,
    /// The number of its current attempt, as its client counts them.
    pub(super) attempt: u8,
    /// The number of its current operation.
    pub(super) op: u8,
    /// Its place in the order of all callers that ever began to wait in line; zero if
    /// it does not wait.
    pub(super) arrived: u8,
    /// Whether its client has stood in line on a majority of the nodes since.
    pub(super) in_line: bool,
    /// How many times later callers of other clients were granted the lock since then.
    pub(super) overtaken: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Idle,
    Wanting,
    Holding(Lease),
}

/// A lease in the caller's hand. It counts until its end even if its loss was
/// signalled earlier: the caller may still be acting on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    pub(super) until: Moment,
    /// Its fencing token; zero without fencing.
    pub(super) fence: u64,
    /// Someone else was granted the lock since.
    pub(super) rival: bool,
    /// Whether someone else asked for the lock and got it under this lease.
    pub(super) successor: Successor,
    pub(super) lost: bool,
}

/// Whether someone else asked for the lock and was granted it, all under one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Successor {
    Nobody,
    Somebody,
    /// Yes, and before the latest extension was sent.
    BeforeExtension,
}

impl Lease {
    /// Records that an extension was sent.
    pub(super) fn extended(&mut self) {
        if self.successor == Successor::Somebody {
            self.successor = Successor::BeforeExtension;
        }
    }
}

impl Caller {
    pub(super) fn new(extends: u8, looks: u8) -> Self {
        Caller {
            started: 0,
            stage: Stage::Idle,
            looks,
            extends,
            floor: 0,
            under: 0,
            raised: false,
            ahead_ms: 0,
            attempt: 0,
            op: 0,
            arrived: 0,
            in_line: false,
            overtaken: 0,
        }
    }

    pub(super) fn lease(&self) -> Option<&Lease> {
        match &self.stage {
            Stage::Holding(lease) => Some(lease),
            Stage::Idle | Stage::Wanting => None,
        }
    }

    pub(super) fn lease_mut(&mut self) -> Option<&mut Lease> {
        match &mut self.stage {
            Stage::Holding(lease) => Some(lease),
            Stage::Idle | Stage::Wanting => None,
        }
    }

    pub(super) fn holds(&self, now: Moment) -> bool {
        self.lease().is_some_and(|lease| now < lease.until)
    }

    /// Drops a lease that has ended and that the caller knows has ended.
    pub(super) fn forget_what_is_over(&mut self, now: Moment) {
        if self.lease().is_some_and(|lease| lease.lost && now >= lease.until) {
            self.stage = Stage::Idle;
        }
    }
}
