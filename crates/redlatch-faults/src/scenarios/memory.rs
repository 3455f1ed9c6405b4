//! Nodes that lose what they knew.

use redlatch_testbed::Server;

use super::ms;
use crate::scenario::{Load, Nodes, Part, Row};
use crate::scene::Scene;

pub(crate) fn rows() -> Vec<Row> {
    vec![Row {
        number: 1,
        fault: "node killed, comes back empty",
        parts: vec![Part::Load(Box::new(Load {
            nodes: Nodes::Alike(5, Server::options()),
            nemesis: killed_and_empty,
            ..Load::default()
        }))],
    }]
}

fn killed_and_empty(scene: &mut Scene) {
    let node = scene.some_node();
    scene.fault("restarted empty", |scene| {
        scene.servers[node].kill();
        scene.wait_between(ms(0), ms(300));
        scene.servers[node].restart_empty();
    });
    let window = scene.window;
    scene.wait(window + ms(100));
}
