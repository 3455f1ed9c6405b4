//! Extending a lease: kept, lost or unknown, and nothing in between.

use crate::support::{MS, Mode, NODE_TIMEOUT, TTL, USABLE, World, at, renewed};
use redlatch_core::{ExtendError, lease::Loss};

#[test]
fn an_extension_is_answered_with_the_new_end() {
    let (mut world, lock) = World::holding();
    world.pass(500 * MS);

    world.extend(lock, TTL);

    let until = at(10_500).after(USABLE);
    assert_eq!(world.extended(lock), [Ok(until)]);
    assert_eq!(world.kept(lock), [until]);
    assert_eq!(world.key_dies(0), Some(at(11_500)));
}

#[test]
fn an_extension_never_shortens_lease_or_key() {
    let (mut world, lock) = World::holding();
    let until = world.grant(lock).deadlines.ends_at;

    world.extend(lock, 100 * MS);

    assert_eq!(world.extended(lock), [Ok(until)]);
    assert_eq!(world.key_dies(0), Some(at(11_000)));
}

#[test]
fn an_extension_refused_by_a_majority_is_lost_at_once_and_undone() {
    let (mut world, lock) = World::renewing();
    world.nodes_forget([0, 1]);

    world.pass(333 * MS);

    let (when, loss) = world.lost(lock).unwrap();
    assert_eq!(when, at(10_333));
    assert!(matches!(loss, Loss::Gone(_)));
    world.assert_nothing_left();
}

#[test]
fn a_majority_is_of_all_nodes_not_of_those_that_granted() {
    let mut world = World::of(5);
    world.channels([3, 4], Mode::Down);
    let lock = world.acquire();
    world.channel(2, Mode::Down);

    world.extend(lock, TTL);

    assert!(matches!(world.extended(lock)[..], [Err(ExtendError::Unknown(_))]));
}

#[test]
fn an_unknown_extension_leaves_the_lease_as_it_was() {
    let (mut world, lock) = World::holding();
    let end = world.grant(lock).deadlines.ends_at;
    world.channels([1, 2], Mode::Lossy);

    world.extend(lock, TTL);
    world.pass(NODE_TIMEOUT);
    assert!(matches!(world.extended(lock)[..], [Err(ExtendError::Unknown(_))]));
    world.pass_until(end);

    assert_eq!(world.kept(lock), []);
    assert!(matches!(world.lost(lock), Some((_, Loss::Expired(Some(_))))));
}

/// The key on that node lives for as long as the first extension lets it.
#[test]
fn an_answer_to_an_earlier_extension_does_not_count_for_the_next() {
    let (mut world, lock) = World::holding();
    world.channel(1, Mode::Down);
    world.channel(2, Mode::Held);
    world.extend(lock, TTL);
    world.pass(NODE_TIMEOUT);
    assert!(matches!(world.extended(lock)[..], [Err(ExtendError::Unknown(_))]));

    world.pass(300 * MS);
    world.extend(lock, TTL);
    world.carry_out_one(0, 2);
    world.answer_one(0, 2);
    assert_eq!(world.kept(lock), []);
    world.let_through(2);

    assert_eq!(world.kept(lock), [world.now.after(USABLE)]);
}

#[test]
fn answers_that_come_after_the_old_end_prove_nothing() {
    let (mut world, lock) = World::holding();
    world.pass(800 * MS);
    world.all_lines(Mode::Mute);
    world.extend(lock, TTL);

    world.freeze(USABLE);
    world.all_lines(Mode::Open);

    assert!(matches!(world.extended(lock)[..], [Err(ExtendError::Lost(_))]));
    assert_eq!(world.kept(lock), []);
    let (when, loss) = world.lost(lock).unwrap();
    assert_eq!(when, world.now);
    let ran_out = matches!(loss, Loss::Expired(Some(_)));
    assert!(ran_out, "the keys were there, and it was time that ran out: {loss:?}");
}

#[test]
fn an_extension_answered_after_the_loss_was_signalled_is_not_kept() {
    let (mut world, lock) = World::holding();
    world.pass(880 * MS);
    world.all_lines(Mode::Mute);
    world.extend(lock, TTL);

    world.pass(20 * MS);
    assert!(world.lost(lock).is_some());
    world.all_lines(Mode::Open);

    assert_eq!(world.extended(lock), [Err(ExtendError::Over)]);
}

#[test]
fn an_extension_of_a_lost_lease_is_answered_over() {
    for late in [900 * MS, 990 * MS, 3 * TTL] {
        let mut world = World::of(3);
        let lock = world.acquire();
        world.pass(late);

        world.extend(lock, TTL);

        assert_eq!(world.extended(lock), [Err(ExtendError::Over)]);
        assert_eq!(world.extensions(), [0; 0]);
    }
}

#[test]
fn an_extension_of_a_lease_that_reached_its_cap_is_answered_lost() {
    let mut world = World::of(3);
    let lock = world.acquire_on(renewed(TTL / 2));

    world.freeze(TTL / 2);
    world.extend(lock, TTL);

    assert_eq!(world.extended(lock), [Err(ExtendError::Lost(Loss::MaxHold))]);
}

#[test]
fn an_extension_of_a_lease_being_undone_is_answered_over() {
    let (mut world, lock) = World::holding();
    world.channel(2, Mode::Held);
    world.pass(USABLE);
    assert!(!world.is_idle());

    world.extend(lock, TTL);

    assert_eq!(world.extended(lock), [Err(ExtendError::Over)]);
}

#[test]
fn keys_are_never_created_to_win_the_vote() {
    let (mut world, lock) = World::holding();
    world.nodes_forget([0, 1]);

    world.extend(lock, TTL);

    assert_eq!(world.takes(), [0, 1, 2], "the first attempt only");
    assert_eq!(world.kept(lock), []);
}

#[test]
fn an_extension_by_hand_follows_the_renewal_under_way() {
    let (mut world, lock) = World::renewing();
    world.all_lines(Mode::Held);
    world.pass(333 * MS);

    world.extend(lock, 5 * TTL);
    assert_eq!(world.extensions(), [0, 1, 2], "one at a time");
    world.all_lines(Mode::Open);

    assert_eq!(world.extensions(), [0, 1, 2, 0, 1, 2]);
    assert_eq!(world.extended(lock), [Ok(at(10_333).after(4948 * MS))]);
}

#[test]
fn an_extension_by_hand_follows_a_renewal_that_got_no_answer() {
    let (mut world, lock) = World::renewing();
    world.all_lines(Mode::Lossy);
    world.pass(333 * MS);
    world.all_lines(Mode::Open);

    world.extend(lock, TTL);
    world.pass(200 * MS);

    // A renewal waits for half of the way to the next one.
    let asked = at(10_333).after(333 * MS / 2);
    assert_eq!(world.extended(lock), [Ok(asked.after(USABLE))]);
}

#[test]
fn an_extension_under_way_learns_that_the_lease_was_extended_elsewhere() {
    let (mut world, lock) = World::holding();
    world.pass(880 * MS);
    world.all_lines(Mode::Mute);
    world.extend(lock, TTL);

    let until = at(10_880).after(USABLE);
    world.extended_elsewhere(lock, until);
    world.freeze(200 * MS);
    world.all_lines(Mode::Open);

    assert_eq!(world.extended(lock), [Ok(until)]);
    assert_eq!(world.lost(lock), None);
}
