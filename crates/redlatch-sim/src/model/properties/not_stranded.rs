//! No lost wake strands anybody: if the lock is free and somebody waits, somebody is
//! granted it within the time of a look, even if every wake that is on its way gets
//! lost.

use crate::model::{scenario::ms, world::World};
use redlatch_core::line::LOOK;

pub(super) fn broken(world: &World) -> Option<String> {
    if !world.is_up_for_grabs(false) {
        return None;
    }
    // Plus an attempt, and the key's last millisecond.
    let bound = LOOK + ms(world.setting.scenario.times.node_timeout_ms) + ms(20);
    let text = || "the lock is free, and whoever waits for it never looks".to_owned();
    (!world.without_wakes().is_granted_within(bound)).then(text)
}
