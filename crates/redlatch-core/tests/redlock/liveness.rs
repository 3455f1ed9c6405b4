//! "Liveness Arguments", and properties 2 and 3.

use crate::support::{Cut, Lock, MS, Mode, TTL, World, plain};
use core::time::Duration;
use redlatch_core::{AcquireError, Released};

#[test]
fn a_lock_can_be_acquired_even_if_the_client_that_locked_it_crashes() {
    let mut world = World::with(2, 5);
    let first = world.acquire_as(0, plain(), MS);
    world.grant(first);
    crash(&mut world, 0);

    let second = world.acquire_as(1, plain(), 5 * TTL);
    world.pass(TTL - MS);
    assert_eq!(world.acquired(second), None);
    world.pass(TTL);

    world.grant(second);
}

/// From now on nothing from that client reaches a node.
fn crash(world: &mut World, client: usize) {
    for node in 0..world.nodes.len() {
        world.line_of(client, node, Mode::Lossy);
    }
}

#[test]
fn as_long_as_the_majority_is_up_clients_acquire_and_release_locks() {
    for trouble in [Mode::Down, Mode::Lossy, Mode::Held, Mode::Mute] {
        let mut world = World::of(5);
        world.channel(1, trouble);
        world.channel(3, trouble);

        let lock = world.acquire();
        world.grant(lock);
        world.release(lock);

        assert_eq!(world.released(lock), Some(&Ok(Released::Now)), "{trouble:?}");
    }
}

#[test]
fn the_auto_release_makes_keys_available_to_be_locked_again() {
    let mut world = World::of(5);
    let lock = world.acquire();
    world.forget(lock);
    world.freeze(TTL - MS);
    let early = world.acquire();
    assert!(world.refusal(early).is_some());

    world.freeze(MS);
    let late = world.acquire();

    world.grant(late);
}

#[test]
fn clients_remove_the_locks_when_the_lock_was_not_acquired() {
    let mut world = World::with(2, 3);
    world.all_lines(Mode::Held);
    let locks = split_vote(&mut world);
    assert!(locks.iter().all(|lock| world.refusal(*lock).is_some()));

    let third = world.acquire();

    world.grant(third); // without any time having passed
}

/// Both clients get one node each, and the third refuses both.
fn split_vote(world: &mut World) -> [Lock; 2] {
    world.occupy(2);
    let locks = [0, 1].map(|client| world.acquire_as(client, plain(), Duration::ZERO));
    for (client, node) in [(0, 0), (1, 1), (0, 1), (1, 0), (0, 2), (1, 2)] {
        world.carry_out_one(client, node);
    }
    world.all_lines(Mode::Open);
    world.node_forgets(2);
    locks
}

#[test]
fn clients_remove_the_locks_when_the_work_terminated() {
    let mut world = World::with(2, 3);
    let first = world.acquire_as(0, plain(), MS);
    world.release(first);

    let second = world.acquire_as(1, plain(), Duration::ZERO);

    world.grant(second); // without any time having passed
}

#[test]
fn a_retry_waits_longer_than_the_majority_needed_on_average() {
    let mut world = World::of(3);
    world.pauses_of(128);
    (0..3).for_each(|node| world.occupy(node));
    world.all_lines(Mode::Mute);
    let round_trip = 5 * MS;
    let lock = world.acquire_as(0, plain(), TTL);

    world.pass(round_trip);
    world.all_lines(Mode::Open);

    assert!(world.pauses(lock)[0] >= 2 * round_trip, "{:?}", world.pauses(lock));
}

#[test]
fn clients_that_split_the_vote_do_not_do_so_forever() {
    let mut world = World::with(3, 3);
    let wait = 3 * TTL;
    world.all_lines(Mode::Held);
    let locks = [0, 1, 2].map(|client| world.acquire_as(client, plain(), wait));
    (0..3).for_each(|client| world.carry_out_one(client, client));
    world.all_lines(Mode::Open);
    assert!(locks.iter().all(|lock| world.acquired(*lock).is_none()), "split three ways");

    world.pass(TTL / 2);

    let winners = locks.iter().filter(|lock| matches!(world.acquired(**lock), Some(Ok(_))));
    assert_eq!(winners.count(), 1);
}

#[test]
fn a_partition_costs_at_most_the_ttl_of_availability() {
    let mut world = World::with(2, 3);
    world.all_lines(Mode::Held);
    let first = world.acquire_as(0, plain(), Duration::ZERO);
    (0..2).for_each(|node| world.carry_out(0, node));
    // The first client is cut off before it hears of its grants.
    (0..3).for_each(|node| world.cut(node, Cut::NotCarriedOut));
    crash(&mut world, 0);
    assert!(matches!(world.refusal(first), Some(AcquireError::NoMajority(_))));
    (0..3).for_each(|node| world.line_of(1, node, Mode::Open));

    world.pass(TTL);
    let second = world.acquire_as(1, plain(), Duration::ZERO);

    world.grant(second);
}
