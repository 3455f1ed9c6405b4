//! Histories in which a simpler protocol breaks: nodes A, B, C are 0, 1, 2.

use crate::support::{Lock, MS, Mode, TTL, World, plain};
use core::time::Duration;
use redlatch_core::{AcquireError, ExtendError};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

fn acquire(world: &mut World, client: usize) -> Lock {
    world.acquire_as(client, plain(), Duration::ZERO)
}

fn lines_of(world: &mut World, client: usize, mode: Mode) {
    (A..=C).for_each(|node| world.line_of(client, node, mode));
}

#[test]
fn replies_that_wait_while_the_keys_expire_grant_nothing() {
    let mut world = World::with(2, 3);
    lines_of(&mut world, 0, Mode::Mute);
    let first = acquire(&mut world, 0);
    world.freeze(TTL);
    let second = acquire(&mut world, 1);
    world.grant(second);

    lines_of(&mut world, 0, Mode::Open);

    assert!(matches!(world.refusal(first), Some(AcquireError::TooSlow { .. })));
    assert_eq!(world.locked(), [A, B, C], "the second client's, untouched by the undo");
}

#[test]
fn a_stuck_take_that_lands_late_does_not_carry_an_extension_over_a_gap() {
    let mut world = World::with(2, 3);
    world.line_of(0, C, Mode::Held);
    let first = acquire(&mut world, 0);
    world.pass(800 * MS);
    lines_of(&mut world, 0, Mode::Held);
    world.extend(first, TTL);
    world.carry_out(0, B);

    // A expires; another client takes A and C, works, and releases.
    world.freeze(250 * MS);
    let second = acquire(&mut world, 1);
    world.grant(second);
    world.release(second);
    lines_of(&mut world, 0, Mode::Open);

    assert!(matches!(world.extended(first)[..], [Err(ExtendError::Lost(_))]));
    assert_eq!(world.kept(first), []);
    assert_eq!(world.locked(), [0; 0]);
}

#[test]
fn an_extension_does_not_bring_back_a_lock_that_others_have_held_since() {
    let mut world = World::with(2, 3);
    let first = acquire(&mut world, 0);
    world.pass(500 * MS);
    (A..=C).for_each(|node| world.node_forgets(node));
    let second = acquire(&mut world, 1);
    world.release(second);

    world.extend(first, TTL);

    assert!(matches!(world.extended(first)[..], [Err(ExtendError::Lost(_))]));
    assert_eq!(world.locked(), [0; 0]);
}

#[test]
fn a_short_extension_that_fails_does_not_cut_the_lease() {
    let mut world = World::with(2, 3);
    let first = acquire(&mut world, 0);
    let end = world.grant(first).deadlines.ends_at;
    world.line_of(0, B, Mode::Lossy);
    world.line_of(0, C, Mode::Lossy);

    world.extend(first, 100 * MS);
    world.freeze(end.since(world.now).saturating_sub(MS));
    let second = acquire(&mut world, 1);

    assert!(matches!(world.refusal(second), Some(AcquireError::Held(_))));
}

#[test]
fn a_late_undo_of_one_attempt_does_not_touch_the_key_of_the_next() {
    let mut world = World::with(2, 3);
    world.pauses_of(0);
    (A..=C).for_each(|node| world.occupy(node));
    let lock = world.acquire_as(0, plain(), TTL);
    let early = world.tokens()[0].clone();
    (A..=C).for_each(|node| world.node_forgets(node));
    world.pass(MS);
    world.grant(lock);

    // A server hands the first attempt's undo over once more.
    let undo = redlatch_core::Command::Release {
        resources: crate::support::resource(),
        token: early,
        then: None,
    };
    (A..=C).for_each(|node| {
        world.nodes[node].carry_out(world.now, &undo);
    });

    assert_eq!(world.locked(), [A, B, C]);
}
