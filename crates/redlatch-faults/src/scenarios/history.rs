//! Checks the order of tokens in a history of many locks: nodes are killed and
//! restarted empty, server clocks are stepped back and forth.
//!
//! The promise needs a majority that remembers. So a node is made to forget only
//! once enough others have been admitted again, however long that takes on a busy
//! machine; if they never are, the row fails and says so.

use super::ms;
use crate::{
    orders::Habits,
    scenario::{Load, Must, Nodes, Row},
    scene::Scene,
};
use redlatch_testbed::Server;
use std::time::Duration;

pub(crate) fn row(acquires: u64, processes: u64) -> Row {
    super::row(0, "nodes restarted empty, server clocks stepped").load(Load {
        what: "history",
        nodes: Nodes::Alike(5, Server::options().fake_clock()),
        workers: usize::try_from(processes).expect("a number of processes"),
        lingerers: 0,
        resources: 4,
        acquires: Some(acquires.div_ceil(processes)),
        habits: Habits { wait: Duration::from_secs(5), ..Habits::default() },
        lasts: (Duration::from_secs(3600), Duration::from_secs(3600)),
        nemesis: |scene| {
            forgets(scene);
            jumps(scene);
        },
        repair: |scene| scene.servers.iter().for_each(|server| server.clock_ahead(Duration::ZERO)),
        must: Must { exclude: false, recovers: false, ..Must::default() },
        ..Load::default()
    })
}

/// Kills a node and restarts it empty, sometimes while another one is still
/// quarantined, but never so many that a majority has forgotten.
fn forgets(scene: &mut Scene) {
    let node = scene.some_node();
    scene.await_memory(1);
    scene.fault("restarted empty", |scene| {
        scene.servers[node].kill();
        scene.wait(ms(50));
        scene.servers[node].restart_empty();
    });
    let window = scene.window;
    scene.wait_between(window / 2, window * 2);
}

/// Steps a node's clock by far more than a TTL, and back.
fn jumps(scene: &mut Scene) {
    let node = scene.some_node();
    let by = scene.dice.time(ms(500), Duration::from_secs(600));
    let ahead = scene.dice.index(2) == 0;
    scene.fault("clock stepped", |scene| {
        let server = &scene.servers[node];
        if ahead {
            server.clock_ahead(by);
        } else {
            server.clock_behind(by);
        }
        scene.wait(ms(200));
        scene.servers[node].clock_ahead(Duration::ZERO);
    });
    scene.wait(ms(100));
}
