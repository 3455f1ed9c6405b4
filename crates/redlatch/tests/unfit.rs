//! One node of three that cannot vote: new clients go on with the majority, and
//! learn why. The numbers are those of the table of faults.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use redlatch::{ConnectError, NodeKey};
use redlatch_testbed::{Certificates, Server};
use std::future::Future;
use support::{Fleet, NAME, in_time, log::Log, patient};

/// What a new client of three nodes, which gets its lock, learns about the third.
async fn told(urls: impl IntoIterator<Item = String>) -> NodeKey {
    let locks = in_time(patient().nodes(urls).connect()).await.expect("two nodes suffice");
    let guard = in_time(locks.lock(NAME).into_future()).await.expect("two nodes suffice");
    let status = in_time(locks.status(NAME)).await.unwrap();
    assert!(guard.is_held());
    status.nodes[2].key.clone()
}

fn is_third_unfit(told: &NodeKey, reason: &str) {
    let NodeKey::Failed(fault) = told else { panic!("{told:?}") };
    assert!(fault.to_string().contains(reason), "{fault}");
}

/// Three nodes, of which something becomes of the third.
async fn after<F: Future>(change: impl FnOnce(Server) -> F) -> (NodeKey, F::Output) {
    let fleet = Fleet::of(2);
    let third = Server::start().unwrap();
    let urls = fleet.servers.urls().into_iter().chain([third.url()]);
    let urls: Vec<String> = urls.collect();
    let changed = change(third).await;
    (told(urls).await, changed)
}

#[tokio::test]
async fn fault_49_a_password_that_was_changed_on_one_of_three_nodes_is_one_vote_less() {
    let (third_key, _third) = after(async |third: Server| {
        third.run(&["CONFIG", "SET", "requirepass", "another"]);
        third
    })
    .await;

    is_third_unfit(&third_key, "wants a password");
}

#[tokio::test]
async fn fault_49_one_of_three_nodes_that_may_evict_keys_is_one_vote_less() {
    let (third_key, _third) = after(async |third: Server| {
        third.run(&["CONFIG", "SET", "maxmemory", "100mb"]);
        third.run(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        third
    })
    .await;

    is_third_unfit(&third_key, "maxmemory-policy allkeys-lru");
}

#[tokio::test]
async fn fault_49_one_of_three_nodes_that_became_a_replica_is_one_vote_less() {
    let master = Server::start().unwrap();
    let (third_key, _third) = after(async |third: Server| {
        third.run(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
        third
    })
    .await;

    is_third_unfit(&third_key, "replica");
}

#[tokio::test]
async fn fault_49_one_of_three_nodes_with_an_expired_certificate_is_one_vote_less() {
    let fleet = Fleet::of(2);
    let third = Server::options().tls(Certificates::expired()).start().unwrap();
    let url = format!("{}?ca={}", third.tls_url(), third.dir().join("ca.pem").display());

    let third_key = told(fleet.servers.urls().into_iter().chain([url])).await;

    is_third_unfit(&third_key, "certificate");
}

/// Alone in the process that nextest gives it.
#[tokio::test]
async fn fault_49_a_warning_names_the_node_that_cannot_vote_and_why() {
    let log = Log::everything();
    let (_, third) = after(async |third: Server| {
        third.run(&["CONFIG", "SET", "requirepass", "another"]);
        third
    })
    .await;

    let text = log.text();
    // Under `cargo test` others write into the same log.
    let is_ours = |line: &&str| line.contains("node is down") && line.contains(&third.url());
    let warning = text.lines().find(is_ours).unwrap_or_else(|| panic!("{text}"));
    assert!(warning.starts_with("WARN") && warning.contains("wants a password"), "{warning}");
}

#[tokio::test]
async fn fault_49_two_unfit_nodes_of_three_are_refused_and_each_is_named() {
    let fleet = Fleet::of(3);
    fleet.servers[0].run(&["CONFIG", "SET", "requirepass", "another"]);
    fleet.servers[2].run(&["REPLICAOF", "127.0.0.1", &fleet.servers[1].port().to_string()]);

    let refused = in_time(fleet.builder().connect()).await.unwrap_err();

    assert!(matches!(&refused, ConnectError::Unfit(_)), "{refused}");
    let text = refused.to_string();
    for words in [&fleet.servers[0].url(), "wants a password", &fleet.servers[2].url(), "replica"] {
        assert!(text.contains(words), "{text}");
    }
}
