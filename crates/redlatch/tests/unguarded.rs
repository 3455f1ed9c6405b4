//! Clients without the restart guard beside clients that have it, on real
//! servers. The numbers are those of the table of faults.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use redlatch::{Builder, Cause, ConnectError, Locks, RestartGuard, Vote, Votes};
use redlatch_testbed::{Direction, Proxy, Server};
use std::time::Duration;
use support::{Fleet, MS, NAME, SEC, no_majority, patient, soon, vouch};

/// Clients with the guard of all servers.
fn guarded(fleet: &Fleet) -> Builder {
    Locks::builder().nodes(fleet.servers.urls()).wait(Duration::ZERO).node_timeout(3 * SEC)
}

fn cause(votes: &Votes) -> Option<Cause> {
    votes.iter().find_map(|node| match &node.vote {
        Vote::Quarantined(quarantine) => Some(quarantine.cause.clone()),
        _ => None,
    })
}

#[tokio::test]
async fn fault_47_a_client_of_one_node_of_three_is_refused_over_a_slow_network() {
    let fleet = Fleet::of(3);
    vouch(&guarded(&fleet)).await;
    let proxy = Proxy::to(&fleet.servers[0]).unwrap();
    for way in [Direction::Requests, Direction::Replies] {
        proxy.delay(way, 50 * MS);
    }

    let refused = Locks::connect([proxy.url()]).await.unwrap_err();

    assert!(matches!(&refused, ConnectError::Disagree(_)), "{refused}");
}

/// It was there first, when nothing on the server spoke against it.
#[tokio::test]
async fn fault_47_a_client_of_one_node_gets_no_more_votes_once_others_count_three() {
    let fleet = Fleet::of(3);
    let one = patient().node(fleet.servers[0].url()).connect().await.unwrap();
    one.lock("before").await.unwrap().release().await.unwrap();

    vouch(&guarded(&fleet)).await;
    tokio::time::sleep(150 * MS).await; // as long as an answer counts

    let votes = no_majority(one.lock(NAME).await);
    assert!(matches!(cause(&votes), Some(Cause::Disagrees(Some(_)))), "{votes}");
    one.settled().await;
    fleet.is_tidy_soon().await;
    let again = no_majority(one.lock(NAME).await);
    assert!(matches!(cause(&again), Some(Cause::Disagrees(Some(_)))), "{again}");
}

/// Its keys die with their TTL, and it says so in time.
#[tokio::test]
async fn fault_47_a_lease_of_one_node_is_not_extended_once_others_count_three() {
    let fleet = Fleet::of(3);
    let one = patient().node(fleet.servers[0].url()).connect().await.unwrap();
    let guard = one.lock(NAME).await.unwrap();

    vouch(&guarded(&fleet)).await;
    tokio::time::sleep(150 * MS).await;

    assert!(guard.extend().await.is_err());
}

#[tokio::test]
async fn fault_47_what_was_agreed_counts_though_the_marker_is_gone() {
    let fleet = Fleet::of(3);
    vouch(&guarded(&fleet)).await;
    fleet.servers[0].run(&["HSET", "redlatch:node", "admitted", ""]);

    let refused = Locks::connect([fleet.servers[0].url()]).await.unwrap_err();

    assert!(matches!(&refused, ConnectError::Disagree(_)), "{refused}");
}

#[tokio::test]
async fn fault_47_a_node_that_others_only_watch_so_far_casts_no_vote() {
    let fleet = Fleet::of(3);
    let early = patient().node(fleet.servers[0].url()).connect().await.unwrap();
    let _watching = guarded(&fleet).connect().await.unwrap();
    soon("the node is watched", || {
        let watched = fleet.servers[0].run(&["HGET", "redlatch:node", "watched"]).text();
        watched.is_some_and(|text| !text.is_empty())
    })
    .await;

    let refused = Locks::connect([fleet.servers[0].url()]).await.unwrap_err();

    assert!(matches!(&refused, ConnectError::Disagree(_)), "{refused}");
    tokio::time::sleep(150 * MS).await;
    let votes = no_majority(early.lock(NAME).await);
    assert_eq!(cause(&votes), Some(Cause::Watched), "{votes}");
}

#[tokio::test]
async fn a_client_without_the_guard_that_counts_the_same_nodes_votes() {
    let fleet = Fleet::of(3);
    vouch(&guarded(&fleet)).await;

    let off = guarded(&fleet).restart_guard(RestartGuard::Off).connect().await.unwrap();

    off.lock(NAME).await.unwrap().release().await.unwrap();
    tokio::time::sleep(150 * MS).await;
    assert!(off.lock(NAME).await.is_ok());
}

#[tokio::test]
async fn a_node_that_does_not_tell_what_others_count_casts_no_vote() {
    let may_not_look = "+@all ~lock:*";
    let fleet = Fleet::with(1, &Server::options().user("worker", "sesame", may_not_look));
    let url = fleet.servers[0].url_as("worker", "sesame");

    let refused = patient().fencing(false).node(url).connect().await.unwrap_err();

    assert!(matches!(&refused, ConnectError::Unfit(_)), "{refused}");
    assert!(refused.to_string().contains("NOPERM"), "{refused}");
}
