//! How other lock libraries fail, one test per failure. The number in a test's
//! name is the failure's:
//!
//! | | seen elsewhere |
//! |---|---|
//! | F1 | an even split of the votes: the call never returns |
//! | F2 | a retry is refused by the keys of its own last attempt |
//! | F3 | the time a lock has left is never checked |
//! | F4 | loss is signalled late, or never when nodes are mute |
//! | F5 | a lock that came too late is not undone; an outage looks like contention; small TTLs underflow |
//! | F6 | three of three nodes needed for a majority; a dead node leaves the others locked |
//! | F7 | one error among a majority of grants: an error, with the lock held |
//! | F8 | an extension overwrites another owner, or makes a key that is gone |
//! | F9 | a cancelled caller leaves keys behind |
//! | F10 | a release on a second connection overtakes its own take |
//! | F11 | units confused; a release that stops at the first error |
//! | F12 | "acquired" for as long as renewals hang; renewal forever |
//! | F13 | a majority of the nodes that granted, not of all; a dropped guard is not released |
//! | F14 | a command sent again after a reconnect is refused by our own key |
//! | F15 | elapsed time by the wall clock, or by one that stands still in sleep |
//! | F16 | a command around a child that loses the lock unnoticed, or swallows signals |
//! | F17 | a key of another type looks like a broken node |
//! | F18 | token counters that start again |
//!
//! F16 and F18 are tested where commands and counters are; F10 and F11 are about
//! ways of building a lock that have no counterpart here.
//!
//! F15: nothing outside can step or stop the clocks of this process
//! (they are read from the kernel, where no preloaded library gets in between).
//! The tests in `src/clock.rs` hand such readings in. What can be shown here is
//! a process that stood still: see `blocked.rs`.

mod support;

use redlatch::{ExtendError, Fault, LockError, LockState, Locks, Lost, Released, Vote};
use redlatch_testbed::{Direction, Proxy, Server, Servers};
use std::time::{Duration, Instant};
use support::{FOREIGN, Fleet, LIMIT, MS, NAME, SEC, held, in_time, no_majority, patient, soon};

/// Every node behind a network of its own.
struct Networks {
    fleet: Fleet,
    proxies: Vec<Proxy>,
}

impl Networks {
    fn of(nodes: usize) -> Self {
        let fleet = Fleet::of(nodes);
        let proxy = |server| Proxy::to(server).expect("a proxy");
        let proxies = fleet.servers.iter().map(proxy).collect();
        Networks { fleet, proxies }
    }

    async fn locks(&self) -> Locks {
        let urls = self.proxies.iter().map(Proxy::url);
        patient().nodes(urls).connect().await.expect("locks")
    }

    fn each(&self, act: impl Fn(&Proxy)) {
        self.proxies.iter().for_each(act);
    }
}

#[tokio::test]
async fn f1_an_even_split_is_held_at_once_and_undone() {
    for (nodes, taken) in [(2, 1), (4, 2)] {
        let (fleet, locks) = Fleet::with_locks(nodes).await;
        (0..taken).for_each(|node| fleet.plant(node, NAME));

        let votes = held(in_time(locks.lock(NAME).into_future()).await);
        locks.settled().await;

        assert_eq!(votes.tally().refused, taken, "{votes}");
        assert_eq!(fleet.keys().len(), taken, "the foreign keys alone");
    }
}

#[tokio::test]
async fn f1_clients_that_split_the_votes_of_four_nodes_all_get_the_lock_in_the_end() {
    let fleet = Fleet::of(4);
    let mut waiting = Vec::new();
    for _ in 0..6 {
        let locks = fleet.locks().await;
        waiting.push(tokio::spawn(async move {
            let guard = locks.lock(NAME).wait(LIMIT).await?;
            guard.release().await.expect("an answer");
            locks.settled().await;
            Ok::<_, LockError>(())
        }));
    }

    for client in waiting {
        in_time(client).await.unwrap().unwrap();
    }
    assert_eq!(fleet.keys(), [""; 0]);
}

#[tokio::test]
async fn f2_a_retry_is_not_refused_by_what_the_last_attempt_left() {
    let (fleet, locks) = Fleet::with_locks(5).await;
    (0..3).for_each(|node| fleet.plant(node, NAME));

    let waiting = tokio::spawn(locks.lock(NAME).wait(LIMIT).into_future());
    let attempts = || fleet.calls(4, "set");
    let first = attempts();
    soon("a few attempts have failed", || attempts() >= first + 3).await;
    // Four of five are free now, if nothing of our own is in the way.
    (0..2).for_each(|node| assert!(fleet.remove(node, NAME)));

    let guard = in_time(waiting).await.unwrap().unwrap();
    soon("four nodes have it", || {
        let token = guard.lock_token();
        (0..5).filter(|n| fleet.value(*n, NAME).is_some_and(|v| v.as_bytes() == token)).count() == 4
    })
    .await;
}

#[tokio::test]
async fn f3_f5_a_majority_that_comes_too_late_is_no_grant_and_is_undone() {
    let networks = Networks::of(3);
    let locks = networks.locks().await;
    networks.each(|proxy| proxy.delay(Direction::Replies, 1500 * MS));

    let request = locks.lock(NAME).ttl(4 * SEC).node_timeout(3900 * MS).no_renewal();
    let late = request.min_validity(3 * SEC).await;
    let Err(LockError::TooSlow { elapsed, votes }) = late else { panic!("{late:?}") };
    networks.each(Proxy::pass);

    assert!(elapsed >= 1500 * MS, "{elapsed:?}");
    assert_eq!(votes.tally().granted, 2, "{votes}");
    networks.fleet.is_tidy_after(&locks).await;
}

#[tokio::test]
async fn f4_keys_that_were_deleted_are_reported_within_one_renewal() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let guard = locks.lock(NAME).ttl(6 * SEC).node_timeout(SEC).await.unwrap();
    let ends = Instant::now() + guard.remaining();
    soon("every node has the key", || fleet.nodes_with(NAME) == 3).await;
    (0..3).for_each(|node| assert!(fleet.remove(node, NAME)));

    let lost = in_time(guard.lost()).await;

    assert!(matches!(lost, Lost::Gone { .. }), "{lost}");
    // Renewal comes after a third of it, and this is two thirds later.
    assert!(Instant::now() < ends, "no sooner than the lease would have ended by itself");
}

#[tokio::test]
async fn f4_loss_is_signalled_in_time_with_two_of_three_nodes_mute() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let request = locks.lock(NAME).ttl(8 * SEC).node_timeout(500 * MS);
    // So early that a busy machine has time to wake us.
    let guard = request.notice(4 * SEC).await.unwrap();
    fleet.servers.freeze(&[0, 2]);
    let ends = Instant::now() + guard.remaining();

    let lost = in_time(guard.lost()).await;

    assert!(Instant::now() < ends, "{:?} after the end", ends.elapsed());
    assert!(matches!(lost, Lost::Expired { .. }), "{lost}");
    assert!(!guard.is_held());
    fleet.servers.thaw(&[0, 2]);
}

#[tokio::test]
async fn f5_an_outage_does_not_look_like_contention() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    fleet.plant(0, NAME);
    fleet.servers.kill(&[1, 2]);

    let votes = no_majority(locks.lock(NAME).await);
    let tried = locks.try_lock(NAME).await;

    assert_eq!((votes.tally().granted, votes.tally().failed), (0, 2), "{votes}");
    assert!(matches!(tried, Err(LockError::NoMajority { .. })), "not the answer `held`: {tried:?}");
}

#[tokio::test]
async fn f5_contention_does_not_look_like_an_outage_either() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    fleet.plant(0, NAME);
    fleet.plant(1, NAME);
    fleet.servers.kill(&[2]);

    let votes = held(locks.lock(NAME).await);

    assert_eq!(votes.tally().refused, 2, "{votes}");
}

#[tokio::test]
async fn f5_the_smallest_ttl_and_no_wait_neither_panic_nor_hang() {
    let fleet = Fleet::of(1);
    // Its own node timeout must fit the TTL.
    let locks = Locks::connect(fleet.servers.urls()).await.unwrap();

    for millis in 3..20 {
        let ttl = Duration::from_millis(millis);
        let taken = in_time(locks.lock(NAME).ttl(ttl).wait(Duration::ZERO).into_future()).await;

        // On a busy machine such a lease has ended before it is granted.
        let fine = match &taken {
            Ok(guard) => guard.remaining() < ttl,
            Err(error) => !matches!(error, LockError::Invalid(_) | LockError::Held { .. }),
        };
        assert!(fine, "{ttl:?}: {taken:?}");
        drop(taken);
        in_time(locks.settled()).await;
    }
}

#[tokio::test]
async fn f6_two_of_three_and_three_of_five_are_enough() {
    for (nodes, dead) in [(3, &[1][..]), (5, &[0, 3])] {
        let (fleet, locks) = Fleet::with_locks(nodes).await;
        fleet.servers.kill(dead);

        let guard = in_time(locks.lock(NAME).into_future()).await.unwrap();
        guard.extend().await.unwrap();

        assert_eq!(guard.release().await.unwrap(), Released::Now, "{nodes} nodes");
    }
}

#[tokio::test]
async fn f6_a_minority_that_grants_keeps_no_key() {
    let (fleet, locks) = Fleet::with_locks(5).await;
    fleet.servers.kill(&[2, 3, 4]);

    no_majority(locks.lock(NAME).await);

    soon("both are tidy", || (0..2).all(|node| fleet.servers[node].keys().is_empty())).await;
}

#[tokio::test]
async fn f7_majority_with_one_node_error_is_a_grant_and_leaves_nothing() {
    let broken = Server::options().config("rename-command SET \"\"");
    let options = [Server::options(), broken, Server::options()];
    let fleet = Fleet { servers: Servers::start_each(options).unwrap() };
    let locks = fleet.locks().await;

    let guard = locks.lock(NAME).await.unwrap();
    guard.extend().await.unwrap();
    let released = guard.release().await;
    locks.settled().await;

    assert_eq!(released.unwrap(), Released::Now);
    assert_eq!(fleet.keys(), [""; 0]);
}

#[tokio::test]
async fn f7_no_wait_is_one_attempt() {
    let (fleet, locks) = Fleet::with_locks(1).await;
    fleet.plant(0, NAME);
    let before = fleet.calls(0, "set");

    held(locks.lock(NAME).wait(Duration::ZERO).await);
    assert!(locks.try_lock(NAME).await.unwrap().is_none());

    assert_eq!(fleet.calls(0, "set"), before + 2);
}

#[tokio::test]
async fn f8_extending_never_makes_a_key_that_is_gone() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let guard = fleet.lock_on_all(&locks).await;
    (0..3).for_each(|node| assert!(fleet.remove(node, NAME)));

    let extended = guard.extend().await;
    locks.settled().await;

    assert!(matches!(extended, Err(ExtendError::Lost(Lost::Gone { .. }))), "{extended:?}");
    assert_eq!(fleet.keys(), [""; 0]);
}

#[tokio::test]
async fn f8_extending_never_touches_another_owners_key() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let guard = fleet.lock_on_all(&locks).await;
    for node in 0..3 {
        fleet.remove(node, NAME);
        fleet.servers[node].run(&["SET", NAME, FOREIGN, "PX", "5000"]);
    }

    assert!(guard.extend_by(30 * SEC).await.is_err());
    guard.release().await.unwrap();
    locks.settled().await;

    for node in 0..3 {
        assert_eq!(fleet.value(node, NAME).as_deref(), Some(FOREIGN));
        assert!(fleet.time_to_live(node, NAME) <= 5 * SEC);
    }
}

#[tokio::test]
async fn f9_a_caller_that_was_cancelled_leaves_no_key() {
    let networks = Networks::of(3);
    let locks = networks.locks().await;
    let fleet = &networks.fleet;
    networks.each(|proxy| proxy.hold(Direction::Replies));

    let request = locks.lock(NAME).no_renewal().node_timeout(LIMIT);
    let caller = tokio::spawn(request.into_future());
    soon("the takes are carried out", || fleet.nodes_with(NAME) == 3).await;
    caller.abort();
    assert!(in_time(caller).await.unwrap_err().is_cancelled());

    // The undo does not wait for the answers that the caller waited for.
    fleet.is_tidy_soon().await;
    networks.each(Proxy::pass);
    fleet.is_tidy_after(&locks).await;
}

#[tokio::test]
async fn f9_the_node_timeout_holds_for_commands_that_are_under_way() {
    let networks = Networks::of(3);
    let locks = networks.locks().await;
    networks.each(|proxy| proxy.hold(Direction::Requests));

    let votes = no_majority(in_time(locks.lock(NAME).node_timeout(200 * MS).into_future()).await);

    assert_eq!(votes.tally().failed, 3, "{votes}");
    let timed_out = |vote: &Vote| matches!(vote, Vote::Failed(Fault::TimedOut(_)));
    assert!(votes.iter().all(|node| timed_out(&node.vote)), "{votes}");
}

#[tokio::test]
async fn f12_a_lease_whose_renewals_hang_does_not_stay_held() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let guard = locks.lock(NAME).ttl(2 * SEC).node_timeout(500 * MS).await.unwrap();
    fleet.servers.freeze(&[0, 1, 2]);

    soon("it is no longer held", || !guard.is_held()).await;

    assert_eq!(guard.remaining(), Duration::ZERO);
    assert!(matches!(in_time(guard.lost()).await, Lost::Expired { .. }));
    assert!(matches!(guard.extend().await, Err(ExtendError::Lost(_))));
    fleet.servers.thaw(&[0, 1, 2]);
}

#[tokio::test]
async fn f12_a_guard_that_nobody_drops_is_renewed_up_to_the_cap_only() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let request = locks.lock(NAME).ttl(2 * SEC).node_timeout(500 * MS).max_hold(3 * SEC);
    let begin = Instant::now();

    std::mem::forget(request.await.unwrap());

    fleet.is_tidy_soon().await;
    assert!(begin.elapsed() > 2500 * MS, "it was renewed: {:?}", begin.elapsed());
}

#[tokio::test]
async fn f13_an_extension_needs_a_majority_of_all_nodes_not_of_those_that_granted() {
    let (fleet, locks) = Fleet::with_locks(5).await;
    fleet.plant(3, NAME);
    fleet.plant(4, NAME);
    let guard = locks.lock(NAME).no_renewal().await.unwrap();
    soon("three have it", || {
        (0..3)
            .all(|node| fleet.value(node, NAME).is_some_and(|v| v.as_bytes() == guard.lock_token()))
    })
    .await;
    let before = guard.remaining();

    fleet.servers.kill(&[0]);
    let extended = guard.extend_by(30 * SEC).await;

    // Two of the three that granted, but two of five.
    assert!(extended.is_err(), "{extended:?}");
    assert!(guard.remaining() <= before);
}

#[tokio::test]
async fn f13_dropping_the_guard_releases_the_lock() {
    let (fleet, locks) = Fleet::with_locks(3).await;

    drop(locks.lock(NAME).await.unwrap());

    fleet.is_tidy_after(&locks).await;
}

#[tokio::test]
async fn f14_a_take_that_was_under_way_when_the_connection_broke_is_not_sent_again() {
    let networks = Networks::of(1);
    let locks = networks.locks().await;
    let fleet = &networks.fleet;
    let before = fleet.calls(0, "set");
    networks.each(|proxy| proxy.hold(Direction::Replies));

    let caller = tokio::spawn(locks.lock(NAME).into_future());
    soon("the take is carried out", || fleet.nodes_with(NAME) == 1).await;
    networks.each(Proxy::reset_all);
    networks.each(Proxy::pass);
    let votes = no_majority(in_time(caller).await.unwrap());
    in_time(locks.settled()).await;

    let disconnected = |vote: &Vote| matches!(vote, Vote::Failed(Fault::Disconnected(_)));
    assert!(votes.iter().all(|node| disconnected(&node.vote)), "{votes}");
    assert_eq!(fleet.keys(), [""; 0]);
    // One of them is the check of permissions on the new connection.
    assert_eq!(fleet.calls(0, "set"), before + 2);
    assert!(locks.lock(NAME).await.is_ok(), "refused by a key of our own");
}

#[tokio::test]
async fn f17_a_lock_that_another_library_keeps_in_a_hash_is_held_not_broken() {
    let fleet = Fleet::mixed();
    let locks = fleet.locks().await;
    for server in &fleet.servers {
        server.run(&["HSET", NAME, "3f2a:17", "1"]);
        server.run(&["PEXPIRE", NAME, "30000"]);
    }

    held(locks.lock(NAME).await);
    held(locks.lock_all(["a", NAME]).await);
    assert!(locks.try_lock(NAME).await.unwrap().is_none());
    let status = locks.status(NAME).await.unwrap();
    locks.settled().await;

    let LockState::Held { owner: None, remaining: Some(left), .. } = status.state else {
        panic!("{status:?}");
    };
    assert!(left > 20 * SEC, "{left:?}");
    assert_eq!(fleet.keys(), [NAME; 3]);
}

#[tokio::test]
async fn f17_a_key_that_became_a_hash_is_no_longer_ours_and_is_left_alone() {
    let fleet = Fleet::mixed();
    let locks = fleet.locks().await;
    let guard = fleet.lock_on_all(&locks).await;
    for server in &fleet.servers {
        server.run(&["DEL", NAME]);
        server.run(&["HSET", NAME, "3f2a:17", "1"]);
    }

    let extended = guard.extend().await;
    assert!(matches!(extended, Err(ExtendError::Lost(Lost::Gone { .. }))), "{extended:?}");
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyGone);
    locks.settled().await;

    assert_eq!(fleet.keys(), [NAME; 3]);
}
