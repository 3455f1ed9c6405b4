//! What must hold in every state, one file each, and what must happen in some.

mod continuity;
mod exclusion;
mod fencing_order;
mod no_part;
mod no_resurrection;
mod nothing_left;
mod reachability;
mod unique_tokens;

pub use reachability::Mark;

pub(super) use reachability::{Marks, missing};

use super::{act::Heard, world::World};
use std::fmt;

/// A promise of the lock, as far as the model can see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Property {
    /// No two leases at one time.
    Exclusion,
    /// A grant after another one has the greater token.
    FencingOrder,
    /// No token twice.
    UniqueTokens,
    /// A lease is only kept if nobody else was granted the lock since.
    Continuity,
    /// An extension that was sent after another was granted the lock is not kept.
    NoResurrection,
    /// A client that is done has no key anywhere.
    NothingLeft,
    /// No node is admitted for a client that others refuse.
    NoPart,
}

/// All of them.
pub(super) const ALL: &[Property] = &[
    Property::Exclusion,
    Property::FencingOrder,
    Property::UniqueTokens,
    Property::Continuity,
    Property::NoResurrection,
    Property::NothingLeft,
];

impl Property {
    /// How it is broken by what was just heard, or in the state it led to.
    pub(super) fn broken(self, world: &World, heard: &Heard) -> Option<String> {
        match self {
            Property::Exclusion => exclusion::broken(world, heard),
            Property::FencingOrder => fencing_order::broken(world, heard),
            Property::UniqueTokens => unique_tokens::broken(world),
            Property::Continuity => continuity::broken(world, heard),
            Property::NoResurrection => no_resurrection::broken(world, heard),
            Property::NothingLeft => nothing_left::broken(world),
            Property::NoPart => no_part::broken(world),
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
        })
    }
}
