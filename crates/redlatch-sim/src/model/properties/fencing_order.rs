//! A grant that comes after another one was complete has the greater token.
//!
//! "After" counts from when its attempt sent its takes; the promise is about
//! when the caller asked, which is earlier, so this is the stricter reading.

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
