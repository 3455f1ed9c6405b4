//! What a driver may rely on: when to call, when everything is done, what is left.

use crate::support::{Cut, Lock, MS, Mode, TTL, World, plain, renewed};
use core::time::Duration;
use redlatch_core::{Input, Moment, Output};

#[test]
fn an_idle_machine_wants_nothing() {
    let mut world = World::of(3);
    assert!(world.is_idle());
    assert_eq!(world.next_due(), None);

    let lock = world.acquire_on(renewed(Duration::MAX));
    assert!(!world.is_idle());
    world.release(lock);

    assert!(world.is_idle());
    assert_eq!(world.next_due(), None);
}

#[test]
fn ticking_only_when_due_says_the_same_as_ticking_all_the_time() {
    for trouble in [Mode::Open, Mode::Mute, Mode::Lossy, Mode::Down] {
        let mut lazy = eventful(trouble);
        let mut eager = lazy.clone();

        lazy.pass(5 * TTL);
        for _ in 0..5_000 {
            eager.pass(MS);
            eager.clients[0].tick(eager.now);
        }

        assert_eq!(said(&lazy), said(&eager), "{trouble:?}");
        assert!(said(&lazy).len() >= 3, "{trouble:?}");
    }
}

/// A lease, a waiter and an undo at once.
fn eventful(trouble: Mode) -> World {
    let mut world = World::of(3);
    world.acquire_on(renewed(2 * TTL));
    world.acquire_as(0, plain(), TTL);
    world.channel(1, trouble);
    world.channel(2, trouble);
    world.acquire();
    world
}

fn said(world: &World) -> &[(Moment, Output)] {
    &world.clients[0].said
}

#[test]
fn a_tick_before_it_is_due_does_nothing() {
    let mut world = World::of(3);
    world.acquire_on(renewed(Duration::MAX));
    let (said, sent) = (world.clients[0].said.len(), world.clients[0].sent.len());

    world.freeze(332 * MS);
    world.hand_in(0, Input::Tick);

    assert_eq!(world.clients[0].said.len(), said);
    assert_eq!(world.clients[0].sent.len(), sent);
}

#[test]
fn a_tick_that_comes_hours_late_ends() {
    for trouble in [Mode::Open, Mode::Held, Mode::Down] {
        let mut world = eventful(trouble);

        world.freeze(7200 * TTL);
        world.tick();
        world.freeze(7200 * TTL);
        world.tick();
        world.pass(3 * TTL);

        assert!(world.is_idle(), "{trouble:?}");
    }
}

#[test]
fn a_late_reply_to_an_ended_operation_changes_nothing() {
    let mut world = World::of(3);
    world.channel(2, Mode::Mute);
    let lock = world.acquire();
    world.forget(lock);

    world.channel(2, Mode::Open);

    assert!(world.is_idle());
    assert_eq!(world.said(lock).count(), 1);
}

#[test]
fn nothing_is_due_later_than_the_end_of_a_lease() {
    let (world, lock) = World::holding();

    assert!(world.next_due().unwrap() <= world.grant(lock).deadlines.ends_at);
}

#[test]
fn the_will_names_what_is_wanted_held_or_being_undone() {
    let mut world = World::behind(Mode::Held);
    let lock = world.acquire();
    assert_eq!(will(&world), 1, "wanted");

    world.all_lines(Mode::Open);
    assert_eq!(will(&world), 1, "held");

    world.channel(2, Mode::Held);
    world.release(lock);
    assert_eq!(will(&world), 1, "being undone");
    assert_eq!(world.clients[0].machine.undos(), 1);

    world.channel(2, Mode::Open);
    assert_eq!(will(&world), 0);
    assert_eq!(world.clients[0].machine.undos(), 0);
}

#[test]
fn the_will_names_the_undos_of_an_attempt_that_pauses() {
    let mut world = World::of(3);
    world.pauses_of(255);
    world.occupy_all([0, 1]);
    world.channel(2, Mode::Held);

    world.acquire_as(0, plain(), TTL);

    assert_eq!(world.pauses(Lock { client: 0, op: redlatch_core::OpId::new(0) }).len(), 1);
    assert_eq!(will(&world), 1);
    world.cut(2, Cut::NotCarriedOut);
    assert_eq!(will(&world), 1, "until the node has answered");
}

fn will(world: &World) -> usize {
    world.clients[0].machine.left_behind().count()
}

#[test]
fn many_locks_at_once_do_not_disturb_each_other() {
    let mut world = World::of(5);
    world.channel(4, Mode::Held);
    let first = world.acquire_on(renewed(Duration::MAX));
    let others: Vec<Lock> = (0..20).map(|_| world.acquire()).collect();

    world.pass(2 * TTL);

    world.grant(first);
    assert_eq!(world.lost(first), None);
    for other in others {
        assert!(world.refusal(other).is_some());
    }
    world.release(first);
    world.channel(4, Mode::Open);
    world.assert_nothing_left();
}
