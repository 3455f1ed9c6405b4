//! Two leases never last at one time; a foreign client's counts like ours.
//!
//! A lease lasts from the grant to its end, whether or not its owner is awake,
//! unless it was released or its loss to others was signalled before.

use crate::model::world::World;

pub(super) fn broken(world: &World) -> Option<String> {
    let ours = world.callers.iter().enumerate().filter(|(_, caller)| caller.holds(world.now));
    let mut holders: Vec<String> = Vec::new();
    let foreign = world.foreign.holds_until().filter(|until| world.now < *until);
    if foreign.is_none() && ours.clone().nth(1).is_none() {
        return None; // nearly always
    }
    holders.extend(ours.map(|(client, _)| format!("c{}", client + 1)));
    holders.extend(foreign.map(|_| "the foreign client".to_owned()));
    (holders.len() > 1).then(|| format!("{} both hold the lock", holders.join(" and ")))
}
