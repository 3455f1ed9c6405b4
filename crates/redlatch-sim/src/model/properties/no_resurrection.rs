//! An extension that was sent after somebody else had asked for the lock and been
//! granted it, all under this lease, is not kept, even where the lock was taken away from its owner behind its back.
//!
//! Weaker than continuity, and it needs less: nothing but that a majority had
//! the keys once.

use crate::model::{act::Heard, caller::Successor, world::World};
use redlatch_core::Output;

pub(super) fn broken(world: &World, heard: &Heard) -> Option<String> {
    heard.said.iter().find_map(|(client, output)| {
        let kept = matches!(output, Output::Kept(..));
        let lease = world.callers[*client].lease();
        let name = client + 1;
        (kept && lease.is_some_and(|lease| lease.successor == Successor::BeforeExtension))
            .then(|| format!("c{name} brings back a lock that another was granted since"))
    })
}
