//! Giving a lock back.

use crate::support::{Cut, MS, Mode, NODE_TIMEOUT, TTL, USABLE, World, terms};
use redlatch_core::{ExtendError, ReleaseError, Released};

#[test]
fn a_release_answers_at_the_majority_and_goes_on_on_the_rest() {
    let (mut world, lock) = World::holding();
    world.channel(2, Mode::Held);

    world.release(lock);

    assert_eq!(world.released(lock), Some(&Ok(Released::Now)));
    assert_eq!(world.locked(), [2]);
    assert!(!world.is_idle());
    world.channel(2, Mode::Open);
    world.assert_nothing_left();
}

#[test]
fn a_release_is_repeated_where_its_connection_broke() {
    let (mut world, lock) = World::holding();
    world.channel(2, Mode::Held);
    world.release(lock);

    world.cut(2, Cut::NotCarriedOut);
    world.channel(2, Mode::Open);
    assert_eq!(world.locked(), [2]);
    world.pass(50 * MS);

    world.assert_nothing_left();
}

#[test]
fn releasing_an_expired_lock_is_an_outcome() {
    let (mut world, lock) = World::holding();

    world.freeze(TTL);
    world.release(lock);

    assert_eq!(world.released(lock), Some(&Ok(Released::AlreadyGone)));
}

#[test]
fn a_release_that_a_majority_does_not_answer_is_unknown_and_goes_on() {
    let (mut world, lock) = World::holding();
    world.channels([1, 2], Mode::Held);

    world.release(lock);
    world.pass(499 * MS);
    assert_eq!(world.released(lock), None);
    world.pass(MS);

    assert!(matches!(world.released(lock), Some(Err(ReleaseError::Unknown(_)))));
    world.all_lines(Mode::Open);
    world.assert_nothing_left();
}

#[test]
fn a_release_waits_for_nodes_as_long_as_an_attempt_does_if_that_is_longer() {
    let mut world = World::of(3);
    let lock = world.acquire_on(terms(|wanted| wanted.node_timeout = Some(700 * MS)));
    world.channels([1, 2], Mode::Held);

    world.release(lock);
    world.pass(699 * MS);
    assert_eq!(world.released(lock), None);
    world.pass(MS);

    assert!(matches!(world.released(lock), Some(Err(ReleaseError::Unknown(_)))));
}

#[test]
fn releasing_a_lock_that_was_lost_long_ago_is_answered() {
    let (mut world, lock) = World::holding();
    world.pass(2 * TTL);
    assert!(world.is_idle());

    world.release(lock);

    assert_eq!(world.released(lock), Some(&Ok(Released::AlreadyGone)));
}

#[test]
fn releasing_a_lock_whose_undo_is_under_way_is_answered_by_that_undo() {
    let (mut world, lock) = World::holding();
    world.channels([1, 2], Mode::Held);
    world.pass(990 * MS);
    assert!(world.lost(lock).is_some());

    world.release(lock);
    assert_eq!(world.released(lock), None);
    world.let_through(1);

    assert_eq!(world.released(lock), Some(&Ok(Released::Now)));
    assert_eq!(world.undone(), [0, 1, 2], "no need to ask twice");
}

#[test]
fn releasing_a_lock_whose_undo_is_under_way_is_answered_in_time() {
    let (mut world, lock) = World::holding();
    world.all_lines(Mode::Lossy);
    world.pass(990 * MS);

    world.release(lock);
    world.pass(500 * MS);

    assert!(matches!(world.released(lock), Some(Err(ReleaseError::Unknown(_)))));
}

#[test]
fn an_extension_that_the_release_overtook_is_answered() {
    let (mut world, lock) = World::holding();
    world.all_lines(Mode::Held);
    world.extend(lock, TTL);

    world.release(lock);

    assert_eq!(world.extended(lock), [Err(ExtendError::Over)]);
    world.all_lines(Mode::Open);
    assert_eq!(world.extended(lock).len(), 1);
    assert_eq!(world.locked(), [0; 0]);
}

#[test]
fn a_release_goes_on_for_as_long_as_the_longest_extension_lets_keys_live() {
    let (mut world, lock) = World::holding();
    world.extend(lock, 10 * TTL);
    world.channel(2, Mode::Down);

    world.release(lock);
    world.pass(3 * TTL);
    assert_eq!(world.locked(), [2], "the key lives on there");
    world.channel(2, Mode::Open);
    world.pass(TTL);

    world.assert_nothing_left();
}

#[test]
fn a_short_extension_does_not_cut_how_long_a_release_goes_on() {
    let (mut world, lock) = World::holding();
    world.extend(lock, 10 * TTL);
    world.extend(lock, TTL);
    world.channel(2, Mode::Down);

    world.release(lock);
    world.pass(3 * TTL);
    world.channel(2, Mode::Open);
    world.pass(TTL);

    world.assert_nothing_left();
}

/// From there on nobody is asked again, so no answer is worth waiting for.
#[test]
fn a_release_that_is_asked_for_just_before_the_keys_die_is_answered_when_they_do() {
    let (mut world, lock) = World::holding();
    world.channels([1, 2], Mode::Held);
    world.pass(USABLE);

    world.pass(TTL);
    world.release(lock);
    world.pass(NODE_TIMEOUT);

    assert!(matches!(world.released(lock), Some(Err(ReleaseError::Unknown(_)))));
    assert!(world.is_idle());
}
