//! Servers that begin to evict keys while clients are connected: `volatile-lru`
//! throws away the locks, which expire, and keeps the marker, which does not.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use redlatch::{Builder, Guard, LockError, Locks, RestartGuard, Vote, Votes};
use redlatch_testbed::Server;
use std::time::{Duration, Instant};
use support::{Fleet, LIMIT, MS, NAME, SEC, in_time, no_majority, soon, vouch};

/// How old a client's last look at a server may be when it votes.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How old what it knows of the server's settings may be.
const LOOK_CLOSELY: Duration = Duration::from_secs(1);
/// `max_ttl` and `skew`: how long a server that forgot is quarantined.
const WINDOW: Duration = Duration::from_secs(3);

fn guarded(urls: impl IntoIterator<Item = String>) -> Builder {
    let builder = Locks::builder().nodes(urls).max_ttl(2 * SEC).skew(SEC);
    builder.ttl(2 * SEC).node_timeout(500 * MS).wait(Duration::ZERO)
}

fn limit(server: &Server, memory: &str, policy: &str) {
    server.run(&["CONFIG", "SET", "maxmemory-policy", policy]);
    server.run(&["CONFIG", "SET", "maxmemory", memory]);
}

/// Every key that expires is thrown away, by all servers. When this returns, the
/// settings are as before, and no look at a server is recent enough.
async fn evict(fleet: &Fleet) {
    for server in &fleet.servers {
        let evicted = || server.info("evicted_keys").unwrap() != "0";
        server.run(&["SET", "something", "that expires", "EX", "60"]);
        limit(server, "1kb", "volatile-lru");
        soon("it has evicted keys", || {
            server.run(&["SET", "more", "than there is room for"]);
            evicted() && server.keys().is_empty()
        })
        .await;
        limit(server, "0", "noeviction");
    }
    tokio::time::sleep(2 * LOOK_AGAIN).await;
}

/// Locks and unlocks once, so that there are connections that have voted.
async fn warm_up(locks: &Locks, name: &str) {
    locks.lock(name).wait(LIMIT).await.unwrap().release().await.unwrap();
}

/// The first attempt that says more than that connections ended, because what
/// an attempt before it was told made the client leave them.
async fn next(locks: &Locks) -> Result<Guard, LockError> {
    let lost = |error: &LockError| error.to_string().contains("connection lost");
    loop {
        let result = locks.lock(NAME).await;
        if !result.as_ref().is_err_and(lost) {
            return result;
        }
    }
}

fn count(votes: &Votes, is_so: impl Fn(&Vote) -> bool) -> usize {
    votes.iter().filter(|vote| is_so(&vote.vote)).count()
}

#[tokio::test]
async fn a_server_that_begins_to_evict_gives_connected_clients_no_more_votes() {
    for guard in [RestartGuard::On, RestartGuard::Off] {
        let fleet = Fleet::mixed();
        let builder = guarded(fleet.servers.urls()).restart_guard(guard);
        if guard == RestartGuard::On {
            vouch(&builder).await;
        }
        let locks = builder.connect().await.unwrap();
        warm_up(&locks, NAME).await;

        fleet.servers.iter().for_each(|server| limit(server, "100mb", "volatile-lru"));
        tokio::time::sleep(LOOK_CLOSELY + LOOK_AGAIN).await;

        for _ in 0..2 {
            let votes = no_majority(locks.lock(NAME).await);
            assert!(count(&votes, |vote| matches!(vote, Vote::Failed(_))) >= 2, "{votes}");
            assert!(votes.to_string().contains("maxmemory-policy volatile-lru"), "{votes}");
        }
    }
}

#[tokio::test]
async fn a_lease_is_lost_when_a_majority_begins_to_evict() {
    let fleet = Fleet::of(3);
    let builder = guarded(fleet.servers.urls());
    vouch(&builder).await;
    let locks = builder.connect().await.unwrap();
    let guard = locks.lock(NAME).await.unwrap();

    for server in &fleet.servers.iter().as_slice()[..2] {
        limit(server, "100mb", "volatile-lru");
    }

    in_time(guard.lost()).await;
}

#[tokio::test]
async fn a_lock_that_was_evicted_is_nobody_elses_before_the_window_has_passed() {
    let fleet = Fleet::mixed();
    let builder = guarded(fleet.servers.urls());
    vouch(&builder).await;
    let other = builder.clone().connect().await.unwrap();
    warm_up(&other, "another").await;
    let guard = builder.clone().connect().await.unwrap().lock(NAME).await.unwrap();

    let evicted = Instant::now();
    evict(&fleet).await;

    let fresh = builder.clone().connect().await.unwrap();
    for locks in [&other, &fresh] {
        let votes = no_majority(in_time(next(locks)).await);
        let out = count(&votes, |vote| matches!(vote, Vote::Quarantined(_)));
        assert!(out >= 2 || evicted.elapsed() >= WINDOW, "{votes}"); // or the machine is busy
    }
    let after = in_time(other.lock(NAME).wait(LIMIT).into_future()).await.unwrap();
    assert!(evicted.elapsed() + 100 * MS >= WINDOW, "after {:?}", evicted.elapsed());
    assert!(!guard.is_held() && after.is_held());
}

/// Nor does it look like several servers in turn.
#[tokio::test]
async fn a_server_whose_statistics_are_reset_after_it_evicted_is_quarantined_for_another_window() {
    let fleet = Fleet::of(3);
    let builder = guarded(fleet.servers.urls());
    vouch(&builder).await;
    let locks = builder.connect().await.unwrap();
    warm_up(&locks, NAME).await;
    evict(&fleet).await;
    warm_up(&locks, NAME).await;

    let reset = Instant::now();
    fleet.servers.iter().for_each(|server| drop(server.run(&["CONFIG", "RESETSTAT"])));
    tokio::time::sleep(2 * LOOK_AGAIN).await;

    warm_up(&locks, NAME).await;
    assert!(reset.elapsed() + 100 * MS >= WINDOW, "after {:?}", reset.elapsed());
}

#[tokio::test]
async fn a_server_that_is_allowed_to_evict_votes_on_whatever_it_evicts() {
    let fleet = Fleet::mixed();
    let urls = fleet.servers.urls().into_iter().map(|url| format!("{url}?allow_eviction=yes"));
    let builder = guarded(urls);
    vouch(&builder).await;
    let locks = builder.clone().connect().await.unwrap();
    warm_up(&locks, NAME).await;

    evict(&fleet).await;
    fleet.servers.iter().for_each(|server| limit(server, "100mb", "volatile-lru"));
    tokio::time::sleep(2 * LOOK_AGAIN).await;

    locks.lock(NAME).await.unwrap().release().await.unwrap();
    let fresh = builder.connect().await.unwrap();
    fresh.lock(NAME).await.unwrap().release().await.unwrap();
}
