//! Nothing stays on the nodes, however a guard, a runtime or a process ends;
//! and the blocking locks, whose engine has a thread of its own.

mod support;

use redlatch::{LockError, LockState, Locks, Lost, Released, RunError, blocking};
use redlatch_testbed::eventually;
use std::thread;
use support::child::Child;
use support::{Fleet, LIMIT, MS, NAME, SEC, by_deadline, soon};
use tokio::runtime::{Builder, Runtime};

#[tokio::test]
async fn a_guard_that_is_dropped_gives_the_lock_back() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let guard = locks.lock(NAME).await.unwrap();
    let lease = guard.lease();

    drop(guard);
    let lost = support::in_time(lease.lost()).await;
    locks.settled().await;

    assert_eq!(lost, Lost::Released);
    assert!(!lease.is_held());
    assert_eq!(fleet.keys(), [""; 0]);
}

#[tokio::test]
async fn locks_that_are_dropped_first_still_take_the_key_away() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let guard = locks.lock(NAME).await.unwrap();

    drop(locks);
    assert!(guard.is_held());
    drop(guard);

    fleet.is_tidy_soon().await;
    soon("no connection is left", || fleet.servers.iter().all(|s| s.connected_clients() == 0))
        .await;
}

#[tokio::test]
async fn a_future_dropped_while_it_waits_leaves_nothing() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    fleet.plant(0, NAME);
    fleet.plant(1, NAME);

    let waited = tokio::time::timeout(200 * MS, locks.lock(NAME).wait(LIMIT).into_future()).await;
    locks.settled().await;

    assert!(waited.is_err());
    assert_eq!(fleet.keys(), [NAME; 2], "the foreign ones alone");
}

#[test]
fn a_runtime_that_is_dropped_with_a_guard_alive_leaves_no_key() {
    let runtimes: [fn() -> Runtime; 2] = [
        || Builder::new_current_thread().enable_all().build().expect("a runtime"),
        || Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime"),
    ];
    for runtime in runtimes {
        let fleet = Fleet::of(3);
        let runtime = runtime();
        let guard = runtime.block_on(async {
            let guard = fleet.locks().await.lock(NAME).await.unwrap();
            soon("every node has the key", || fleet.nodes_with(NAME) == 3).await;
            guard
        });

        drop(runtime);

        assert_eq!(fleet.keys(), [""; 0]);
        assert!(!guard.is_held());
    }
}

#[test]
fn a_runtime_dropped_in_the_middle_of_a_take_leaves_no_key() {
    let fleet = Fleet::of(3);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let locks = runtime.block_on(fleet.locks());
    for number in 0..500 {
        let request = locks.lock(format!("{NAME}/{number}"));
        runtime.spawn(async move {
            let _guard = request.await;
            std::future::pending::<()>().await;
        });
    }
    eventually(LIMIT, || !fleet.keys().is_empty());

    drop(runtime);

    eventually(LIMIT, || fleet.keys().is_empty());
}

#[test]
fn a_runtime_that_is_dropped_right_after_a_hand_over_leaves_the_lock_alone() {
    let fleet = Fleet::of(3);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();

    let parts = runtime.block_on(async {
        let locks = fleet.locks().await;
        locks.lock(NAME).await.unwrap().into_parts()
    });
    drop(runtime);

    assert!(fleet.nodes_with(NAME) >= 2, "it was handed over, not given up");
    assert_eq!(fleet.blocking().resume(&parts).unwrap().release().unwrap(), Released::Now);
}

#[test]
fn an_engine_whose_runtime_is_gone_says_so() {
    let fleet = Fleet::of(1);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (locks, guard) = runtime.block_on(async {
        let locks = fleet.locks().await;
        let guard = locks.lock(NAME).await.unwrap();
        (locks, guard)
    });
    drop(runtime);

    let other = Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(async {
        assert_eq!(support::in_time(guard.lost()).await, Lost::Stopped);
        let refused = support::in_time(locks.lock(NAME).into_future()).await;
        assert!(matches!(refused, Err(LockError::Stopped)), "{refused:?}");
        support::in_time(locks.settled()).await;
        assert!(support::in_time(guard.release()).await.is_err());
    });
}

#[test]
fn a_process_that_ends_with_a_blocking_guard_leaves_no_key() {
    let fleet = Fleet::of(3);

    let child = Child::start("child_ends_with_a_guard", &fleet.servers.urls().join(" "));
    let status = child.end();

    assert!(status.success(), "{status}");
    assert_eq!(fleet.keys(), [""; 0]);
}

#[test]
#[ignore = "a process of its own, started by another test"]
fn child_ends_with_a_guard() {
    let Some(urls) = Child::handed() else { return };
    let locks = support::patient().nodes(urls.split(' ')).connect_blocking().unwrap();
    let guard = locks.lock(NAME).acquire().unwrap();
    assert!(guard.is_held());
    // As at the end of `main`: the guard goes, the locks go, the process goes.
    drop((guard, locks));
    std::process::exit(0);
}

#[test]
fn blocking_locks_take_exclude_extend_and_release() {
    let fleet = Fleet::of(3);
    let (one, other) = (fleet.blocking(), fleet.blocking());

    let guard = one.lock(NAME).ttl(10 * SEC).owner("billing-7").acquire().unwrap();
    assert!(other.try_lock(NAME).acquire().unwrap().is_none());
    assert!(matches!(other.lock(NAME).acquire(), Err(LockError::Held { .. })));
    assert!(other.try_lock_all([NAME, "b"]).acquire().unwrap().is_none());
    guard.extend_by(25 * SEC).unwrap();
    assert!(guard.remaining() > 15 * SEC);
    guard.ensure(SEC).unwrap();
    guard.extend().unwrap();
    let state = other.status(NAME).unwrap().state;
    assert!(matches!(state, LockState::Held { owner: Some(owner), .. } if owner == "billing-7"));
    assert_eq!(guard.release().unwrap(), Released::Now);

    let set = other.lock_all([NAME, "b"]).wait(LIMIT).acquire().unwrap();
    assert_eq!(set.resources().count(), 2);
    drop(set);
    other.settled();
    assert_eq!(fleet.keys(), [""; 0]);
}

#[test]
fn blocking_locks_wait_for_one_that_another_thread_releases() {
    let (_fleet, locks) = Fleet::with_blocking(3);
    let guard = locks.lock(NAME).acquire().unwrap();
    let lease = guard.lease();

    let others = locks.clone();
    let waiting = thread::spawn(move || others.lock(NAME).wait(LIMIT).acquire());
    drop(guard);

    assert_eq!(by_deadline(move || lease.lost()), Lost::Released);
    assert!(waiting.join().unwrap().unwrap().is_held());
}

#[test]
fn a_blocking_lease_can_be_handed_over() {
    let fleet = Fleet::of(3);
    let (one, other) = (fleet.blocking(), fleet.blocking());

    let parts = one.lock(NAME).acquire().unwrap().into_parts();
    let resumed = other.resume(&parts).unwrap();

    assert_eq!(resumed.release().unwrap(), Released::Now);
}

#[test]
fn blocking_work_that_outlives_its_lock_is_an_error() {
    let (fleet, locks) = Fleet::with_blocking(3);

    assert!(locks.lock(NAME).run(|lease| lease.is_held()).unwrap());
    locks.settled();
    let request = locks.lock(NAME).ttl(3 * SEC).node_timeout(500 * MS);
    let lost = request.run(|lease| {
        eventually(LIMIT, || fleet.nodes_with(NAME) == 3);
        fleet.remove_everywhere(NAME);
        let lease = lease.clone();
        by_deadline(move || lease.lost())
    });

    assert!(
        matches!(lost, Err(RunError::Late { value: Lost::Gone { .. }, lost: Lost::Gone { .. } })),
        "{lost:?}"
    );
}

#[test]
fn a_blocking_lease_ends_in_time_without_renewal() {
    let (_fleet, locks) = Fleet::with_blocking(3);
    let request = locks.lock(NAME).ttl(2 * SEC).node_timeout(500 * MS).no_renewal();
    let guard = request.acquire().unwrap();

    let lease = guard.lease();
    assert_eq!(by_deadline(move || lease.lost()), Lost::Expired { votes: None });
    assert!(!guard.is_held());
    assert_eq!(guard.release().unwrap(), Released::AlreadyGone);
}

#[test]
fn dropping_the_last_blocking_locks_waits_until_nothing_is_left() {
    let (fleet, locks) = Fleet::with_blocking(3);
    let guard = locks.lock(NAME).acquire().unwrap();

    drop(locks);
    drop(guard);

    assert_eq!(fleet.keys(), [""; 0]);
    eventually(LIMIT, || fleet.servers.iter().all(|server| server.connected_clients() == 0));
}

#[tokio::test]
async fn an_engine_on_a_thread_of_its_own_serves_async_callers() {
    let fleet = Fleet::of(3);
    let locks = fleet.builder().dedicated_thread().connect().await.unwrap();

    let guard = locks.lock(NAME).await.unwrap();
    assert!(locks.try_lock(NAME).await.unwrap().is_none());
    guard.extend().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Now);

    fleet.is_tidy_after(&locks).await;
}

#[test]
fn locks_need_a_runtime_or_a_thread_of_their_own() {
    let fleet = Fleet::of(1);

    let refused = pollster(Locks::connect(fleet.servers.urls()));
    let locks = blocking::Locks::connect(fleet.servers.urls()).unwrap();

    assert!(matches!(refused, Err(redlatch::ConnectError::NoRuntime(_))), "{refused:?}");
    assert!(locks.lock(NAME).acquire().is_ok());
}

/// Polls a future that must not wait for anything.
fn pollster<T>(future: impl Future<Output = T>) -> T {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("it waits for something"),
    }
}
