//! "Safety Arguments", and property 1, mutual exclusion.

use crate::support::{Lock, MS, Mode, NODE_TIMEOUT, TTL, World, plain};
use core::time::Duration;
use redlatch_core::AcquireError;

#[test]
fn at_any_given_moment_only_one_client_can_hold_a_lock() {
    let mut world = World::with(2, 5);
    let first = world.acquire_as(0, plain(), MS);
    let end = world.grant(first).deadlines.ends_at;

    while world.now < end.before(2 * MS) {
        let second = world.acquire_as(1, plain(), Duration::ZERO);
        assert!(matches!(world.refusal(second), Some(AcquireError::Held(_))));
        world.pass(MS);
    }
}

/// The nodes carry out the takes 10 ms apart.
fn taken_one_after_the_other(world: &mut World) -> Lock {
    world.all_lines(Mode::Held);
    let lock = world.acquire();
    for node in 0..4 {
        world.pass(10 * MS);
        world.let_through(node);
    }
    lock
}

#[test]
fn keys_set_at_different_times_expire_at_different_times() {
    let mut world = World::of(5);

    taken_one_after_the_other(&mut world);

    let dies: Vec<_> = (0..4).map(|node| world.key_dies(node).unwrap()).collect();
    assert!(dies.is_sorted());
    assert_eq!(dies[3].since(dies[0]), 30 * MS);
}

#[test]
fn the_first_key_to_expire_exists_for_at_least_min_validity() {
    let mut world = World::of(5);

    let lock = taken_one_after_the_other(&mut world);

    let end = world.grant(lock).deadlines.ends_at;
    for node in 0..4 {
        assert!(world.key_dies(node).unwrap() > end);
    }
}

#[test]
fn all_keys_are_simultaneously_set_until_the_validity_ends() {
    let mut world = World::of(5);
    let lock = taken_one_after_the_other(&mut world);
    let end = world.grant(lock).deadlines.ends_at;

    world.freeze(end.since(world.now));

    assert_eq!(world.locked(), [0, 1, 2, 3]);
}

#[test]
fn another_client_cannot_acquire_while_the_majority_of_keys_are_set() {
    let mut world = World::with(2, 5);
    world.line_of(0, 3, Mode::Lossy);
    world.line_of(0, 4, Mode::Lossy);
    let first = world.acquire_as(0, plain(), MS);
    assert_eq!(world.locked(), [0, 1, 2], "a bare majority");

    let second = world.acquire_as(1, plain(), Duration::ZERO);

    world.grant(first);
    assert!(matches!(world.refusal(second), Some(AcquireError::Held(_))));
}

#[test]
fn a_lock_that_was_acquired_cannot_be_reacquired_at_the_same_time() {
    let mut world = World::of(5);
    let first = world.acquire();

    let again = world.acquire();

    world.grant(first);
    assert!(matches!(world.refusal(again), Some(AcquireError::Held(_))));
    assert_eq!(world.locked(), [0, 1, 2, 3, 4], "its undo left the first alone");
}

#[test]
fn clients_trying_at_the_same_time_cannot_simultaneously_succeed() {
    // The takes of each client arrive first on the nodes whose bit is set.
    for first_at in 0..32_u32 {
        let mut world = World::with(2, 5);
        world.all_lines(Mode::Held);
        let locks = [0, 1].map(|client| world.acquire_as(client, plain(), Duration::ZERO));
        for node in 0..5 {
            let first = usize::from(first_at & (1 << node) != 0);
            world.carry_out_one(first, node);
            world.carry_out_one(1 - first, node);
        }
        world.all_lines(Mode::Open);

        let won = locks.map(|lock| world.acquired(lock).unwrap().is_ok());
        assert_ne!(won, [true, true], "{first_at:05b}");
        assert_ne!(won, [false, false], "an odd number of nodes, all up: {first_at:05b}");
    }
}

#[test]
fn a_majority_locked_in_a_time_near_the_ttl_is_considered_invalid_and_unlocked() {
    let mut world = World::of(5);
    world.all_lines(Mode::Mute);
    let lock = world.acquire();

    world.freeze(TTL * 9 / 10);
    world.all_lines(Mode::Open);

    assert!(matches!(world.refusal(lock), Some(AcquireError::TooSlow { .. })));
    assert_eq!(world.locked(), [0; 0]);
}

#[test]
fn a_majority_is_of_all_instances_not_of_those_that_answer() {
    let mut world = World::of(5);
    (2..5).for_each(|node| world.channel(node, Mode::Down));

    let lock = world.acquire();
    world.pass(NODE_TIMEOUT);

    assert!(matches!(world.refusal(lock), Some(AcquireError::NoMajority(_))));
}

#[test]
fn half_of_an_even_number_is_no_majority() {
    let mut world = World::of(4);
    world.occupy_all([0, 1]);

    let lock = world.acquire();

    assert!(matches!(world.refusal(lock), Some(AcquireError::Held(_))));
}
