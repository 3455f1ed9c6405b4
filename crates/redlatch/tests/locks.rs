//! Taking, excluding, waiting, releasing and looking, on real servers.

mod support;

use redlatch::{LockError, LockState, NodeKey, Released, Vote};
use std::time::Duration;
use support::{FOREIGN, Fleet, LIMIT, MS, NAME, SEC, held, in_time, is_held, log::Log, soon};

#[tokio::test]
async fn a_lock_is_on_every_node_and_gone_from_every_node_on_1_3_4_and_5() {
    for nodes in [1, 3, 4, 5] {
        let (fleet, locks) = Fleet::with_locks(nodes).await;

        let guard = locks.lock(NAME).await.unwrap();
        soon("every node has the key", || fleet.nodes_with(NAME) == nodes).await;
        assert!(guard.is_held());
        let released = guard.release().await;
        locks.settled().await;

        assert_eq!(released.unwrap(), Released::Now, "{nodes} nodes");
        assert_eq!(fleet.keys(), [""; 0], "{nodes} nodes");
    }
}

#[tokio::test]
async fn redis_7_redis_6_and_valkey_together_do_all_that_a_lock_needs() {
    let fleet = Fleet::mixed();
    let locks = fleet.locks().await;

    let guard = locks.lock_all([NAME, "ledger"]).ttl(10 * SEC).await.unwrap();
    soon("every node has both keys", || fleet.keys().len() == 6).await;
    assert!(locks.try_lock("ledger").await.unwrap().is_none());
    guard.extend_by(20 * SEC).await.unwrap();
    let status = locks.status(NAME).await.unwrap();
    let released = guard.release().await.unwrap();
    locks.settled().await;

    assert!(status.nodes.iter().all(|node| is_held(&node.key)), "{status:?}");
    assert_eq!(released, Released::Now);
    assert_eq!(fleet.keys(), [""; 0]);
}

#[tokio::test]
async fn two_clients_never_hold_one_name_together() {
    let (_fleet, one, other) = Fleet::with_two_clients(3).await;
    let guard = one.lock(NAME).await.unwrap();

    assert!(other.try_lock(NAME).await.unwrap().is_none());
    held(other.lock(NAME).await);
    assert!(other.try_lock("another name").await.unwrap().is_some());
    guard.release().await.unwrap();

    // As soon as a majority has let go, whatever the third is doing.
    let next = other.lock(NAME).wait(LIMIT).await.unwrap();
    assert!(next.is_held());
}

#[tokio::test]
async fn a_refusal_leaves_the_other_owners_lock_alone() {
    let (fleet, one, other) = Fleet::with_two_clients(3).await;
    let guard = one.lock(NAME).await.unwrap();
    soon("every node has the key", || fleet.nodes_with(NAME) == 3).await;

    held(other.lock(NAME).wait(200 * MS).await);
    other.settled().await;

    assert_eq!(fleet.nodes_with(NAME), 3);
    assert!(guard.is_held());
    guard.extend().await.unwrap();
}

#[tokio::test]
async fn releasing_a_lock_that_somebody_deleted_says_already_gone() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let guard = fleet.lock_on_all(&locks).await;

    for node in [0, 1] {
        assert!(fleet.remove(node, NAME));
    }

    assert_eq!(guard.release().await.unwrap(), Released::AlreadyGone);
}

#[tokio::test]
async fn a_key_lost_by_a_minority_does_not_change_what_release_says() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let guard = fleet.lock_on_all(&locks).await;

    assert!(fleet.remove(1, NAME));

    assert_eq!(guard.release().await.unwrap(), Released::Now);
}

#[tokio::test]
async fn sets_that_overlap_exclude_each_other_and_those_that_do_not_do_not() {
    let (_fleet, one, other) = Fleet::with_two_clients(3).await;
    let guard = one.lock_all(["a", "b", "c"]).await.unwrap();

    assert!(other.try_lock_all(["c", "d"]).await.unwrap().is_none());
    assert!(other.try_lock("a").await.unwrap().is_none());
    assert!(other.try_lock_all(["d", "e"]).await.unwrap().is_some());
    guard.release().await.unwrap();

    assert!(other.lock_all(["c", "d"]).wait(LIMIT).await.is_ok());
}

#[tokio::test]
async fn a_refused_set_leaves_no_key_of_any_of_its_names() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    for node in 0..3 {
        fleet.plant(node, "b");
    }

    let votes = held(locks.lock_all(["a", "b", "c"]).await);
    locks.settled().await;

    assert_eq!(votes.tally().granted, 0, "{votes}");
    assert_eq!(fleet.keys(), ["b"; 3]);
}

#[tokio::test]
async fn a_set_won_by_a_majority_only_leaves_the_minority_untouched() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    fleet.plant(0, "b");

    let guard = locks.lock_all(["a", "b"]).await.unwrap();
    soon("two nodes have all of it", || fleet.nodes_with("a") == 2).await;
    let released = guard.release().await.unwrap();
    locks.settled().await;

    assert_eq!(released, Released::Now);
    assert_eq!(fleet.keys(), ["b"]);
    assert_eq!(fleet.value(0, "b").unwrap(), FOREIGN);
}

#[tokio::test]
async fn waiting_ends_with_the_lock_when_its_holder_lets_go() {
    let (_fleet, one, other) = Fleet::with_two_clients(3).await;
    let guard = one.lock(NAME).await.unwrap();

    let waiting = tokio::spawn(other.lock(NAME).wait(LIMIT).into_future());
    held(other.lock(NAME).await);
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();

    assert!(in_time(waiting).await.unwrap().unwrap().is_held());
}

#[tokio::test]
async fn waiting_ends_with_the_lock_when_a_dead_holders_keys_expire() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    for server in &fleet.servers {
        server.run(&["SET", NAME, FOREIGN, "PX", "1000"]);
    }

    let guard = locks.lock(NAME).wait(LIMIT).await.unwrap();

    assert!(guard.is_held());
}

#[tokio::test]
async fn a_wait_that_times_out_ends_with_every_nodes_vote() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    for node in 0..3 {
        fleet.plant(node, NAME);
    }

    let error = in_time(locks.lock(NAME).wait(500 * MS).into_future()).await.unwrap_err();

    let text = error.to_string();
    let votes = held(Err(error));
    // A majority is enough: nobody waits for the slowest to say no.
    assert!(votes.tally().refused >= 2 && votes.tally().granted == 0, "{votes}");
    for server in &fleet.servers {
        assert!(text.contains(&server.url()), "{text}");
    }
    locks.settled().await;
    assert_eq!(fleet.keys(), [NAME; 3]);
}

#[tokio::test]
async fn a_set_that_is_refused_names_who_has_it_and_for_how_long() {
    let (fleet, one, other) = Fleet::with_two_clients(3).await;
    let _guard = one.lock(NAME).owner("billing-7").await.unwrap();
    soon("every node has the key", || fleet.nodes_with(NAME) == 3).await;

    let text = other.lock_all([NAME, "b"]).await.unwrap_err().to_string();

    assert!(text.contains("held by billing-7 for another"), "{text}");
}

#[tokio::test]
async fn status_distinguishes_free_held_unclear_and_down() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    assert_eq!(locks.status(NAME).await.unwrap().state, LockState::Free);

    let guard = locks.lock(NAME).owner("billing-7").await.unwrap();
    soon("every node has the key", || fleet.nodes_with(NAME) == 3).await;
    let status = locks.status(NAME).await.unwrap();
    let LockState::Held { owner, remaining, fencing_token } = status.state else {
        panic!("held, but status does not say so");
    };
    assert_eq!(owner.as_deref(), Some("billing-7"));
    assert_eq!(fencing_token, guard.fencing_token());
    let remaining = remaining.unwrap();
    assert!(remaining > 10 * SEC && remaining <= 30 * SEC, "{remaining:?}");
    guard.release().await.unwrap();
    locks.settled().await;

    fleet.plant(0, NAME);
    fleet.servers.kill(&[2]);
    let status = locks.status(NAME).await.unwrap();
    assert!(matches!(status.state, LockState::Unclear(_)), "{status:?}");
    assert!(matches!(&status.nodes[0].key, NodeKey::Held { owner: None, .. }), "{status:?}");
    assert_eq!(status.nodes[1].key, NodeKey::Free);
    assert!(matches!(&status.nodes[2].key, NodeKey::Failed(_)), "{status:?}");
    assert_eq!(*status.nodes[2].node, *fleet.servers[2].url());
}

#[tokio::test]
async fn status_of_a_key_without_expiry_says_forever() {
    let (fleet, locks) = Fleet::with_locks(1).await;
    fleet.servers[0].run(&["SET", NAME, FOREIGN]);

    let status = locks.status(NAME).await.unwrap();

    assert_eq!(status.state, LockState::Held { owner: None, remaining: None, fencing_token: None });
}

#[tokio::test]
async fn the_owner_on_the_nodes_is_host_and_pid_unless_named() {
    let (fleet, locks) = Fleet::with_locks(1).await;

    let unnamed = locks.lock("a").await.unwrap();
    let named = locks.lock("b").owner("web-1").await.unwrap();

    let pid = format!("/{}", std::process::id());
    assert!(unnamed.owner().ends_with(&pid), "{}", unnamed.owner());
    assert!(fleet.value(0, "a").unwrap().contains(&format!("{pid};since=")));
    assert_eq!(named.owner(), "web-1");
    assert_eq!(fleet.value(0, "b").unwrap().as_bytes(), named.lock_token());
}

#[tokio::test]
async fn the_votes_on_a_guard_show_the_node_that_is_down() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    fleet.servers.kill(&[1]);

    let guard = locks.lock(NAME).await.unwrap();
    soon("all have voted", || guard.votes().tally().pending == 0).await;

    let votes = guard.votes();
    assert_eq!((votes.tally().granted, votes.tally().failed), (2, 1), "{votes}");
    let down = votes.iter().nth(1).unwrap();
    assert_eq!(*down.node, *fleet.servers[1].url());
    assert!(matches!(down.vote, Vote::Failed(_)), "{votes}");
}

#[tokio::test]
async fn the_key_lives_for_the_ttl_and_the_lease_ends_before_it() {
    let (fleet, locks) = Fleet::with_locks(3).await;

    let guard = locks.lock(NAME).ttl(20 * SEC).no_renewal().await.unwrap();
    soon("every node has the key", || fleet.nodes_with(NAME) == 3).await;

    for node in 0..3 {
        let remaining = guard.remaining();
        let lives = fleet.time_to_live(node, NAME);
        assert!(lives <= 20 * SEC, "{lives:?}");
        // Read after the lease, and in whole milliseconds.
        assert!(remaining < lives + 50 * MS && remaining > 10 * SEC, "{remaining:?} {lives:?}");
    }
    assert!(guard.remaining() < Duration::from_millis(19_798));
}

#[tokio::test]
async fn names_may_hold_any_bytes() {
    let (fleet, locks) = Fleet::with_locks(1).await;
    let names: [&[u8]; 4] = [b"\0", b"{a}%s\r\n", b"\xff\xfe", &[b'x'; 1024]];

    for name in names {
        let guard = locks.lock(name).await.unwrap();
        assert!(locks.try_lock(name).await.unwrap().is_none());
        assert_eq!(fleet.servers[0].run(&[b"EXISTS", name]).int(), Some(1));
        guard.release().await.unwrap();
    }
    fleet.is_tidy_after(&locks).await;
}

#[tokio::test]
async fn locks_work_over_a_unix_socket_a_password_and_another_database() {
    let options = redlatch_testbed::Server::options().password("sesame").unix_socket();
    let fleet = Fleet::with(1, &options);
    let url = format!("{}?db=3&password=sesame", fleet.servers[0].unix_url());
    let locks = support::patient().node(url).connect().await.unwrap();

    let guard = locks.lock(NAME).await.unwrap();

    assert_eq!(fleet.keys(), [""; 0], "database 0 has none of it");
    assert_eq!(fleet.servers[0].run(&["SELECT", "3"]).text().as_deref(), Some("OK"));
    assert_eq!(fleet.keys(), [NAME]);
    guard.release().await.unwrap();
    assert_eq!(fleet.keys(), [""; 0]);
}

#[tokio::test]
async fn a_data_key_under_the_name_of_a_lock_is_distinguished_from_an_owner() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    for server in &fleet.servers {
        server.run(&["SET", "cfg", "x"]);
        server.run(&["LPUSH", "queue", "x"]);
    }

    for name in ["cfg", "queue"] {
        let error = locks.lock(name).wait(Duration::ZERO).await.unwrap_err();
        let status = locks.status(name).await.unwrap();

        assert!(matches!(error, LockError::Held { .. }), "{error}");
        let (error, data) = (error.to_string(), "the key has no TTL, so it is data and not a lock");
        let why = format!(" of 3 nodes: {data}; give the lock another name: ");
        let begins = error.starts_with(&format!("{name}: not available on "));
        assert!(begins && error.contains(&why), "{error}");
        assert!(!error.contains("held"), "{error}");
        let told = format!("not available: {data}; give the lock another name");
        assert_eq!(status.state.to_string(), told);
        assert_eq!(status.nodes[0].key.to_string(), format!("not available: {data}"));
    }
}

#[tokio::test]
async fn locking_a_name_twice_says_who_holds_it() {
    let (log, _here) = Log::of_this_thread();
    let (_fleet, locks, other) = Fleet::with_two_clients(1).await;
    let _guard = locks.lock(NAME).await.unwrap();

    for again in [&locks, &other] {
        let error = in_time(again.lock(NAME).wait(MS).into_future()).await.unwrap_err();
        let words = format!(
            "{NAME}: held by another task of this process (locks are not re-entrant) on the only node: "
        );
        assert!(error.to_string().starts_with(&words), "{error}");
    }
    let events = log.text();
    assert!(events.contains("lock not taken: held on the only node"), "{events}");
    assert!(!events.contains("another owner"), "{events}");
    let _named = locks.lock("other").owner("another/1").await.unwrap();
    let error = in_time(locks.lock("other").wait(MS).into_future()).await.unwrap_err();
    assert!(error.to_string().starts_with("other: held by another owner"), "{error}");
}

#[tokio::test]
async fn a_client_with_a_label_knows_its_own_locks() {
    let fleet = Fleet::of(1);
    let locks = fleet.builder().owner("billing").connect().await.unwrap();
    let _guard = locks.lock(NAME).await.unwrap();

    let error = in_time(locks.lock(NAME).wait(MS).into_future()).await.unwrap_err();

    let words = format!("{NAME}: held by another task of this process");
    assert!(error.to_string().starts_with(&words), "{error}");
}

#[tokio::test]
async fn try_lock_on_a_name_that_data_has_says_so() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    for (node, server) in fleet.servers.iter().enumerate() {
        server.run(&["SET", "hits", &node.to_string()]);
    }
    // One node alone keeps nobody from the lock.
    fleet.servers[0].run(&["SET", "one", "x"]);

    let tried = locks.try_lock("hits").await.unwrap_err();
    let ran = locks.try_lock("hits").run(|_| async { panic!("it ran") }).await.unwrap_err();
    let set = locks.try_lock_all(["a", "hits"]).await.unwrap_err();
    let status = locks.status("hits").await.unwrap();

    assert!(matches!(tried, LockError::Held { .. }), "{tried}");
    for error in [tried.to_string(), ran.to_string(), set.to_string()] {
        assert!(error.contains("the key has no TTL, so it is data and not a lock"), "{error}");
        assert!(error.contains("give the lock another name"), "{error}");
    }
    assert!(status.state.is_data(), "though the nodes' values differ");
    assert!(locks.try_lock("one").await.unwrap().is_some());
}

#[tokio::test]
async fn an_owner_with_our_host_and_pid_elsewhere_is_not_taken_for_this_process() {
    let (fleet, locks) = Fleet::with_locks(1).await;
    let ours = locks.lock("ours").await.unwrap();
    // As in two containers with the same host name, both with pid 1.
    let theirs = String::from_utf8(ours.lock_token().to_vec()).unwrap();
    fleet.servers[0].run(&["SET", NAME, &theirs, "PX", "60000"]);

    let error = locks.lock(NAME).await.unwrap_err().to_string();

    let words = format!("{NAME}: held by another owner on the only node: ");
    assert!(error.starts_with(&words), "{error}");
}
