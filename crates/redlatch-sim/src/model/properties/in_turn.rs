//! Nobody overtakes a waiter by more than one turn.
//!
//! A waiter counts once its client stands in line on a majority of the nodes. It is
//! overtaken when a caller of another client that arrived later is granted the lock.
//! The one turn allows for message delay: the other's attempt may have been on its way.
//! The waiter must be alive: a majority can wake it, and its reservation has not
//! lapsed. That is why this is checked where time stands still.

use crate::model::world::World;

pub(super) fn broken(world: &World) -> Option<String> {
    let caller = world.callers.iter().position(|caller| caller.overtaken > 1)?;
    Some(format!("c{} was overtaken {} times", caller + 1, world.callers[caller].overtaken))
}
