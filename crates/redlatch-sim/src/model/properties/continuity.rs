//! An extension is kept only if nobody else was granted the lock since the lease
//! began; otherwise its owner would believe it never lost the lock.

use crate::model::{act::Heard, world::World};
use redlatch_core::Output;

pub(super) fn broken(world: &World, heard: &Heard) -> Option<String> {
    heard.said.iter().find_map(|(client, output)| {
        let kept = matches!(output, Output::Kept(..));
        let rival = world.callers[*client].lease().is_some_and(|lease| lease.rival);
        let name = client + 1;
        (kept && rival)
            .then(|| format!("c{name} keeps a lease in which another was granted the lock"))
    })
}
