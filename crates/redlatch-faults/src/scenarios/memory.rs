//! Nodes that lose what they knew: rows 1 to 5, 12 and 36.

use redlatch_testbed::Server;

use super::{load, ms, row, sec, tests};
use crate::orders::{Guarding, Habits};
use crate::scenario::{Load, Must, Nodes, Row};
use crate::scene::Scene;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(
            1,
            "node killed, comes back empty",
            vec![load("restart", Load { nemesis: comes_back_empty, ..Load::default() })],
        ),
        row(
            2,
            "the same in a loop, faster than TTL",
            vec![load(
                "loop",
                Load {
                    nodes: Nodes::Alike(3, Server::options()),
                    nemesis: restarts_in_a_loop,
                    must: Must { go_on: false, recover: Some(sec(5)), ..Must::default() },
                    ..Load::default()
                },
            )],
        ),
        row(
            3,
            "restart, then the node's clock steps forward",
            vec![load(
                "clock at boot",
                Load {
                    nodes: Nodes::Alike(3, Server::options().fake_clock()),
                    habits: Habits { guard: Guarding::Strict, ..Habits::default() },
                    nemesis: boots_with_a_wrong_clock,
                    repair: |scene| scene.servers.iter().for_each(|node| node.clock_ahead(ms(0))),
                    ..Load::default()
                },
            )],
        ),
        row(
            4,
            "an old dump restored",
            vec![load("dump", Load { nemesis: loads_an_old_dump, ..Load::default() })],
        ),
        row(
            5,
            "FLUSHALL, FLUSHDB, SWAPDB",
            vec![load(
                "flush",
                Load {
                    nemesis: is_flushed,
                    // It is over at once.
                    must: Must { go_on: false, ..Must::default() },
                    ..Load::default()
                },
            )],
        ),
        row(
            12,
            "node turned replica and back",
            vec![
                load(
                    "role",
                    Load {
                        nodes: Nodes::Alike(
                            3,
                            Server::options().config("repl-diskless-sync-delay 0"),
                        ),
                        nemesis: becomes_a_replica,
                        ..Load::default()
                    },
                ),
                tests(&["a_master_that_becomes_a_replica_is_no_vote", "a_replica_is_refused"]),
            ],
        ),
        row(
            36,
            "rolling restart of all nodes under one long lease",
            vec![load(
                "long lease",
                Load {
                    lingerers: 1,
                    linger: (sec(3600), sec(3600)),
                    workers: 0,
                    resources: 0,
                    habits: Habits { renews: true, ..Habits::default() },
                    lasts: (sec(20), sec(8)),
                    nemesis: rolls,
                    must: Must {
                        go_on: false,
                        recover: None,
                        keep_leases: true,
                        ..Must::default()
                    },
                    ..Load::default()
                },
            )],
        ),
    ]
}

fn comes_back_empty(scene: &mut Scene) {
    let node = scene.some_node();
    scene.fault("restarted empty", |scene| {
        scene.servers[node].kill();
        scene.wait_between(ms(0), ms(300));
        scene.servers[node].restart_empty();
    });
    rest(scene);
}

/// One node of the quorum after the other, several times within a TTL.
fn restarts_in_a_loop(scene: &mut Scene) {
    scene.fault("restarted in a loop", |scene| {
        let first = scene.some_node();
        for next in 0..6 {
            scene.servers[(first + next % 2) % 3].restart_empty();
            scene.wait_between(ms(20), ms(150));
        }
    });
    rest(scene);
}

fn boots_with_a_wrong_clock(scene: &mut Scene) {
    let node = scene.some_node();
    scene.fault("restarted, clock an hour ahead", |scene| {
        scene.servers[node].restart_empty();
        scene.servers[node].clock_ahead(sec(3600));
        rest(scene);
        scene.servers[node].clock_ahead(ms(0));
    });
    scene.wait(ms(100));
}

fn loads_an_old_dump(scene: &mut Scene) {
    let node = scene.some_node();
    scene.servers[node].run(&["SAVE"]);
    scene.wait_between(ms(50), ms(500));
    scene.fault("old dump restored", |scene| {
        scene.servers[node].kill();
        scene.wait(ms(50));
        scene.servers[node].restart();
    });
    rest(scene);
}

fn is_flushed(scene: &mut Scene) {
    let node = scene.some_node();
    let flush: &[&[&str]] = &[&["FLUSHALL"], &["FLUSHDB"], &["SWAPDB", "0", "1"]];
    let command = *scene.dice.one_of(flush);
    scene.fault(command[0], |scene| {
        scene.servers[node].run(command);
    });
    rest(scene);
}

/// Its data are another node's afterwards, under the same run id.
fn becomes_a_replica(scene: &mut Scene) {
    let node = scene.some_node();
    let port = scene.servers[(node + 1) % scene.servers.len()].port().to_string();
    scene.fault("replica and back", |scene| {
        let server = &scene.servers[node];
        server.run(&["REPLICAOF", "127.0.0.1", &port]);
        let linked = || server.info("master_link_status").as_deref() == Some("up");
        redlatch_testbed::wait_until(sec(5), linked);
        server.run(&["REPLICAOF", "NO", "ONE"]);
    });
    rest(scene);
}

fn rolls(scene: &mut Scene) {
    for node in 0..scene.servers.len() {
        scene.fault("restarted empty", |scene| scene.servers[node].restart_empty());
        rest(scene);
    }
}

/// Until a node that forgot may vote again.
fn rest(scene: &mut Scene) {
    let window = scene.window;
    scene.wait(window + ms(200));
}
