//! The caller is gone: nothing is left, nothing is answered.

use crate::support::{Cut, Lock, MS, Mode, TTL, World, plain, renewed};
use redlatch_core::Output;

#[test]
fn cancelled_after_any_number_of_votes_an_attempt_leaves_nothing() {
    for answered in 0..=3 {
        let mut world = World::of(3);
        world.all_lines(Mode::Held);
        let lock = world.acquire();
        for node in 0..answered {
            world.let_through(node);
        }

        world.cancel(lock);
        world.all_lines(Mode::Open);

        assert_nothing_is_left(&world, answered);
    }
}

#[test]
fn cancelled_with_takes_carried_out_but_not_answered_it_leaves_nothing() {
    for carried_out in 0..=3 {
        let mut world = World::of(3);
        world.all_lines(Mode::Held);
        let lock = world.acquire();
        for node in 0..carried_out {
            world.carry_out(0, node);
        }

        world.cancel(lock);
        world.all_lines(Mode::Open);

        assert_nothing_is_left(&world, carried_out);
        assert_eq!(world.acquired(lock), None);
    }
}

#[test]
fn cancelled_after_the_grant_but_before_it_was_picked_up_it_leaves_nothing() {
    let mut world = World::of(3);
    let lock = world.acquire_on(renewed(60 * TTL));
    world.grant(lock);

    world.cancel(lock);

    assert_nothing_is_left(&world, 3);
    assert_eq!(world.released(lock), None, "nobody is there to be answered");
}

#[test]
fn cancelled_while_pausing_it_tries_no_more() {
    let mut world = World::of(3);
    world.pauses_of(255);
    world.occupy_all([0, 1]);
    let lock = world.acquire_as(0, plain(), 10 * TTL);
    assert_eq!(world.pauses(lock).len(), 1);

    world.cancel(lock);
    world.pass(2 * TTL);

    assert_eq!(world.takes(), [0, 1, 2], "the first attempt only");
    assert_nothing_is_left(&world, 0);
    assert_eq!(world.acquired(lock), None);
}

#[test]
fn cancelled_when_the_connections_break_it_leaves_nothing() {
    let mut world = World::behind(Mode::Mute);
    let lock = world.acquire();
    world.all_lines(Mode::Held);

    world.cancel(lock);
    for node in 0..3 {
        world.cut(node, Cut::NotCarriedOut);
    }
    assert_eq!(world.locked(), [0, 1, 2]);
    world.all_lines(Mode::Open);
    world.pass(200 * MS);

    assert_nothing_is_left(&world, 0);
}

#[test]
fn cancelled_with_an_extension_under_way_it_leaves_nothing() {
    let (mut world, lock) = World::holding();
    world.all_lines(Mode::Held);
    world.extend(lock, TTL);

    world.cancel(lock);
    world.all_lines(Mode::Open);

    assert_nothing_is_left(&world, 3);
}

#[test]
fn cancelling_what_has_ended_does_nothing() {
    let (mut world, lock) = World::holding();
    world.release(lock);
    let sent = world.clients[0].sent.len();

    world.cancel(lock);
    cancel_unknown(&mut world);

    assert_eq!(world.clients[0].sent.len(), sent);
}

fn cancel_unknown(world: &mut World) {
    let op = redlatch_core::OpId::new(4711);
    world.cancel(Lock { client: 0, op });
}

fn assert_nothing_is_left(world: &World, case: usize) {
    assert_eq!(world.locked(), [0; 0], "case {case}");
    assert!(world.is_idle(), "case {case}");
    let said = &world.clients[0].said;
    let signalled = said.iter().any(|(_, said)| matches!(said, Output::Lost(..)));
    assert!(!signalled, "a lock that nobody holds cannot be lost");
}
