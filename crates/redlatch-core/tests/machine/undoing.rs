//! A lost attempt leaves nothing behind.

use crate::support::{Cut, Lock, MS, Mode, NODE_TIMEOUT, TTL, World};
use redlatch_core::{AcquireError, Released};

/// An attempt that two nodes have refused, and the first has yet to see.
fn lost_before_the_first_node_has_seen_it() -> World {
    let mut world = World::of(3);
    world.occupy_all([1, 2]);
    world.channel(0, Mode::Held);
    world.acquire();
    world
}

/// A failed attempt has left its key on the first node, whose connection broke
/// before it answered and which cannot be reached any more.
fn key_on_a_silent_node() -> World {
    let mut world = lost_before_the_first_node_has_seen_it();
    world.carry_out_one(0, 0);
    world.cut(0, Cut::NotCarriedOut);
    world.channel(0, Mode::Down);
    world
}

/// A lease on two nodes; the third has yet to see the take.
fn held_before_the_last_node_has_seen_it() -> (World, Lock) {
    let mut world = World::of(3);
    world.channel(2, Mode::Held);
    let lock = world.acquire();
    world.grant(lock);
    (world, lock)
}

#[test]
fn a_lost_attempt_undoes_every_node_even_one_that_refused_or_was_silent() {
    let mut world = World::of(3);
    world.occupy(1);
    world.channel(2, Mode::Lossy);

    let lock = world.acquire();
    world.pass(NODE_TIMEOUT);

    assert!(matches!(world.refusal(lock), Some(AcquireError::NoMajority(_))));
    assert_eq!(world.undone(), [0, 1, 2]);
    assert_eq!(world.locked(), [0; 0]);
}

#[test]
fn an_undo_goes_behind_its_take() {
    let mut world = lost_before_the_first_node_has_seen_it();

    world.carry_out_one(0, 0);
    assert_eq!(world.locked(), [0], "the late take");
    world.carry_out_one(0, 0);

    assert_eq!(world.locked(), [0; 0], "its undo was waiting behind it");
}

#[test]
fn an_undo_whose_connection_broke_is_asked_again_until_the_node_answered() {
    let mut world = key_on_a_silent_node();

    world.pass(300 * MS);
    assert_eq!(world.locked(), [0], "the node cannot be reached");
    assert!(!world.is_idle());
    world.channel(0, Mode::Open);
    world.pass(500 * MS);

    world.assert_nothing_left();
}

#[test]
fn an_undo_that_nobody_answers_ends_when_the_key_has_died_by_itself() {
    let mut world = key_on_a_silent_node();

    world.pass(TTL);
    assert!(!world.is_idle(), "drift is not over");
    world.pass(12 * MS);

    world.assert_nothing_left();
}

#[test]
fn a_client_whose_wall_clock_steps_forward_undoes_what_is_still_on_a_silent_node() {
    let mut world = key_on_a_silent_node();

    world.clients[0].ahead = 60 * TTL;
    world.pass(100 * MS);
    assert!(!world.is_idle(), "the key is on the node for as long as before");
    world.channel(0, Mode::Open);
    world.pass(500 * MS);

    world.assert_nothing_left();
}

#[test]
fn an_undo_is_not_sent_to_a_node_the_take_never_reached() {
    let mut world = World::of(3);
    world.channel(0, Mode::Down);
    world.occupy_all([1, 2]);

    world.acquire();
    world.pass(2 * TTL);

    assert_eq!(world.undone(), [1, 2]);
}

#[test]
fn an_undo_is_sent_to_a_node_whose_answer_made_no_sense() {
    let mut world = lost_before_the_first_node_has_seen_it();

    world.garble(0);
    world.channel(0, Mode::Open);
    world.pass(NODE_TIMEOUT);

    assert_eq!(world.undone(), [0, 1, 2]);
    assert_eq!(world.locked(), [0; 0]);
}

#[test]
fn a_lease_is_released_on_a_node_whose_grant_made_no_sense() {
    let (mut world, lock) = held_before_the_last_node_has_seen_it();
    world.garble(2);
    world.channel(2, Mode::Open);
    assert_eq!(world.locked(), [0, 1, 2]);

    world.release(lock);

    assert_eq!(world.locked(), [0; 0]);
}

#[test]
fn an_undo_is_sent_once_to_a_node_that_is_only_slow() {
    let mut world = lost_before_the_first_node_has_seen_it();

    world.pass(900 * MS);
    world.channel(0, Mode::Open);

    assert_eq!(world.undone(), [0, 1, 2]);
    assert!(world.is_idle());
}

#[test]
fn an_attempt_whose_grants_came_too_late_is_undone() {
    let mut world = World::behind(Mode::Mute);
    let lock = world.acquire();

    world.freeze(990 * MS);
    world.all_lines(Mode::Open);

    assert!(matches!(world.refusal(lock), Some(AcquireError::TooSlow { .. })));
    world.assert_nothing_left();
}

#[test]
fn a_late_grant_belongs_to_the_lease_and_is_released_with_it() {
    let (mut world, lock) = held_before_the_last_node_has_seen_it();

    world.channel(2, Mode::Open);
    assert_eq!(world.locked(), [0, 1, 2]);
    world.release(lock);

    world.assert_nothing_left();
}

#[test]
fn a_grant_that_comes_after_the_release_is_released_too() {
    let (mut world, lock) = held_before_the_last_node_has_seen_it();

    world.release(lock);
    world.channel(2, Mode::Open);

    world.assert_nothing_left();
}

#[test]
fn a_release_is_not_sent_to_a_node_whose_late_answer_is_that_the_take_never_left() {
    let (mut world, lock) = held_before_the_last_node_has_seen_it();

    world.refuse(2);
    world.release(lock);

    assert_eq!(world.undone(), [0, 1]);
}

#[test]
fn a_late_answer_to_an_extension_is_no_answer_to_the_release() {
    let (mut world, lock) = World::holding();
    world.all_lines(Mode::Held);
    world.extend(lock, TTL);
    world.release(lock);

    for node in 0..2 {
        world.carry_out_one(0, node);
        world.answer_one(0, node);
    }
    assert_eq!(world.released(lock), None);
    world.all_lines(Mode::Open);

    assert_eq!(world.released(lock), Some(&Ok(Released::Now)));
    assert_eq!(world.locked(), [0; 0]);
}
