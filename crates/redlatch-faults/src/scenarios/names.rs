//! What is refused, or made safe, before or when connecting: rows 13, 14, 33,
//! 34, 39 and 41.

use super::{row, tests};
use crate::scenario::Row;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(
            13,
            "two URLs, one server; a cluster behind a URL",
            vec![tests(&[
                "one_address_twice_is_refused_whatever_else_differs",
                "two_addresses_of_one_server_are_refused_with_both_names",
                "two_databases_of_one_server_are_refused",
                "a_cluster_is_refused_with_the_reason",
            ])],
        ),
        row(14, "clients with different node lists", vec![]),
        row(
            33,
            "ACL denies a command or a key",
            vec![tests(&[
                "a_permission_that_is_missing_is_named_when_connecting",
                "a_key_that_the_user_may_not_touch_is_no_vote_and_says_so",
                "the_permissions_that_are_recommended_are_enough",
            ])],
        ),
        row(
            34,
            "wrong type at lock, fence or marker key",
            vec![tests(&[
                "a_key_of_another_type_is_held_and_left_alone",
                "a_hash_of_another_type_is_no_vote_and_leaves_no_key",
                "f17_a_lock_that_another_library_keeps_in_a_hash_is_held_not_broken",
                "f17_a_key_that_became_a_hash_is_no_longer_ours_and_is_left_alone",
            ])],
        ),
        row(
            39,
            "names: 64 KiB, NUL, braces, %, newline, not UTF-8, empty",
            vec![tests(&[
                "names_may_hold_any_bytes",
                "names_that_are_empty_or_too_long_are_refused",
                "resource::tests::names_are_bounded_and_otherwise_any_bytes",
                "resource::tests::a_name_is_escaped_where_it_is_shown",
            ])],
        ),
        row(
            41,
            "wrong CA, wrong host, expired certificate",
            vec![tests(&[
                "tls_of_a_wrong_authority_a_wrong_host_or_an_old_certificate_is_refused",
                "tls_with_the_right_certificate_works",
                "plain_text_to_a_tls_port_is_refused_or_unreachable_but_never_trusted",
            ])],
        ),
    ]
}
