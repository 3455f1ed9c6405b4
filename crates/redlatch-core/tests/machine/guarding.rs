//! A node that may have forgotten locks does not vote until they are over.

use super::support::{
    Cut, Lock, MS, Mode, NODE_TIMEOUT, TTL, WINDOW, World, plain, renewed, resource,
};
use redlatch_core::{AcquireError, Cause, Quarantine, Vote, machine::Vouch};
use std::time::Duration;

/// A world whose nodes are all admitted.
fn admitted(clients: usize, nodes: usize) -> World {
    let mut world = World::guarded(clients, nodes, false);
    world.look(0);
    assert_eq!(world.admissions().len(), nodes);
    world
}

/// Why the node did not vote.
fn quarantine(world: &World, lock: Lock, node: usize) -> Quarantine {
    match world.refusal(lock).and_then(|error| Some(error.ballot()?.vote(node))) {
        Some(Vote::Quarantined(quarantine)) => quarantine.clone(),
        other => panic!("not quarantined: {other:?}"),
    }
}

#[test]
fn nodes_that_were_up_for_the_window_are_admitted_at_once_when_all_are_new() {
    let mut world = World::guarded(1, 3, false);

    let asked = world.look(0);
    let lock = world.acquire();

    assert!(world.may_vote(asked).is_some_and(|nodes| nodes.len() >= 2));
    assert_eq!(world.admissions().len(), 3);
    world.grant(lock);
}

#[test]
fn strict_trusts_no_uptime_and_watches_new_nodes_for_the_window() {
    let mut world = World::guarded(1, 3, true);

    let look = world.look(0);
    world.pass(WINDOW - MS);
    assert_eq!(world.may_vote(look), Some(vec![]));
    assert_eq!(world.admissions(), []);
    world.pass(MS);

    assert_eq!(world.admissions().len(), 3);
}

#[test]
fn a_node_that_forgot_does_not_vote_before_the_window_is_over() {
    let mut world = admitted(2, 3);
    let lock = world.acquire_as(0, renewed(Duration::MAX), Duration::ZERO);
    world.nodes[0].forget();
    world.line(2, Mode::Lossy);

    let second = world.acquire_as(1, plain(), Duration::ZERO);
    world.pass(NODE_TIMEOUT);

    assert_eq!(quarantine(&world, second, 0).cause, Cause::Forgot);
    assert!(world.lost(lock).is_none());
}

#[test]
fn a_node_that_forgot_is_admitted_once_the_window_is_over() {
    let mut world = admitted(1, 3);
    world.nodes[0].forget();
    let forgot = world.now;
    world.acquire();

    world.pass(WINDOW + MS);

    let (when, node) = *world.admissions().last().expect("an admission");
    assert_eq!(node, 0);
    assert!(when >= forgot.after(WINDOW), "{when:?}");
}

#[test]
fn the_error_tells_how_long_the_node_is_out_still() {
    let mut world = admitted(1, 3);
    world.nodes[0].forget();
    world.nodes[1].forget();
    world.acquire();
    world.pass(500 * MS);

    let lock = world.acquire();

    assert_eq!(quarantine(&world, lock, 0).remaining, Some(WINDOW - 500 * MS));
    assert!(matches!(world.refusal(lock), Some(AcquireError::NoQuorum(_))));
}

#[test]
fn a_node_that_forgets_again_waits_again() {
    let mut world = admitted(1, 3);
    world.nodes[0].forget();
    world.acquire();
    world.pass(WINDOW - 100 * MS);
    let before = world.admissions().len();

    world.nodes[0].forget();
    world.pass(WINDOW - 200 * MS);

    assert_eq!(world.admissions().len(), before);
    world.pass(WINDOW);
    assert_eq!(world.admissions().len(), before + 1);
}

#[test]
fn a_flush_is_forgetting_however_long_the_node_has_been_up() {
    let mut world = admitted(1, 3);
    world.nodes[0].flush();
    let flushed = world.now;

    world.acquire();
    world.pass(WINDOW * 2);

    let (when, node) = *world.admissions().last().expect("an admission");
    assert_eq!(node, 0);
    assert!(when >= flushed.after(WINDOW), "{when:?}");
}

#[test]
fn one_that_was_flushed_behind_the_back_of_a_watcher_is_not_admitted_by_it() {
    let mut world = admitted(2, 3);
    world.nodes[0].forget();
    world.acquire_as(0, plain(), Duration::ZERO);
    world.line_of(0, 0, Mode::Held);
    // The other one admits it, the node votes, and forgets again.
    world.acquire_as(1, plain(), Duration::ZERO);
    world.pass(WINDOW + MS);
    let admissions = world.admissions();
    world.nodes[0].flush();
    let flushed = world.now;

    world.line_of(0, 0, Mode::Open);
    world.pass(WINDOW * 3);

    let later = world.admissions();
    assert!(later.len() > admissions.len());
    assert!(later.last().expect("an admission").0 >= flushed.after(WINDOW));
}

#[test]
fn a_restart_with_its_memory_counts_from_the_restart() {
    let mut world = admitted(1, 3);
    world.pass(Duration::from_secs(60));
    let restarted = world.now;
    world.nodes[0].restart(restarted);
    world.freeze(WINDOW + Duration::from_secs(2));

    let before = world.admissions().len();
    world.acquire();

    assert_eq!(world.admissions().len(), before + 1);
}

#[test]
fn strict_trusts_no_mark_but_one_it_has_watched_itself() {
    let mut world = World::guarded(2, 3, true);
    world.look(0);
    (0..3).for_each(|node| world.line_of(0, node, Mode::Down));
    world.pass(WINDOW);
    let begin = world.now;

    world.look(1);
    world.pass(WINDOW * 2);

    assert_eq!(world.admissions().len(), 3);
    assert_eq!(world.admissions()[0].0, begin.after(WINDOW));
}

#[test]
fn a_look_tells_how_long_a_node_is_out_by_what_the_client_itself_has_seen() {
    let mut world = World::guarded(2, 3, true);
    let first = world.look(0);
    world.pass(WINDOW / 2);

    let second = world.look(0);
    let another = world.look(1);

    assert_eq!(world.out_for(first), Some(vec![Some(WINDOW); 3]));
    assert_eq!(world.out_for(second), Some(vec![Some(WINDOW / 2); 3]));
    assert_eq!(world.out_for(another), Some(vec![Some(WINDOW); 3]), "it has just begun to watch");
    world.pass(WINDOW / 2);
    let after = world.look(0);
    assert_eq!(world.out_for(after), Some(vec![None; 3]), "they are in");
}

#[test]
fn the_uptime_of_a_promoted_replica_is_not_trusted() {
    let mut world = World::guarded(1, 3, false);
    world.nodes.iter_mut().for_each(|node| node.promoted = true);
    let begin = world.now;

    world.look(0);
    assert_eq!(world.admissions(), []);
    world.pass(WINDOW);

    assert_eq!(world.admissions()[0].0, begin.after(WINDOW));
}

#[test]
fn a_replaced_node_waits_for_the_longest_locks_of_its_former_clients() {
    let mut world = admitted(2, 3);
    world.guard_for(1, &["a", "b", "c"], false, WINDOW - 200 * MS);
    let taken = world.now;

    world.vouch(1, Vouch { replace: [0].into(), ..Vouch::default() });
    world.pass(WINDOW * 2);

    assert_eq!(world.admissions().last(), Some(&(taken.after(WINDOW), 0)));
}

#[test]
fn an_operators_word_admits_at_once() {
    let mut world = admitted(1, 3);
    world.nodes[1].forget();

    let vouch = Vouch { remembers: [1].into(), ..Vouch::default() };
    let look = world.vouch(0, vouch);

    assert_eq!(world.may_vote(look), Some(vec![0, 1, 2]));
}

#[test]
fn a_patient_look_waits_for_the_slowest_node_and_not_for_a_majority_alone() {
    let mut world = admitted(1, 3);
    world.line(2, Mode::Held);

    let patient = world.vouch(0, Vouch { patient: true, ..Vouch::default() });
    assert_eq!(world.may_vote(patient), None);
    world.line(2, Mode::Open);

    assert_eq!(world.may_vote(patient), Some(vec![0, 1, 2]));
}

#[test]
fn the_admitted_node_gets_the_registers_of_the_others() {
    let mut world = admitted(1, 3);
    world.nodes[1].set_register(&resource(), 1 << 50);
    world.nodes[2].set_register(&resource(), 1 << 49);
    world.nodes[0].forget();
    world.acquire();

    world.pass(WINDOW + MS);

    assert_eq!(world.nodes[0].register(&resource()), 1 << 50);
}

#[test]
fn without_a_majority_of_the_others_a_node_is_not_admitted() {
    let mut world = admitted(1, 3);
    world.nodes[0].forget();
    world.acquire();
    world.line(2, Mode::Lossy);

    let before = world.admissions().len();
    world.pass(WINDOW * 3);
    assert_eq!(world.admissions().len(), before);

    world.line(2, Mode::Open);
    world.pass(Duration::from_secs(3));
    assert_eq!(world.admissions().len(), before + 1);
}

#[test]
fn clients_with_another_list_are_refused_and_told_the_other_one() {
    let mut world = admitted(2, 3);
    world.guard(1, &["a", "b", "other"], false);

    let lock = world.acquire_as(1, plain(), Duration::ZERO);
    world.pass(WINDOW * 2);

    let Cause::Disagrees(Some(theirs)) = quarantine(&world, lock, 0).cause else {
        panic!("{:?}", world.acquired(lock));
    };
    assert!(theirs.ends_with("a\nb\nc"), "{theirs}");
    assert_eq!(world.admissions().len(), 3);
}

#[test]
fn a_replaced_node_waits_for_the_locks_of_its_former_clients() {
    let mut world = admitted(2, 3);
    world.guard(1, &["a", "b", "c", "d"], false);
    let taken = world.now;

    world.vouch(1, Vouch { replace: [0].into(), ..Vouch::default() });
    // Those it was taken from want it back, and do not get it.
    let wanted = world.acquire_as(0, plain(), Duration::ZERO);
    let vote = world.grant(wanted).ballot.vote(0);
    let Vote::Quarantined(quarantine) = vote else { panic!("{vote:?}") };
    assert_eq!(quarantine.cause, Cause::Disagrees(None));
    world.pass(WINDOW - MS);
    assert_eq!(world.admissions().len(), 3);
    world.pass(MS);

    assert_eq!(world.admissions().last(), Some(&(taken.after(WINDOW), 0)));
    let lock = world.acquire_as(0, plain(), Duration::ZERO);
    assert!(world.acquired(lock).is_some_and(Result::is_ok), "a majority is left");
}

#[test]
fn a_lease_under_renewal_gets_its_key_back_after_the_admission_and_not_before() {
    let mut world = admitted(1, 3);
    let lock = world.acquire_on(renewed(Duration::MAX));
    world.nodes[0].forget();

    world.pass(WINDOW - 100 * MS);
    assert_eq!(world.locked(), [1, 2]);
    world.pass(TTL);

    assert_eq!(world.locked(), [0, 1, 2]);
    assert!(world.lost(lock).is_none());
}

#[test]
fn every_node_can_be_restarted_one_after_the_other_under_one_lease() {
    let mut world = admitted(1, 3);
    let lock = world.acquire_on(renewed(Duration::MAX));

    for node in 0..3 {
        world.nodes[node].forget();
        world.cut(node, Cut::NotCarriedOut);
        world.pass(WINDOW + TTL);
    }

    assert_eq!(world.locked(), [0, 1, 2]);
    assert!(world.lost(lock).is_none());
}

#[test]
fn a_machine_that_only_watches_is_idle() {
    let mut world = World::guarded(1, 3, true);

    world.look(0);

    assert!(world.is_idle());
}
