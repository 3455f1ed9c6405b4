//! An address of the list leads to the server of another: it is one server, and
//! has one vote.

use super::support::{Lock, MS, Mode, NODE_TIMEOUT, TTL, WINDOW, World, plain, renewed};
use redlatch_core::{Cause, Command, Quarantine, Vote, machine::Vouch};
use std::time::Duration;

/// Why the node did not vote.
fn cause(world: &World, lock: Lock, node: usize) -> Cause {
    match world.refusal(lock).and_then(|error| Some(error.ballot()?.vote(node))) {
        Some(Vote::Quarantined(Quarantine { cause, .. })) => cause.clone(),
        other => panic!("not quarantined: {other:?}"),
    }
}

fn other_node(is: &str, asked: &str) -> Cause {
    Cause::OtherNode { is: is.into(), asked: asked.into() }
}

/// The name under which the server was last admitted.
fn admitted_as(world: &World, node: usize) -> Option<String> {
    let ledger = &world.nodes[node].contents.ledger;
    ledger.admitted.as_ref()?;
    let channel = ledger.agreement.as_deref()?.lines().nth(2)?;
    channel.strip_prefix("this is ").map(Into::into)
}

#[test]
fn a_server_refuses_a_take_under_another_name_and_says_which_is_its_own() {
    let mut world = World::admitted(1, 3);
    world.reroute(0, 0, 1);
    world.channel(2, Mode::Lossy);

    let lock = world.acquire();
    world.pass(NODE_TIMEOUT);

    assert_eq!(cause(&world, lock, 0), other_node("b", "a"));
}

#[test]
fn a_lease_is_lost_when_only_one_server_is_left_under_two_names() {
    let mut world = World::admitted(1, 3);
    let lock = world.acquire_as(0, renewed(Duration::MAX), Duration::ZERO);
    world.reroute(0, 0, 1);
    world.channel(2, Mode::Lossy);

    world.pass(TTL * 2);

    assert!(world.lost(lock).is_some());
}

#[test]
fn a_second_address_of_a_server_costs_the_others_nothing() {
    let mut world = World::admitted(1, 3);
    world.reroute(0, 0, 1);

    let lock = world.acquire();

    world.grant(lock);
}

/// The node is quarantined, has the key that was planted there, and a mark: it keeps that
/// lease, and counts once.
#[test]
fn a_server_that_is_quarantined_keeps_a_lease_under_the_name_of_its_mark_alone() {
    let mut world = World::admitted(1, 3);
    let lock = world.acquire_as(0, renewed(Duration::MAX), Duration::ZERO);
    world.nodes[1].flush();
    world.pass(TTL);
    assert!(world.value(1).is_some(), "planted again");
    assert_eq!(admitted_as(&world, 1), None, "still out");
    world.reroute(0, 0, 1);
    world.channel(2, Mode::Lossy);

    world.pass(TTL + TTL / 2);

    assert!(world.lost(lock).is_some());
}

#[test]
fn a_server_that_forgot_is_admitted_under_neither_of_two_names() {
    let mut world = World::admitted(1, 3);
    world.reroute(0, 0, 1);
    world.node_forgets(1);
    world.acquire();

    world.pass(WINDOW * 3);
    assert_eq!(world.admissions().len(), 3);
    assert_eq!(world.nodes[1].contents.ledger.watched, None, "marked under one of them");
    world.reroute(0, 0, 0);
    world.pass(WINDOW * 2);

    assert_eq!(admitted_as(&world, 1).as_deref(), Some("b"));
}

/// It would be heard twice about numbers, and about whom the nodes serve.
#[test]
fn nobody_is_admitted_on_the_word_of_one_server_under_two_names() {
    let mut world = World::admitted(1, 3);
    world.reroute(0, 0, 1);
    world.node_forgets(2);
    world.acquire();

    world.pass(WINDOW * 3);
    assert_eq!(world.admissions().len(), 3);
    world.reroute(0, 0, 0);
    world.pass(WINDOW * 2);

    assert_eq!(admitted_as(&world, 2).as_deref(), Some("c"));
}

#[test]
fn an_operator_cannot_take_a_server_that_answers_under_two_names() {
    let mut world = World::admitted(1, 3);
    world.reroute(0, 0, 1);

    world.vouch(0, Vouch { replace: [0].into(), remembers: [0].into(), ..Vouch::default() });
    world.pass(WINDOW * 2);

    assert_eq!(admitted_as(&world, 1).as_deref(), Some("b"));
    let changes = |command: &Command| matches!(command, Command::Watch { replace: true, .. });
    assert!(!world.clients[0].sent.iter().any(|(_, _, command)| changes(command)));
}

/// Each has its own server, only under the other's name.
#[test]
fn nodes_whose_names_were_swapped_vote_again_once_an_operator_takes_them() {
    let mut world = World::admitted(1, 3);
    world.reroute(0, 0, 1);
    world.reroute(0, 1, 0);
    let lock = world.acquire();
    assert_eq!(cause(&world, lock, 0), other_node("b", "a"));
    assert_eq!(cause(&world, lock, 1), other_node("a", "b"));

    world.vouch(0, Vouch { replace: [0, 1].into(), ..Vouch::default() });
    world.pass(WINDOW * 2 + MS);

    assert_eq!(admitted_as(&world, 0).as_deref(), Some("b"));
    let lock = world.acquire_as(0, plain(), Duration::ZERO);
    world.grant(lock);
}
