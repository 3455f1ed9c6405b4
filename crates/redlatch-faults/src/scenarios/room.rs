//! Keys deleted, and servers without room: rows 6 to 9.

use super::{ms, row, sec};
use crate::{
    disk::Disk,
    orders::{Habits, Orders},
    scenario::{Load, Must, Nodes, Row, Scale, Shown},
    scene::Scene,
};
use redlatch::{ConnectError, Locks};
use redlatch_testbed::{Flavour, Server};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(6, "one lock key deleted by hand")
            .load(Load {
                what: "DEL",
                habits: renewing(),
                linger: (sec(1), sec(2)),
                nemesis: deletes_a_key,
                // A majority loses the key behind our back.
                must: Must { exclude: false, go_on: false, signal_loss: true, ..Must::default() },
                ..Load::default()
            })
            .tests(&[
                "fault_6_a_key_deleted_by_hand_is_a_loss_within_one_renewal_and_numbers_grow",
                "f4_keys_that_were_deleted_are_reported_within_one_renewal",
                "a_deleted_majority_is_noticed_by_the_next_renewal",
                "a_key_lost_by_a_minority_is_planted_again_by_the_next_renewal",
            ]),
        row(50, "very many requests at once").tests(&[
            "fault_50_a_crowd_waits_its_turn_and_all_of_it_is_served",
            "fault_50_a_server_that_is_frozen_fails_nobody_in_a_crowd_and_keeps_no_key",
            "a_caller_whose_turn_does_not_come_is_told_so_and_no_server_is_blamed",
        ]),
        row(7, "eviction").script("connect to servers that evict", evicting).tests(&[
            "fault_7_a_server_that_evicts_is_refused_unless_that_is_allowed",
            "a_server_that_begins_to_evict_gives_connected_clients_no_more_votes",
            "a_lock_that_was_evicted_is_nobody_elses_before_the_window_has_passed",
            // This includes the session `doctor_on_servers`.
            "every_file_is_a_session",
        ]),
        row(8, "out of memory")
            .load(Load {
                what: "minority",
                habits: renewing(),
                nemesis: |scene| runs_out_of_memory(scene, Scene::minority),
                ..Load::default()
            })
            .load(Load {
                what: "majority",
                habits: Habits { ttl: Habits::LASTING, ..renewing() },
                linger: (sec(3), sec(5)),
                lasts: (sec(24), sec(6)),
                nemesis: |scene| runs_out_of_memory(scene, Scene::majority),
                must: Must { go_on: false, keep_leases: true, ..Must::default() },
                ..Load::default()
            })
            .tests(&["out_of_memory_is_no_vote_and_does_not_stop_extend_and_release"]),
        row(9, "disk full, MISCONF")
            .load(Load {
                what: "one of three",
                nemesis: |scene| fills_disks(scene, |scene| vec![scene.some_node()]),
                ..on_small_disks()
            })
            .load(Load {
                what: "two of three",
                habits: renewing(),
                linger: (sec(2), sec(3)),
                nemesis: |scene| fills_disks(scene, Scene::majority),
                must: Must { go_on: false, signal_loss: true, ..Must::default() },
                ..on_small_disks()
            }),
    ]
}

fn renewing() -> Habits {
    Habits { renews: true, ..Habits::default() }
}

fn deletes_a_key(scene: &mut Scene) {
    // Preferably while someone holds the lock.
    let resource = Orders::resource(scene.dice.index(3));
    let nodes = if scene.dice.index(4) == 0 { scene.minority() } else { scene.majority() };
    scene.fault("DEL", |scene| {
        for node in nodes {
            scene.servers[node].run(&["DEL", &resource]);
        }
    });
    scene.wait_between(ms(20), ms(200));
}

/// A server that may evict locks must not be a node.
fn evicting(_: Scale) -> anyhow::Result<Shown> {
    let mut note = Vec::new();
    for (policy, fits) in [("volatile-lru", false), ("allkeys-lru", false), ("noeviction", true)] {
        let server = Server::options().maxmemory("50mb", policy).start()?;
        match Locks::builder().node(server.url()).connect_blocking() {
            Ok(_) if fits => {}
            Err(ConnectError::Unfit(_)) if !fits => note.push(policy),
            Ok(_) => anyhow::bail!("a server with {policy} was taken as a node"),
            Err(error) => anyhow::bail!("{policy}: {error}"),
        }
    }
    let note = format!("refused: {}", note.join(", "));
    Ok(Shown { injected: 2, acquisitions: 0, note })
}

fn runs_out_of_memory(scene: &mut Scene, pick: fn(&mut Scene) -> Vec<usize>) {
    let (nodes, ttl) = (pick(scene), scene.ttl);
    let limit = |scene: &Scene, limit: &str| {
        for &node in &nodes {
            scene.servers[node].run(&["CONFIG", "SET", "maxmemory", limit]);
        }
    };
    scene.fault("out of memory", |scene| {
        limit(scene, "1");
        scene.wait_between(ttl / 10, ttl * 3 / 2);
        limit(scene, "0");
    });
    scene.wait(ms(300));
}

fn on_small_disks() -> Load {
    let server = Server::options()
        .flavour(Flavour::Redis7)
        .config("enable-protected-configs yes")
        .config("appendfsync everysec")
        // The load's own writes must not fill the disk.
        .config("auto-aof-rewrite-min-size 1mb");
    Load {
        nodes: Nodes::Alike(3, server),
        prepare: move_to_small_disks,
        repair: leave_small_disks,
        lasts: (sec(12), sec(4)),
        ..Load::default()
    }
}

/// From now on, every write goes to that disk.
fn move_to_small_disks(scene: &mut Scene) {
    for server in &scene.servers {
        let disk = Disk::mount(server.dir().join("disk")).expect("the right to mount");
        server.run(&["CONFIG", "SET", "dir", &disk.path().display().to_string()]);
        server.run(&["CONFIG", "SET", "appendonly", "yes"]);
        scene.disks.push(disk);
    }
}

fn leave_small_disks(scene: &mut Scene) {
    for (server, disk) in scene.servers.iter().zip(&scene.disks) {
        disk.clear();
        server.run(&["CONFIG", "SET", "appendonly", "no"]);
        server.run(&["CONFIG", "SET", "dir", &server.dir().display().to_string()]);
    }
}

fn fills_disks(scene: &mut Scene, pick: fn(&mut Scene) -> Vec<usize>) {
    let nodes = pick(scene);
    scene.fault("disk full", |scene| {
        for &node in &nodes {
            scene.disks[node].fill();
        }
        // The server notices when it next writes, and says so once a second.
        scene.wait(ms(1500));
        for &node in &nodes {
            scene.disks[node].clear();
        }
        let has_room =
            |node: &usize| scene.servers[*node].run(&["SET", "probe", "1", "PX", "1"]).is_ok();
        if !redlatch_testbed::wait_until(sec(5), || nodes.iter().all(has_room)) {
            let says = |&node: &usize| scene.servers[node].run(&["SET", "probe", "1", "PX", "1"]);
            eprintln!("  still no room: {:?}", nodes.iter().map(says).collect::<Vec<_>>());
        }
    });
    scene.wait(ms(300));
}
