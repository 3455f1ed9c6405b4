//! A majority that is missing because nodes are new, or were restarted: it is
//! told apart from an outage, waited for where waiting helps, and vouched for.

use super::support::{Lock, MS, Mode, WINDOW, World, plain};
use redlatch_core::{AcquireError, Ballot, machine::Vouch};
use std::time::Duration;

/// Nodes that were all started just now.
fn just_started(clients: usize, nodes: usize) -> World {
    let mut world = World::guarded(clients, nodes, false);
    (0..nodes).for_each(|node| world.node_forgets(node));
    world
}

/// How long until there can be a majority, if that is the client's answer.
fn to_go(world: &World, lock: Lock) -> Option<Duration> {
    match world.refusal(lock) {
        Some(AcquireError::Quarantined { remaining, .. }) => *remaining,
        other => panic!("not quarantined: {other:?}"),
    }
}

#[test]
fn a_majority_that_new_nodes_lack_is_no_outage_and_the_error_says_how_long_until_there_is_one() {
    let mut world = just_started(1, 3);
    world.look(0);
    world.pass(500 * MS);

    let lock = world.acquire();

    assert_eq!(to_go(&world, lock), Some(WINDOW - 500 * MS));
    let told = world.refusal(lock).and_then(AcquireError::ballot).map(Ballot::tally);
    assert_eq!(told.map(|tally| tally.quarantined), Some(3), "all of them, not a majority");
}

#[test]
fn the_error_counts_until_the_majority_not_until_the_last_node() {
    let mut world = World::with_forgetful([0]);
    world.look(0);
    world.pass(500 * MS);
    world.node_forgets(1);
    world.look(0);

    let lock = world.acquire();

    // Node 2 votes; the first of the others to come back makes a majority.
    assert_eq!(to_go(&world, lock), Some(WINDOW - 500 * MS));
}

#[test]
fn waiting_that_cannot_help_ends_at_once() {
    let mut world = just_started(1, 3);
    world.look(0);

    let lock = world.acquire_as(0, plain(), WINDOW - MS);

    assert_eq!(to_go(&world, lock), Some(WINDOW));
}

#[test]
fn waiting_for_longer_than_the_quarantine_gets_the_lock() {
    let mut world = just_started(1, 3);
    world.look(0);

    let lock = world.acquire_as(0, plain(), 2 * WINDOW);
    world.pass(WINDOW - MS);
    assert_eq!(world.acquired(lock), None);
    world.pass(WINDOW);

    world.grant(lock);
}

#[test]
fn a_quarantine_of_unknown_length_is_waited_for() {
    let mut world = World::with_forgetful([0, 1]);

    // The first vote says that they are quarantined; only an examination says until when.
    world.channel(2, Mode::Mute);
    let lock = world.acquire_as(0, plain(), 10 * MS);

    assert_eq!(world.acquired(lock), None);
}

#[test]
fn one_node_that_is_down_does_not_make_new_nodes_an_outage() {
    for down in 0..3 {
        let mut world = just_started(1, 3);
        world.channel(down, Mode::Down);

        let lock = world.acquire();

        to_go(&world, lock);
    }
}

#[test]
fn a_majority_that_would_be_missing_all_the_same_is_an_outage() {
    for quarantined in 0..3 {
        let mut world = World::admitted(1, 3);
        world.all_lines(Mode::Down);
        world.channel(quarantined, Mode::Open);
        world.node_forgets(quarantined);

        let lock = world.acquire();

        assert!(matches!(world.refusal(lock), Some(AcquireError::NoMajority(_))));
    }
}

#[test]
fn new_nodes_beside_one_that_serves_others_are_not_waited_for() {
    let mut world = World::admitted(2, 3);
    world.guard(1, &["a", "b", "d"], false);
    world.nodes_forget([1, 2]);

    // A client that one node refuses admits no other, marked or not.
    world.look(0);
    let asked = world.look(1);
    let lock = world.acquire_as(1, plain(), Duration::ZERO);

    assert_eq!(world.quarantined_for(asked), Some(vec![None; 3]));
    assert!(matches!(world.refusal(lock), Some(AcquireError::NoMajority(_))));
}

fn vouch_for_new() -> Vouch {
    Vouch { new: true, ..Vouch::default() }
}

#[test]
fn new_servers_that_somebody_vouches_for_vote_at_once() {
    let mut world = just_started(1, 3);

    let asked = world.vouch(0, vouch_for_new());

    assert_eq!(world.may_vote(asked), Some(vec![0, 1, 2]));
    let lock = world.acquire();
    world.grant(lock);
}

#[test]
fn vouching_for_new_servers_during_an_examination_counts_for_the_next_one() {
    let mut world = just_started(1, 3);
    world.all_lines(Mode::Held);
    world.look(0);
    let asked = world.vouch(0, vouch_for_new());

    world.lose(2);
    world.all_lines(Mode::Open);
    world.pass(Duration::from_secs(1));

    assert_eq!(world.may_vote(asked), Some(vec![0, 1, 2]));
}

#[test]
fn servers_of_which_one_was_ever_admitted_are_not_new() {
    let mut world = World::with_forgetful([0, 1]);
    world.nodes[2].restart(world.now);

    // Node 2 is quarantined as well, and still knows that it was admitted once.
    let asked = world.vouch(0, vouch_for_new());

    assert_eq!(world.may_vote(asked), Some(vec![]));
}

#[test]
fn a_server_that_does_not_answer_may_not_be_new() {
    let mut world = just_started(1, 3);
    world.channel(2, Mode::Down);

    let asked = world.vouch(0, vouch_for_new());
    assert_eq!(world.may_vote(asked), Some(vec![]));

    // The word is not kept for later.
    world.channel(2, Mode::Open);
    world.pass(WINDOW / 2);
    assert_eq!(world.admissions(), []);
}

#[test]
fn a_server_that_holds_a_lock_is_not_new_though_nobody_has_admitted_it() {
    let mut world = just_started(1, 3);
    world.occupy(1);

    let asked = world.vouch(0, vouch_for_new());

    assert_eq!(world.may_vote(asked), Some(vec![]));
}

#[test]
fn a_server_that_has_given_a_number_is_not_new_though_the_lock_is_gone() {
    let mut world = World::with(2, 3);
    world.guard(0, &["a", "b", "c"], false);
    let lock = world.acquire_fenced(1, plain());
    world.grant(lock);
    world.release(lock);

    let asked = world.vouch(0, vouch_for_new());

    assert_eq!(world.may_vote(asked), Some(vec![]));
}

#[test]
fn a_server_that_was_flushed_is_not_new() {
    let mut world = just_started(1, 3);
    world.nodes[1].flush();

    let asked = world.vouch(0, vouch_for_new());

    assert_eq!(world.may_vote(asked), Some(vec![]));
}
