//! A node that lost the key gets it back, once the vote is won without it.

use crate::support::{Cut, Lock, MS, Mode, NODE_TIMEOUT, TTL, World, at, renewed};
use core::time::Duration;

/// A lease whose third node has lost the key, and has yet to see the extension.
fn extended_without_a_node_that_forgot() -> (World, Lock) {
    let (mut world, lock) = World::holding();
    world.node_forgets(2);
    world.channel(2, Mode::Held);
    world.extend(lock, TTL);
    assert_eq!(world.kept(lock).len(), 1);
    (world, lock)
}

/// A lease whose third node, which the take never reached, has yet to see the key
/// that is planted there.
fn planting_on_a_node_that_was_down() -> (World, Lock) {
    let mut world = World::of(3);
    world.channel(2, Mode::Down);
    let lock = world.acquire();
    world.channel(2, Mode::Held);
    world.extend(lock, TTL);
    world.carry_out(0, 2);
    world.answer_one(0, 2);
    assert_eq!(world.planted(), [2], "not yet answered");
    (world, lock)
}

#[test]
fn a_missing_key_is_planted_again_after_the_vote_is_won() {
    let (mut world, lock) = World::holding();
    world.node_forgets(2);

    world.extend(lock, TTL);

    assert_eq!(world.kept(lock).len(), 1);
    assert_eq!(world.locked(), [0, 1, 2]);
}

#[test]
fn a_node_that_says_so_before_the_vote_is_won_gets_its_key_back_too() {
    let (mut world, lock) = World::holding();
    world.node_forgets(0);
    world.channels([1, 2], Mode::Held);

    world.extend(lock, TTL);
    assert_eq!(world.takes(), [0, 1, 2], "nothing is won yet");
    world.all_lines(Mode::Open);

    assert_eq!(world.locked(), [0, 1, 2]);
}

#[test]
fn a_node_that_says_so_late_gets_its_key_back_too() {
    let (mut world, _) = extended_without_a_node_that_forgot();

    world.channel(2, Mode::Open);

    assert_eq!(world.locked(), [0, 1, 2]);
}

#[test]
fn nothing_is_planted_after_an_extension_that_was_not_won() {
    let (mut world, lock) = World::renewing();
    world.channels([1, 2], Mode::Held);
    world.nodes_forget([1, 2]);
    world.pass(333 * MS);
    world.pass(NODE_TIMEOUT);

    world.channels([1, 2], Mode::Open);
    world.pass(200 * MS);

    assert_eq!(world.takes(), [0, 1, 2], "the first attempt only");
    assert!(world.lost(lock).is_some(), "a majority has lost the key");
}

#[test]
fn planting_does_not_push_out_another_owner() {
    let (mut world, lock) = World::holding();
    world.node_forgets(2);
    world.occupy(2);

    world.extend(lock, TTL);

    assert_eq!(world.locked(), [0, 1]);
    assert_eq!(world.value(2), Some(&b"a stranger"[..]));
}

#[test]
fn a_long_lock_survives_a_rolling_restart_of_every_node() {
    let (mut world, lock) = World::renewing();

    for node in [0, 1, 2, 0, 1, 2] {
        world.node_forgets(node);
        world.pass(350 * MS);
        assert_eq!(world.locked(), [0, 1, 2]);
    }

    assert_eq!(world.lost(lock), None);
}

#[test]
fn planting_and_then_releasing_leaves_nothing() {
    let (mut world, lock) = extended_without_a_node_that_forgot();
    world.let_through(2);
    assert_eq!(world.planted(), [2]);

    world.release(lock);
    world.channel(2, Mode::Open);

    world.assert_nothing_left();
}

#[test]
fn planting_on_a_node_the_take_never_reached_is_undone_like_any_other() {
    let (mut world, lock) = planting_on_a_node_that_was_down();

    world.release(lock);
    world.channel(2, Mode::Open);

    world.assert_nothing_left();
}

#[test]
fn planting_whose_connection_broke_is_undone_with_the_release() {
    let (mut world, lock) = planting_on_a_node_that_was_down();

    world.cut(2, Cut::CarriedOut);
    assert_eq!(world.locked(), [0, 1, 2]);
    world.channel(2, Mode::Open);
    world.release(lock);

    assert_eq!(world.locked(), [0; 0]);
}

#[test]
fn a_lease_that_has_ended_plants_nothing() {
    let (mut world, lock) = extended_without_a_node_that_forgot();
    world.pass_until(at(10_950));
    assert!(world.lost(lock).is_some());

    world.channel(2, Mode::Open);

    assert_eq!(world.locked(), [0, 1]);
}

#[test]
fn a_place_that_must_not_put_keys_back_leaves_a_missing_one_missing() {
    let (mut world, lock) = World::holding();
    let (token, until) = (world.grant(lock).token.clone(), world.grant(lock).deadlines.ends_at);
    world.forget(lock);
    world.node_forgets(2);

    let adopted = world.adopt_elsewhere(renewed(Duration::MAX), &token, until);
    world.extend(adopted, TTL);

    assert_eq!(world.kept(adopted).len(), 1);
    assert_eq!(world.locked(), [0, 1]);
}
