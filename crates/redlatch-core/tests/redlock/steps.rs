//! "The Redlock Algorithm", its five steps on five masters, and "Retry on
//! Failure", "Releasing the Lock".

use crate::support::{Cut, MS, Mode, NODE_TIMEOUT, TTL, USABLE, World, plain, resource};
use redlatch_core::{AcquireError, Command, Terms, config::Wanted};

#[test]
fn step_1_it_gets_the_current_time_before_anything_is_sent() {
    let mut world = World::of(5);
    let before = world.now;
    world.all_lines(Mode::Held);

    let lock = world.acquire();
    world.pass(30 * MS);
    world.all_lines(Mode::Open);

    assert_eq!(world.grant(lock).deadlines.ends_at, before.after(USABLE));
}

#[test]
fn step_2_it_uses_the_same_key_name_and_random_value_in_all_instances() {
    let mut world = World::of(5);

    world.acquire();

    let sent = &world.clients[0].sent;
    assert_eq!(world.takes(), [0, 1, 2, 3, 4]);
    for (_, _, command) in sent {
        assert_eq!(*command, sent[0].2);
        assert!(matches!(command, Command::Take { resources, .. } if *resources == resource()));
    }
}

#[test]
fn step_2_the_timeout_of_an_instance_is_small_compared_to_the_auto_release_time() {
    for millis in [3, 10, 100, 1_000, 10_000, 30_000] {
        let ttl = millis * MS;
        let terms = Terms::check(&Wanted { ttl, ..Wanted::default() }).unwrap();

        assert!(terms.node_timeout <= (ttl / 20).max(5 * MS).min(ttl / 3), "{ttl:?}");
    }
}

#[test]
fn step_2_an_instance_that_is_down_does_not_keep_the_client_blocked() {
    let mut world = World::of(5);
    world.channel(0, Mode::Lossy);
    world.channel(1, Mode::Down);

    let lock = world.acquire();

    world.grant(lock); // without any time having passed
}

#[test]
fn step_2_instances_that_hang_keep_the_client_no_longer_than_the_timeout() {
    let mut world = World::of(5);
    (0..3).for_each(|node| world.channel(node, Mode::Lossy));
    let lock = world.acquire();
    world.pass(NODE_TIMEOUT - MS);
    assert_eq!(world.acquired(lock), None);

    world.pass(MS);

    assert!(matches!(world.refusal(lock), Some(AcquireError::NoMajority(_))));
}

#[test]
fn step_3_the_lock_is_acquired_if_and_only_if_the_majority_was_locked() {
    for free in 0..=5 {
        let mut world = World::of(5);
        (free..5).for_each(|node| world.occupy(node));

        let lock = world.acquire();

        let acquired = world.acquired(lock).unwrap().is_ok();
        assert_eq!(acquired, free >= 3, "{free} of 5 were free");
    }
}

#[test]
fn step_3_the_lock_is_acquired_only_if_the_time_elapsed_is_less_than_the_validity() {
    for (elapsed, acquired) in [(USABLE - MS, true), (USABLE, false), (TTL, false)] {
        let mut world = World::of(5);
        world.all_lines(Mode::Mute);
        let patient = crate::support::terms(|wanted| wanted.min_validity = Some(MS));
        let lock = world.acquire_on(patient);

        world.freeze(elapsed);
        world.all_lines(Mode::Open);

        assert_eq!(world.acquired(lock).unwrap().is_ok(), acquired, "{elapsed:?}");
    }
}

#[test]
fn step_4_the_validity_is_the_initial_validity_minus_the_time_elapsed_and_drift() {
    let mut world = World::of(5);
    world.all_lines(Mode::Mute);
    let lock = world.acquire();

    world.pass(40 * MS);
    world.all_lines(Mode::Open);

    let drift = TTL / 100 + 2 * MS;
    let validity = world.grant(lock).deadlines.ends_at.since(world.now);
    assert_eq!(validity, TTL - 40 * MS - drift);
}

#[test]
fn step_5_a_failed_lock_is_unlocked_on_all_instances_even_those_believed_not_locked() {
    let mut world = World::of(5);
    world.occupy(1);
    world.channel(2, Mode::Lossy);
    world.channel(3, Mode::Mute);
    world.channel(4, Mode::Held);
    world.acquire();
    world.pass(NODE_TIMEOUT);

    assert_eq!(world.undone(), [0, 1, 2, 3, 4]);
    world.channel(4, Mode::Open);
    assert_eq!(world.locked(), [0; 0]);
}

#[test]
fn step_5_a_lock_whose_validity_is_negative_is_unlocked_on_all_instances() {
    let mut world = World::of(5);
    world.all_lines(Mode::Mute);
    let lock = world.acquire();

    world.freeze(2 * TTL);
    world.all_lines(Mode::Open);

    assert!(matches!(world.refusal(lock), Some(AcquireError::TooSlow { .. })));
    assert_eq!(world.undone(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_client_that_fails_tries_again_after_a_random_delay() {
    let mut delays = Vec::new();
    for client in 0..5 {
        let mut world = World::with(5, 3);
        (0..3).for_each(|node| world.occupy(node));
        let lock = world.acquire_as(client, plain(), TTL);
        world.pass(TTL);
        delays.push(world.pauses(lock));
    }

    let all: Vec<_> = delays.concat();
    let mut different = all.clone();
    different.sort();
    different.dedup();
    assert!(delays.iter().all(|delays| delays.len() > 2), "{delays:?}");
    // The last pause of each is cut at its deadline: two may be alike.
    assert!(different.len() + 5 >= all.len(), "desynchronized: {all:?}");
}

#[test]
fn a_client_sends_to_all_instances_at_the_same_time_using_multiplexing() {
    let mut world = World::of(5);
    world.all_lines(Mode::Held);

    world.acquire();

    assert_eq!(world.takes(), [0, 1, 2, 3, 4], "before any has answered");
}

#[test]
fn a_client_that_fails_releases_the_partially_acquired_locks_as_soon_as_possible() {
    let mut world = World::of(5);
    (0..3).for_each(|node| world.occupy(node));

    world.acquire();

    assert_eq!(world.locked(), [0; 0], "no time has passed");
}

#[test]
fn the_lock_is_released_on_all_instances_whether_believed_locked_or_not() {
    let mut world = World::of(5);
    world.occupy(3);
    world.channel(4, Mode::Mute);
    let lock = world.acquire();
    assert_eq!(world.locked(), [0, 1, 2, 4]);

    world.release(lock);

    assert_eq!(world.undone(), [0, 1, 2, 3, 4]);
    assert_eq!(world.locked(), [0; 0]);
}

#[test]
fn the_lock_is_released_even_where_the_connection_broke_during_the_take() {
    let mut world = World::of(5);
    world.channel(4, Mode::Held);
    let lock = world.acquire();
    world.cut(4, Cut::CarriedOut);
    assert_eq!(world.locked(), [0, 1, 2, 3, 4]);
    world.channel(4, Mode::Open);

    world.release(lock);

    assert_eq!(world.locked(), [0; 0]);
}
