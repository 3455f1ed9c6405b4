//! The state of the nodes: what `health` reports, and what is logged, once.

mod support;

use redlatch::{LockError, Standing, testing::Nodes};
use std::time::Duration;
use support::{Fleet, SEC, log::Log};

/// Long enough for the log to say something new of a node.
const CALM: Duration = Duration::from_secs(6);

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_down_and_comes_back_is_one_warning_each_and_none_per_attempt() {
    let (log, _here) = Log::of_this_thread();
    let nodes = Nodes::new(3);
    let locks = nodes.locks();

    nodes.fail(1);
    for _ in 0..20 {
        locks.lock("a").await.unwrap().release().await.unwrap();
        tokio::time::sleep(SEC).await;
    }
    let down = log.warnings();
    nodes.recover(1);
    for _ in 0..20 {
        locks.lock("a").await.unwrap().release().await.unwrap();
        tokio::time::sleep(SEC).await;
    }
    let back = log.warnings().split_off(down.len());

    assert!(down.len() == 1 && down[0].contains("node is down"), "{down:?}");
    assert!(down[0].contains("memory:1") && down[0].contains("a test made it fail"), "{down:?}");
    assert!(back.len() == 1 && back[0].contains("node is back"), "{back:?}");
}

#[tokio::test(start_paused = true)]
async fn locks_that_cannot_be_taken_are_errors_for_their_callers_and_not_warnings() {
    let (log, _here) = Log::of_this_thread();
    let nodes = Nodes::new(3);
    let locks = nodes.locks();
    nodes.pause(0);
    nodes.pause(1);

    for _ in 0..10 {
        let refused = locks.lock("a").wait(SEC).await;
        assert!(matches!(refused, Err(LockError::NoMajority { .. })), "{refused:?}");
    }

    let warnings = log.warnings();
    assert_eq!(warnings.len(), 2, "one for each node: {warnings:?}");
    assert!(warnings.iter().all(|line| line.contains("no answer within")), "{warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_vote_is_named_once_and_once_more_when_it_may() {
    let (log, _here) = Log::of_this_thread();
    let nodes = Nodes::new(3);
    let locks = nodes.builder().connect().await.unwrap();
    tokio::time::sleep(CALM).await;

    nodes.forget(2);
    for _ in 0..200 {
        locks.lock("a").await.unwrap().release().await.unwrap();
        tokio::time::sleep(SEC).await;
    }

    let warnings = log.warnings();
    let [out, back] = warnings.as_slice() else { panic!("{warnings:#?}") };
    assert!(out.contains("node is quarantined") && out.contains("memory:2"), "{out}");
    assert!(back.contains("node is back") && back.contains("memory:2"), "{back}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_restarts_under_a_holder_is_quarantined_until_it_votes_and_not_back_before() {
    let (log, _here) = Log::of_this_thread();
    let nodes = Nodes::new(3);
    let locks = nodes.builder().connect().await.unwrap();
    let guard = locks.lock("a").await.unwrap();
    nodes.fail(2);
    while log.warnings().is_empty() {
        tokio::time::sleep(SEC / 10).await;
    }

    // So soon that the log is not calm yet.
    nodes.forget(2);
    nodes.recover(2);
    tokio::time::sleep(40 * SEC).await;
    let meanwhile = log.warnings();
    tokio::time::sleep(60 * SEC).await;

    assert!(guard.is_held());
    let [down, out] = meanwhile.as_slice() else { panic!("{meanwhile:#?}") };
    assert!(down.contains("node is down") && down.contains("memory:2"), "{down}");
    assert!(out.contains("node is quarantined"), "{out}");
    let later = log.warnings().split_off(2);
    let [back] = later.as_slice() else { panic!("{later:#?}") };
    assert!(back.contains("node is back") && back.contains("memory:2"), "{back}");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_finds_a_node_quarantined_logs_a_warning_too() {
    let (log, _here) = Log::of_this_thread();
    let nodes = Nodes::new(3);
    let locks = nodes.builder().connect().await.unwrap();
    nodes.forget(1);

    for _ in 0..3 {
        locks.health().await.unwrap();
        locks.status("a").await.unwrap();
    }

    let warnings = log.warnings();
    let [out] = warnings.as_slice() else { panic!("{warnings:#?}") };
    assert!(out.contains("node is quarantined") && out.contains("memory:1"), "{out}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_and_goes_all_the_time_does_not_fill_the_log() {
    let (log, _here) = Log::of_this_thread();
    let nodes = Nodes::new(3);
    let locks = nodes.locks();

    for at in 0..600 {
        if at % 2 == 0 {
            nodes.fail(0);
        } else {
            nodes.recover(0);
        }
        locks.lock("a").await.unwrap().release().await.unwrap();
        tokio::time::sleep(SEC / 10).await;
    }

    let warnings = log.warnings().len();
    assert!((2..=60 / 5 + 1).contains(&warnings), "{warnings} in a minute");
}

#[tokio::test]
async fn health_says_which_real_servers_vote_and_why_others_do_not() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    assert_eq!(locks.health().await.unwrap().to_string(), "3 of 3 nodes vote");

    fleet.servers[0].kill();
    fleet.servers[1].freeze();

    let health = locks.health().await.unwrap();
    assert_eq!(health.voting(), 1, "{health}");
    assert!(!health.has_majority());
    for (node, server) in health.nodes.iter().zip(fleet.servers.iter()).take(2) {
        assert!(matches!(node.standing, Standing::Failed(_)), "{health}");
        assert!(health.to_string().contains(&server.url()), "{health}");
    }
    fleet.servers[1].thaw();
}

#[tokio::test]
async fn nodes_that_refuse_writes_do_not_vote_and_health_says_why() {
    let (fleet, locks) = Fleet::with_locks(3).await;

    fleet.servers[0].run(&["CONFIG", "SET", "maxmemory", "1"]);
    let one = locks.health().await.unwrap();
    fleet.servers[1].run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let two = locks.health().await.unwrap();

    assert!(one.has_majority(), "{one}");
    let full = "refuses writes: its memory is full (maxmemory)";
    let [a, b] = [0, 1].map(|at| fleet.servers[at].url());
    assert_eq!(one.to_string(), format!("2 of 3 nodes vote; {a}: it {full}"));
    assert!(!two.has_majority(), "{two}");
    let lonely = "refuses writes: too few replicas follow it (min-replicas-to-write)";
    let both = format!("{a}: it {full}; {b}: it {lonely}");
    assert_eq!(two.to_string(), format!("1 of 3 nodes vote; {both}"));
    let refused = locks.lock("a").wait(Duration::ZERO).await;
    assert!(matches!(refused, Err(LockError::NoMajority { .. })), "{refused:?}");
}

#[test]
fn health_without_async_says_the_same() {
    let nodes = Nodes::new(3);
    let locks = nodes.builder().connect_blocking().unwrap();

    nodes.fail(0);

    assert_eq!(locks.health().unwrap().voting(), 2);
}
