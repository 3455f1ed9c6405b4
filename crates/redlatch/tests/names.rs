//! One server, reached by different addresses: clients agree by names, and one
//! whose names are others is told what to write. On real servers, behind a port
//! forward each.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use redlatch::{
    Builder, ConnectError, Locks, NodeStanding, NodesError, ReplaceError, RestartGuard, Standing,
    Votes,
};
use redlatch_testbed::{Proxy, Server};
use std::{sync::Arc, time::Duration};
use support::{Fleet, MS, NAME, SEC, held, in_time, no_majority, until_all_vote, vouch};

/// Three servers that production reaches by their own addresses, and a laptop by
/// ports of its own that are forwarded to them.
struct Site {
    fleet: Fleet,
    forwards: Vec<Proxy>,
}

impl Site {
    /// Nobody has used the servers.
    fn new() -> Self {
        let fleet = Fleet::of(3);
        let forwards = fleet.servers.iter().map(|server| Proxy::to(server).unwrap()).collect();
        Site { fleet, forwards }
    }

    /// The servers vote for production.
    async fn in_production() -> Self {
        let site = Site::new();
        vouch(&guarded(site.addresses())).await;
        site
    }

    fn addresses(&self) -> Vec<String> {
        self.fleet.servers.urls()
    }

    fn forwarded(&self) -> Vec<String> {
        self.forwards.iter().map(Proxy::url).collect()
    }

    /// All that the servers keep of the restart guard.
    fn kept(&self) -> Vec<String> {
        let kept = |server: &Server| {
            let kept = server.run(&["HMGET", "redlatch:node", "admitted", "agreement", "watched"]);
            format!("{kept:?}")
        };
        self.fleet.servers.iter().map(kept).collect()
    }
}

/// A server that forgets is quarantined for longer than a test lasts.
fn guarded(nodes: impl IntoIterator<Item = String>) -> Builder {
    let builder = Locks::builder().nodes(nodes).max_ttl(60 * SEC).ttl(30 * SEC);
    builder.restart_guard(RestartGuard::On).node_timeout(3 * SEC).wait(Duration::ZERO)
}

fn named(addresses: &[String], names: [&str; 3]) -> Vec<String> {
    addresses.iter().zip(names).map(|(url, name)| format!("{url}?name={name}")).collect()
}

fn is_admitted(node: &NodeStanding) -> bool {
    node.standing == Standing::Admitted
}

#[track_caller]
fn disagree(result: Result<Locks, ConnectError>) -> Votes {
    match result {
        Err(ConnectError::Disagree(votes)) => votes,
        other => panic!("expected another list to be refused, got {other:?}"),
    }
}

#[tokio::test]
async fn clients_that_reach_the_servers_by_different_addresses_agree_by_name() {
    let site = Site::new();
    let names = ["a", "b", "c"];
    let production = guarded(named(&site.addresses(), names));
    vouch(&production).await;
    let production = production.connect().await.unwrap();
    let laptop = guarded(named(&site.forwarded(), names)).connect().await.unwrap();

    let guard = laptop.lock(NAME).await.unwrap();
    let votes = held(production.lock(NAME).await);

    // Two refusals decide: the third node is not waited for.
    let shown = votes.to_string();
    let servers = names.iter().zip(site.addresses());
    let held = servers.filter(|(name, url)| shown.contains(&format!("{name} ({url}): held")));
    assert!(held.count() >= 2, "{shown}");
    guard.release().await.unwrap();
    let _guard = production.lock(NAME).wait(SEC).await.unwrap();
}

/// The first whole contact of a laptop with production: nothing changes there,
/// and following the advice makes the two agree.
#[tokio::test]
async fn a_client_with_other_addresses_is_told_what_to_write_and_then_agrees() {
    let site = Site::in_production().await;
    let kept = site.kept();

    let votes = disagree(guarded(site.forwarded()).connect().await);

    assert_eq!(site.kept(), kept, "it changed something");
    let (is, address) = (&site.addresses()[0], &site.forwarded()[0]);
    let advice = format!(
        "this server is admitted as {is}; if {address} leads to it, write {address}?name={is}"
    );
    assert!(votes.to_string().contains(&advice), "{votes}");
    let written = votes.iter().map(|node| node.other_name().unwrap().url());
    let laptop = guarded(written).connect().await.unwrap();
    laptop.lock(NAME).await.unwrap().release().await.unwrap();
    assert_eq!(site.kept(), kept);
}

#[tokio::test]
async fn a_client_without_the_guard_is_told_what_to_write_as_well() {
    let site = Site::in_production().await;
    let off = |nodes| guarded(nodes).restart_guard(RestartGuard::Off);

    let votes = disagree(off(site.forwarded()).connect().await);

    let written: Vec<_> = votes.iter().map(|node| node.other_name().unwrap().url()).collect();
    let laptop = off(written).connect().await.unwrap();
    laptop.lock(NAME).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_node_that_only_others_lists_name_is_told_no_other_name() {
    let site = Site::in_production().await;

    let votes = disagree(guarded(site.addresses()[..2].to_vec()).connect().await);

    assert!(votes.iter().all(|node| node.other_name().is_none()), "{votes}");
    assert!(!votes.to_string().contains("?name="), "{votes}");
}

/// A laptop that came before production did: production learns by which names
/// its servers are known, and takes them back while the laptop is at work.
#[tokio::test]
async fn servers_that_a_laptop_claimed_are_taken_back_while_it_is_at_work() {
    let site = Site::new();
    let short = |nodes| guarded(nodes).max_ttl(3 * SEC).ttl(3 * SEC).skew(500 * MS);
    let short = |nodes| short(nodes).node_timeout(SEC);
    let laptop = short(site.forwarded()).connect().await.unwrap();
    until_all_vote(&laptop).await;
    let production = short(site.addresses());
    let votes = disagree(production.clone().connect().await);
    let claimed = format!("this server is admitted as {}", site.forwarded()[0]);
    assert!(votes.to_string().contains(&claimed), "{votes}");

    let observer = production.observer().unwrap();
    observer.may_replace().await.unwrap();
    let names: Vec<Arc<str>> = observer.nodes().map(Arc::from).collect();
    for name in &names {
        observer.replace(std::slice::from_ref(name)).await.unwrap();
        let back = |nodes: &[NodeStanding]| nodes.iter().any(|n| n.node == *name && is_admitted(n));
        in_time(observer.watch(back)).await.unwrap();
    }

    until_all_vote(&production.connect().await.unwrap()).await;
    no_majority(laptop.lock(NAME).await);
}

#[tokio::test]
async fn lists_that_share_two_of_three_servers_do_not_follow_each_other_whatever_they_are_called() {
    let site = Site::new();
    let another = Server::start().unwrap();
    let nodes = [site.addresses()[..2].to_vec(), vec![another.url()]].concat();
    vouch(&guarded(named(&nodes, ["a", "b", "c"]))).await;

    let ours = guarded(named(&site.addresses(), ["x", "y", "z"])).observer().unwrap();
    let refused = ours.may_replace().await.unwrap_err();

    assert!(matches!(refused, ReplaceError::TooDifferent { .. }), "{refused}");
}

#[tokio::test]
async fn each_node_has_a_name_and_an_address_of_its_own() {
    let refused = |nodes: [&str; 2]| Locks::builder().nodes(nodes).observer().unwrap_err();

    let error = refused(["redis://x?name=a", "redis://y?name=a"]);
    assert!(matches!(&error, NodesError::SameName { .. }), "{error}");
    let words = "redis://x:6379 and redis://y:6379 have the same name, a; give each node a \
                 different name";
    assert_eq!(error.to_string(), words);
    let error = refused(["redis://x?name=redis://y:6379", "redis://y"]);
    assert!(matches!(&error, NodesError::SameName { .. }), "{error}");
    let error = refused(["redis://x?name=a", "redis://x?name=b"]);
    assert!(matches!(&error, NodesError::Twice(_)), "{error}");
}

#[tokio::test]
async fn one_server_under_two_names_is_shown_with_both_addresses() {
    let site = Site::new();
    let nodes = [site.addresses()[0].clone(), site.forwarded()[0].clone()];

    let error = guarded(named(&nodes, ["a", "b", "c"])).connect().await.unwrap_err();

    let words = format!("a ({}) and b ({}) are the same server", nodes[0], nodes[1]);
    assert!(error.to_string().starts_with(&words), "{error}");
}
