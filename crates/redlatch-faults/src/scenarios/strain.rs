//! Clients under strain: busy machines, blocked runtimes, nodes that are sick.

use super::row;
use crate::scenario::Row;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(44, "a client's wall clock steps forward while a node is quarantined").tests(&["admitting::a_wall_clock_that_steps_forward_does_not_open_the_guard"]),
        row(45, "threads pre-empted between clock reads").tests(&[
            "clock::tests::fault_45_threads_that_are_pre_empted_do_not_make_leases_shorter",
            "clock::skips::tests::a_thread_that_is_away_between_two_readings_counts_for_nothing",
            "clock::skips::tests::a_thread_that_is_away_at_every_reading_counts_for_nothing",
            "clock::skips::tests::a_reading_from_before_a_jump_does_not_make_it_count_again",
            "clock::skips::tests::a_distance_that_jitters_does_not_add_up",
            "clock::skips::tests::a_wall_clock_that_is_slewed_up_and_down_for_hours_does_not_add_up",
            "clock::skips::tests::a_freeze_after_a_step_back_is_counted",
        ]),
        row(51, "runtime blocked while it holds many leases").tests(&[
            "fault_51_all_leases_of_a_blocked_runtime_are_renewed_over_one_connection_to_each_node",
            "the_keeper_closes_its_connections_when_the_runtime_is_awake_again",
            "the_keeper_renews_the_lease_of_a_blocked_runtime_no_longer_than_max_hold",
        ]),
        row(52, "100 clients see a node's window end together; registers full").tests(&["fault_52_a_hundred_clients_that_see_a_window_end_ask_for_little"]),
        row(53, "half a reply, trickled; NOSCRIPT to everything").tests(&[
            "fault_53_half_a_reply_that_trickles_in_does_not_keep_the_engine_from_the_others",
            "fault_53_a_script_that_the_server_says_it_has_not_is_sent_in_full_once",
            "node::redis::resp::tests::a_reply_is_the_same_wherever_it_is_cut",
            "node::redis::resp::tests::what_was_read_of_a_reply_is_not_read_again",
        ]),
    ]
}
