//! Clients under strain: busy machines, blocked runtimes, nodes that are sick.

use super::{row, tests};
use crate::scenario::Row;

pub(crate) fn rows() -> Vec<Row> {
    vec![row(
        45,
        "threads pre-empted between clock reads",
        vec![tests(&[
            "clock::tests::fault_45_threads_that_are_pre_empted_do_not_make_leases_shorter",
            "clock::skips::tests::a_thread_that_is_away_between_two_readings_counts_for_nothing",
            "clock::skips::tests::a_thread_that_is_away_at_every_reading_counts_for_nothing",
            "clock::skips::tests::a_reading_from_before_a_jump_does_not_make_it_count_again",
            "clock::skips::tests::a_distance_that_jitters_does_not_add_up",
            "clock::skips::tests::a_wall_clock_that_is_slewed_up_and_down_for_hours_does_not_add_up",
            "clock::skips::tests::a_freeze_after_a_step_back_is_counted",
        ])],
    )]
}
