//! The program that uses a client: what it does and what it was told.
//!
//! This is the part of the state that the promises are about.

use redlatch_core::Moment;

/// One client's caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    /// How many locks it has wanted so far.
    pub(super) started: u8,
    pub(super) stage: Stage,
    /// How often it may still look which nodes may vote.
    pub(super) looks: u8,
    /// How often it may still extend by hand.
    pub(super) extends: u8,
    /// The greatest token that had been granted when the attempt under way
    /// began: a grant must be above it.
    pub(super) floor: u64,
    /// The clients that had a lease when the attempt under way began: a bit each.
    pub(super) under: u8,
    /// The attempt under way has asked for a second round.
    pub(super) raised: bool,
    /// How far its client's clock of leases was set forward.
    pub(super) ahead_ms: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Idle,
    Wanting,
    Holding(Lease),
}

/// A lease in the caller's hand. It counts until its end also if its loss was
/// signalled before: somebody may still be acting on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    pub(super) until: Moment,
    /// Its fencing token; zero without fencing.
    pub(super) fence: u64,
    /// Somebody else was granted the lock since.
    pub(super) rival: bool,
    /// The same, if the other's attempt began under this lease.
    pub(super) successor: Successor,
    pub(super) lost: bool,
}

/// Whether somebody asked for the lock and was granted it, all under one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Successor {
    Nobody,
    Somebody,
    /// And that was before the latest extension was sent.
    BeforeExtension,
}

impl Lease {
    /// An extension is sent.
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

    /// A lease that is over and that the caller knows to be over is nothing.
    pub(super) fn forget_what_is_over(&mut self, now: Moment) {
        if self.lease().is_some_and(|lease| lease.lost && now >= lease.until) {
            self.stage = Stage::Idle;
        }
    }
}
