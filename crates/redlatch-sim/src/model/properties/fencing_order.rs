//! A grant that begins after another is complete has the greater token.
//!
//! It begins when its attempt sends its takes. The promise says "when the caller
//! asks", which is earlier, so this check is stricter.

use crate::model::{act::Heard, world::World};
use redlatch_core::Output;

pub(super) fn broken(world: &World, heard: &Heard) -> Option<String> {
    heard.said.iter().find_map(|(client, output)| {
        let Output::Acquired(_, Ok(grant)) = output else { return None };
        let (fence, floor) = (grant.fence?.get(), world.callers[*client].floor);
        let name = client + 1;
        (fence <= floor).then(|| {
            format!("c{name} is granted {fence}, but {floor} had been granted before it began")
        })
    })
}
