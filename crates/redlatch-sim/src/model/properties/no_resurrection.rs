//! An extension is not kept if it was sent after someone else asked for the lock
//! and was granted it under this lease, even if the lock was deleted behind its
//! owner's back.
//!
//! This is weaker than continuity, and assumes less: only that a majority had the keys
//! once.

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
