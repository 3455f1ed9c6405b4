//! Attempts after the first.

use crate::support::{MS, Mode, NODE_TIMEOUT, World, plain};
use core::time::Duration;
use redlatch_core::{AcquireError, Command};

#[test]
fn every_attempt_has_a_token_of_its_own() {
    let mut world = World::of(3);
    world.occupy_all([0, 1]);

    world.acquire_as(0, plain(), 500 * MS);
    world.pass(600 * MS);

    let mut tokens: Vec<_> = world.tokens().iter().map(|t| t.as_bytes().to_vec()).collect();
    let attempts = tokens.len();
    assert!(attempts > 3, "{attempts}");
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), attempts);
}

#[test]
fn the_undo_goes_out_before_the_next_attempt_even_without_a_pause() {
    let mut world = World::of(1);
    world.pauses_of(0);
    world.channel(0, Mode::Lossy);

    world.acquire_as(0, plain(), 1000 * MS);
    world.pass(NODE_TIMEOUT);

    let sent = world.clients[0].sent.iter();
    let kinds: Vec<bool> =
        sent.map(|(_, _, command)| matches!(command, Command::Take { .. })).collect();
    assert_eq!(kinds, [true, false, true], "take, undo, take");
}

#[test]
fn an_attempt_is_not_refused_by_the_keys_of_the_one_before() {
    let mut world = World::of(3);
    world.pauses_of(0);
    world.channel(1, Mode::Mute);
    world.channel(2, Mode::Lossy);
    let lock = world.acquire_as(0, plain(), 1000 * MS);

    world.freeze(NODE_TIMEOUT);
    world.channel(1, Mode::Held);
    world.tick();
    world.let_through(1);

    world.grant(lock);
}

#[test]
fn there_is_one_attempt_even_without_time_to_wait() {
    let mut world = World::of(3);
    world.occupy_all([0, 1]);

    let lock = world.acquire_as(0, plain(), Duration::ZERO);

    assert!(matches!(world.refusal(lock), Some(AcquireError::Held(_))));
    assert_eq!(world.pauses(lock), [Duration::ZERO; 0]);
    assert_eq!(world.takes(), [0, 1, 2]);
}

#[test]
fn waiting_ends_with_a_last_attempt_at_its_deadline_and_one_answer() {
    let mut world = World::of(3);
    world.occupy_all([0, 1]);
    let deadline = world.now.after(500 * MS);

    let lock = world.acquire_as(0, plain(), 500 * MS);
    world.pass(499 * MS);
    assert_eq!(world.acquired(lock), None);
    world.pass(MS);

    assert!(matches!(world.refusal(lock), Some(AcquireError::Held(_))));
    let (last, ..) = world.clients[0]
        .sent
        .iter()
        .rfind(|(_, _, command)| matches!(command, Command::Take { .. }))
        .unwrap();
    assert_eq!(*last, deadline);
    assert!(world.is_idle());
}

#[test]
fn a_lock_that_is_freed_while_somebody_waits_is_taken() {
    let mut world = World::with(2, 3);
    let first = world.acquire_as(0, plain(), Duration::ZERO);
    let second = world.acquire_as(1, plain(), 900 * MS);
    world.pass(100 * MS);
    assert_eq!(world.acquired(second), None);

    world.release(first);
    world.pass(500 * MS);

    world.grant(second);
}

#[test]
fn the_votes_of_an_earlier_attempt_do_not_count_for_a_later_one() {
    let mut world = World::of(3);
    world.channels([0, 1], Mode::Mute);
    world.channel(2, Mode::Lossy);
    let lock = world.acquire_as(0, plain(), 1000 * MS);
    world.pass(NODE_TIMEOUT);
    world.pass(world.pauses(lock)[0]);

    for node in [0, 1] {
        world.answer_one(0, node);
    }

    assert_eq!(world.acquired(lock), None, "those were the first attempt's");
}
