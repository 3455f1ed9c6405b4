//! What a lease does while it is held: extension, renewal, loss, handing over,
//! and work that runs under it.

mod support;

use redlatch::{
    ExtendError, InvalidRequest, LockError, Lost, ReleasePartsError, Released, ResumeError,
    RunError, TermsError, testing::Nodes,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};
use support::{FOREIGN, Fleet, MS, NAME, SEC, in_time, log::Log, soon};

#[tokio::test]
async fn extend_makes_lease_and_keys_live_longer() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let guard = locks.lock(NAME).ttl(10 * SEC).no_renewal().await.unwrap();
    soon("every node has the key", || fleet.nodes_with(NAME) == 3).await;

    guard.extend_by(25 * SEC).await.unwrap();

    assert!(guard.remaining() > 15 * SEC, "{:?}", guard.remaining());
    soon("every node extended", || (0..3).all(|n| fleet.time_to_live(n, NAME) > 15 * SEC)).await;
    let before = guard.remaining();
    guard.extend().await.unwrap();
    assert!(guard.remaining() > before.saturating_sub(5 * SEC), "extending never shortens");
}

#[tokio::test]
async fn ensure_extends_only_a_lease_that_has_less_left() {
    let (fleet, locks) = Fleet::with_locks(1).await;
    let guard = locks.lock(NAME).ttl(10 * SEC).no_renewal().await.unwrap();
    assert!(fleet.servers[0].run(&["PEXPIRE", NAME, "60000"]).int() == Some(1));

    guard.ensure(SEC).await.unwrap();
    let untouched = fleet.value(0, NAME).is_some() && guard.remaining() <= 10 * SEC;
    guard.ensure(20 * SEC).await.unwrap();

    assert!(untouched);
    assert!(guard.remaining() > 15 * SEC, "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn what_was_ensured_passes_before_loss_is_signalled() {
    let nodes = Nodes::new(3);
    let locks = nodes.locks();
    // Drift and notice leave 1.78 s of a TTL of 2 s.
    for least in [SEC, 1_900 * MS, 4 * SEC, 25 * SEC] {
        let guard = locks.lock(NAME).ttl(2 * SEC).no_renewal().await.unwrap();

        guard.ensure(least).await.unwrap();

        let lost = tokio::time::timeout(least.saturating_sub(MS), guard.lost()).await;
        assert!(lost.is_err(), "{least:?}: {lost:?}");
        assert!(guard.is_held());
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_ensured_is_refused_and_the_lock_kept() {
    let nodes = Nodes::new(3);
    let capped = nodes.locks().lock("capped").ttl(10 * SEC).max_hold(20 * SEC).await.unwrap();
    let guard = nodes.locks().lock(NAME).ttl(10 * SEC).await.unwrap();

    let beyond_max_ttl = guard.ensure(30 * SEC).await.unwrap_err().to_string();
    let beyond_max_hold = capped.ensure(25 * SEC).await.unwrap_err().to_string();

    assert!(beyond_max_ttl.contains("above max_ttl, 30s"), "{beyond_max_ttl}");
    assert!(beyond_max_hold.contains("its loss is signalled in 19.5s"), "{beyond_max_hold}");
    assert!(guard.is_held() && capped.is_held());
}

#[tokio::test]
async fn an_extension_above_the_maximum_is_refused_before_it_is_sent() {
    let (fleet, locks) = Fleet::with_locks(1).await;
    let guard = locks.lock(NAME).ttl(10 * SEC).no_renewal().await.unwrap();

    let refused = guard.extend_by(31 * SEC).await;

    let Err(ExtendError::Invalid(InvalidRequest::Terms(TermsError::TtlTooLong { .. }))) = refused
    else {
        panic!("{refused:?}");
    };
    assert!(fleet.time_to_live(0, NAME) <= 10 * SEC);
    assert!(guard.is_held());
}

#[tokio::test]
async fn two_extensions_at_once_each_get_what_they_asked_for() {
    let (_fleet, locks) = Fleet::with_locks(3).await;
    let guard = locks.lock(NAME).ttl(5 * SEC).node_timeout(SEC).no_renewal().await.unwrap();

    let (short, long) = tokio::join!(guard.extend(), async {
        guard.extend_by(25 * SEC).await.unwrap();
        guard.remaining()
    });

    short.unwrap();
    assert!(long > 10 * SEC, "extended by 25 s, and {long:?} are left");
}

#[tokio::test]
async fn extending_what_another_owner_has_by_now_is_lost_and_touches_nothing() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let guard = fleet.lock_on_all(&locks).await;
    for node in 0..3 {
        fleet.remove(node, NAME);
        fleet.plant(node, NAME);
    }

    let extended = guard.extend().await;

    assert!(matches!(extended, Err(ExtendError::Lost(Lost::Gone { .. }))), "{extended:?}");
    assert!(!guard.is_held());
    assert!(matches!(in_time(guard.lost()).await, Lost::Gone { .. }));
    drop(guard);
    locks.settled().await;
    assert!((0..3).all(|node| fleet.value(node, NAME).as_deref() == Some(FOREIGN)));
}

#[tokio::test]
async fn renewal_holds_a_lock_for_several_times_its_ttl() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let guard = locks.lock(NAME).ttl(4 * SEC).node_timeout(SEC).await.unwrap();
    let begin = std::time::Instant::now();

    soon("two TTLs are over, or the lock is", || begin.elapsed() > 9 * SEC || !guard.is_held())
        .await;

    assert!(guard.is_held(), "{:?}", guard.votes());
    assert_eq!(fleet.nodes_with(NAME), 3);
    assert_eq!(guard.release().await.unwrap(), Released::Now);
}

#[tokio::test]
async fn max_hold_ends_a_lock_that_is_renewed_and_says_so() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let request = locks.lock(NAME).ttl(2 * SEC).node_timeout(500 * MS);
    let guard = request.max_hold(3 * SEC).await.unwrap();

    let lost = in_time(guard.lost()).await;

    assert_eq!(lost, Lost::MaxHold);
    // Told before the cap, and free soon after it although nobody let go.
    fleet.is_tidy_soon().await;
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyGone);
}

#[tokio::test]
async fn a_lock_that_may_be_held_for_less_than_its_ttl_is_held_for_that_long() {
    let (_fleet, locks) = Fleet::with_locks(1).await;

    let guard = locks.lock(NAME).ttl(30 * SEC).max_hold(12 * SEC).await.unwrap();

    assert!(guard.is_held());
    assert!(guard.remaining() <= 12 * SEC, "{:?}", guard.remaining());
    assert_eq!(guard.release().await.unwrap(), Released::Now);
}

#[tokio::test]
async fn without_renewal_loss_is_signalled_before_the_end_of_the_lease() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let request = locks.lock(NAME).ttl(2 * SEC).node_timeout(500 * MS).notice(SEC).no_renewal();
    let guard = request.await.unwrap();

    let lost = in_time(guard.lost()).await;
    // A lease that was lost has nothing left; the keys are our clock here.
    let left = fleet.time_to_live(0, NAME);

    assert_eq!(lost, Lost::Expired { votes: None });
    assert!(left > 100 * MS, "{left:?} before the key's end");
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    fleet.is_tidy_soon().await;
}

#[tokio::test]
async fn a_deleted_majority_is_noticed_by_the_next_renewal() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let guard = locks.lock(NAME).ttl(3 * SEC).node_timeout(500 * MS).await.unwrap();
    soon("every node has the key", || fleet.nodes_with(NAME) == 3).await;
    for node in [0, 2] {
        fleet.remove(node, NAME);
    }

    let Lost::Gone { votes } = in_time(guard.lost()).await else {
        panic!("it was gone, and the reason is another");
    };

    assert_eq!(votes.tally().refused, 2, "{votes}");
    locks.settled().await;
    assert_eq!(fleet.keys(), [""; 0], "what the third had is taken away");
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_renewals_fail_warns_once_and_is_lost_with_every_nodes_vote() {
    let log = Log::everything();
    let nodes = Nodes::new(3);
    let locks = nodes.locks();
    let guard = locks.lock(NAME).ttl(10 * SEC).node_timeout(500 * MS).await.unwrap();
    nodes.fail(1);
    nodes.pause(2);

    // The first renewal comes after a third of the TTL, and waits for half of that.
    tokio::time::sleep(6 * SEC).await;
    assert!(guard.is_held());
    let tally = guard.votes().tally();
    assert_eq!((tally.granted, tally.failed), (1, 2), "of the failed renewal: {}", guard.votes());
    let warned = |log: &Log| log.text().matches("lease not extended").count();
    let again = |log: &Log| log.text().matches("lease still not extended").count();
    // It is extended once more, and fails again: that is news.
    nodes.resume(2);
    tokio::time::sleep(3 * SEC).await;
    assert_eq!(warned(&log), 1, "{}", log.text());
    assert!(guard.is_held());
    nodes.pause(2);

    let lost = guard.lost().await;

    assert_eq!(warned(&log), 2, "{}", log.text());
    assert!(again(&log) > 0, "{}", log.text());
    let text = lost.to_string();
    let names: Vec<_> = guard.votes().iter().map(|vote| vote.node.clone()).collect();
    assert!(matches!(lost, Lost::Expired { votes: Some(_) }), "{text}");
    assert!(names.iter().all(|name| text.contains(&**name)), "{text}");
    assert!(text.contains("no answer within") && text.contains("unreachable"), "{text}");
    assert_eq!(log.text().matches("lock lost").count(), 1, "{}", log.text());
}

#[tokio::test]
async fn a_key_lost_by_a_minority_is_planted_again_by_the_next_renewal() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let guard = locks.lock(NAME).ttl(3 * SEC).node_timeout(500 * MS).await.unwrap();
    soon("every node has the key", || fleet.nodes_with(NAME) == 3).await;

    fleet.servers[1].restart_empty();
    soon("the restarted node has it, too", || fleet.nodes_with(NAME) == 3).await;

    assert!(guard.is_held());
    guard.release().await.unwrap();
    fleet.is_tidy_after(&locks).await;
}

#[tokio::test]
async fn a_lease_handed_over_goes_on_in_other_hands() {
    let (fleet, one, other) = Fleet::with_two_clients(3).await;
    let guard = one.lock(NAME).await.unwrap();
    let token = guard.lock_token().to_vec();

    let parts = guard.into_parts();
    one.settled().await;
    let resumed = other.resume(&parts).await.unwrap();

    assert!(resumed.is_held());
    assert_eq!(resumed.lock_token(), token);
    assert!(one.try_lock(NAME).await.unwrap().is_none());
    assert_eq!(resumed.release().await.unwrap(), Released::Now);
    fleet.is_tidy_after(&other).await;
}

#[tokio::test]
async fn a_lease_that_was_handed_over_is_renewed_there_and_not_here() {
    let (fleet, one, other) = Fleet::with_two_clients(1).await;
    let request = one.lock(NAME).ttl(2 * SEC).node_timeout(500 * MS);
    let parts = request.await.unwrap().into_parts();

    let patient = other.resume(&parts).await;
    // Its own node timeout does not fit the short TTL it was taken with.
    assert!(matches!(patient, Err(ResumeError::Invalid(_))), "{patient:?}");
    let quick = redlatch::Locks::builder()
        .nodes(fleet.servers.urls())
        .restart_guard(redlatch::RestartGuard::Off)
        .connect()
        .await
        .unwrap();
    let resumed = quick.resume(&parts).await.unwrap();
    let begin = std::time::Instant::now();
    soon("two TTLs are over, or the lock is", || begin.elapsed() > 4 * SEC || !resumed.is_held())
        .await;

    assert!(resumed.is_held());
    drop(resumed);
    fleet.is_tidy_soon().await;
}

#[tokio::test]
async fn resuming_a_lease_that_others_have_by_now_is_refused_and_touches_nothing() {
    let (fleet, one, other) = Fleet::with_two_clients(3).await;
    let parts = one.lock(NAME).await.unwrap().into_parts();
    soon("every node has the key", || fleet.nodes_with(NAME) == 3).await;
    for node in 0..3 {
        fleet.remove(node, NAME);
        fleet.plant(node, NAME);
    }

    let refused = other.resume(&parts).await;
    other.settled().await;

    let Err(ResumeError::Lost(Lost::Gone { votes })) = refused else {
        panic!("{refused:?}");
    };
    assert!(votes.tally().refused >= 2 && votes.tally().granted == 0, "{votes}");
    assert!((0..3).all(|node| fleet.value(node, NAME).as_deref() == Some(FOREIGN)));
}

#[tokio::test]
async fn resuming_a_lease_that_has_ended_is_refused_even_if_its_keys_live_on() {
    let (fleet, one, other) = Fleet::with_two_clients(3).await;
    let mut parts = one.lock(NAME).await.unwrap().into_parts();

    for over in [SystemTime::now() - SEC, SystemTime::now() + 20 * MS] {
        parts.usable_until = over;
        let refused = other.resume(&parts).await;

        assert!(matches!(refused, Err(ResumeError::TooLate { .. })), "{refused:?}");
    }
    assert_eq!(fleet.nodes_with(NAME), 3, "they die by themselves");
}

#[tokio::test]
async fn run_returns_what_the_work_returns_and_gives_the_lock_back() {
    let (fleet, locks) = Fleet::with_locks(3).await;

    let done = locks.lock(NAME).run(|lease| async move { lease.is_held() }).await;
    locks.settled().await;

    assert!(done.unwrap());
    assert_eq!(fleet.keys(), [""; 0]);
}

#[tokio::test]
async fn run_drops_the_work_as_soon_as_the_lock_is_lost() {
    struct SetOnDrop(Arc<AtomicBool>);
    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let (fleet, locks) = Fleet::with_locks(3).await;
    let dropped = Arc::new(AtomicBool::new(false));
    let working = SetOnDrop(dropped.clone());

    let request = locks.lock(NAME).ttl(3 * SEC).node_timeout(500 * MS);
    let run = request.run(|_| async move {
        let _working = working;
        std::future::pending::<()>().await;
    });
    let lose = async {
        soon("every node has the key", || fleet.nodes_with(NAME) == 3).await;
        fleet.remove_everywhere(NAME);
    };
    let (stopped, ()) = in_time(async { tokio::join!(run, lose) }).await;

    assert!(matches!(stopped, Err(RunError::Lost(Lost::Gone { .. }))), "{stopped:?}");
    assert!(dropped.load(Ordering::Acquire));
}

#[tokio::test]
async fn run_does_not_start_the_work_without_the_lock() {
    let (fleet, locks) = Fleet::with_locks(1).await;
    fleet.plant(0, NAME);

    let run = locks.lock(NAME).run(|_| async { unreachable!("there is no lock") });

    assert!(matches!(run.await, Err(RunError::Lock(LockError::Held { .. }))));
}

#[tokio::test(start_paused = true)]
async fn a_wait_until_a_moment_ends_then_whenever_it_began() {
    let nodes = Nodes::new(3);
    let locks = nodes.locks();
    let _held = locks.lock(NAME).await.unwrap();
    let deadline = tokio::time::Instant::now() + 5 * SEC;
    let request = locks.lock(NAME).wait_until(deadline.into_std());

    tokio::time::sleep(3 * SEC).await;
    let refused = request.await;

    assert!(matches!(refused, Err(LockError::Held { .. })), "{refused:?}");
    let late = tokio::time::Instant::now().saturating_duration_since(deadline);
    assert!(late < SEC, "it waited {late:?} too long");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_extended_beyond_max_hold() {
    let nodes = Nodes::new(3);
    let guard = nodes.locks().lock(NAME).max_hold(15 * SEC).await.unwrap();

    guard.extend_by(25 * SEC).await.unwrap();

    assert!(guard.remaining() <= 15 * SEC, "{:?}", guard.remaining());
}

#[tokio::test]
async fn parts_are_released_whatever_the_locks_of_the_client_that_does_it_are_like() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let request = locks.lock(NAME).ttl(2 * SEC).node_timeout(SEC / 2);
    let parts = request.await.unwrap().into_parts();
    // Far too long for a TTL of two seconds.
    let others = fleet.builder().node_timeout(2 * SEC).connect().await.unwrap();

    let released = others.release_parts(&parts).await;

    assert_eq!(released.unwrap(), Released::Now);
}

#[tokio::test]
async fn no_time_is_left_in_a_lease_that_was_released_or_handed_over() {
    let (_fleet, locks) = Fleet::with_locks(1).await;
    let guard = locks.lock(NAME).await.unwrap();
    let lease = guard.lease();
    assert!(lease.ends_in() > SEC);

    guard.release().await.unwrap();
    assert_eq!(lease.ends_in(), Duration::ZERO, "the next owner may have it");

    let guard = locks.lock("another").await.unwrap();
    let lease = guard.lease();
    let _parts = guard.into_parts();
    assert_eq!(lease.ends_in(), Duration::ZERO, "somebody else may resume it");
    let over = lease.extend_by(3600 * SEC).await;
    assert!(matches!(over, Err(ExtendError::Lost(_))), "{over:?}");
}

#[tokio::test(start_paused = true)]
async fn parts_without_a_lock_token_are_refused() {
    let locks = Nodes::new(3).locks();
    let mut parts = locks.lock(NAME).await.unwrap().into_parts();
    parts.lock_token.clear();

    let resumed = locks.resume(&parts).await;
    let released = locks.release_parts(&parts).await;

    let refused = InvalidRequest::NoLockToken;
    assert!(matches!(resumed, Err(ResumeError::Invalid(why)) if why == refused));
    assert!(matches!(released, Err(ReleasePartsError::Invalid(why)) if why == refused));
}
