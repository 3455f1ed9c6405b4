//! Servers that are frozen, busy or of different versions, and too many dead ones: rows
//! 10, 11, 15, 25, 32 and 38.

use super::{ms, row, sec};
use crate::{
    orders::Habits,
    scenario::{Load, Must, Nodes, Row},
    scene::Scene,
};
use redlatch_testbed::{Flavour, Server};
use std::{io::Write as _, net::TcpStream};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(10, "node frozen, thawed after TTL")
            .load(Load {
                what: "minority",
                nemesis: freezes_a_minority,
                lasts: (sec(12), sec(3)),
                ..Load::default()
            })
            .tests(&[
                "a_node_frozen_during_the_take_and_thawed_after_the_ttl_keeps_nothing",
                "an_attempt_that_froze_with_its_nodes_is_undone_when_they_thaw",
            ]),
        row(11, "slow script, LOADING, BUSY")
            .load(Load {
                what: "BUSY",
                nodes: Nodes::Alike(3, Server::options().config("lua-time-limit 20")),
                nemesis: is_busy,
                ..Load::default()
            })
            .tests(&[
                "a_server_busy_with_a_script_is_no_vote",
                "a_server_that_loads_its_data_is_no_vote",
            ]),
        row(15, "even N, split vote")
            .load(Load {
                what: "four nodes, one frozen",
                nodes: Nodes::Alike(4, Server::options()),
                nemesis: freezes_one,
                ..Load::default()
            })
            .tests(&[
                "f1_an_even_split_is_held_at_once_and_undone",
                "f1_clients_that_split_the_votes_of_four_nodes_all_get_the_lock_in_the_end",
            ]),
        row(25, "extension reaches a minority")
            .load(Load {
                what: "two of three killed",
                nodes: Nodes::Alike(3, Server::options()),
                habits: Habits { renews: true, ..Habits::default() },
                linger: (sec(2), sec(3)),
                lasts: (sec(22), sec(5)),
                nemesis: kills_two_of_three,
                must: Must { go_on: false, signal_loss: true, ..Must::default() },
                ..Load::default()
            })
            .tests(&["f13_an_extension_needs_a_majority_of_all_nodes_not_of_those_that_granted"]),
        row(32, "SCRIPT FLUSH in a loop")
            .load(Load { what: "flush", nemesis: flushes_scripts, ..Load::default() })
            .tests(&["script_flush_in_a_loop_is_not_noticed"]),
        row(38, "mixed versions: Redis 6.2, 7.0, Valkey 9")
            .load(Load {
                what: "one frozen at a time",
                nodes: Nodes::Each(
                    Flavour::ALL.map(|flavour| Server::options().flavour(flavour)).to_vec(),
                ),
                nemesis: freezes_one,
                ..Load::default()
            })
            .tests(&["redis_7_redis_6_and_valkey_together_do_all_that_a_lock_needs"]),
    ]
}

fn freezes_a_minority(scene: &mut Scene) {
    let nodes = scene.minority();
    scene.fault("frozen", |scene| {
        scene.servers.freeze(&nodes);
        scene.wait(scene.ttl * 3 / 2);
        scene.servers.thaw(&nodes);
    });
    scene.wait(ms(200));
}

fn freezes_one(scene: &mut Scene) {
    let node = scene.some_node();
    scene.fault("frozen", |scene| {
        scene.servers.freeze(&[node]);
        scene.wait_between(ms(100), ms(600));
        scene.servers.thaw(&[node]);
    });
    scene.wait(ms(100));
}

fn is_busy(scene: &mut Scene) {
    let node = scene.some_node();
    scene.fault("busy", |scene| {
        let server = &scene.servers[node];
        let client = TcpStream::connect(("127.0.0.1", server.port()));
        let mut client = client.expect("a server that is up");
        client.write_all(b"EVAL 'while true do end' 0\r\n").expect("a server that listens");
        scene.wait_between(ms(100), ms(500));
        let server = &scene.servers[node];
        let killed = || server.try_run(&["SCRIPT", "KILL"]).is_ok_and(|reply| reply.is_ok());
        redlatch_testbed::wait_until(sec(5), killed);
    });
    scene.wait(ms(100));
}

/// They stay down for longer than any earlier lease lasts.
fn kills_two_of_three(scene: &mut Scene) {
    let nodes = scene.majority();
    scene.fault("two of three killed", |scene| {
        scene.servers.kill(&nodes);
        scene.wait(scene.ttl * 3 / 2);
        for &node in &nodes {
            scene.servers[node].restart_empty();
        }
    });
    let window = scene.window;
    scene.wait(window);
    scene.await_memory(1);
}

fn flushes_scripts(scene: &mut Scene) {
    scene.fault("SCRIPT FLUSH", |scene| {
        for server in &scene.servers {
            server.run(&["SCRIPT", "FLUSH"]);
        }
    });
    scene.wait_between(ms(1), ms(10));
}
