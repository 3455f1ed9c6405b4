//! Very many requests at once on healthy servers: nothing fails, nothing is left
//! behind, memory is bounded. Alone in its file, because it measures the memory of
//! the whole process. `redlatch-bench many` does this at full size.

mod support;

use redlatch::{LockError, Locks};
use std::{future::IntoFuture, time::Duration};
use support::{Fleet, MS, SEC, in_time, patient};
use tokio::task::JoinSet;

/// Far longer than a busy machine needs.
const WAIT: Duration = Duration::from_secs(300);

#[test]
fn fault_50_a_crowd_waits_its_turn_and_all_of_it_is_served() {
    let fleet = Fleet::of(3);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        // The node timeout is the default's: 50 ms.
        let locks = fleet.builder().ttl(SEC).node_timeout(50 * MS).connect().await;
        let locks = locks.expect("locks");

        assert_eq!(serve(&locks, 10_000).await, [""; 0]);
        locks.settled().await;
        assert_eq!(fleet.keys(), [""; 0], "keys are left");
        let first = peak();
        assert!(first < 200_000, "{first} kB");

        assert_eq!(serve(&locks, 10_000).await, [""; 0]);
        locks.settled().await;
        assert!(peak() < first + first / 5, "{} kB, and {first} kB the first time", peak());
    });
}

#[tokio::test]
async fn fault_50_a_server_that_is_frozen_fails_nobody_in_a_crowd_and_keeps_no_key() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    fleet.servers[2].freeze();

    let failed = serve(&locks, 5_000).await;
    fleet.servers[2].thaw();

    assert_eq!(failed, [""; 0]);
    in_time(locks.settled()).await;
    assert_eq!(fleet.keys(), [""; 0], "keys are left");
}

#[tokio::test]
async fn a_caller_whose_turn_does_not_come_is_told_so_and_no_server_is_blamed() {
    let fleet = Fleet::of(3);
    let locks = patient().nodes(fleet.servers.urls()).connect().await.expect("locks");
    for server in &fleet.servers {
        server.freeze();
    }

    let mut asked = JoinSet::new();
    for name in 0..100 {
        // One attempt of those that are under way lasts for 3 s.
        let patience = if name < 16 { 3 * SEC } else { 50 * MS };
        let request = locks.lock(format!("crowd:{name}")).node_timeout(patience);
        asked.spawn(request.into_future());
    }
    let mut busy = 0;
    while let Some(answer) = asked.join_next().await {
        match answer.expect("an answer") {
            Err(LockError::Busy { waited, .. }) => {
                assert!(waited >= 50 * MS, "{waited:?}");
                busy += 1;
            }
            Err(LockError::NoMajority { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    for server in &fleet.servers {
        server.thaw();
    }

    assert_eq!(busy, 84);
}

/// Takes and releases that many locks, all asked for at once; what went wrong.
async fn serve(locks: &Locks, names: usize) -> Vec<String> {
    let mut callers = JoinSet::new();
    for name in 0..names {
        let request = locks.lock(format!("crowd:{name}")).wait(WAIT).into_future();
        callers.spawn(async move {
            drop(request.await?);
            Ok::<_, LockError>(())
        });
    }
    let mut failed = Vec::new();
    while let Some(served) = callers.join_next().await {
        failed.extend(served.expect("a caller that ends well").err().map(|e| e.to_string()));
    }
    failed
}

/// The most memory this process has had, in kB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("our own process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
