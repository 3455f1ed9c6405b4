//! Fencing tokens on real servers: they grow, and no two grants share one.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use redlatch::{FencingToken, LockError, Locks};
use redlatch_core::{Resources, fence};
use redlatch_testbed::{Direction, Proxy};
use std::collections::BTreeSet;
use support::{Fleet, MS, NAME, SEC};

/// Where the register of the lock stands on that server; 0 if it never moved.
fn register(fleet: &Fleet, node: usize) -> u64 {
    let field = fence::registers(&Resources::new([NAME]).unwrap())[0].to_string();
    let text = fleet.servers[node].run(&["HGET", "redlatch:node", &field]).text();
    text.map_or(0, |text| text.parse().unwrap())
}

fn set_register(fleet: &Fleet, node: usize, number: u64) {
    let field = fence::registers(&Resources::new([NAME]).unwrap())[0].to_string();
    fleet.servers[node].run(&["HSET", "redlatch:node", &field, &number.to_string()]);
}

async fn grant(locks: &Locks) -> FencingToken {
    let guard = locks.lock(NAME).wait(support::LIMIT).await.unwrap();
    let number = guard.fencing_token().unwrap();
    guard.release().await.unwrap();
    number
}

#[tokio::test]
async fn every_grant_has_a_greater_number_on_every_kind_and_count_of_nodes() {
    for nodes in [1, 3, 4, 5] {
        let (_fleet, one, other) = Fleet::with_two_clients(nodes).await;
        let mut last = 0;
        for turn in 0..50 {
            let number = grant(if turn % 2 == 0 { &one } else { &other }).await.get();

            assert!(number > last, "{nodes} nodes: {number} after {last}");
            last = number;
        }
    }
}

#[tokio::test]
async fn no_two_of_many_grants_at_once_share_a_number() {
    let (_fleet, locks) = Fleet::with_locks(3).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let locks = locks.clone();
        tasks.spawn(async move {
            let mut numbers = Vec::new();
            for _ in 0..20 {
                numbers.push(grant(&locks).await);
            }
            numbers
        });
    }

    let numbers: Vec<_> = tasks.join_all().await.concat();

    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 160);
}

#[tokio::test]
async fn registers_that_differ_are_raised_to_the_greatest_of_a_majority() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    set_register(&fleet, 0, 1 << 52);
    set_register(&fleet, 1, (1 << 52) + 7);

    let guard = locks.lock(NAME).await.unwrap();

    let number = guard.fencing_token().unwrap().get();
    let agreed = (0..3).filter(|node| register(&fleet, *node) == number).count();
    assert!(agreed >= 2, "{number}");
    assert!(number > 1 << 52);
}

#[tokio::test]
async fn a_node_that_forgot_does_not_bring_the_numbers_down() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let before = grant(&locks).await;
    for node in 0..3 {
        fleet.servers[node].run(&["FLUSHALL"]);
    }

    assert!(grant(&locks).await > before, "the wall clock keeps them up");
}

#[tokio::test]
async fn a_poisoned_register_is_no_vote_and_is_named() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    set_register(&fleet, 0, FencingToken::MAX);
    set_register(&fleet, 1, FencingToken::MAX);

    let votes = support::no_majority(locks.lock(NAME).wait(std::time::Duration::ZERO).await);
    locks.settled().await;

    assert!(votes.to_string().contains("FENCE no number is left"), "{votes}");
    assert_eq!(fleet.keys(), [""; 0]);
}

#[tokio::test]
async fn a_hash_of_another_type_is_no_vote_and_leaves_no_key() {
    let (fleet, locks) = Fleet::with_locks(1).await;
    fleet.servers[0].run(&["LPUSH", "redlatch:node", "x"]);

    let votes = support::no_majority(locks.lock(NAME).wait(std::time::Duration::ZERO).await);

    assert!(votes.to_string().contains("WRONGTYPE"), "{votes}");
    assert_eq!(fleet.keys(), [""; 0]);
}

#[tokio::test]
async fn without_fencing_a_take_is_plain_redlock_and_leaves_no_register() {
    let fleet = Fleet::of(3);
    let locks = support::patient().nodes(fleet.servers.urls()).fencing(false).connect().await;
    let locks = locks.unwrap();

    let guard = locks.lock(NAME).await.unwrap();

    assert_eq!(guard.fencing_token(), None);
    assert!((0..3).all(|node| register(&fleet, node) == 0));
}

#[tokio::test]
async fn the_number_goes_along_when_a_lease_is_handed_over() {
    let (_fleet, one, other) = Fleet::with_two_clients(3).await;
    let guard = one.lock(NAME).await.unwrap();
    let number = guard.fencing_token();

    let resumed = other.resume(&guard.into_parts()).await.unwrap();

    assert!(number.is_some());
    assert_eq!(resumed.fencing_token(), number);
}

/// Fault 17: a client that is away between the two rounds is as late as one
/// whose answers are.
#[tokio::test]
async fn a_grant_whose_second_round_ends_after_the_lease_is_refused() {
    let fleet = Fleet::of(3);
    let proxies: Vec<Proxy> = fleet.servers.iter().map(|s| Proxy::to(s).unwrap()).collect();
    let builder = support::patient().nodes(proxies.iter().map(Proxy::url));
    let locks = builder.ttl(4 * SEC).node_timeout(2200 * MS).connect().await.unwrap();
    // No two nodes answer with the same number, so there are always two rounds.
    set_register(&fleet, 0, 1 << 52);
    set_register(&fleet, 1, 1 << 51);

    // One round trip fits into the lease, two do not.
    for proxy in &proxies {
        proxy.delay(Direction::Replies, 2 * SEC);
    }
    let late = locks.lock(NAME).min_validity(MS).await;

    let refused = matches!(late, Err(LockError::TooSlow { .. } | LockError::NoMajority { .. }));
    assert!(refused, "{late:?}");
    proxies.iter().for_each(Proxy::pass);
    locks.settled().await;
    assert!(fleet.servers.keys_everywhere().iter().all(Vec::is_empty));
}
