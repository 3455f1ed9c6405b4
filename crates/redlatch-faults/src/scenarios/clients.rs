//! Clients that are paused, killed, blocked or forgetful: rows 16, 17, 28 to 30,
//! 37, 42, 43 and 54.

use super::{ms, row, sec};
use crate::{
    orders::Habits,
    scenario::{Load, Must, Row},
    scene::Scene,
};
use redlatch_testbed::{Direction, Proxy};
use std::time::Duration;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(16, "client paused after the grant")
            .load(Load {
                what: "holders stopped past their TTL",
                lingerers: 0,
                workers: 5,
                resources: 1,
                habits: Habits {
                    ttl: ms(500),
                    node_timeout: ms(100),
                    renews: true,
                    thinks: (ms(5), ms(15)),
                    careless: true,
                    ..Habits::default()
                },
                lasts: (sec(20), sec(5)),
                nemesis: pauses_the_holder,
                must: Must { lose_unfenced: true, ..Must::default() },
                ..Load::default()
            })
            .tests(&[
                "a_late_write_to_a_file_is_refused_if_it_is_fenced",
                "a_late_write_to_redis_is_refused_if_it_is_fenced",
                "a_late_write_to_postgres_is_refused_if_it_is_fenced",
                "a_late_write_to_sqlite_is_refused_if_it_is_fenced",
            ]),
        row(17, "client paused during the take, or between fencing rounds")
            .load(Load {
                what: "slow network, takers stopped",
                proxied: true,
                lingerers: 0,
                workers: 6,
                habits: Habits { ttl: ms(600), node_timeout: ms(150), ..Habits::default() },
                lasts: (sec(12), sec(3)),
                prepare: slows_the_network,
                nemesis: pauses_anybody,
                repair: |scene| scene.proxies.iter().for_each(Proxy::pass),
                ..Load::default()
            })
            .tests(&[
                "counterexamples::replies_that_wait_while_the_keys_expire_grant_nothing",
                "fencing::validity_is_checked_after_the_last_round",
                "a_grant_whose_second_round_ends_after_the_lease_is_refused",
                "f3_f5_a_majority_that_comes_too_late_is_no_grant_and_is_undone",
            ]),
        row(28, "caller's executor blocked").tests(&[
            "a_lease_whose_runtime_is_blocked_for_three_ttls_is_renewed_all_the_time",
            "with_all_nodes_frozen_loss_is_signalled_before_the_lease_of_a_blocked_runtime_ends",
        ]),
        row(29, "guard dropped, task cancelled, panic").tests(&[
            "ten_thousand_acquires_ended_at_random_leave_nothing",
            "a_guard_that_is_dropped_gives_the_lock_back",
            "a_future_dropped_while_it_waits_leaves_nothing",
            "f9_a_caller_that_was_cancelled_leaves_no_key",
        ]),
        row(30, "job hangs forever").tests(&[
            "f12_a_guard_that_nobody_drops_is_renewed_up_to_the_cap_only",
            "max_hold_ends_a_lock_that_is_renewed_and_says_so",
        ]),
        row(37, "1,000 waiters on one lock, killed -9 at random").load(Load {
            what: "ten processes, a hundred callers each",
            lingerers: 0,
            workers: 10,
            callers: 100,
            resources: 1,
            lasts: (sec(20), sec(5)),
            nemesis: kills_workers,
            must: Must { go_on: false, ..Must::default() },
            ..Load::default()
        }),
        row(42, "too many clients, too few file descriptors")
            .script("connections made anew all the time", super::races::descriptors)
            .tests(&["a_server_that_is_full_is_no_vote_until_it_has_room"]),
        row(43, "wrapper killed -9; grandchildren; a child that ignores SIGTERM").tests(&[
            "everything_dies_with_the_wrapper_and_the_lock_is_free",
            "everything_dies_with_the_process_that_holds_the_lock",
            "the_command_dies_even_if_both_that_look_after_it_are_killed_at_once",
            "what_a_command_has_started_dies_with_the_holder_while_the_front_is_stopped",
            "everything_dies_before_the_lease_ends_if_the_process_that_holds_the_lock_hangs",
            "everything_is_dead_before_the_lease_ends_when_all_servers_freeze",
        ]),
        row(54, "child of `run` changes user; its first thread ends, others go on").tests(&[
            "fault_54_a_process_whose_first_thread_has_ended_is_killed",
            "fault_54_a_process_that_became_another_user_is_named_if_it_cannot_be_stopped",
            "fault_54_a_process_that_became_another_user_is_killed_where_a_control_group_can_be_had",
        ]),
    ]
}

/// As in Jepsen's lock test: with luck, between its read and its write.
fn pauses_the_holder(scene: &mut Scene) {
    let mut holder = None;
    redlatch_testbed::wait_until(ms(500), || {
        holder = scene.holder();
        holder.is_some()
    });
    if let Some(worker) = holder {
        // Pause until others must have the lock: a client that does not know that it is
        // first in line looks once a second.
        pause(scene, worker, scene.ttl + sec(2));
    }
    scene.wait(ms(100));
}

fn pauses_anybody(scene: &mut Scene) {
    let worker = scene.dice.index(scene.crew.len());
    pause(scene, worker, scene.ttl * 3 / 2);
    scene.wait(ms(50));
}

fn pause(scene: &mut Scene, worker: usize, span: Duration) {
    scene.fault("worker stopped", |scene| {
        if scene.crew.pause(worker).is_ok() {
            scene.wait(span);
            let _ = scene.crew.wake(worker);
        }
    });
}

/// A different delay for each node: takes are slow, and registers differ.
fn slows_the_network(scene: &mut Scene) {
    for (proxy, delay) in scene.proxies.iter().zip([2, 5, 9, 14, 20]) {
        proxy.delay(Direction::Requests, ms(delay));
        proxy.delay(Direction::Replies, ms(20 - delay));
    }
}

/// Kills the holder if it can be seen, otherwise any worker.
fn kills_workers(scene: &mut Scene) {
    let anybody = scene.dice.index(scene.crew.len());
    let worker = scene.holder().unwrap_or(anybody);
    scene.fault("worker killed", |scene| {
        scene.crew.replace(worker).expect("another worker");
    });
    scene.wait_between(ms(500), ms(1500));
}
