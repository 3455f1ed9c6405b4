//! How a lease was lost: reported once, with the votes of the last attempt to keep it.

use crate::support::{MS, Mode, NODE_TIMEOUT, TTL, World, plain, renewed};
use core::time::Duration;
use redlatch_core::{Fault, Vote, lease::Loss};

fn timed_out(vote: &Vote) -> bool {
    matches!(vote, Vote::Failed(Fault::TimedOut(_)))
}

fn unreachable(vote: &Vote) -> bool {
    matches!(vote, Vote::Failed(Fault::Unreachable(_)))
}

#[test]
fn a_lease_that_could_not_be_renewed_is_lost_with_what_each_node_did() {
    let (mut world, lock) = World::renewing();
    world.channel(1, Mode::Down);
    world.channel(2, Mode::Lossy);

    world.pass(TTL);

    let Some((_, Loss::Expired(Some(ballot)))) = world.lost(lock) else {
        panic!("{:?}", world.lost(lock));
    };
    assert_eq!(*ballot.vote(0), Vote::Granted);
    assert!(unreachable(ballot.vote(1)), "{ballot:?}");
    assert!(timed_out(ballot.vote(2)), "{ballot:?}");
}

#[test]
fn each_renewal_that_fails_is_reported_with_its_votes() {
    let (mut world, lock) = World::renewing();
    world.channels([1, 2], Mode::Down);

    world.pass(333 * MS + 2 * NODE_TIMEOUT);

    let failed = world.not_kept(lock);
    assert_eq!(failed.len(), 3, "at once, and after each node timeout");
    for ballot in failed {
        assert_eq!(*ballot.vote(0), Vote::Granted);
        assert!(unreachable(ballot.vote(1)) && unreachable(ballot.vote(2)), "{ballot:?}");
    }
    assert_eq!(world.lost(lock), None);
}

/// Renewals are tried again after each node timeout: the last of them at 883 ms,
/// and the loss is signalled at 889.2 ms.
#[test]
fn an_attempt_that_has_just_begun_does_not_hide_what_the_last_one_met() {
    let (mut world, lock) = World::renewing();
    world.channels([1, 2], Mode::Down);
    world.pass(880 * MS);
    let failed = world.not_kept(lock).len();

    world.all_lines(Mode::Held);
    let asked = world.extensions().len();
    world.pass(20 * MS);

    assert!(world.extensions().len() > asked && world.not_kept(lock).len() == failed);
    let Some((_, Loss::Expired(Some(ballot)))) = world.lost(lock) else {
        panic!("{:?}", world.lost(lock));
    };
    assert_eq!(*ballot.vote(0), Vote::Granted);
    assert!(unreachable(ballot.vote(1)) && unreachable(ballot.vote(2)), "{ballot:?}");
}

#[test]
fn a_node_that_was_mute_is_not_called_pending_once_the_lease_is_lost() {
    let (mut world, lock) = World::holding();
    world.channels([1, 2], Mode::Lossy);
    world.extend(lock, TTL);

    world.pass(TTL);

    let Some((_, Loss::Expired(Some(ballot)))) = world.lost(lock) else {
        panic!("{:?}", world.lost(lock));
    };
    assert!(timed_out(ballot.vote(1)) && timed_out(ballot.vote(2)), "{ballot:?}");
}

#[test]
fn a_lease_that_nobody_tried_to_extend_is_lost_without_votes() {
    for (terms, slept) in [(plain(), Duration::ZERO), (renewed(Duration::MAX), 3 * TTL)] {
        let mut world = World::of(3);
        let lock = world.acquire_on(terms);

        world.freeze(slept);
        world.tick();
        world.pass(TTL);

        assert!(matches!(world.lost(lock), Some((_, Loss::Expired(None)))));
    }
}

#[test]
fn a_lease_whose_last_renewal_was_kept_is_not_lost_with_its_votes() {
    let (mut world, lock) = World::renewing();
    world.channel(2, Mode::Lossy); // so that there are votes to come still
    world.pass(400 * MS);
    assert_eq!(world.kept(lock).len(), 1);

    world.freeze(3 * TTL);
    world.tick();

    assert!(matches!(world.lost(lock), Some((_, Loss::Expired(None)))), "{:?}", world.lost(lock));
}

#[test]
fn a_lease_given_up_elsewhere_is_lost_with_the_votes_seen_here() {
    let (mut world, lock) = World::renewing();
    world.channels([1, 2], Mode::Down);
    world.pass(400 * MS);

    world.hand_in(0, redlatch_core::Input::GivenUp(lock.op));

    assert!(matches!(world.lost(lock), Some((_, Loss::Expired(Some(_))))));
}
