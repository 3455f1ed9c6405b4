//! Fencing: numbers that grow over independent nodes, and are never shared.

use crate::support::{Lock, MS, Mode, NODE_TIMEOUT, TTL, World, plain, renewed, resource};
use core::time::Duration;
use redlatch_core::{AcquireError, Command};

/// The number of a lock that was granted.
fn number(world: &World, lock: Lock) -> u64 {
    world.grant(lock).fence.expect("a fenced lock has a number").get()
}

/// Of three nodes the second is ahead, the third is down, and the first has been
/// asked to reach the second: what becomes of that is for the test to say.
fn being_raised() -> (World, Lock) {
    let mut world = World::of(3);
    world.nodes[1].set_register(&resource(), 1 << 50);
    world.channel(0, Mode::Held);
    world.channel(2, Mode::Down);
    let lock = world.acquire_fenced(0, plain());
    world.carry_out(0, 0);
    world.answer_one(0, 0);
    (world, lock)
}

fn raises(world: &World, client: usize) -> usize {
    let sent = world.clients[client].sent.iter();
    sent.filter(|(_, _, command)| matches!(command, Command::Raise { .. })).count()
}

#[test]
fn the_normal_case_is_one_round_trip_and_one_number_on_all_nodes() {
    let mut world = World::of(5);

    let lock = world.acquire_fenced(0, plain());

    let token = number(&world, lock);
    assert_eq!(raises(&world, 0), 0);
    assert!(world.nodes.iter().all(|node| node.register(&resource()) == token));
}

#[test]
fn every_later_grant_has_a_greater_number() {
    let mut world = World::with(2, 3);
    let mut last = 0;
    for turn in 0..10 {
        let client = turn % 2;
        let lock = world.acquire_fenced(client, plain());
        let token = number(&world, lock);

        assert!(token > last, "{token} after {last}");

        last = token;
        world.release(lock);
        world.pass(MS / 10);
    }
}

#[test]
fn without_fencing_there_is_no_number_and_no_register_moves() {
    let mut world = World::of(3);

    let lock = world.acquire();

    assert_eq!(world.grant(lock).fence, None);
    assert_eq!(world.nodes[0].register(&resource()), 0);
}

#[test]
fn where_the_numbers_differ_a_majority_is_raised_to_the_greatest() {
    let mut world = World::of(3);
    world.nodes[1].set_register(&resource(), 1 << 50);

    let lock = world.acquire_fenced(0, plain());

    assert_eq!(number(&world, lock), (1 << 50) + 1);
    assert_eq!(raises(&world, 0), 2, "once for each node that was behind");
    assert_eq!(world.nodes[0].register(&resource()), (1 << 50) + 1);
}

#[test]
fn a_node_that_lost_our_key_in_between_does_not_confirm() {
    let (mut world, lock) = being_raised();
    world.node_forgets(0);

    world.let_through(0);
    world.pass(NODE_TIMEOUT);

    assert!(world.refusal(lock).is_some(), "{:?}", world.acquired(lock));
    assert_eq!(world.nodes[0].register(&resource()), 0, "raised only with our key");
}

#[test]
fn a_register_that_is_ahead_by_then_makes_its_number_the_new_one() {
    let (mut world, lock) = being_raised();
    // Another lock of the same register was granted meanwhile.
    world.nodes[0].set_register(&resource(), 1 << 51);

    world.channel(0, Mode::Open);
    world.let_through(0);

    assert_eq!(number(&world, lock), 1 << 51);
    assert_eq!(world.nodes[1].register(&resource()), 1 << 51);
}

#[test]
fn validity_is_checked_after_the_last_round() {
    let (mut world, lock) = being_raised();
    world.carry_out(0, 0);

    world.freeze(2 * TTL);
    world.answer_one(0, 0);

    assert!(matches!(world.refusal(lock), Some(AcquireError::TooSlow { .. })));
}

#[test]
fn silence_in_the_second_round_is_no_confirmation() {
    let (mut world, lock) = being_raised();

    world.pass(NODE_TIMEOUT + MS);

    assert!(matches!(world.refusal(lock), Some(AcquireError::NoMajority(_))));
}

#[test]
fn an_extension_carries_the_number_to_nodes_that_are_behind() {
    let mut world = World::of(3);
    let lock = world.acquire_fenced(0, renewed(Duration::MAX));
    world.nodes[2].set_register(&resource(), 7);

    world.pass(333 * MS);

    assert_eq!(world.nodes[2].register(&resource()), number(&world, lock));
}

#[test]
fn a_release_leaves_the_registers_alone() {
    let mut world = World::of(3);
    let lock = world.acquire_fenced(0, plain());
    let token = number(&world, lock);

    world.release(lock);

    assert!(world.nodes.iter().all(|node| node.register(&resource()) == token));
}

#[test]
fn a_minority_that_is_down_does_not_cost_a_round() {
    let mut world = World::of(5);
    world.channels([0, 4], Mode::Down);

    let lock = world.acquire_fenced(0, plain());

    assert!(number(&world, lock) > 0);
    assert_eq!(raises(&world, 0), 0);
}

/// It granted the take before its connection broke: its key is there.
#[test]
fn a_node_that_cannot_be_reached_to_be_raised_is_undone_all_the_same() {
    let (mut world, _lock) = being_raised();
    assert_eq!(world.locked(), [0, 1]);

    world.refuse(0);
    world.channel(0, Mode::Open);

    assert_eq!(world.locked(), [0; 0]);
}

/// The same when the lock was granted without it meanwhile, and is released.
#[test]
fn a_node_that_could_not_be_raised_in_time_is_released_all_the_same() {
    let mut world = World::of(3);
    world.nodes[1].set_register(&resource(), 1 << 50);
    world.channels([0, 2], Mode::Held);
    let lock = world.acquire_fenced(0, plain());
    for node in [0, 2, 2] {
        world.carry_out_one(0, node);
        world.answer_one(0, node);
    }
    assert_eq!(number(&world, lock), (1 << 50) + 1);

    world.refuse(0);
    world.channels([0, 2], Mode::Open);
    world.release(lock);

    assert_eq!(world.locked(), [0; 0]);
}

/// Fault 56.
#[test]
fn with_one_node_clocks_of_clients_apart_do_not_turn_the_order_around_when_it_forgets() {
    let mut world = World::with(2, 1);
    world.clients[0].wall_ahead = Duration::from_secs(5);
    let first = world.acquire_fenced(0, plain());
    let before = world.grant(first).fence.expect("a number");
    world.release(first);

    world.node_forgets(0);
    world.pass(MS);
    let second = world.acquire_fenced(1, plain());

    assert!(world.grant(second).fence.expect("a number") > before);
}
