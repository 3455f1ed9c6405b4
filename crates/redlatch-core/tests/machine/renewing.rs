//! A lease is renewed automatically, up to a cap, and its loss is signalled in time.

use crate::support::{
    MS, Mode, NODE_TIMEOUT, NOTICE, TTL, USABLE, World, at, plain, renewed, terms,
};
use core::time::Duration;
use redlatch_core::{Command, config::WantedRenewal, lease::Loss};

#[test]
fn a_lease_is_renewed_at_a_third_of_its_ttl() {
    let mut world = World::of(3);
    let third = terms(|wanted| {
        wanted.renewal = Some(WantedRenewal { every: None, max_hold: Duration::MAX });
    });
    let start = world.now;
    world.acquire_on(third);

    world.pass(TTL);

    let sent = world.clients[0].sent.iter();
    let times: Vec<u128> = sent
        .filter(|(_, node, command)| *node == 0 && matches!(command, Command::Extend { .. }))
        .map(|(when, ..)| when.since(start).as_millis())
        .collect();
    assert_eq!(times, [333, 666, 999]);
}

#[test]
fn each_renewal_counts_from_before_it_was_sent() {
    let (mut world, lock) = World::renewing();
    world.all_lines(Mode::Held);

    world.pass(333 * MS);
    world.pass(20 * MS);
    world.all_lines(Mode::Open);

    assert_eq!(world.kept(lock), [at(10_333).after(USABLE)]);
}

#[test]
fn a_renewed_lock_is_held_without_a_gap_until_it_is_released() {
    let (mut world, lock) = World::renewing();

    world.pass(100 * TTL);

    assert_eq!(world.lost(lock), None);
    assert_eq!(world.locked(), [0, 1, 2]);
    world.release(lock);
    world.assert_nothing_left();
}

#[test]
fn the_loss_is_signalled_before_the_end_even_if_every_node_is_mute() {
    for terms in [plain(), renewed(Duration::MAX)] {
        let mut world = World::of(3);
        let lock = world.acquire_on(terms);
        let end = world.grant(lock).deadlines.ends_at;
        world.all_lines(Mode::Lossy);

        world.pass(2 * TTL);

        let (when, loss) = world.lost(lock).unwrap();
        assert_eq!(when, end.before(NOTICE));
        assert!(matches!(loss, Loss::Expired(_)), "{loss:?}");
    }
}

#[test]
fn the_loss_is_signalled_as_early_as_notice_says() {
    for notice in [Duration::ZERO, 10 * MS, 900 * MS] {
        let mut world = World::of(3);
        let lock = world.acquire_on(terms(|wanted| wanted.notice = Some(notice)));
        let end = world.grant(lock).deadlines.ends_at;

        world.pass(2 * TTL);

        assert_eq!(world.lost(lock), Some((end.before(notice), &Loss::Expired(None))));
    }
}

#[test]
fn keys_stay_from_the_signal_to_the_end_and_are_removed_then() {
    let (mut world, lock) = World::holding();
    let end = world.grant(lock).deadlines.ends_at;

    world.pass_until(end.before(MS));
    assert!(world.lost(lock).is_some());
    assert_eq!(world.locked(), [0, 1, 2], "somebody may still be acting");
    world.pass(MS);

    world.assert_nothing_left();
}

#[test]
fn renewal_ends_at_max_hold_and_says_so() {
    let mut world = World::of(3);
    let start = world.now;
    let lock = world.acquire_on(renewed(5 * TTL));
    let cap = start.after(5 * TTL);

    world.pass(20 * TTL);

    assert_eq!(world.lost(lock), Some((cap.before(NOTICE), &Loss::MaxHold)));
    world.assert_nothing_left();
}

#[test]
fn no_end_that_is_announced_lies_behind_max_hold() {
    for max_hold in [TTL / 2, TTL, 5 * TTL] {
        let mut world = World::of(3);
        let cap = world.now.after(max_hold);
        let lock = world.acquire_on(renewed(max_hold));
        world.pass(max_hold * 3 / 4);
        world.extend(lock, 10 * TTL);
        world.pass(TTL);

        assert!(world.grant(lock).deadlines.ends_at <= cap);
        for until in world.kept(lock) {
            assert!(until <= cap);
        }
        for until in world.extended(lock) {
            assert!(matches!(until, Ok(until) if until <= cap), "{until:?}");
        }
    }
}

#[test]
fn a_renewal_that_got_no_answer_is_tried_again_until_the_end() {
    let (mut world, lock) = World::renewing();
    world.channels([1, 2], Mode::Lossy);
    world.pass(800 * MS);
    assert_eq!(world.kept(lock), []);
    assert_eq!(world.lost(lock), None);

    world.all_lines(Mode::Open);
    world.pass(TTL);

    assert!(!world.kept(lock).is_empty());
    assert_eq!(world.lost(lock), None);
}

/// Thousands of leases that are asked for again every 50 ms keep the nodes from
/// ever answering in time.
#[test]
fn a_renewal_whose_answers_take_longer_than_an_attempt_may_is_kept_all_the_same() {
    let (mut world, lock) = World::renewing();
    world.all_lines(Mode::Held);
    world.pass(333 * MS + 3 * NODE_TIMEOUT);
    assert_eq!(world.extensions(), [0, 1, 2], "asked once");

    world.all_lines(Mode::Open);

    assert_eq!(world.kept(lock).len(), 1);
}

#[test]
fn a_renewal_waits_for_nodes_at_least_as_long_as_an_attempt_does() {
    let mut world = World::of(3);
    let lock = world.acquire_on(terms(|wanted| {
        wanted.node_timeout = Some(400 * MS);
        let (every, max_hold) = (Some(100 * MS), Duration::MAX);
        wanted.renewal = Some(WantedRenewal { every, max_hold });
    }));
    world.all_lines(Mode::Held);
    world.pass(499 * MS);
    assert_eq!(world.extensions(), [0, 1, 2], "asked once");

    world.all_lines(Mode::Open);

    assert_eq!(world.kept(lock).len(), 1);
}

#[test]
fn a_short_extension_by_hand_does_not_put_off_the_renewal() {
    let (mut world, lock) = World::renewing();

    world.pass(300 * MS);
    for _ in 0..20 {
        world.extend(lock, 100 * MS);
        world.pass(300 * MS);
    }

    assert_eq!(world.lost(lock), None);
}

#[test]
fn an_extension_from_elsewhere_does_not_put_off_the_renewal() {
    let (mut world, lock) = World::renewing();
    world.all_lines(Mode::Lossy);
    world.freeze(800 * MS);
    world.all_lines(Mode::Open);

    // Extended while this client was paused, 100 ms after the lock was taken.
    world.extended_elsewhere(lock, at(10_100).after(USABLE));
    world.pass(10 * TTL);

    assert_eq!(world.lost(lock), None);
}

#[test]
fn a_client_that_slept_through_the_end_learns_of_it_at_once() {
    let (mut world, lock) = World::renewing();

    world.freeze(3 * TTL);
    world.tick();

    let woken = world.now;
    assert_eq!(world.lost(lock), Some((woken, &Loss::Expired(None))));
    assert_eq!(world.kept(lock), []);
}

#[test]
fn a_lease_that_reaches_its_cap_is_not_renewed() {
    let mut world = World::of(3);
    let lock = world.acquire_on(renewed(500 * MS));

    world.pass(TTL);

    assert_eq!(world.extensions(), [0; 0]);
    assert!(matches!(world.lost(lock), Some((_, Loss::MaxHold))), "{:?}", world.lost(lock));
}

#[test]
fn a_lease_whose_cap_is_its_end_was_not_renewed_because_of_the_cap() {
    let mut world = World::of(3);
    let lock = world.acquire_on(renewed(USABLE));

    world.pass(TTL);

    assert_eq!(world.extensions(), [0; 0]);
    assert!(matches!(world.lost(lock), Some((_, Loss::MaxHold))), "{:?}", world.lost(lock));
}
