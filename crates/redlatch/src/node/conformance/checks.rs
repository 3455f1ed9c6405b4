//! All checks. The name of each is a sentence that is true for a node.

use super::{
    fencing, guard, links, locking,
    site::{Outcome, Site},
};
use std::pin::Pin;

pub(super) type Check = for<'a> fn(&'a Site<'a>) -> Running<'a>;
type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

macro_rules! all {
    ($($group:ident: $($name:ident)*;)*) => {
        /// All checks by name.
        pub(super) const ALL: &[(&str, Check)] = &[
            $($((stringify!($name), |site| Box::pin($group::$name(site))),)*)*
        ];
    };
}

all! {
    locking:
    a_free_lock_is_granted_and_then_held
    a_take_by_the_same_token_is_held_too
    a_refusal_tells_the_truth_about_the_holder
    one_of_many_takes_at_once_is_granted
    only_its_token_releases_a_lock
    a_lock_is_released_once
    only_its_token_extends_a_lock
    an_extension_lengthens
    an_extension_never_shortens
    an_extension_never_recreates_what_is_gone
    a_lock_expires_but_not_early
    an_extended_lock_outlives_its_first_ttl
    an_expired_lock_belongs_to_who_takes_it_next
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
    inspection_shows_what_the_register_of_each_lock_stands_at
    a_proposal_near_the_clock_is_the_number
    a_proposal_far_from_the_clock_is_clamped
    numbers_grow_whatever_is_proposed
    numbers_grow_though_the_last_one_is_proposed_again
    a_refused_take_moves_no_register
    several_get_one_number_above_all_theirs
    only_its_token_raises_a_register
    a_raise_reaches_at_least_its_number
    a_raise_moves_the_registers_of_all
    an_extension_brings_its_number_along
    an_extension_moves_the_registers_of_all
    a_release_keeps_the_number;
    guard:
    a_node_that_is_out_grants_no_take
    a_node_that_is_out_raises_no_register
    a_node_that_is_out_extends_the_locks_it_has
    a_lease_is_planted_also_on_a_node_that_is_out
    a_node_that_is_out_releases_all_the_same
    a_vote_without_guard_needs_no_marker
    an_admitted_node_votes
    a_node_that_is_out_keeps_its_first_mark
    no_two_marks_are_alike
    a_mark_tells_for_how_long_the_node_has_been_out
    a_watch_leaves_an_admitted_node_alone
    an_admission_needs_the_mark_that_is_there
    no_register_counts_from_below_the_floor
    a_floor_is_never_lowered
    a_node_of_others_does_not_vote
    a_watch_leaves_a_node_of_others_alone
    a_replaced_node_is_out_and_reserved
    an_examination_tells_what_a_watch_tells
    the_greatest_number_that_was_given_is_told;
}
