//! All checks. The name of each is a sentence that is true of a conforming node.

use super::{
    fencing, links, locking, restart_guard, serving,
    site::{Outcome, Site},
    waiting,
};
use std::pin::Pin;

pub(super) type Check = for<'a> fn(&'a Site<'a>) -> Running<'a>;
type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

macro_rules! checks {
    ($(#[$doc:meta])* $set:ident = $($group:ident: $($name:ident)*;)*) => {
        $(#[$doc])*
        pub(super) const $set: &[(&str, Check)] = &[
            $($((stringify!($name), |site| Box::pin($group::$name(site))),)*)*
        ];
    };
}

checks! {
    /// The checks that every node passes, by name.
    BASIC =
    locking:
    a_free_lock_is_granted_and_then_held
    a_take_by_the_same_token_is_held_too
    a_refusal_is_right_about_the_holder
    one_of_many_takes_at_once_is_granted
    only_its_token_releases_a_lock
    a_lock_is_released_once
    only_its_token_extends_a_lock
    an_extension_lengthens
    an_extension_never_shortens
    an_extension_never_recreates_what_is_gone
    a_lock_expires_but_not_early
    an_extended_lock_outlives_its_first_ttl
    an_expired_lock_belongs_to_the_next_taker
    several_are_taken_all_or_nothing
    several_are_released_each_for_itself
    several_are_extended_all_or_nothing
    the_most_and_longest_names_are_taken_together
    names_are_any_bytes_and_all_different
    values_are_any_bytes
    inspection_shows_value_and_time_in_order;
    links:
    commands_sent_at_once_are_carried_out_in_order
    every_command_is_answered_once
    links_see_each_other
    all_links_name_the_same_run
    a_dropped_link_does_no_harm;
    fencing:
    inspection_shows_the_register_of_each_lock
    a_proposal_near_the_clock_is_the_number
    a_proposal_far_from_the_clock_is_clamped
    a_proposal_is_no_further_ahead_than_the_skew
    numbers_grow_whatever_is_proposed
    numbers_grow_though_the_last_one_is_proposed_again
    a_refused_take_moves_no_register
    several_get_one_number_above_all_theirs
    only_its_token_raises_a_register
    a_raise_reaches_at_least_its_number
    a_raise_moves_the_registers_of_all
    a_raise_answers_the_greatest_of_all_registers
    several_are_raised_all_or_nothing
    an_extension_carries_its_number
    an_extension_moves_the_registers_of_all
    a_release_keeps_the_number;
    restart_guard:
    a_quarantined_node_grants_no_take
    a_quarantined_node_raises_no_register
    a_quarantined_node_extends_the_locks_it_has
    a_lease_is_planted_also_on_a_quarantined_node
    a_quarantined_node_still_releases
    a_vote_without_guard_needs_no_marker
    an_admitted_node_votes
    a_quarantined_node_keeps_its_first_mark
    no_two_marks_are_alike
    a_mark_says_how_long_the_node_has_been_quarantined
    a_watch_leaves_an_admitted_node_alone
    an_admission_needs_the_mark_that_is_there
    no_register_counts_from_below_the_floor
    a_floor_is_never_lowered
    a_node_of_others_does_not_vote
    a_watch_leaves_a_node_of_others_alone
    a_replaced_node_is_quarantined_and_reserved
    an_examination_reports_what_a_watch_reports
    the_ledger_is_reported_as_kept
    the_greatest_number_that_was_given_is_reported
    a_node_that_holds_a_lock_is_not_empty;
}

checks! {
    /// The checks that nodes with lines pass.
    WITH_LINES =
    waiting:
    a_refused_take_joins_the_line
    a_take_without_ticket_joins_no_line
    earlier_arrivals_are_ahead
    a_waiter_is_in_a_line_once
    a_client_that_leaves_is_no_longer_in_line
    a_grant_ends_a_place_that_is_known
    a_take_of_several_joins_the_line_for_the_first_held
    a_ticket_far_from_the_clock_is_brought_near
    waiters_are_reported_in_order
    a_list_counts_the_waiters
    a_reservation_says_for_whom_it_is;
    serving:
    a_release_reserves_the_lock_for_the_first_and_wakes_it
    nobody_else_takes_what_is_reserved
    what_is_reserved_lapses
    an_earlier_ticket_takes_what_is_reserved_for_a_later_one
    a_release_that_waits_is_in_line_before_the_next_is_served
    only_the_holder_of_a_lock_can_wait_by_releasing_it
    a_release_that_passes_on_reserves_no_matter_who_waits
    a_client_that_leaves_passes_on_what_is_reserved
    a_lease_is_planted_on_what_is_reserved_for_its_ticket
    each_lock_has_a_line_of_its_own
    a_lock_for_which_nobody_waits_is_free_after_its_release
    a_release_of_what_is_not_ours_serves_nobody
    clients_that_are_gone_are_passed_over;
}

checks! {
    /// The checks that nodes without lines pass.
    WITHOUT_LINES =
    waiting:
    tickets_change_nothing;
}
