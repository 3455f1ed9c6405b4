//! Work under a lock, and what its guard shows of itself.

use redlatch::{LockError, Lost, RunError, testing::Nodes};
use std::{error::Error, time::Duration};

#[tokio::test(start_paused = true)]
async fn work_runs_under_a_lock_that_is_free_and_not_under_one_that_is_held() {
    let nodes = Nodes::new(3);
    let locks = nodes.locks();

    let ran = locks.try_lock("a").run(|lease| async move { lease.is_held() }).await.unwrap();
    let guard = locks.lock("a").await.unwrap();
    let held = locks.try_lock("a").run(|_| async { unreachable!("it is held") }).await.unwrap();

    assert_eq!(ran, Some(true));
    assert_eq!(held, None);
    guard.release().await.unwrap();
    locks.settled().await;
    assert_eq!(nodes.locked(0), []);
}

#[test]
fn without_async_work_runs_under_a_lock_that_is_free_and_not_under_one_that_is_held() {
    let locks = redlatch::blocking::Locks::connect(["memory:"]).unwrap();

    assert_eq!(locks.try_lock("a").run(|lease| lease.is_held()).unwrap(), Some(true));
    let _guard = locks.lock("a").acquire().unwrap();
    assert_eq!(locks.try_lock("a").run(|_| ()).unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn the_value_of_work_that_ends_too_late_is_not_thrown_away() {
    let nodes = Nodes::new(3);

    let late = nodes.locks().lock("a").run(|_| async {
        nodes.lose("a");
        42
    });

    let late = late.await;
    assert!(matches!(late, Err(RunError::Late { value: 42, lost: Lost::Gone { .. } })), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn work_that_has_not_ended_when_the_lock_is_lost_is_stopped() {
    let nodes = Nodes::new(3);

    let stopped = nodes.locks().lock("a").run(|_| async {
        nodes.lose("a");
        tokio::task::yield_now().await;
        unreachable!("it goes on without the lock");
    });

    let stopped: Result<(), _> = stopped.await;
    assert!(matches!(stopped, Err(RunError::Lost(Lost::Gone { .. }))), "{stopped:?}");
}

/// What a report of an error prints: itself, and what caused it.
fn chain(error: &dyn Error) -> Vec<String> {
    let mut said = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        said.push(error.to_string());
        source = error.source();
    }
    said
}

#[tokio::test(start_paused = true)]
async fn no_error_of_run_says_the_same_twice() {
    let nodes = Nodes::new(3);
    let locks = nodes.locks();
    let lost: RunError<()> = RunError::Lost(Lost::Expired { votes: None });
    let late = RunError::Late { value: (), lost: Lost::MaxHold };
    let guard = locks.lock("a").await.unwrap();
    let held = locks.lock("a").wait(Duration::ZERO).run(|_| async {}).await.unwrap_err();
    let invalid = locks.lock("").run(|_| async {}).await.unwrap_err();
    drop(guard);

    for error in [lost, late, held, invalid] {
        let said = chain(&error);
        for (at, words) in said.iter().enumerate() {
            let twice = said[..at].iter().any(|before| before.contains(words));
            assert!(!twice, "{said:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn guard_lease_and_locks_show_themselves_in_a_line_without_the_secret() {
    let nodes = Nodes::new(3);
    let locks = nodes.locks();
    let guard = locks.lock("invoice:42").await.unwrap();
    let secret = String::from_utf8_lossy(guard.lock_token()).into_owned();

    let number = guard.fencing_token().unwrap().get();
    let (guard, lease) = (format!("{guard:?}"), format!("{:?}", guard.lease()));

    let expected = format!(
        "Guard {{ resources: [\"invoice:42\"], fencing_token: {number}, is_held: true, \
         remaining: 9.898s, .. }}"
    );
    assert_eq!(guard, expected);
    assert!(lease.starts_with("Lease { resources"), "{lease}");
    assert!(!guard.contains(&secret) && !lease.contains(&secret));
    let shown = format!("{locks:?}");
    assert_eq!(shown, r#"Locks { nodes: ["memory:0", "memory:1", "memory:2"], .. }"#);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_waited_for_is_shown_as_such() {
    let nodes = Nodes::new(3);
    let locks = nodes.locks();
    let guard = locks.lock("a").await.unwrap();
    nodes.pause(2);

    let held = nodes.locks().lock("a").wait(Duration::ZERO).await.unwrap_err();

    assert!(matches!(held, LockError::Held { .. }), "{held}");
    assert!(held.to_string().contains("memory:2: not waited for"), "{held}");
    drop(guard);
}

#[cfg(feature = "tokio-util")]
#[tokio::test(start_paused = true)]
async fn a_cancellation_token_is_cancelled_at_once_when_the_lock_is_lost_or_released() {
    let nodes = Nodes::new(3);
    let locks: redlatch::Locks = nodes.locks();
    let (lost, kept) = (locks.lock("a").await.unwrap(), locks.lock("b").await.unwrap());
    let (first, second) = (lost.cancellation_token(), kept.cancellation_token());

    nodes.lose("a");

    assert!(first.is_cancelled(), "whatever the runtime is doing");
    assert!(lost.cancellation_token().is_cancelled(), "one that is asked for later, too");
    assert!(!second.is_cancelled());
    kept.release().await.unwrap();
    assert!(second.is_cancelled());
}

#[cfg(feature = "tokio-util")]
#[tokio::test(start_paused = true)]
async fn cancelling_a_token_by_hand_cancels_no_other_and_keeps_the_lock() {
    let nodes = Nodes::new(3);
    let guard = nodes.locks().lock("a").await.unwrap();
    let (mine, yours) = (guard.cancellation_token(), guard.cancellation_token());

    mine.cancel();

    assert!(!yours.is_cancelled() && guard.is_held());
}
