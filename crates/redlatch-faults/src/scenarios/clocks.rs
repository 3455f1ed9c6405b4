//! Clocks that jump: rows 18 to 21 and 35.

use super::{ms, row, sec};
use crate::{
    orders::Habits,
    scenario::{Load, Must, Nodes, Row, Scale, Shown},
    scene::Scene,
    vouch::vouch,
};
use anyhow::Context as _;
use redlatch::{Locks, NodeKey};
use redlatch_testbed::{Server, Servers};
use std::{thread, time::Duration};

const NINE_MINUTES: Duration = sec(540);

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(56, "two clients' clocks seconds apart, one node restarts").tests(&[
            "fencing::with_one_node_clocks_of_clients_apart_do_not_turn_the_order_around_when_it_forgets",
        ]),
        row(18, "client machine suspended").tests(&[
            "fault_18_a_lease_has_ended_when_the_machine_wakes_up",
            "clock::skips::tests::a_frozen_machine_is_seen_by_the_wall_clock",
            "clock::skips::tests::elapsed_is_what_the_boot_clock_says_while_both_agree",
            "renewing::a_client_that_slept_through_the_end_learns_of_it_at_once",
            "a_process_that_was_stopped_past_its_ttl_wakes_up_without_the_lock",
        ]),
        row(19, "client's wall clock steps ±")
            .load(Load {
                what: "proposals of numbers",
                workers_clock: true,
                nemesis: steps_the_workers_clock,
                repair: |scene| set_workers_clock(scene, 0),
                ..Load::default()
            })
            .tests(&[
                "clock::skips::tests::a_wall_clock_that_steps_back_has_no_effect",
                "clock::skips::tests::a_step_back_and_forth_counts_the_way_forth_once",
            ]),
        row(20, "node's clock steps forward by TTL")
            .load(Load {
                what: "majority",
                nemesis: |scene| steps_forward(scene, Scene::majority),
                // Keys expire early, as the docs say.
                must: Must { exclude: false, ..Must::default() },
                ..with_clocks()
            })
            .load(Load {
                what: "minority",
                nemesis: |scene| steps_forward(scene, Scene::minority),
                // One node is enough if only a bare majority has the lock.
                must: Must { exclude: false, ..Must::default() },
                ..with_clocks()
            })
            .script("what an examination says", examined)
            .tests(&["fault_20_numbers_grow_when_the_clocks_of_servers_jump"]),
        row(21, "node's clock steps back 9 min")
            .load(Load {
                what: "back for good",
                nemesis: steps_back,
                // Correcting it would be a step forward.
                repair: |_| (),
                must: Must { go_on: false, ..Must::default() },
                ..with_clocks()
            })
            .script("a lock that nobody releases", a_key_that_lives_too_long),
        row(35, "poisoned fence")
            .load(Load {
                what: "workers in the year 2200",
                workers_clock: true,
                nemesis: lives_in_2200,
                repair: |scene| set_workers_clock(scene, 0),
                ..Load::default()
            })
            .tests(&[
                "a_poisoned_register_is_no_vote_and_is_named",
                "fence::tests::a_wrong_clock_is_clamped_both_ways",
                "fence::tests::the_register_always_grows_and_ends_with_a_named_refusal",
            ]),
    ]
}

fn with_clocks() -> Load {
    Load {
        nodes: Nodes::Alike(5, Server::options().fake_clock()),
        repair: |scene| scene.servers.iter().for_each(right),
        ..Load::default()
    }
}

fn right(server: &Server) {
    server.clock_ahead(ms(0));
}

fn steps_the_workers_clock(scene: &mut Scene) {
    let by = scene.dice.pick(&[2, -2, 3600, -3600, -86_400]);
    scene.fault("workers' clock stepped", |scene| {
        set_workers_clock(scene, by);
        scene.wait_between(ms(50), ms(300));
        set_workers_clock(scene, 0);
    });
    scene.wait(ms(50));
}

fn lives_in_2200(scene: &mut Scene) {
    scene.fault("year 2200", |scene| {
        set_workers_clock(scene, 5_500_000_000);
        scene.wait(ms(500));
        set_workers_clock(scene, 0);
    });
    scene.wait(ms(200));
}

/// Sets the workers' clock this many seconds ahead or behind.
fn set_workers_clock(scene: &mut Scene, ahead: i64) {
    let clock = scene.clock.as_ref().expect("workers with a clock of their own");
    let by = Duration::from_secs(ahead.unsigned_abs());
    let set = if ahead < 0 { clock.behind(by) } else { clock.ahead(by) };
    set.expect("the clock can be set");
}

fn steps_forward(scene: &mut Scene, pick: fn(&mut Scene) -> Vec<usize>) {
    let nodes = pick(scene);
    scene.fault("clock forward", |scene| {
        for &node in &nodes {
            scene.servers[node].clock_ahead(scene.ttl);
        }
        scene.wait_between(ms(100), ms(400));
        for &node in &nodes {
            right(&scene.servers[node]);
        }
    });
    scene.wait(ms(200));
}

/// Steps further and further back, one majority after the other.
fn steps_back(scene: &mut Scene) {
    let nodes = scene.majority();
    let by = NINE_MINUTES * u32::try_from(scene.faults()).expect("few") + NINE_MINUTES;
    scene.fault("clock back", |scene| {
        for &node in &nodes {
            scene.servers[node].clock_behind(by);
        }
    });
    scene.wait_between(ms(200), ms(600));
}

/// Operators see how far clocks are apart.
fn examined(_: Scale) -> anyhow::Result<Shown> {
    let servers = Servers::start_with(3, &Server::options().fake_clock())?;
    servers[1].clock_ahead(sec(30));
    let observer = Locks::builder().nodes(servers.urls()).observer()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let examined = runtime.block_on(observer.examine("faults:"))?;
    let ahead: Vec<f64> = examined.iter().map(|node| node.ahead.unwrap_or(f64::NAN)).collect();
    let right = |at: usize| ahead[at].abs() < 5.0;
    let wrong = (ahead[1] - 30.0).abs() < 5.0;
    anyhow::ensure!(right(0) && wrong && right(2), "ahead by {ahead:?} s");
    Ok(Shown { injected: 1, acquisitions: 3, note: format!("{:.0} s ahead is seen", ahead[1]) })
}

/// Whether the server's clock was set back before the key expired.
fn outlives(server: &Server, key: &str) -> bool {
    loop {
        match server.run(&["PTTL", key]).int() {
            Some(left) if left > 60_000 => return true,
            Some(left) if left >= 0 => thread::sleep(ms(5)),
            _ => return false,
        }
    }
}

/// A dead client's lock stays longer and is not granted to anyone meanwhile, and
/// operators see that its keys outlive any TTL.
fn a_key_that_lives_too_long(_: Scale) -> anyhow::Result<Shown> {
    let servers = Servers::start_with(3, &Server::options().fake_clock())?;
    let habits = Habits::default();
    let builder = habits.builder(&servers.urls());
    vouch(&builder)?;
    let locks = builder.connect_blocking()?;
    // On a busy machine, a lock may expire before both clocks are set.
    let mut names = (1..=20).map(|number: u32| (number, format!("stock:{number}")));
    let abandoned = names.find_map(|(number, name)| {
        let parts = locks.lock(&name).no_renewal().acquire().ok()?.into_parts();
        for node in [0, 1] {
            servers[node].clock_behind(NINE_MINUTES * number);
        }
        (outlives(&servers[0], &name) && outlives(&servers[1], &name)).then_some((name, parts))
    });
    let (name, abandoned) = abandoned.context("no lock outlived the setting of two clocks")?;
    thread::sleep(habits.ttl * 3 / 2);
    let again = locks.try_lock(&name).acquire()?;
    anyhow::ensure!(again.is_none(), "granted although a majority still has the key");
    let status = locks.status(&name)?;
    let lives = |key: &NodeKey| match key {
        NodeKey::Held { remaining: Some(remaining), .. } => *remaining,
        _ => ms(0),
    };
    let lives: Vec<_> = status.nodes.iter().map(|node| lives(&node.key)).collect();
    anyhow::ensure!(lives[0] > sec(500) && lives[2] == ms(0), "status says {lives:?}");
    drop(abandoned);
    let note = format!("not granted; status shows a key with {:.0?} left", lives[0]);
    Ok(Shown { injected: 2, acquisitions: 1, note })
}
