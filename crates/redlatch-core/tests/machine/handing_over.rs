//! Leases that come from elsewhere and go elsewhere, and questions to all.

use crate::support::{
    MS, Mode, NODE_TIMEOUT, NOTICE, TTL, USABLE, World, at, plain, renewed, resource,
};
use core::time::Duration;
use redlatch_core::{Command, Fault, KeyState, Released, Reply, lease::Loss};

#[test]
fn a_forgotten_lease_keeps_its_keys_and_is_looked_after_no_more() {
    let (mut world, lock) = World::renewing();

    world.forget(lock);

    assert!(world.is_idle());
    assert_eq!(world.locked(), [0, 1, 2]);
    world.pass(TTL - MS);
    assert_eq!(world.undone(), [0; 0]);
    assert_eq!(world.lost(lock), None);
}

#[test]
fn an_adopted_lease_is_renewed_and_released_like_any_other() {
    let (mut world, lock) = World::holding();
    let grant = world.grant(lock).clone();
    world.forget(lock);

    let adopted = world.adopt(renewed(Duration::MAX), &grant.token, grant.deadlines.ends_at);
    world.pass(5 * TTL);
    assert_eq!(world.lost(adopted), None);
    assert_eq!(world.locked(), [0, 1, 2]);
    world.release(adopted);

    assert_eq!(world.released(adopted), Some(&Ok(Released::Now)));
    assert_eq!(world.locked(), [0; 0]);
}

#[test]
fn an_adopted_lease_counts_as_held_only_until_its_end() {
    let (mut world, lock) = World::holding();
    let grant = world.grant(lock).clone();
    world.forget(lock);

    let adopted = world.adopt(plain(), &grant.token, at(10_300));
    world.pass(TTL);

    let told = at(10_300).before(NOTICE);
    assert_eq!(world.lost(adopted), Some((told, &Loss::Expired(None))));
}

#[test]
fn an_adopted_lease_that_others_hold_by_now_is_lost_and_theirs_is_left_alone() {
    let (mut world, lock) = World::holding();
    let grant = world.grant(lock).clone();
    world.release(lock);
    (0..3).for_each(|node| world.occupy(node));

    let adopted = world.adopt(plain(), &grant.token, grant.deadlines.ends_at);
    world.extend(adopted, TTL);

    assert!(matches!(world.lost(adopted), Some((_, Loss::Gone(_)))));
    assert_eq!(world.value(0), Some(&b"a stranger"[..]));
}

#[test]
fn a_lease_extended_elsewhere_ends_when_that_extension_does() {
    let (mut world, lock) = World::holding();
    let until = at(10_500).after(USABLE);

    world.extended_elsewhere(lock, until);
    world.pass(2 * TTL);

    assert_eq!(world.lost(lock), Some((until.before(NOTICE), &Loss::Expired(None))));
}

#[test]
fn an_extension_from_elsewhere_never_shortens() {
    let (mut world, lock) = World::holding();
    let end = world.grant(lock).deadlines.ends_at;

    world.extended_elsewhere(lock, at(10_100));
    world.pass(2 * TTL);

    assert_eq!(world.lost(lock), Some((end.before(NOTICE), &Loss::Expired(None))));
}

#[test]
fn an_extension_from_elsewhere_does_not_bring_back_what_was_lost() {
    let (mut world, lock) = World::holding();
    world.pass(900 * MS);
    let (told, _) = world.lost(lock).unwrap();

    world.extended_elsewhere(lock, at(20_000));
    world.pass(TTL);

    assert_eq!(world.lost(lock).unwrap().0, told);
    assert!(world.is_idle());
}

#[test]
fn a_survey_answers_with_every_nodes_reply_in_their_order() {
    let mut world = World::of(3);
    world.occupy(1);

    let survey = world.survey(inspect(), NODE_TIMEOUT);

    let replies = world.surveyed(survey).unwrap();
    let held = |reply: &Reply| matches!(reply, Reply::Keys(keys) if keys[0] != KeyState::Free);
    let held: Vec<bool> = replies.iter().map(held).collect();
    assert_eq!(held, [false, true, false]);
    assert!(world.is_idle());
}

#[test]
fn a_survey_does_not_wait_for_the_silent_longer_than_its_time() {
    let mut world = World::of(3);
    world.channel(0, Mode::Down);
    world.channel(2, Mode::Lossy);

    let survey = world.survey(inspect(), NODE_TIMEOUT);
    assert_eq!(world.surveyed(survey), None);
    world.pass(NODE_TIMEOUT);

    let replies = world.surveyed(survey).unwrap();
    assert_eq!(replies[2], Reply::failed(Fault::TimedOut(NODE_TIMEOUT)));
    assert!(matches!(replies[1], Reply::Keys(_)));
    assert!(world.is_idle());
}

#[test]
fn a_cancelled_survey_answers_nothing() {
    let mut world = World::behind(Mode::Held);
    let survey = world.survey(inspect(), NODE_TIMEOUT);

    world.cancel(survey);
    world.all_lines(Mode::Open);

    assert_eq!(world.surveyed(survey), None);
    assert!(world.is_idle());
}

fn inspect() -> Command {
    Command::Inspect { resources: resource() }
}
