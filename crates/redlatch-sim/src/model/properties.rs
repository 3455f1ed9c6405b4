//! Properties that must hold in every state, one file each, and marks that must
//! happen in some history.

mod continuity;
mod exclusion;
mod fencing_order;
mod in_turn;
mod lines_empty;
mod no_part;
mod no_resurrection;
mod not_stranded;
mod nothing_left;
mod reachability;
mod unique_tokens;
mod woken;

pub use reachability::Mark;

pub(super) use reachability::{Marks, missing};

use super::{act::Heard, world::World};
use std::fmt;

/// A promise of the lock that the model can check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Property {
    /// No two leases overlap.
    Exclusion,
    /// A grant that follows another has the greater token.
    FencingOrder,
    /// No token is granted twice.
    UniqueTokens,
    /// A lease is kept only if nobody else was granted the lock since.
    Continuity,
    /// An extension sent after someone else was granted the lock is not kept.
    NoResurrection,
    /// A client that is done has left no key.
    NothingLeft,
    /// No node is admitted for a client that other nodes refuse.
    NoPart,
    /// Nobody overtakes a waiter by more than one turn.
    InTurn,
    /// A client that may take a free lock is woken.
    Woken,
    /// A client that may take a free lock finds out, even if nobody wakes it.
    NotStranded,
    /// At the end, nobody stands in line.
    LinesEmpty,
}

/// What holds if requests wait in line and nothing goes wrong.
pub(super) const IN_LINE: &[Property] = &[
    Property::Exclusion,
    Property::FencingOrder,
    Property::UniqueTokens,
    Property::Continuity,
    Property::NoResurrection,
    Property::NothingLeft,
    Property::InTurn,
    Property::Woken,
    Property::NotStranded,
    Property::LinesEmpty,
];

pub(super) const ALL: &[Property] = &[
    Property::Exclusion,
    Property::FencingOrder,
    Property::UniqueTokens,
    Property::Continuity,
    Property::NoResurrection,
    Property::NothingLeft,
];

impl Property {
    /// How the step just taken, or the state it led to, breaks the promise.
    pub(super) fn broken(self, world: &World, heard: &Heard) -> Option<String> {
        match self {
            Property::Exclusion => exclusion::broken(world, heard),
            Property::FencingOrder => fencing_order::broken(world, heard),
            Property::UniqueTokens => unique_tokens::broken(world),
            Property::Continuity => continuity::broken(world, heard),
            Property::NoResurrection => no_resurrection::broken(world, heard),
            Property::NothingLeft => nothing_left::broken(world),
            Property::NoPart => no_part::broken(world),
            Property::InTurn => in_turn::broken(world),
            Property::Woken => woken::broken(world),
            Property::NotStranded => not_stranded::broken(world),
            Property::LinesEmpty => lines_empty::broken(world),
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Property::Exclusion => "exclusion",
            Property::FencingOrder => "fencing order",
            Property::UniqueTokens => "unique tokens",
            Property::Continuity => "continuity",
            Property::NoResurrection => "no resurrection",
            Property::NothingLeft => "nothing left",
            Property::NoPart => "no part",
            Property::InTurn => "in turn",
            Property::Woken => "woken",
            Property::NotStranded => "not stranded",
            Property::LinesEmpty => "lines empty",
        })
    }
}
