//! Planted bugs prove the suite: each check catches a node that breaks its sentence, and
//! passes one that does not.

mod oracle;
mod servers;
mod toy;
mod turns;

use self::toy::{Bug, Toy};
use super::{Problem, Suite, checks, party::Party, run};
use crate::node::Memory;
use redlatch_core::{Command, Facts};
use std::time::Duration;
use tokio::task::JoinSet;

/// Which check must catch which bug; other checks may catch it, too.
const CAUGHT: &[(Bug, &str)] = &[
    (Bug::GrantsAlways, "a_free_lock_is_granted_and_then_held"),
    (Bug::GrantsItsOwnTokenAgain, "a_take_by_the_same_token_is_held_too"),
    (Bug::TellsTheWrongOwner, "a_refusal_is_right_about_the_holder"),
    (Bug::TellsTheWrongTime, "a_refusal_is_right_about_the_holder"),
    (Bug::EveryLinkForItself, "one_of_many_takes_at_once_is_granted"),
    (Bug::EveryLinkForItself, "links_see_each_other"),
    (Bug::AnyoneReleases, "only_its_token_releases_a_lock"),
    (Bug::ReleasesTwice, "a_lock_is_released_once"),
    (Bug::AnyoneExtends, "only_its_token_extends_a_lock"),
    (Bug::NeverLengthens, "an_extension_lengthens"),
    (Bug::Shortens, "an_extension_never_shortens"),
    (Bug::Recreates, "an_extension_never_recreates_what_is_gone"),
    (Bug::ExpiresEarly, "a_lock_expires_but_not_early"),
    (Bug::NeverExpires, "a_lock_expires_but_not_early"),
    (Bug::ExpiresDespiteExtension, "an_extended_lock_outlives_its_first_ttl"),
    (Bug::ReleasesTheExpired, "an_expired_lock_belongs_to_the_next_taker"),
    (Bug::TakesPart, "several_are_taken_all_or_nothing"),
    (Bug::ReleasesAllOrNothing, "several_are_released_each_for_itself"),
    (Bug::ExtendsPart, "several_are_extended_all_or_nothing"),
    (Bug::CutsNames, "the_most_and_longest_names_are_taken_together"),
    (Bug::IgnoresCase, "names_are_any_bytes_and_all_different"),
    (Bug::NamesEndAtNul, "names_are_any_bytes_and_all_different"),
    (Bug::CutsValues, "values_are_any_bytes"),
    (Bug::InspectsSorted, "inspection_shows_value_and_time_in_order"),
    (Bug::InspectsWithoutNumbers, "inspection_shows_the_register_of_each_lock"),
    (Bug::AnswersInReverse, "commands_sent_at_once_are_carried_out_in_order"),
    (Bug::CarriesOutInReverse, "commands_sent_at_once_are_carried_out_in_order"),
    (Bug::AnswersTwice, "every_command_is_answered_once"),
    (Bug::SwallowsSome, "every_command_is_answered_once"),
    (Bug::AnotherRunPerLink, "all_links_name_the_same_run"),
    (Bug::NoVersion, "all_links_name_the_same_run"),
    (Bug::WipesOnDrop, "a_dropped_link_does_no_harm"),
    (Bug::IgnoresProposals, "a_proposal_near_the_clock_is_the_number"),
    (Bug::BelievesProposals, "a_proposal_far_from_the_clock_is_clamped"),
    (Bug::NumbersStandStill, "numbers_grow_whatever_is_proposed"),
    (Bug::RepeatsAProposal, "numbers_grow_though_the_last_one_is_proposed_again"),
    (Bug::NumbersTheRefused, "a_refused_take_moves_no_register"),
    (Bug::MovesOneRegister, "several_get_one_number_above_all_theirs"),
    (Bug::AnyoneRaises, "only_its_token_raises_a_register"),
    (Bug::RaisesDown, "a_raise_reaches_at_least_its_number"),
    (Bug::BelievesTwiceTheSkew, "a_proposal_is_no_further_ahead_than_the_skew"),
    (Bug::RaisesOneRegister, "a_raise_answers_the_greatest_of_all_registers"),
    (Bug::RaisesPart, "several_are_raised_all_or_nothing"),
    (Bug::RaisesOneRegister, "a_raise_moves_the_registers_of_all"),
    (Bug::RaisesOneRegister, "an_extension_moves_the_registers_of_all"),
    (Bug::ExtendsWithoutNumber, "an_extension_carries_its_number"),
    (Bug::ForgetsNumbersOnRelease, "a_release_keeps_the_number"),
    (Bug::GrantsThoughQuarantined, "a_quarantined_node_grants_no_take"),
    (Bug::ComparesTooLate, "a_quarantined_node_grants_no_take"),
    (Bug::RaisesThoughQuarantined, "a_quarantined_node_raises_no_register"),
    (Bug::ComparesTooLate, "a_quarantined_node_raises_no_register"),
    (Bug::ExtendsNothingThoughQuarantined, "a_quarantined_node_extends_the_locks_it_has"),
    (Bug::AnyoneExtends, "a_quarantined_node_extends_the_locks_it_has"),
    (Bug::PlantsNothingThoughQuarantined, "a_lease_is_planted_also_on_a_quarantined_node"),
    (Bug::GrantsAlways, "a_lease_is_planted_also_on_a_quarantined_node"),
    (Bug::PlantsForEverybody, "a_node_of_others_does_not_vote"),
    (Bug::GuardsReleases, "a_quarantined_node_still_releases"),
    (Bug::GuardsTheUnguarded, "a_vote_without_guard_needs_no_marker"),
    (Bug::AdmitsInWordsOnly, "an_admitted_node_votes"),
    (Bug::MarksAnew, "a_quarantined_node_keeps_its_first_mark"),
    (Bug::MarksAlike, "no_two_marks_are_alike"),
    (Bug::MarksStayYoung, "a_mark_says_how_long_the_node_has_been_quarantined"),
    (Bug::MarksAreBornOld, "a_mark_says_how_long_the_node_has_been_quarantined"),
    (Bug::WatchTakesOut, "a_watch_leaves_an_admitted_node_alone"),
    (Bug::ReplaceTakesOut, "a_watch_leaves_an_admitted_node_alone"),
    (Bug::AdmitsByAnyMark, "an_admission_needs_the_mark_that_is_there"),
    (Bug::AdmitsByTheSameMarkAgain, "an_admission_needs_the_mark_that_is_there"),
    (Bug::RaisesThoughNotAdmitted, "an_admission_needs_the_mark_that_is_there"),
    (Bug::AdmitsWithoutFloor, "no_register_counts_from_below_the_floor"),
    (Bug::FloorIsForMovedRegisters, "no_register_counts_from_below_the_floor"),
    (Bug::AdmissionLowersTheFloor, "a_floor_is_never_lowered"),
    (Bug::VotesForEverybody, "a_node_of_others_does_not_vote"),
    (Bug::HidesTheAgreement, "a_node_of_others_does_not_vote"),
    (Bug::WatchReplaces, "a_watch_leaves_a_node_of_others_alone"),
    (Bug::NeverReplaces, "a_replaced_node_is_quarantined_and_reserved"),
    (Bug::ReservesNothing, "a_replaced_node_is_quarantined_and_reserved"),
    (Bug::ReplacesTheAgreementToo, "a_replaced_node_is_quarantined_and_reserved"),
    (Bug::StaysReserved, "a_replaced_node_is_quarantined_and_reserved"),
    (Bug::AdmitsForAnyone, "a_replaced_node_is_quarantined_and_reserved"),
    (Bug::ExaminesNoGuard, "an_examination_reports_what_a_watch_reports"),
    (Bug::TellsNoLedger, "the_ledger_is_reported_as_kept"),
    (Bug::TellsNoLocks, "a_node_that_holds_a_lock_is_not_empty"),
    (Bug::TellsNoNumbers, "the_greatest_number_that_was_given_is_reported"),
    (Bug::TellsLowerNumbers, "the_greatest_number_that_was_given_is_reported"),
    (Bug::TellsTheLastNumber, "the_greatest_number_that_was_given_is_reported"),
    (Bug::TellsNoFloor, "no_register_counts_from_below_the_floor"),
    (Bug::TellsNoFloor, "a_floor_is_never_lowered"),
    (Bug::KeepsNoLines, "a_refused_take_joins_the_line"),
    (Bug::JoinsWithoutTicket, "a_take_without_ticket_joins_no_line"),
    (Bug::ServesByJoining, "earlier_arrivals_are_ahead"),
    (Bug::JoinsTwice, "a_waiter_is_in_a_line_once"),
    (Bug::NobodyLeaves, "a_client_that_leaves_is_no_longer_in_line"),
    (Bug::GrantsKeepThePlace, "a_grant_ends_a_place_that_is_known"),
    (Bug::JoinsEveryLine, "a_take_of_several_joins_the_line_for_the_first_held"),
    (Bug::BelievesTickets, "a_ticket_far_from_the_clock_is_brought_near"),
    (Bug::TellsNobodyWaits, "waiters_are_reported_in_order"),
    (Bug::TellsTheLastFirst, "waiters_are_reported_in_order"),
    (Bug::ForgetsWhoWaits, "waiters_are_reported_in_order"),
    (Bug::NobodyLeaves, "waiters_are_reported_in_order"),
    (Bug::CountsNobody, "a_list_counts_the_waiters"),
    (Bug::ReservesNamelessly, "a_reservation_says_for_whom_it_is"),
    (Bug::WakesNobody, "a_release_reserves_the_lock_for_the_first_and_wakes_it"),
    (Bug::WakesEverybody, "a_release_reserves_the_lock_for_the_first_and_wakes_it"),
    (Bug::ReservesNoLock, "a_release_reserves_the_lock_for_the_first_and_wakes_it"),
    (Bug::ReservationsStay, "a_release_reserves_the_lock_for_the_first_and_wakes_it"),
    (Bug::AnyoneTakesTheReserved, "nobody_else_takes_what_is_reserved"),
    (Bug::ReservationsStay, "what_is_reserved_lapses"),
    (Bug::ReservationsLapseEarly, "what_is_reserved_lapses"),
    (Bug::NobodyOvertakes, "an_earlier_ticket_takes_what_is_reserved_for_a_later_one"),
    (Bug::ForgetsTheOvertaken, "an_earlier_ticket_takes_what_is_reserved_for_a_later_one"),
    (Bug::NobodyWaits, "a_release_that_waits_is_in_line_before_the_next_is_served"),
    (Bug::AnyoneWaits, "only_the_holder_of_a_lock_can_wait_by_releasing_it"),
    (Bug::PassesToTheFirst, "a_release_that_passes_on_reserves_no_matter_who_waits"),
    (Bug::WakesWhoPasses, "a_release_that_passes_on_reserves_no_matter_who_waits"),
    (Bug::KeepsWhatIsReserved, "a_client_that_leaves_passes_on_what_is_reserved"),
    (Bug::PlantsNothingReserved, "a_lease_is_planted_on_what_is_reserved_for_its_ticket"),
    (Bug::PlantsOvertake, "a_lease_is_planted_on_what_is_reserved_for_its_ticket"),
    (Bug::ServesOneLine, "each_lock_has_a_line_of_its_own"),
    (Bug::WakesForTheFirstName, "each_lock_has_a_line_of_its_own"),
    (Bug::ReservesForNobody, "a_lock_for_which_nobody_waits_is_free_after_its_release"),
    (Bug::AnyoneServes, "a_release_of_what_is_not_ours_serves_nobody"),
    (Bug::ServesTheGone, "clients_that_are_gone_are_passed_over"),
    (Bug::DropsTheUnheard, "clients_that_are_gone_are_passed_over"),
    // It keeps lines, but should not.
    (Bug::None, "tickets_change_nothing"),
];

#[tokio::test]
async fn each_check_catches_its_bug() {
    let mut proofs = JoinSet::new();
    for &(bug, name) in CAUGHT {
        proofs.spawn(async move { (bug, name, problem_of(bug, name).await) });
    }

    let missed = proofs.join_all().await.into_iter().filter(|(.., problem)| problem.is_none());
    assert_eq!(missed.collect::<Vec<_>>(), []);
}

#[test]
fn no_check_is_without_a_bug_that_it_catches() {
    let unproved = all().map(|(name, _)| *name);
    let unproved = unproved.filter(|name| !CAUGHT.iter().any(|(_, caught)| caught == name));

    assert_eq!(unproved.collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test]
async fn a_node_without_bugs_passes_and_keeps_nothing() {
    let node = Toy::with(Bug::None);

    super::check(&node).await;

    assert!(node.is_empty());
}

#[tokio::test]
async fn a_node_without_lines_passes_the_suite_for_those() {
    let node = Toy::with(Bug::KeepsNoLines);

    Suite::default().without_lines().check(&node).await;

    assert!(node.is_empty());
}

#[tokio::test]
async fn a_suite_gives_a_node_back_to_those_it_was_admitted_for() {
    let node = Memory::new("memory:in use");
    let site = super::Site::new(&node, Duration::from_secs(1));
    let (theirs, mut link) = (Party::new(), site.link());
    link.admitted(&theirs).await.unwrap();
    let before = link.facts(Command::Examine).await.unwrap();

    super::check(&node).await;

    let after = link.facts(Command::Examine).await.unwrap();
    assert_eq!(after, Facts { clock: after.clock, highest: after.highest, ..before });
}

#[tokio::test]
async fn a_suite_leaves_a_quarantined_node_to_those_it_was_reserved_for() {
    let node = Memory::new("memory:in use");
    let site = super::Site::new(&node, Duration::from_secs(1));
    let (theirs, mut link) = (Party::new(), site.link());
    let before = link.out(&theirs).await.unwrap();

    super::check(&node).await;

    let after = theirs.awaits(&link.facts(Command::Examine).await.unwrap()).unwrap();
    assert_ne!(after.id, before.id, "it was admitted since");
}

#[tokio::test]
async fn a_report_says_in_words_what_failed() {
    let node = Memory::new("memory:down");
    node.fail(true);

    let report = run(&node).await;

    let text = report.to_string();
    assert!(!report.is_passed());
    let first =
        format!("the node memory:down passes 0 of {} checks\n", Suite::default().checks().count());
    assert!(text.starts_with(&first), "{text}");
    assert!(text.contains("\n  an extension lengthens: the take of redlatch:conf"), "{text}");
    assert!(text.contains("a test made it fail"), "{text}");
}

fn all() -> impl Iterator<Item = &'static (&'static str, checks::Check)> {
    Suite::default().checks().chain(checks::WITHOUT_LINES)
}

/// What the check says about the bug. On a busy machine, a lock that expires early may be
/// looked at too late to tell, so each check gets several chances.
async fn problem_of(bug: Bug, name: &str) -> Option<Problem> {
    const CHANCES: usize = 20;
    let (_, check) = all().find(|(known, _)| *known == name).expect("a known check");
    for _ in 0..CHANCES {
        let node = Toy::with(bug);
        let site = super::Site::new(&node, Duration::from_secs(1));
        if let Err(problem) = check(&site).await {
            return Some(problem);
        }
    }
    None
}
