//! No two grants share a fencing token.

use crate::model::world::World;

pub(super) fn broken(world: &World) -> Option<String> {
    let (last, earlier) = world.granted.split_last()?;
    earlier.contains(last).then(|| format!("the token {last} is granted twice"))
}
