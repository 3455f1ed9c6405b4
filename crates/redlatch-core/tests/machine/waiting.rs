//! Waiting in line: woken, in order, without polling.

use crate::support::{Cut, Lock, MS, Mode, TTL, World, renewed, resource};
use core::time::Duration;
use redlatch_core::{
    AcquireError, Command, Input, Reply, Resources, Tag, Ticket, Wake,
    line::{DEFAULT_LOCAL_BATCH, DEFAULT_POLL_MAX, LOOK, OPEN_EVERY, OPEN_FOR, TICKET_LIFE},
    pace::FEWEST,
};
use std::collections::BTreeMap;

const LONG: Duration = Duration::from_secs(60);
/// The default for locks with this TTL.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// A world in which the first client holds the lock, having taken it at once.
fn held(clients: usize, nodes: usize) -> (World, Lock) {
    let mut world = World::with(clients, nodes);
    let holder = world.wait_for(0, LONG);
    world.grant(holder);
    (world, holder)
}

fn has_it(world: &World, lock: Lock) -> bool {
    matches!(world.acquired(lock), Some(Ok(_)))
}

/// One after the other, a millisecond apart.
fn arrive(world: &mut World, clients: impl IntoIterator<Item = usize>) -> Vec<Lock> {
    let arrive = |client| {
        world.pass(MS);
        world.wait_for(client, LONG)
    };
    clients.into_iter().map(arrive).collect()
}

/// Nobody waits and nothing is locked.
#[track_caller]
fn is_empty(world: &World) {
    assert!(world.is_idle());
    for node in &world.nodes {
        assert!(node.contents.lines.is_empty(), "{:?}", node.contents.lines);
    }
    assert_eq!(world.locked(), [0; 0]);
}

/// Releases in turn; each must have the lock when the one before has released it.
#[track_caller]
fn served_in_order(world: &mut World, holder: Lock, waiters: &[Lock]) {
    let mut holder = holder;
    for (at, waiter) in waiters.iter().enumerate() {
        assert!(!has_it(world, *waiter));
        world.release(holder);
        assert!(has_it(world, *waiter), "waiter {at}");
        holder = *waiter;
    }
    world.release(holder);
}

#[test]
fn a_release_wakes_the_waiter_and_no_time_passes() {
    let (mut world, holder) = held(2, 3);
    let waiter = world.wait_for(1, LONG);
    world.pass(300 * MS);

    world.release(holder);

    assert!(has_it(&world, waiter));
    assert_eq!(world.locked(), [0, 1, 2]);
}

#[test]
fn clients_are_served_in_the_order_of_their_arrival() {
    let (mut world, holder) = held(5, 3);
    let waiters = arrive(&mut world, [3, 1, 4, 2]);

    served_in_order(&mut world, holder, &waiters);

    is_empty(&world);
}

#[test]
fn callers_of_one_client_are_served_in_the_order_of_their_arrival() {
    let (mut world, holder) = held(1, 3);
    let waiters = arrive(&mut world, [0; 20]);

    served_in_order(&mut world, holder, &waiters);

    is_empty(&world);
}

/// One asks, the others wait behind it: per turn a release and a take per node.
#[test]
fn however_many_wait_in_a_client_one_speaks_to_the_nodes() {
    let (mut world, holder) = held(1, 3);
    let waiters = arrive(&mut world, [0; 100]);
    let before = world.clients[0].sent.len();

    served_in_order(&mut world, holder, &waiters);

    assert_eq!(world.clients[0].sent.len() - before, 2 * 3 * 100 + 3);
}

/// It is refused because of its own key, which must not stay.
#[test]
fn a_take_that_the_network_repeats_is_undone_and_not_in_line() {
    let mut world = World::with(2, 3);
    world.channel(1, Mode::Down);
    world.channel(2, Mode::Down);
    world.line_of(0, 0, Mode::Held);
    let waiter = world.wait_for(0, LONG);
    let (_, _, take) = world.clients[0].sent[0].clone();
    let now = world.now;
    world.nodes[0].carry_out(now, &take);

    world.line_of(0, 0, Mode::Open);

    assert!(!has_it(&world, waiter));
    assert!(world.nodes[0].contents.lines.is_empty());
    world.cancel(waiter);
    world.pass(TTL / 2);
    assert_eq!(world.locked(), [0; 0]);
}

/// The node had put it in line; its second take may have set the key all the same.
#[test]
fn a_node_that_is_asked_again_is_undone() {
    let (mut world, holder) = held(2, 3);
    for node in [1, 2] {
        world.line_of(0, node, Mode::Held);
        world.line_of(1, node, Mode::Held);
    }
    let _waiter = world.wait_for(1, LONG);
    let Command::Take { place: Some(place), .. } = world.clients[1].sent[0].2.clone() else {
        panic!("a take in line")
    };
    world.line_of(1, 0, Mode::Mute);
    world.release(holder);
    let resource = resource().single().unwrap().clone();
    let reply = Reply::Woken(Wake { resource, ticket: place.ticket });
    world.hand_in(1, Input::Reply { node: 0, tag: Tag::WAKE, reply });

    for node in [1, 2] {
        world.line_of(1, node, Mode::Open);
    }
    assert_eq!(releases(&world, 1, 0), 0, "it may yet answer");
    world.pass(NODE_TIMEOUT);

    assert_eq!(releases(&world, 1, 0), 1);
}

/// How often a client has asked a node for a release.
fn releases(world: &World, client: usize, node: usize) -> usize {
    let is_one = |(_, to, command): &&(_, usize, Command)| {
        *to == node && matches!(command, Command::Release { .. })
    };
    world.clients[client].sent.iter().filter(is_one).count()
}

/// It has put us in line like the others: there is nothing to undo.
#[test]
fn a_node_that_is_late_to_refuse_is_asked_for_nothing_more() {
    let (mut world, holder) = held(2, 3);
    world.line_of(1, 2, Mode::Held);
    let waiter = world.wait_for(1, LONG);

    world.line_of(1, 2, Mode::Open);
    world.pass(NODE_TIMEOUT);

    assert_eq!(world.clients[1].sent.len(), 3);
    served_in_order(&mut world, holder, &[waiter]);
    is_empty(&world);
}

#[test]
fn a_node_that_is_late_to_grant_is_undone_and_wakes_us() {
    let (mut world, holder) = held(2, 3);
    world.line_of(1, 2, Mode::Held);
    let waiter = world.wait_for(1, LONG);
    world.nodes[2].contents.keys.clear();

    world.line_of(1, 2, Mode::Open);

    assert_eq!(releases(&world, 1, 2), 1);
    served_in_order(&mut world, holder, &[waiter]);
    is_empty(&world);
}

#[test]
fn a_waiter_that_leaves_before_a_node_has_answered_leaves_nothing_there() {
    let (mut world, holder) = held(2, 3);
    world.line_of(1, 2, Mode::Held);
    let waiter = world.wait_for(1, LONG);
    world.nodes[2].contents.keys.clear();

    world.cancel(waiter);
    world.line_of(1, 2, Mode::Open);
    world.release(holder);

    is_empty(&world);
}

/// All have refused it: only a majority of wakes is worth an attempt.
#[test]
fn a_wake_of_few_nodes_starts_no_attempt_once_all_have_refused() {
    let (mut world, _holder) = held(2, 5);
    for node in [3, 4] {
        world.line_of(1, node, Mode::Held);
    }
    let _waiter = world.wait_for(1, LONG);
    let Command::Take { place: Some(place), .. } = world.clients[1].sent[0].2.clone() else {
        panic!("a take in line")
    };
    for node in [3, 4] {
        world.line_of(1, node, Mode::Open);
    }

    let resource = resource().single().unwrap().clone();
    let reply = Reply::Woken(Wake { resource, ticket: place.ticket });
    world.hand_in(1, Input::Reply { node: 0, tag: Tag::WAKE, reply });
    world.pass(3 * MS);

    assert_eq!(takes(&world, 1), 5);
}

#[test]
fn nobody_barges_in_between_a_release_and_the_next_in_line() {
    let (mut world, holder) = held(3, 3);
    let waiter = world.wait_for(1, LONG);
    world.deaf = true;

    world.release(holder);
    let stranger = world.acquire_as(2, crate::support::plain(), Duration::ZERO);

    assert!(matches!(world.refusal(stranger), Some(AcquireError::Held(_))));
    world.deaf = false;
    world.pass(LOOK);
    assert!(has_it(&world, waiter));
}

#[test]
fn a_waiter_that_is_cancelled_is_out_of_line_and_the_next_is_served() {
    let (mut world, holder) = held(3, 3);
    let waiters = arrive(&mut world, [1, 2]);

    world.cancel(waiters[0]);
    world.release(holder);

    assert!(has_it(&world, waiters[1]));
    world.release(waiters[1]);
    is_empty(&world);
}

#[test]
fn what_is_reserved_for_a_waiter_that_leaves_goes_to_the_next() {
    let (mut world, holder) = held(3, 3);
    let waiters = arrive(&mut world, [1, 2]);
    world.deaf = true;
    world.release(holder);

    world.deaf = false;
    world.cancel(waiters[0]);

    assert!(has_it(&world, waiters[1]));
}

#[test]
fn a_waiter_that_gives_up_hands_its_place_to_the_next_of_its_client() {
    let (mut world, holder) = held(3, 3);
    let first = world.wait_for(1, LONG);
    let waiters = arrive(&mut world, [2, 1]);

    world.cancel(first);
    world.release(holder);

    assert!(has_it(&world, waiters[1]), "its client was first in line");
    world.release(waiters[1]);
    assert!(has_it(&world, waiters[0]));
}

#[test]
fn a_waiter_whose_time_is_up_is_told_who_has_the_lock_and_leaves_nothing() {
    let mut world = World::with(2, 3);
    let holder = world.acquire_on(renewed(LONG));
    let waiters = [world.wait_for(1, 500 * MS), world.wait_for(1, 700 * MS)];

    world.pass(750 * MS);

    for waiter in waiters {
        match world.refusal(waiter) {
            Some(AcquireError::Held(ballot)) => {
                let holder = ballot.vote(0).holder().expect("held");
                assert_eq!(holder.owner.as_deref(), Some("client/0"));
            }
            other => panic!("{other:?}"),
        }
    }
    world.release(holder);
    is_empty(&world);
}

#[test]
fn a_wake_that_is_lost_costs_one_look() {
    let (mut world, holder) = held(2, 3);
    let waiter = world.wait_for(1, LONG);
    world.deaf = true;
    world.release(holder);

    world.pass(LOOK);

    assert!(has_it(&world, waiter));
}

/// The first in line is frozen; what was reserved for it lapses.
#[test]
fn a_client_that_is_frozen_holds_the_others_up_for_a_moment_only() {
    let (mut world, holder) = held(3, 3);
    let waiters = arrive(&mut world, [1, 2]);
    for node in 0..3 {
        world.line_of(1, node, Mode::Held);
    }
    world.release(holder);

    world.pass(2 * LOOK);

    assert!(has_it(&world, waiters[1]));
}

#[test]
fn when_a_holder_dies_the_first_in_line_is_there_on_time() {
    let (mut world, _holder) = held(2, 3);
    let began = world.now;
    for node in 0..3 {
        world.line_of(0, node, Mode::Down);
    }
    world.pass(100 * MS);
    let waiter = world.wait_for(1, LONG);

    world.pass_until(began.after(TTL + 5 * MS));

    assert!(has_it(&world, waiter));
}

#[test]
fn only_the_first_in_line_looks_at_the_nodes_often() {
    let mut world = World::with(2, 3);
    world.pauses_of(255);
    world.occupy_all(0..3);
    let _waiters = arrive(&mut world, [0, 1]);
    world.pass(2 * DEFAULT_POLL_MAX); // it checks more often at first
    let before = [0, 1].map(|client| world.clients[client].sent.len());

    world.pass(2000 * MS);

    let sent = [0, 1].map(|client| world.clients[client].sent.len() - before[client]);
    let looks = 2000 / usize::try_from(DEFAULT_POLL_MAX.as_millis()).unwrap();
    assert_eq!(sent, [looks * 3, 2 * 3], "a take per node");
}

/// A client that holds it for a millisecond at a time leaves it free for just as long.
#[test]
fn beside_another_library_the_first_in_line_looks_often_while_the_lock_changes_hands() {
    let mut world = World::with(2, 3);
    world.occupy_all(0..3);
    let _waiters = arrive(&mut world, [0, 1]);
    let before = [0, 1].map(|client| takes(&world, client) / 3);

    for _ in 0..200 {
        world.pass(MS);
        world.occupy_all(0..3);
    }
    let looks = [0, 1].map(|client| takes(&world, client) / 3 - before[client]);
    world.pass(2000 * MS);
    let rest = takes(&world, 0) / 3 - before[0] - looks[0];

    assert!(looks[0] > 50, "{looks:?} looks in 200 ms");
    assert_eq!(looks[1], 0);
    assert!(rest < 40, "{rest} looks in 2 s, though it did not change hands");
}

/// Other libraries do not stand in line, and would never have a turn.
#[test]
fn a_client_whose_own_callers_always_wait_leaves_the_lock_free_for_a_moment_now_and_then() {
    let (mut world, mut holder) = held(1, 3);
    let mut next = arrive(&mut world, [0])[0];
    let mut free = Vec::new();

    for _ in 0..2500 {
        world.release(holder);
        if !has_it(&world, next) {
            free.push(world.now);
            assert!((0..3).all(|node| world.value(node).is_none()), "free for anybody");
            world.pass(OPEN_FOR);
        }
        assert!(has_it(&world, next));
        holder = next;
        next = arrive(&mut world, [0])[0];
    }

    let apart: Vec<_> = free.windows(2).map(|two| two[1].since(two[0])).collect();
    assert_eq!(free.len(), 2, "{free:?}");
    assert!(apart.iter().all(|apart| (OPEN_EVERY..2 * OPEN_EVERY).contains(apart)), "{apart:?}");
}

#[test]
fn after_some_turns_in_a_row_an_earlier_waiter_of_another_client_is_served() {
    let (mut world, holder) = held(2, 3);
    let ours = arrive(&mut world, [0]);
    let other = arrive(&mut world, [1]);
    let later = arrive(&mut world, [0; 20]);
    let mut turns = 0;

    let mut holder = holder;
    for next in ours.iter().chain(&later) {
        world.release(holder);
        if has_it(&world, other[0]) {
            break;
        }
        assert!(has_it(&world, *next));
        turns += 1;
        holder = *next;
    }

    assert_eq!(turns, DEFAULT_LOCAL_BATCH);
    world.release(other[0]);
    assert!(has_it(&world, later[3]));
}

#[test]
fn an_even_split_goes_to_the_earlier_ticket_at_once() {
    let mut world = World::with(2, 4);
    world.all_lines(Mode::Held);
    let early = world.wait_for(0, LONG);
    world.pass(MS);
    let late = world.wait_for(1, LONG);
    for node in 0..4 {
        let first = node % 2;
        world.carry_out(first, node);
        world.carry_out(1 - first, node);
    }

    world.all_lines(Mode::Open);
    world.pass(10 * MS);

    assert!(has_it(&world, early));
    world.release(early);
    assert!(has_it(&world, late));
}

/// The lease is on all nodes, not only on the majority that woke it first.
#[test]
fn a_node_that_is_late_is_part_of_the_lease_all_the_same() {
    let (mut world, holder) = held(2, 5);
    let waiter = world.wait_for(1, LONG);
    world.line_of(0, 3, Mode::Held);
    world.line_of(0, 4, Mode::Held);
    world.release(holder);
    assert!(has_it(&world, waiter));

    world.line_of(0, 3, Mode::Open);
    world.line_of(0, 4, Mode::Open);

    let token = world.grant(waiter).token.clone();
    for node in 0..5 {
        assert_eq!(world.value(node), Some(token.as_bytes()), "node {node}");
    }
    world.release(waiter);
    world.pass(LOOK);
    is_empty(&world);
}

/// Its key was planted there since, so nothing but the ticket tells.
#[test]
fn a_ticket_that_a_node_took_after_the_lock_was_won_is_taken_back() {
    let (mut world, holder) = held(2, 3);
    world.line_of(0, 2, Mode::Lossy);
    world.line_of(1, 2, Mode::Held);
    world.release(holder);
    let lock = world.wait_for(1, LONG);
    assert!(has_it(&world, lock), "by the other two");
    world.line_of(1, 2, Mode::Open);
    assert_eq!(world.nodes[2].contents.lines.len(), 1, "refused, and in line");

    // The old key expires there, and ours takes its place.
    world.pass(6 * TTL / 10);
    world.extend(lock, TTL);
    world.pass(6 * TTL / 10);
    world.extend(lock, TTL);
    assert_eq!(world.locked(), [0, 1, 2]);
    // Ours expires, too, so that no release finds it and serves the line.
    world.line_of(1, 2, Mode::Lossy);
    world.pass(6 * TTL / 10);
    world.extend(lock, TTL);
    world.line_of(1, 2, Mode::Open);
    world.pass(2 * TTL);

    is_empty(&world);
}

#[test]
fn a_minority_that_is_down_delays_nobody() {
    let (mut world, holder) = held(2, 5);
    world.channel(0, Mode::Mute);
    world.channel(1, Mode::Down);
    let waiter = world.wait_for(1, LONG);
    world.pass(100 * MS);

    world.release(holder);

    assert!(has_it(&world, waiter));
}

#[test]
fn a_node_that_forgot_its_line_delays_nobody() {
    let (mut world, holder) = held(2, 3);
    let waiter = world.wait_for(1, LONG);
    world.node_forgets(1);

    world.release(holder);
    world.pass(5 * MS);

    assert!(has_it(&world, waiter));
}

/// Its key is missing on one node, which wakes the waiter for nothing.
#[test]
fn a_node_that_the_holder_missed_does_not_keep_a_waiter_busy() {
    let mut world = World::with(2, 3);
    world.channel(2, Mode::Down);
    let holder = world.acquire_on(renewed(LONG));
    world.channel(2, Mode::Open);
    let waiter = world.wait_for(1, LONG);
    let before = world.clients[1].sent.len();

    world.pass(900 * MS);

    assert_eq!(world.clients[1].sent.len(), before);
    world.release(holder);
    world.pass(5 * MS);
    assert!(has_it(&world, waiter));
}

#[test]
fn a_lock_that_is_handed_to_another_process_does_not_strand_who_waits_here() {
    let (mut world, holder) = held(1, 3);
    let waiter = world.wait_for(0, LONG);
    let token = world.grant(holder).token.clone();
    world.forget(holder);

    for node in 0..3 {
        let release = Command::Release { resources: resource(), token: token.clone(), then: None };
        let now = world.now;
        world.nodes[node].carry_out(now, &release);
    }
    world.hand_in(0, Input::Tick);

    assert!(has_it(&world, waiter));
}

/// What is reserved for it would be idle while the other resource is held.
#[test]
fn a_request_for_several_resources_holds_up_nobody() {
    let both = Resources::new(["a", "b"]).unwrap();
    let one = |name: &str| Resources::new([name]).unwrap();
    let mut world = World::with(4, 3);
    let first = world.wait_for_one_of(0, one("a"), LONG);
    let _other = world.wait_for_one_of(1, one("b"), LONG);
    let several = world.wait_for_one_of(2, both, LONG);
    world.pass(MS);
    let second = world.wait_for_one_of(3, one("a"), LONG);

    world.release(first);

    assert!(has_it(&world, second) && !has_it(&world, several));
}

/// One of them asks again until there is a majority; the others wait behind it.
#[test]
fn while_nodes_fail_one_caller_of_a_client_speaks_for_all() {
    let mut world = World::with(1, 3);
    world.channel(0, Mode::Down);
    world.channel(1, Mode::Down);
    let waiters = arrive(&mut world, [0; 5]);
    let before = world.clients[0].sent.len();

    world.pass(200 * MS);
    let alone = world.clients[0].sent.len() - before;
    world.channel(0, Mode::Open);
    world.pass(1000 * MS);

    assert!(alone < 80, "{alone} commands");
    served_in_order(&mut world, waiters[0], &waiters[1..]);
    // Where it is down they may still be in line: they leave when it is back.
    world.channel(1, Mode::Open);
    world.pass(1000 * MS);
    is_empty(&world);
}

/// The take that the node has not answered yet finds it held, and joins the line.
#[test]
fn a_lock_released_before_every_node_has_answered_leaves_no_ticket() {
    let mut world = World::with(2, 3);
    world.line_of(0, 2, Mode::Held);
    let holder = world.wait_for(0, LONG);
    world.grant(holder);
    world.release(holder);
    world.occupy(2);

    world.line_of(0, 2, Mode::Open);

    assert!(world.nodes[2].contents.lines.is_empty(), "{:?}", world.nodes[2].contents.lines);
}

/// The same for a lock that another process releases.
#[test]
fn a_lock_handed_over_before_every_node_has_answered_leaves_no_ticket() {
    let mut world = World::with(2, 3);
    world.line_of(0, 2, Mode::Held);
    let holder = world.wait_for(0, LONG);
    world.grant(holder);
    world.forget(holder);
    world.occupy(2);

    world.line_of(0, 2, Mode::Open);

    assert!(world.nodes[2].contents.lines.is_empty(), "{:?}", world.nodes[2].contents.lines);
    assert_eq!(world.locked(), [0, 1], "the lease is not ours to release");
}

/// The connection breaks before the client hears that it is in line there.
#[test]
fn a_lock_with_a_node_whose_answer_was_lost_leaves_no_ticket() {
    let mut world = World::with(2, 3);
    world.occupy(2);
    world.line_of(0, 2, Mode::Held);
    let holder = world.wait_for(0, LONG);
    world.grant(holder);
    world.cut(2, Cut::CarriedOut);
    assert_eq!(world.nodes[2].contents.lines.len(), 1, "it is in line");
    world.line_of(0, 2, Mode::Open);

    world.release(holder);

    assert!(world.nodes[2].contents.lines.is_empty(), "{:?}", world.nodes[2].contents.lines);
}

/// The node has the ticket of an earlier attempt, and is down while the lock is taken.
#[test]
fn a_lock_with_a_node_that_was_down_meanwhile_leaves_no_ticket() {
    let mut world = World::with(1, 3);
    world.occupy_all(0..3);
    let waiter = world.wait_for(0, 2 * LONG);
    world.pass(LONG - 100 * MS);
    world.channel(2, Mode::Down);
    world.pass(1000 * MS);
    assert!(has_it(&world, waiter));
    assert_eq!(world.nodes[2].contents.lines.len(), 1, "it is in line");

    world.release(waiter);
    world.channel(2, Mode::Open);
    world.pass(1000 * MS);

    assert!(world.nodes[2].contents.lines.is_empty(), "{:?}", world.nodes[2].contents.lines);
}

/// The node has the ticket of an earlier attempt, restarts with all it had, and may not
/// vote when the lock is taken.
#[test]
fn a_lock_with_a_node_that_was_restarted_meanwhile_leaves_no_ticket() {
    let mut world = World::admitted(1, 3);
    world.occupy_all(0..3);
    let waiter = world.wait_for(0, 2 * LONG);
    world.pass(LONG - 100 * MS);
    let now = world.now;
    world.nodes[2].restart(now);
    world.pass(103 * MS);
    assert!(has_it(&world, waiter));
    assert_eq!(world.nodes[2].contents.lines.len(), 1, "it is in line");

    world.release(waiter);
    world.pass(MS);

    assert!(world.nodes[2].contents.lines.is_empty(), "{:?}", world.nodes[2].contents.lines);
}

/// It travels on a connection of its own where the server cannot push.
#[test]
fn a_wake_that_overtakes_the_answer_to_the_take_is_not_lost() {
    let (mut world, holder) = held(2, 3);
    for node in 0..3 {
        world.line_of(1, node, Mode::Held);
    }
    let waiter = world.wait_for(1, LONG);
    for node in 0..3 {
        world.carry_out(1, node);
    }
    world.release(holder);

    for node in 0..3 {
        let ticket = world.value(node).and_then(Ticket::reserved_in).expect("reserved");
        let wake = Wake { resource: resource().single().unwrap().clone(), ticket };
        world.hand_in(1, Input::Reply { node, tag: Tag::WAKE, reply: Reply::Woken(wake) });
    }
    world.all_lines(Mode::Open);

    assert!(has_it(&world, waiter));
}

fn is_deaf(world: &mut World, client: usize, nodes: impl IntoIterator<Item = usize>) {
    for node in nodes {
        world.hand_in(client, Input::Reply { node, tag: Tag::WAKE, reply: Reply::Deaf });
    }
}

fn takes(world: &World, client: usize) -> usize {
    let takes = |(_, _, command): &&(_, _, Command)| matches!(command, Command::Take { .. });
    world.clients[client].sent.iter().filter(takes).count()
}

/// The connections break as the lock is released, and the wakes are lost with them.
#[test]
fn a_waiter_that_can_no_longer_be_woken_asks_again_at_once() {
    let (mut world, holder) = held(2, 5);
    let waiter = world.wait_for(1, LONG);
    world.deaf = true;
    world.release(holder);
    assert!(!has_it(&world, waiter));

    is_deaf(&mut world, 1, 0..5);
    world.pass(3 * MS);

    assert!(has_it(&world, waiter));
    assert_eq!(takes(&world, 1), 10, "it asked once for all five");
}

/// It has refused already, and would pass us over.
#[test]
fn a_node_that_is_deaf_while_others_are_asked_is_asked_again() {
    let (mut world, _holder) = held(2, 3);
    let _waiter = world.wait_for(1, LONG);
    (1..3).for_each(|node| world.line_of(1, node, Mode::Held));
    is_deaf(&mut world, 1, [2]);
    world.pass(3 * MS);
    assert_eq!(takes(&world, 1), 6);

    is_deaf(&mut world, 1, [0, 1]);

    assert_eq!(takes(&world, 1), 7, "the other has not answered yet");
}

#[test]
fn however_many_lines_are_deaf_nodes_are_asked_no_faster_than_they_answer() {
    const LINES: usize = 500;
    let mut world = World::with(2, 3);
    let names: Vec<_> = (0..LINES).map(|number| number.to_string()).collect();
    for client in [0, 1] {
        for name in &names {
            world.wait_for_one_of(client, Resources::new([name]).unwrap(), LONG);
        }
    }
    let before = takes(&world, 1);
    assert_eq!(before, 3 * LINES);
    (0..3).for_each(|node| world.line_of(1, node, Mode::Held));

    is_deaf(&mut world, 1, 0..3);
    world.pass(3 * MS);
    let at_once = takes(&world, 1) - before;
    (0..3).for_each(|node| world.line_of(1, node, Mode::Open));

    assert_eq!(at_once, 3 * FEWEST);
    assert_eq!(takes(&world, 1) - before, 3 * LINES, "and each is asked once");
}

/// Each came with a ticket of its own, and the second leads the line.
#[test]
fn the_first_of_two_callers_that_came_at_once_leaves_no_ticket() {
    let mut world = World::with(1, 3);
    world.occupy(0);
    world.all_lines(Mode::Held);
    let waiters = [world.wait_for(0, LONG), world.wait_for(0, LONG)];
    for node in 0..3 {
        world.line_of(0, node, Mode::Open);
    }

    served_in_order(&mut world, waiters[0], &waiters[1..]);

    assert!(world.nodes[0].contents.lines.is_empty(), "{:?}", world.nodes[0].contents.lines);
}

#[test]
fn a_waiter_whose_leaving_is_lost_says_it_again() {
    let (mut world, _holder) = held(2, 3);
    let waiter = world.wait_for(1, LONG);
    world.line_of(1, 2, Mode::Held);
    world.cancel(waiter);

    world.cut(2, Cut::NotCarriedOut);
    world.line_of(1, 2, Mode::Open);
    world.pass(100 * MS);

    assert!(world.nodes[2].contents.lines.is_empty(), "{:?}", world.nodes[2].contents.lines);
}

/// It is connected, so nodes could wake it. Those who are alive ask now and then.
#[test]
fn a_waiter_that_no_longer_asks_is_passed_over_and_one_that_does_is_not() {
    let mut world = World::with(3, 3);
    for node in &mut world.nodes {
        node.waiters = Some(BTreeMap::new());
    }
    let holder = world.acquire_on(renewed(2 * LONG));
    let waiters = arrive(&mut world, [1, 2]);
    for node in 0..3 {
        world.line_of(1, node, Mode::Held);
    }

    world.pass(TICKET_LIFE + 2 * LOOK);

    for node in 0..3 {
        let lines: Vec<_> = world.nodes[node].contents.lines.values().collect();
        assert_eq!(lines[0].0.tickets().len(), 1, "node {node} keeps the dead");
    }
    world.release(holder);
    assert!(has_it(&world, waiters[1]));
}
