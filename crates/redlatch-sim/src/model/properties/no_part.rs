//! No node is admitted for a client that agrees with nobody: the other nodes serve the
//! clients that agree, and say so.

use crate::model::world::World;

pub(super) fn broken(world: &World) -> Option<String> {
    let stranger = world.setting.stranger()?;
    let mut nodes = world.nodes.iter().enumerate();
    let taken = nodes.position(|(at, node)| node.is_admitted(stranger.fingerprint(at)))?;
    Some(format!("{} serves a client that agrees with nobody", ["A", "B", "C"][taken]))
}
