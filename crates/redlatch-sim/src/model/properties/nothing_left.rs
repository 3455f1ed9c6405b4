//! A client with nothing under way has no key on any node.

use crate::model::world::{World, name_of};
use redlatch_core::token::owner_of;

pub(super) fn broken(world: &World) -> Option<String> {
    (0..world.clients()).filter(|client| world.is_quiet(*client)).find_map(|client| {
        let owner = format!("c{}", client + 1);
        world.nodes.iter().find_map(|node| {
            let key = node.key(world.now, &world.setting.name)?;
            let ours = owner_of(&key.value).is_some_and(|label| label == owner);
            ours.then(|| format!("{owner} is done, but its key {} is left", name_of(&key.value)))
        })
    })
}
