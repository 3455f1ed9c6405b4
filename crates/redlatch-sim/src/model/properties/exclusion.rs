//! No two leases overlap; a foreign client's lease counts like ours.
//!
//! A lease lasts from its grant to its end, whether or not its owner is running,
//! unless it is released or its loss is signalled earlier. A client that is told of
//! a grant holds the lock at that moment, whatever the end of the lease.

use crate::model::{act::Heard, world::World};
use redlatch_core::Output;

pub(super) fn broken(world: &World, heard: &Heard) -> Option<String> {
    let clients = world.callers.iter().enumerate();
    let ours = clients.filter(|(client, caller)| {
        caller.holds(world.now) || heard.said.iter().any(|said| is_grant(said, *client))
    });
    let mut holders: Vec<String> = Vec::new();
    let foreign = world.foreign.holds_until().filter(|until| world.now < *until);
    if foreign.is_none() && ours.clone().nth(1).is_none() {
        return None; // nearly always
    }
    holders.extend(ours.map(|(client, _)| format!("c{}", client + 1)));
    holders.extend(foreign.map(|_| "the foreign client".to_owned()));
    (holders.len() > 1).then(|| format!("{} both hold the lock", holders.join(" and ")))
}

fn is_grant((to, output): &(usize, Output), client: usize) -> bool {
    *to == client && matches!(output, Output::Acquired(_, Ok(_)))
}
