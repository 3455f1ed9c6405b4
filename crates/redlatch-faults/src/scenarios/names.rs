//! What is refused, or made safe, when connecting: rows 13, 14, 33, 34, 39, 41, 47
//! to 49.

use super::row;
use crate::{
    orders::Habits,
    scenario::{Row, Scale, Shown},
    vouch::vouch,
};
use redlatch::ConnectError;
use redlatch_testbed::Servers;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(48, "client with other times or list, while a node comes back").tests(&[
            "fault_48_a_client_with_other_settings_takes_no_server_from_the_others",
            "admitting::a_client_that_a_node_refuses_changes_nothing_on_any_node",
        ]),
        row(13, "two URLs, one server; a cluster, a load balancer behind a URL").tests(&[
            "one_address_twice_is_refused_whatever_else_differs",
            "two_addresses_of_one_server_are_refused_with_both_names",
            "two_databases_of_one_server_are_refused",
            "a_cluster_is_refused_with_the_reason",
            "fault_13_an_address_that_leads_to_several_servers_in_turn_is_refused",
            "node::redis::connect::tests::a_name_that_leads_to_several_servers_is_not_a_node",
            "an_operator_admits_no_server_that_has_two_names_in_the_list",
        ]),
        row(14, "clients with different node lists")
            .script("3 nodes against 5", three_against_five)
            .tests(&[
                "fault_14_clients_with_another_list_of_nodes_are_refused_and_shown_both",
                "fault_14_a_client_that_counts_one_of_three_nodes_is_refused_though_it_has_no_guard",
                "a_node_is_taken_from_the_clients_of_another_list_only_after_their_locks_are_over",
            ]),
        row(33, "ACL denies a command or a key").tests(&[
            "a_permission_that_is_missing_is_named_when_connecting",
            "a_command_that_was_renamed_is_named_when_connecting",
            "a_key_that_the_user_may_not_touch_is_no_vote_and_says_so",
            "the_permissions_that_are_recommended_are_enough",
        ]),
        row(34, "wrong type at lock, fence or marker key").tests(&[
            "a_key_of_another_type_is_held_and_left_alone",
            "a_hash_of_another_type_is_no_vote_and_leaves_no_key",
            "f17_a_lock_that_another_library_keeps_in_a_hash_is_held_not_broken",
            "f17_a_key_that_became_a_hash_is_no_longer_ours_and_is_left_alone",
        ]),
        row(39, "names: 64 KiB, NUL, braces, %, newline, not UTF-8, empty").tests(&[
            "names_may_hold_any_bytes",
            "names_that_are_empty_or_too_long_are_refused",
            "resource::tests::names_are_bounded_and_otherwise_any_bytes",
            "resource::tests::a_name_is_escaped_where_it_is_shown",
        ]),
        row(41, "wrong CA, wrong host, expired certificate").tests(&[
            "tls_of_a_wrong_authority_a_wrong_host_or_an_old_certificate_is_refused",
            "tls_with_the_right_certificate_works",
            "plain_text_to_a_tls_port_is_refused_or_unreachable_but_never_trusted",
        ]),
        row(47, "client that names a minority of the nodes, slow network").tests(&[
            "fault_47_a_client_of_one_node_of_three_is_refused_over_a_slow_network",
            "fault_47_a_client_of_one_node_gets_no_more_votes_once_others_count_three",
            "fault_47_a_lease_of_one_node_is_not_extended_once_others_count_three",
            "fault_47_what_was_agreed_counts_though_the_marker_is_gone",
            "fault_47_a_node_that_others_only_watch_so_far_casts_no_vote",
        ]),
        row(49, "one node unfit: password changed, eviction on, certificate expired, now a replica").tests(&[
            "fault_49_a_password_that_was_changed_on_one_of_three_nodes_is_one_vote_less",
            "fault_49_one_of_three_nodes_that_may_evict_keys_is_one_vote_less",
            "fault_49_one_of_three_nodes_that_became_a_replica_is_one_vote_less",
            "fault_49_one_of_three_nodes_with_an_expired_certificate_is_one_vote_less",
            "fault_49_two_unfit_nodes_of_three_are_refused_and_each_is_named",
        ]),
    ]
}

/// A client with another list of nodes is refused and shown both lists.
fn three_against_five(_: Scale) -> anyhow::Result<Shown> {
    let servers = Servers::start(5)?;
    let urls = servers.urls();
    let builder = Habits::default().builder(&urls[..3]);
    vouch(&builder)?;
    let three = builder.connect_blocking()?;
    let guard = three.lock("stock").acquire()?;
    match Habits::default().builder(&urls).connect_blocking() {
        Err(ConnectError::Disagree(votes)) => {
            let text = votes.to_string();
            let shown = urls.iter().all(|url| text.contains(url.trim_start_matches("redis://")));
            anyhow::ensure!(shown, "not all nodes are named: {text}");
        }
        Ok(_) => anyhow::bail!("a client with five nodes was let in"),
        Err(error) => anyhow::bail!("refused for another reason: {error}"),
    }
    anyhow::ensure!(guard.is_held(), "the lock of the other client was lost");
    guard.release()?;
    Ok(Shown { injected: 1, acquisitions: 1, note: "refused, both lists shown".into() })
}
