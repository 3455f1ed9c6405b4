//! No wake is missing: if no message is on its way, the lock is free and somebody
//! waits, somebody is granted it at once, apart from the moment that a client waits for
//! nodes that have not woken it yet.

use crate::model::world::World;
use std::time::Duration;

/// Several such moments.
const AT_ONCE: Duration = Duration::from_millis(20);

pub(super) fn broken(world: &World) -> Option<String> {
    if !world.is_up_for_grabs(true) {
        return None;
    }
    let text = || "the lock is free, and nobody knows it who waits for it".to_owned();
    (!world.is_granted_within(AT_ONCE)).then(text)
}
