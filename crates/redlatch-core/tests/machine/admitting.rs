//! A node that may have forgotten locks does not vote until they have expired.

use super::support::{
    Cut, Lock, MS, Mode, NODE_TIMEOUT, TTL, WINDOW, World, plain, renewed, resource,
};
use redlatch_core::{AcquireError, Cause, Command, Quarantine, Resources, Vote, machine::Vouch};
use std::time::Duration;

/// How long a client rests from one look to the next.
const LOOK: Duration = Duration::from_millis(375);

/// Why the node did not vote.
fn quarantine(world: &World, lock: Lock, node: usize) -> Quarantine {
    match world.refusal(lock).and_then(|error| Some(error.ballot()?.vote(node))) {
        Some(Vote::Quarantined(quarantine)) => quarantine.clone(),
        other => panic!("not quarantined: {other:?}"),
    }
}

/// Their names may have been other servers' until a moment ago.
#[test]
fn new_nodes_wait_for_the_window_however_long_they_have_been_up() {
    for (nodes, strict) in [(1, false), (3, false), (3, true)] {
        let mut world = World::guarded(1, nodes, strict);
        world.pass(Duration::from_secs(3600));

        let look = world.look(0);
        world.pass(WINDOW - MS);
        assert_eq!(world.may_vote(look), Some(vec![]));
        assert_eq!(world.admissions(), []);
        world.pass(MS);

        assert_eq!(world.admissions().len(), nodes);
    }
}

#[test]
fn a_node_that_forgot_does_not_vote_before_the_window_has_passed() {
    let mut world = World::admitted(2, 3);
    let lock = world.acquire_as(0, renewed(Duration::MAX), Duration::ZERO);
    world.node_forgets(0);
    world.channel(2, Mode::Lossy);

    let second = world.acquire_as(1, plain(), Duration::ZERO);
    world.pass(NODE_TIMEOUT);

    assert_eq!(quarantine(&world, second, 0).cause, Cause::Forgot);
    assert!(world.lost(lock).is_none());
}

#[test]
fn a_node_that_forgot_is_admitted_once_the_window_has_passed() {
    let mut world = World::with_forgetful([0]);
    let forgot = world.now;
    world.acquire();

    world.pass(WINDOW + MS);

    let (when, node) = *world.admissions().last().expect("an admission");
    assert_eq!(node, 0);
    assert!(when >= forgot.after(WINDOW), "{when:?}");
}

#[test]
fn the_error_says_how_much_longer_the_node_is_quarantined() {
    let mut world = World::with_forgetful([0, 1]);
    world.acquire();
    world.pass(500 * MS);

    let lock = world.acquire();

    assert_eq!(quarantine(&world, lock, 0).remaining, Some(WINDOW - 500 * MS));
    assert!(matches!(world.refusal(lock), Some(AcquireError::Quarantined { .. })));
}

#[test]
fn a_node_that_forgets_again_waits_again() {
    let mut world = World::with_forgetful([0]);
    world.acquire();
    world.pass(WINDOW - 100 * MS);
    let before = world.admissions().len();

    world.node_forgets(0);
    world.pass(WINDOW - 200 * MS);

    assert_eq!(world.admissions().len(), before);
    world.pass(WINDOW);
    assert_eq!(world.admissions().len(), before + 1);
}

#[test]
fn a_flush_is_forgetting_however_long_the_node_has_been_up() {
    let mut world = World::admitted(1, 3);
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
    let mut world = World::admitted(2, 3);
    world.node_forgets(0);
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

/// An address may lead to another server by now, which has been up for long and
/// never had the locks of the one before.
#[test]
fn a_spare_that_has_been_up_for_long_waits_under_the_name_of_another() {
    let mut world = World::admitted(1, 3);
    world.pass(Duration::from_secs(60));
    world.node_forgets(0);
    world.nodes[0].started = None;
    let before = times_admitted(&world, 0);

    world.acquire();
    let begin = world.now;
    world.pass(WINDOW - MS);
    assert_eq!(times_admitted(&world, 0), before);
    world.pass(MS);

    assert_eq!(times_admitted(&world, 0), before + 1);
    assert_eq!(world.now, begin.after(WINDOW));
}

/// A spare may have been made from a dump of the server before.
#[test]
fn a_node_that_is_back_with_its_memory_waits_for_the_window_from_the_first_look() {
    let mut world = World::admitted(1, 3);
    world.pass(Duration::from_secs(60));
    world.nodes[0].restart(world.now);
    world.freeze(WINDOW + Duration::from_secs(2));
    let before = times_admitted(&world, 0);

    let look = world.vouch(0, Vouch { patient: true, ..Vouch::default() });
    assert_eq!(world.quarantined_for(look).map(|out| out[0]), Some(Some(WINDOW)));
    world.pass(WINDOW - MS);
    assert_eq!(times_admitted(&world, 0), before);
    world.pass(MS);

    assert_eq!(times_admitted(&world, 0), before + 1);
}

/// It was a replica of another node for a moment, say: whoever asks for it is not
/// at the wrong address.
#[test]
fn a_node_with_a_copy_of_another_ones_data_has_forgotten_its_own() {
    let mut world = World::admitted(1, 3);
    world.nodes[0].contents.ledger = world.nodes[2].contents.ledger.clone();
    let before = times_admitted(&world, 0);

    world.acquire();
    world.pass(WINDOW);

    assert_eq!(times_admitted(&world, 0), before + 1);
}

/// What its master did just before is not among its data.
#[test]
fn a_promoted_replica_with_an_old_marker_waits_for_the_window() {
    let mut world = World::admitted(1, 3);
    world.nodes[0].restart(world.now);
    world.nodes[0].promoted = true;
    world.freeze(WINDOW * 2);

    let look = world.vouch(0, Vouch { patient: true, ..Vouch::default() });

    assert_eq!(world.quarantined_for(look).map(|out| out[0]), Some(Some(WINDOW)));
}

#[test]
fn a_quarantined_node_is_looked_at_in_every_quarter_of_its_window() {
    let mut world = World::guarded(1, 3, true);

    world.look(0);
    world.pass(WINDOW - MS);

    let looks = world.sent(|command| matches!(command, Command::Examine));
    assert!(looks.iter().filter(|node| **node == 0).count() >= 4, "{looks:?}");
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
fn an_examination_says_how_long_a_node_is_quarantined_by_what_the_client_itself_has_seen() {
    let mut world = World::guarded(2, 3, true);
    let first = world.look(0);
    world.pass(WINDOW / 2);

    let second = world.look(0);
    let another = world.look(1);

    assert_eq!(world.quarantined_for(first), Some(vec![Some(WINDOW); 3]));
    assert_eq!(world.quarantined_for(second), Some(vec![Some(WINDOW / 2); 3]));
    assert_eq!(
        world.quarantined_for(another),
        Some(vec![Some(WINDOW); 3]),
        "it has just begun to watch"
    );
    world.pass(WINDOW / 2);
    let after = world.look(0);
    assert_eq!(world.quarantined_for(after), Some(vec![None; 3]), "they are in");
}

#[test]
fn a_replaced_node_waits_for_the_longest_locks_of_its_former_clients() {
    let mut world = World::admitted(2, 3);
    world.guard_for(1, &["a", "b", "c"], false, WINDOW - 200 * MS);
    let taken = world.now;

    world.vouch(1, Vouch { replace: [0].into(), ..Vouch::default() });
    world.pass(WINDOW * 2);

    assert_eq!(world.admissions().last(), Some(&(taken.after(WINDOW), 0)));
}

/// The other nodes still tell what its former clients agreed to.
#[test]
fn a_node_that_forgets_while_others_are_replaced_waits_for_the_longest_locks_all_the_same() {
    let mut world = World::admitted(2, 3);
    world.guard_for(1, &["a", "b", "c"], false, WINDOW - 200 * MS);
    let all = || Vouch { replace: [0, 1].into(), ..Vouch::default() };
    world.node_forgets(2);
    let forgot = world.now;

    world.vouch(1, all());
    world.pass(WINDOW - MS);
    assert_eq!(world.admissions().len(), 3);
    world.pass(WINDOW);

    let last = world.admissions().into_iter().find(|(when, node)| *node == 2 && *when > forgot);
    assert!(last.is_some_and(|(when, _)| when >= forgot.after(WINDOW)), "{last:?}");
}

/// By the time it may be admitted, no node still reports the longer times.
#[test]
fn a_node_waits_for_the_longest_locks_that_any_node_reported_while_it_was_watched() {
    let mut world = World::admitted(2, 3);
    world.guard_for(1, &["a", "b", "c"], false, TTL);
    world.vouch(1, Vouch { replace: [0, 1].into(), ..Vouch::default() });
    world.pass(WINDOW - 100 * MS);
    world.node_forgets(2);
    let forgot = world.now;

    world.pass(WINDOW * 3);

    let later: Vec<_> = world.admissions().into_iter().filter(|(when, _)| *when > forgot).collect();
    let last = later.iter().find(|(_, node)| *node == 2);
    assert_eq!(later.len(), 3, "those two for the shorter times, and then it: {later:?}");
    assert!(last.is_some_and(|(when, _)| *when >= forgot.after(WINDOW)), "{last:?}");
}

/// The node that was taken serves nobody yet: there is no other list to heed.
#[test]
fn while_a_node_is_reserved_for_others_its_former_clients_admit_their_own_nodes() {
    let mut world = World::admitted(2, 3);
    world.guard_for(1, &["a", "b", "c", "d"], false, 4 * WINDOW);
    world.vouch(1, Vouch { replace: [0].into(), ..Vouch::default() });
    world.node_forgets(1);

    world.acquire();
    world.pass(WINDOW + MS);

    assert_eq!(times_admitted(&world, 1), 2);
}

#[test]
fn an_operators_word_admits_at_once() {
    let mut world = World::with_forgetful([1]);

    let vouch = Vouch { remembers: [1].into(), ..Vouch::default() };
    let look = world.vouch(0, vouch);

    assert_eq!(world.may_vote(look), Some(vec![0, 1, 2]));
}

/// How often each node has been admitted.
fn times_admitted(world: &World, node: usize) -> usize {
    world.admissions().iter().filter(|(_, who)| *who == node).count()
}

#[test]
fn an_operators_word_is_for_one_admission_and_not_for_the_next() {
    let mut world = World::with_forgetful([0, 1]);
    world.vouch(0, Vouch { remembers: [0].into(), ..Vouch::default() });
    assert_eq!(times_admitted(&world, 0), 2, "the word was heard");

    world.node_forgets(0);
    world.acquire();
    world.pass(WINDOW - MS);

    assert_eq!(times_admitted(&world, 0), 2);
}

#[test]
fn an_operators_word_is_void_if_the_node_forgets_again_before_it_is_admitted() {
    let mut world = World::with_forgetful([0]);
    world.channel(0, Mode::Held);
    world.vouch(0, Vouch { remembers: [0].into(), ..Vouch::default() });

    world.carry_out_one(0, 0); // the look: from here on the word has its mark
    world.node_forgets(0);
    world.channel(0, Mode::Open);
    world.pass(WINDOW - MS);
    assert_eq!(times_admitted(&world, 0), 1);
    world.pass(WINDOW);

    assert_eq!(times_admitted(&world, 0), 2, "after a window of its own");
}

/// It was being looked at when the operator spoke, and will be once more.
#[test]
fn an_operators_word_is_heard_though_the_node_missed_the_look_under_way() {
    let mut world = World::with_forgetful([0]);
    world.channel(0, Mode::Lossy);
    let look = world.vouch(0, Vouch { remembers: [0].into(), ..Vouch::default() });

    world.channel(0, Mode::Open);
    world.pass(Duration::from_secs(1));

    assert_eq!(world.may_vote(look), Some(vec![0, 1, 2]));
}

/// The operator is told that it is not admitted, and may say it again.
#[test]
fn an_operators_word_for_a_node_that_does_not_answer_is_not_kept_for_later() {
    let mut world = World::with_forgetful([0, 1]);
    world.channel(0, Mode::Down);
    let look = world.vouch(0, Vouch { remembers: [0].into(), ..Vouch::default() });
    world.pass(Duration::from_secs(1));
    assert_eq!(world.may_vote(look), Some(vec![2]));

    world.channel(0, Mode::Open);
    world.pass(WINDOW - MS);

    assert_eq!(times_admitted(&world, 0), 1);
}

#[test]
fn a_patient_look_waits_for_the_slowest_node_and_not_for_a_majority_alone() {
    let mut world = World::admitted(1, 3);
    world.channel(2, Mode::Held);

    let patient = world.vouch(0, Vouch { patient: true, ..Vouch::default() });
    assert_eq!(world.may_vote(patient), None);
    world.channel(2, Mode::Open);

    assert_eq!(world.may_vote(patient), Some(vec![0, 1, 2]));
}

#[test]
fn no_register_of_an_admitted_node_is_below_what_the_others_have_given() {
    let mut world = World::admitted(1, 3);
    world.nodes[1].set_register(&resource(), 1 << 50);
    world.nodes[2].set_register(&Resources::new(["another"]).expect("a name"), 1 << 51);
    world.node_forgets(0);
    world.acquire();

    world.pass(WINDOW + MS);

    assert_eq!(world.nodes[0].register(&resource()), 1 << 51);
}

#[test]
fn what_was_granted_before_the_window_ended_is_below_the_floor() {
    let mut world = World::with_forgetful([0]);
    world.acquire();
    world.pass(WINDOW - MS);
    world.nodes[1].set_register(&resource(), 1 << 50);

    world.pass(2 * MS);

    assert_eq!(world.nodes[0].register(&resource()), 1 << 50);
}

/// Grants made after the other node had reported its numbers are not among them.
#[test]
fn a_window_that_ends_during_an_examination_is_followed_by_another_examination() {
    let mut world = World::with_forgetful([0]);
    world.acquire();
    world.pass(WINDOW - 2 * MS);
    world.channel(2, Mode::Mute);
    world.look(0);
    world.nodes[2].set_register(&resource(), 1 << 50);

    world.pass(4 * MS);
    assert_eq!(times_admitted(&world, 0), 1, "the look is under way");
    world.channel(2, Mode::Open);
    world.pass(MS);

    assert_eq!(times_admitted(&world, 0), 2);
    assert_eq!(world.nodes[0].register(&resource()), 1 << 50);
}

#[test]
fn a_node_waits_another_window_for_others_that_do_not_answer_and_then_counts_on_the_clocks() {
    let mut world = World::with_forgetful([0]);
    world.acquire();
    let forgot = world.now;
    world.channel(2, Mode::Lossy);
    let before = world.admissions().len();

    world.pass(2 * WINDOW - MS);
    assert_eq!(world.admissions().len(), before);
    world.pass(3 * LOOK);

    let (when, node) = *world.admissions().last().expect("an admission");
    assert_eq!((world.admissions().len(), node), (before + 1, 0));
    assert!(when >= forgot.after(2 * WINDOW), "{when:?}");
}

#[test]
fn a_node_is_admitted_as_soon_as_those_are_back_who_know_its_numbers() {
    let mut world = World::with_forgetful([0]);
    world.acquire();
    world.channel(2, Mode::Lossy);
    world.pass(WINDOW + MS);
    let before = world.admissions().len();

    world.channel(2, Mode::Open);
    world.pass(Duration::from_secs(1));

    assert_eq!(world.admissions().len(), before + 1);
}

#[test]
fn strict_never_counts_on_the_clocks_of_those_who_are_heard() {
    let mut world = World::guarded(1, 3, true);
    world.look(0);
    world.pass(WINDOW);
    world.node_forgets(0);
    world.acquire();
    world.channel(2, Mode::Lossy);
    let before = world.admissions().len();

    world.pass(10 * WINDOW);

    assert_eq!(world.admissions().len(), before);
}

/// What the one that left the list has granted together with the one that forgot,
/// nobody else knows.
#[test]
fn a_node_that_forgot_does_not_change_over_to_a_list_without_those_who_know_its_numbers() {
    let mut world = World::admitted(2, 3);
    world.guard(1, &["a", "b"], true);
    world.node_forgets(0);
    let before = world.admissions().len();

    world.vouch(1, Vouch { replace: [0, 1].into(), ..Vouch::default() });
    world.pass(10 * WINDOW);

    assert_eq!(world.admissions().len(), before);
}

#[test]
fn nodes_that_remember_change_over_to_a_shorter_list_after_one_window() {
    let mut world = World::admitted(2, 3);
    world.guard(1, &["a", "b"], true);
    let taken = world.now;
    let before = world.admissions().len();

    world.vouch(1, Vouch { replace: [0, 1].into(), ..Vouch::default() });
    world.pass(WINDOW);

    let over = [(taken.after(WINDOW), 0), (taken.after(WINDOW), 1)];
    assert_eq!(world.admissions()[before..], over);
}

/// A node that refuses us may be among the silent ones.
#[test]
fn a_client_that_sees_no_majority_admits_nothing() {
    let mut world = World::with_forgetful([0]);
    world.acquire();
    (1..3).for_each(|node| world.channel(node, Mode::Lossy));
    let before = world.admissions().len();

    world.pass(10 * WINDOW);

    assert_eq!(world.admissions().len(), before);
}

/// Three of five nodes have the number. Two of them forget it; the third is slow
/// when the others are asked. What is left to tell it are nodes that never had it
/// and one that forgot it, too.
#[test]
fn a_node_that_forgot_itself_tells_another_one_nothing_about_numbers() {
    neither_votes_untold(World::node_forgets);
}

/// An old journal has a marker, too, of the run before.
#[test]
fn a_node_that_restarted_from_an_old_journal_tells_another_one_nothing_about_numbers() {
    neither_votes_untold(|world, node| {
        world.nodes[node].restart(world.now);
        world.nodes[node].set_register(&resource(), 1);
    });
}

fn neither_votes_untold(loses_its_number: impl Fn(&mut World, usize)) {
    let mut world = World::admitted(1, 5);
    (3..5).for_each(|node| world.channel(node, Mode::Down));
    let lock = world.acquire_fenced(0, plain());
    let token = world.grant(lock).fence.expect("a number");
    world.release(lock);
    (3..5).for_each(|node| world.channel(node, Mode::Open));
    (0..2).for_each(|node| loses_its_number(&mut world, node));
    world.acquire_as(0, plain(), Duration::ZERO);
    world.channel(2, Mode::Lossy);

    world.pass(WINDOW * 2 - MS);

    for node in 0..2 {
        let admitted = times_admitted(&world, node) > 1;
        let knows = world.nodes[node].register(&resource()) >= token.get();
        assert!(knows || !admitted, "node {node} votes without having been told {token}");
    }
}

#[test]
fn where_a_majority_forgot_the_clocks_keep_numbers_in_order_and_nobody_waits_forever() {
    let mut world = World::admitted(1, 5);
    (0..3).for_each(|node| world.node_forgets(node));
    world.acquire();
    world.channel(4, Mode::Lossy);

    world.pass(WINDOW * 3);

    assert!((0..3).all(|node| times_admitted(&world, node) == 2), "{:?}", world.admissions());
}

#[test]
fn clients_with_another_list_are_refused_and_told_the_other_one() {
    let mut world = World::admitted(2, 3);
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
    let mut world = World::admitted(2, 3);
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
fn a_node_is_taken_from_others_once_and_not_again_when_they_take_it_back() {
    let mut world = World::admitted(2, 3);
    world.guard(1, &["a", "b", "c", "d"], false);
    let replace = || Vouch { replace: [0].into(), ..Vouch::default() };
    world.vouch(1, replace());

    world.vouch(0, replace());
    let taken_back = world.now;
    world.pass(WINDOW * 2);

    assert_eq!(world.admissions().last(), Some(&(taken_back.after(WINDOW), 0)));
    let lock = world.acquire_as(0, plain(), Duration::ZERO);
    assert_eq!(*world.grant(lock).ballot.vote(0), Vote::Granted);
}

/// The others' lease counts on a node that is reserved for them. The node does not
/// forget it when it is taken back.
#[test]
fn a_node_that_is_taken_back_refuses_what_it_kept_for_the_others() {
    let mut world = World::admitted(2, 3);
    world.guard(1, &["a", "b", "c", "d"], false);
    world.vouch(1, Vouch { replace: [1, 2].into(), ..Vouch::default() });
    world.pass(WINDOW + MS);
    let theirs = world.acquire_as(1, renewed(Duration::MAX), Duration::ZERO);
    assert!(world.acquired(theirs).is_some_and(Result::is_ok));
    world.vouch(1, Vouch { replace: [0].into(), ..Vouch::default() });
    world.pass(WINDOW - 2 * MS);

    world.vouch(0, Vouch { replace: [0].into(), ..Vouch::default() });
    world.pass(2 * MS);

    assert_eq!(times_admitted(&world, 0), 2, "for those who took it back");
    let ours = world.acquire_as(0, plain(), Duration::ZERO);
    let refused = world.refusal(ours).and_then(|error| Some(error.ballot()?.vote(0).clone()));
    assert!(matches!(refused, Some(Vote::Held(_))), "{refused:?}");
}

#[test]
fn a_lease_under_renewal_has_its_key_on_a_restarted_node_before_that_votes_again() {
    let mut world = World::admitted(1, 3);
    let lock = world.acquire_on(renewed(Duration::MAX));
    world.node_forgets(0);
    let before = world.admissions().len();

    world.pass(TTL);

    assert_eq!(world.locked(), [0, 1, 2]);
    assert_eq!(world.admissions().len(), before, "it is still quarantined");
    assert!(world.lost(lock).is_none());
}

#[test]
fn a_key_on_a_quarantined_node_counts_for_an_extension() {
    let mut world = World::admitted(1, 3);
    let lock = world.acquire_on(renewed(Duration::MAX));
    world.node_forgets(0);
    world.pass(TTL);

    world.node_forgets(1);
    world.pass(TTL);
    world.node_forgets(2);
    world.pass(2 * TTL);

    assert!(world.lost(lock).is_none());
    assert_eq!(world.locked(), [0, 1, 2]);
}

#[test]
fn a_node_that_is_quarantined_and_lost_the_key_does_not_count_for_an_extension() {
    let mut world = World::admitted(1, 3);
    let lock = world.acquire_on(renewed(Duration::MAX));

    world.nodes_forget([0, 1]);
    world.pass(TTL);

    assert!(world.lost(lock).is_some());
}

#[test]
fn no_key_is_planted_on_a_node_that_serves_others() {
    let mut world = World::admitted(2, 3);
    let lock = world.acquire_on(renewed(Duration::MAX));
    world.guard(1, &["a", "b", "c", "d"], false);
    world.nodes[0].flush();
    world.vouch(1, Vouch { replace: [0].into(), ..Vouch::default() });

    world.pass(WINDOW + TTL);

    assert_eq!(world.locked(), [1, 2]);
    assert!(world.lost(lock).is_none());
}

#[test]
fn every_node_can_be_restarted_one_after_the_other_under_one_lease() {
    let mut world = World::admitted(1, 3);
    let lock = world.acquire_on(renewed(Duration::MAX));

    for node in 0..3 {
        world.node_forgets(node);
        world.cut(node, Cut::NotCarriedOut);
        world.pass(WINDOW + TTL);
    }

    assert_eq!(world.locked(), [0, 1, 2]);
    assert!(world.lost(lock).is_none());
}

/// Fault 44.
#[test]
fn a_wall_clock_that_steps_forward_does_not_open_the_guard() {
    for strict in [false, true] {
        let mut world = World::guarded(2, 3, strict);
        world.look(0);
        world.pass(WINDOW);
        let before = world.admissions().len();
        world.node_forgets(0);
        let forgot = world.now;
        world.acquire_as(1, plain(), Duration::ZERO);

        world.pass(100 * MS);
        world.clients[1].ahead = Duration::from_secs(3600);
        world.tick();
        world.pass(WINDOW - 101 * MS);
        assert_eq!(world.admissions().len(), before, "strict: {strict}");
        world.pass(MS);

        assert_eq!(world.admissions().last(), Some(&(forgot.after(WINDOW), 0)));
    }
}

/// Fault 46.
#[test]
fn nodes_that_were_all_flushed_are_quarantined_for_the_window_however_long_they_were_up() {
    let mut world = World::admitted(2, 3);
    world.pass(Duration::from_secs(3600));
    let held = world.acquire();
    for node in &mut world.nodes {
        node.flush();
    }
    let flushed = world.now;
    let before = world.admissions().len();

    let second = world.acquire_as(1, plain(), Duration::ZERO);
    world.pass(WINDOW - MS);
    assert!(world.refusal(second).is_some());
    assert_eq!(world.admissions().len(), before);
    world.pass(2 * MS);

    assert!(world.admissions()[before..].iter().all(|(when, _)| *when >= flushed.after(WINDOW)));
    assert_eq!(world.admissions().len(), before + 3);
    world.grant(held);
}

/// Fault 48.
#[test]
fn a_client_that_a_node_refuses_changes_nothing_on_any_node() {
    let mut world = World::admitted(2, 3);
    world.guard_for(1, &["a", "b", "c"], false, WINDOW + 100 * MS);
    world.node_forgets(0);
    let before = world.nodes[0].clone();

    world.acquire_as(1, plain(), Duration::ZERO);
    world.vouch(1, Vouch { remembers: [0, 1, 2].into(), ..Vouch::default() });
    world.pass(WINDOW * 3);
    assert_eq!(world.nodes[0].contents.ledger, before.contents.ledger);

    world.acquire();
    world.pass(WINDOW + MS);
    let lock = world.acquire();
    world.grant(lock);
    assert_eq!(world.locked(), [0, 1, 2], "its own clients have it back");
}

#[test]
fn an_operators_word_does_not_outlive_what_it_was_given_for() {
    let mut world = World::with_forgetful([0, 1]);
    world.acquire();
    world.channel(2, Mode::Lossy);
    // Too few others are seen to admit the other one by time alone.
    world.vouch(0, Vouch { remembers: [0].into(), ..Vouch::default() });
    world.pass(2 * LOOK);
    let before = world.admissions().len();

    world.node_forgets(0);
    world.pass(WINDOW - 2 * LOOK);

    assert_eq!(world.admissions().len(), before);
}

#[test]
fn an_operators_word_for_a_node_that_is_not_seen_is_void() {
    let mut world = World::admitted(1, 3);
    world.channel(0, Mode::Down);
    world.vouch(0, Vouch { remembers: [0].into(), ..Vouch::default() });
    let before = world.admissions().len();

    world.node_forgets(0);
    world.channel(0, Mode::Open);
    world.acquire();
    world.pass(WINDOW - MS);

    assert_eq!(world.admissions().len(), before);
}

#[test]
fn a_node_that_was_taken_from_others_waits_however_long_it_has_been_up() {
    let mut world = World::admitted(2, 3);
    world.pass(Duration::from_secs(3600));
    world.guard(1, &["a", "b", "c", "d"], false);
    let taken = world.now;

    world.vouch(1, Vouch { replace: [0].into(), ..Vouch::default() });
    world.pass(WINDOW * 2);

    assert_eq!(world.admissions().last(), Some(&(taken.after(WINDOW), 0)));
}

#[test]
fn an_answer_to_an_earlier_look_is_not_one_to_this() {
    let mut world = World::admitted(1, 3);
    world.channel(0, Mode::Held);
    let patient = || Vouch { patient: true, ..Vouch::default() };
    world.vouch(0, patient());
    world.carry_out_one(0, 0); // it says that it is admitted, but nobody hears it yet
    world.pass(Duration::from_secs(1));
    world.node_forgets(0);

    let look = world.vouch(0, patient());
    world.answer_one(0, 0);
    assert_eq!(world.may_vote(look), None, "it has not answered this one");
    world.channel(0, Mode::Open);

    assert_eq!(world.may_vote(look), Some(vec![1, 2]));
}

#[test]
fn a_machine_that_only_watches_is_idle() {
    let mut world = World::guarded(1, 3, true);

    world.look(0);

    assert!(world.is_idle());
}
