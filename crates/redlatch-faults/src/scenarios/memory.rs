//! Nodes that lose what they knew: rows 1 to 5, 12, 36 and 55.

use super::{ms, row, sec};
use crate::{
    orders::{GuardSetting, Habits},
    scenario::{Load, Must, Nodes, Row},
    scene::Scene,
};
use redlatch_testbed::Server;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(46, "all nodes flushed or swapped under a holder").tests(&[
            "fault_46_servers_that_were_all_emptied_under_a_holder_have_no_second_one",
            "admitting::nodes_that_were_all_flushed_are_quarantined_for_the_window_however_long_they_were_up",
        ]),
        row(1, "node killed, comes back empty")
            .load(Load { what: "restart", nemesis: comes_back_empty, ..three_nodes() })
            .tests(&["fault_1_a_server_that_comes_back_empty_does_not_vote_and_leases_go_on"]),
        row(2, "the same in a loop, faster than TTL")
            .load(Load {
                what: "loop",
                nemesis: restarts_in_a_loop,
                must: Must { go_on: false, ..Must::default() },
                ..three_nodes()
            })
            .tests(&["fault_2_a_server_of_the_majority_that_restarts_in_a_loop_lets_nobody_in"]),
        row(3, "restart, then the node's clock steps forward")
            .load(Load {
                what: "clock at boot",
                nodes: Nodes::Alike(3, Server::options().fake_clock()),
                habits: Habits { guard: GuardSetting::Strict, ..Habits::default() },
                nemesis: boots_with_a_wrong_clock,
                ..three_nodes()
            })
            .tests(&["fault_3_a_clock_that_jumps_at_boot_does_not_open_a_strict_guard_early"]),
        row(4, "an old dump restored")
            .load(Load { what: "dump", nemesis: loads_an_old_dump, ..three_nodes() })
            .tests(&["fault_4_an_old_dump_is_forgetting"]),
        row(5, "FLUSHALL, FLUSHDB, SWAPDB")
            .load(Load { what: "flush", nemesis: is_flushed, ..three_nodes() })
            .load(Load { what: "swapped back", nemesis: swaps_back, ..three_nodes() })
            .tests(&[
                "fault_5_a_flush_quarantines_the_server_and_no_number_falls_back",
                "fault_5_a_database_that_is_swapped_back_has_forgotten_what_was_granted_meanwhile",
            ]),
        row(12, "node turned replica and back")
            .load(Load {
                what: "role",
                nodes: Nodes::Alike(
                    3,
                    Server::options().config("repl-diskless-sync-delay 0"),
                ),
                nemesis: becomes_a_replica,
                ..three_nodes()
            })
            .tests(&[
                "a_master_that_becomes_a_replica_is_no_vote",
                "a_replica_is_refused",
                "fault_12_a_server_that_was_a_replica_for_a_while_has_forgotten",
                "fault_12_a_server_that_comes_back_as_a_copy_of_itself_has_forgotten",
                "fault_12_a_connection_that_slept_over_the_change_of_roles_casts_no_vote",
            ]),
        row(55, "rolling restart by the guide's own commands").tests(&[
            "fault_55_a_lease_survives_a_rolling_restart_by_the_commands_of_the_guide",
        ]),
        row(36, "rolling restart of all nodes under one long lease")
            .load(Load {
                what: "long lease",
                nodes: Nodes::Alike(3, Server::options()),
                lingerers: 1,
                linger: (sec(3600), sec(3600)),
                workers: 0,
                resources: 0,
                habits: Habits { ttl: Habits::LASTING, renews: true, ..Habits::default() },
                lasts: (sec(40), sec(12)),
                nemesis: rolls,
                must: Must {
                    go_on: false,
                    recovers: false,
                    keep_leases: true,
                    ..Must::default()
                },
                ..Load::default()
            })
            .tests(&["fault_36_one_lease_outlives_the_restart_of_every_server"]),
    ]
}

/// Three nodes, and a network that can keep some of them out of a lock: if one node of
/// a bare majority forgets, a lock may have two owners.
fn three_nodes() -> Load {
    Load {
        nodes: Nodes::Alike(3, Server::options()),
        proxied: true,
        lasts: (sec(18), sec(3)),
        ..Load::default()
    }
}

/// Locks are taken without one node; then it returns, and another one forgets.
fn forgets(scene: &mut Scene, what: &str, forget: impl FnOnce(&mut Scene, usize)) {
    let away = scene.some_node();
    let node = (away + 1 + scene.dice.index(2)) % 3;
    scene.fault(what, |scene| {
        scene.proxies[away].black_hole();
        scene.wait_between(ms(300), ms(800));
        // What was sent into the black hole is lost: the connections have a gap.
        scene.proxies[away].reset_all();
        scene.proxies[away].pass();
        forget(scene, node);
    });
    rest(scene);
}

fn comes_back_empty(scene: &mut Scene) {
    forgets(scene, "restarted empty", |scene, node| scene.servers[node].restart_empty());
}

/// Restarts the nodes of the majority one after the other, several times within a TTL.
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
    forgets(scene, "restarted, clock an hour ahead", |scene, node| {
        scene.servers[node].clock_ahead(ms(0));
        scene.servers[node].restart_empty();
        scene.servers[node].clock_ahead(sec(3600));
    });
}

fn loads_an_old_dump(scene: &mut Scene) {
    for server in &scene.servers {
        server.run(&["SAVE"]);
    }
    forgets(scene, "old dump restored", |scene, node| scene.servers[node].restart());
}

fn is_flushed(scene: &mut Scene) {
    // A database never used before: a database that comes back is a different fault.
    let fresh = (scene.faults() % 15 + 1).to_string();
    let flush: &[&[&str]] = &[&["FLUSHALL"], &["FLUSHDB"], &["SWAPDB", "0", &fresh]];
    let command = scene.dice.pick(flush);
    forgets(scene, command[0], |scene, node| drop(scene.servers[node].run(command)));
}

/// The database from before the last swap is back: it has forgotten everything
/// since.
fn swaps_back(scene: &mut Scene) {
    forgets(scene, "SWAPDB", |scene, node| drop(scene.servers[node].run(&["SWAPDB", "0", "1"])));
}

/// Afterwards the node has another node's data under the same run id.
fn becomes_a_replica(scene: &mut Scene) {
    forgets(scene, "replica and back", |scene, node| {
        let port = scene.servers[(node + 1) % 3].port().to_string();
        let server = &scene.servers[node];
        server.run(&["REPLICAOF", "127.0.0.1", &port]);
        let linked = || server.info("master_link_status").as_deref() == Some("up");
        redlatch_testbed::wait_until(sec(5), linked);
        server.run(&["REPLICAOF", "NO", "ONE"]);
    });
}

fn rolls(scene: &mut Scene) {
    for node in 0..scene.servers.len() {
        if scene.is_over() {
            return;
        }
        scene.fault("restarted empty", |scene| scene.servers[node].restart_empty());
        rest(scene);
        scene.await_lease_everywhere();
    }
}

/// Waits until a node that forgot votes again, so that the next one may forget.
fn rest(scene: &mut Scene) {
    let window = scene.window;
    scene.wait(window);
    scene.await_memory(1);
}
