//! What must happen in some history: a model in which nothing happens keeps every
//! promise.

use std::fmt;

/// Something that must happen in some history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Mark {
    Grant = 1,
    /// A lock was granted to a client other than the first.
    GrantToAnother = 1 << 1,
    /// A lock was granted while someone still had an expired lease.
    GrantAfterExpiry = 1 << 2,
    Renewal = 1 << 3,
    /// A lock was granted after a second round of fencing.
    SecondRound = 1 << 4,
    Loss = 1 << 5,
    /// An attempt failed and another followed.
    Retry = 1 << 6,
    Refusal = 1 << 7,
    /// A client of another library held the lock.
    ForeignGrant = 1 << 8,
    /// A node that was quarantined may vote again.
    Admission = 1 << 9,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::model) struct Marks(u16);

impl Marks {
    pub(in crate::model) fn add(&mut self, mark: Mark) {
        self.0 |= mark as u16;
    }

    pub(in crate::model) fn join(&mut self, other: Marks) {
        self.0 |= other.0;
    }

    fn has(self, mark: Mark) -> bool {
        self.0 & mark as u16 != 0
    }
}

/// The marks that should have happened in some history and did not.
pub(in crate::model) fn missing(wanted: &[Mark], seen: Marks) -> Vec<Mark> {
    wanted.iter().copied().filter(|mark| !seen.has(*mark)).collect()
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mark::Grant => "a grant",
            Mark::GrantToAnother => "a grant to another client",
            Mark::GrantAfterExpiry => "a grant after an expiry",
            Mark::Renewal => "a renewal",
            Mark::SecondRound => "a second round of fencing",
            Mark::Loss => "a loss",
            Mark::Retry => "a retry",
            Mark::Refusal => "a refusal",
            Mark::Admission => "an admission",
            Mark::ForeignGrant => "a grant to a foreign client",
        })
    }
}
