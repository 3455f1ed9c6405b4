//! Looking at locks without taking part, on every kind of node.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use redlatch::{
    Builder, LockState, Locks, RestartGuard,
    node::REDIS_PERMISSIONS,
    observer::{Listing, Removal, Trial, Unseen},
};
use redlatch_testbed::{Flavour, Reply, Scratch, Server, Servers};
use std::time::Duration;

/// Nodes of one kind, as settings to connect or look with.
async fn on_every_kind(check: impl AsyncFn(Builder)) {
    let servers = Servers::start(3).unwrap();
    check(Locks::builder().nodes(servers.urls()).restart_guard(RestartGuard::Off)).await;
    let scratch = Scratch::new().unwrap();
    check(Locks::builder().node(format!("file:{}", scratch.file("locks.db").display()))).await;
    check(Locks::builder().node("memory:")).await;
}

fn names(listing: &Listing) -> Vec<String> {
    assert!(listing.failed.is_empty(), "{listing:?}");
    listing.locks.iter().map(|lock| lock.name.to_string()).collect()
}

#[tokio::test]
async fn locks_are_listed_by_pattern_with_their_owner() {
    on_every_kind(async |nodes| {
        let locks = nodes.clone().owner("ada").connect().await.unwrap();
        let observer = nodes.observer().unwrap();
        let mut guards = Vec::new();
        for name in ["a:1", "a:2", "b:1", "[x]"] {
            guards.push(locks.lock(name).await.unwrap());
        }

        assert_eq!(names(&observer.list("*").await), ["[x]", "a:1", "a:2", "b:1"]);
        assert_eq!(names(&observer.list("a:*").await), ["a:1", "a:2"]);
        assert_eq!(names(&observer.list("?:1").await), ["a:1", "b:1"]);
        assert_eq!(names(&observer.list("[^b]:[0-1]").await), ["a:1"]);
        assert_eq!(names(&observer.list("\\[x]").await), ["[x]"]);
        assert_eq!(names(&observer.list("").await), [""; 0]);
        let listing = observer.list("b:1").await;
        let LockState::Held { owner, remaining, .. } = &listing.locks[0].state else {
            panic!("{listing:?}");
        };
        assert_eq!(owner.as_deref(), Some("ada"));
        assert!(remaining.is_some_and(|left| left > Duration::from_secs(5)), "{remaining:?}");

        drop(guards);
        locks.settled().await;
        assert_eq!(names(&observer.list("*").await), [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn more_locks_than_a_page_holds_are_all_listed_once() {
    on_every_kind(async |nodes| {
        let locks = nodes.clone().connect().await.unwrap();
        let mut expected: Vec<_> = (0..700).map(|number| format!("many:{number}")).collect();
        let mut guards = Vec::new();
        for batch in expected.chunks(50) {
            guards.push(locks.lock_all(batch).await.unwrap());
        }

        let listed = names(&nodes.observer().unwrap().list("many:*").await);

        expected.sort();
        assert_eq!(listed, expected);
        drop(guards);
        locks.settled().await;
    })
    .await;
}

#[tokio::test]
async fn other_keys_are_neither_listed_nor_taken_away() {
    let server = Server::start().unwrap();
    server.run(&["SET", "text", "data"]);
    server.run(&["SET", "session", "data", "EX", "100"]);
    server.run(&["LPUSH", "list", "data"]);
    let observer = Locks::builder().node(server.url()).observer().unwrap();

    assert_eq!(names(&observer.list("*").await), [""; 0]);
    for name in ["text", "list"] {
        let seen = observer.status(name).await.unwrap();
        assert_eq!(seen.grants, []);
        let forced = observer.force_release(name, &seen.grants).await.unwrap();
        assert_eq!(forced[0].outcome, Ok(Removal::NoLock), "{forced:?}");
        assert_eq!(server.run(&["EXISTS", name]), Reply::Int(1));
    }
}

#[tokio::test]
async fn a_lock_is_taken_away_from_its_holder_and_the_holder_notices() {
    on_every_kind(async |nodes| {
        let locks = nodes.clone().owner("ada").ttl(Duration::from_millis(600)).connect();
        let locks = locks.await.unwrap();
        let guard = locks.lock("x").await.unwrap();

        let observer = nodes.observer().unwrap();
        let seen = observer.status("x").await.unwrap().grants;
        let forced = observer.force_release("x", &seen).await.unwrap();

        for node in forced {
            assert_eq!((node.owner.as_deref(), node.outcome), (Some("ada"), Ok(Removal::Removed)));
        }
        let lost = tokio::time::timeout(Duration::from_secs(5), guard.lost()).await.unwrap();
        assert!(matches!(lost, redlatch::Lost::Gone { .. }), "{lost}");
    })
    .await;
}

#[tokio::test]
async fn a_lock_that_was_taken_anew_since_it_was_seen_stays() {
    on_every_kind(async |nodes| {
        let locks = nodes.clone().owner("ada").connect().await.unwrap();
        let observer = nodes.observer().unwrap();
        let first = locks.lock("x").await.unwrap();
        let seen = observer.status("x").await.unwrap().grants;
        first.release().await.unwrap();
        locks.settled().await;
        let _second = locks.lock("x").await.unwrap();

        let forced = observer.force_release("x", &seen).await.unwrap();

        for node in forced {
            assert_eq!((node.owner.as_deref(), node.outcome), (Some("ada"), Ok(Removal::Other)));
        }
        assert_eq!(seen.len(), 1);
        assert_ne!(observer.status("x").await.unwrap().grants, seen);
    })
    .await;
}

#[tokio::test]
async fn an_examination_leaves_nothing_behind() {
    let servers = Servers::start(2).unwrap();
    servers.kill(&[1]);
    let observer = Locks::builder().nodes(servers.urls()).observer().unwrap();

    let examined = observer.examine("try:").await.unwrap();

    assert_eq!(examined[0].trial, Trial::Passed);
    let facts = examined[0].facts.as_ref().unwrap();
    assert_eq!((facts.journal, facts.replicas, facts.promoted), (Some(false), Some(0), false));
    assert!(examined[0].ahead.is_some_and(|ahead| ahead.abs() < 1.0), "{examined:?}");
    assert_eq!(examined[1].trial, Trial::Skipped);
    assert!(examined[1].facts.is_err());
    let keys = servers[0].keys();
    assert!(!keys.iter().any(|key| key.starts_with("try:")), "{keys:?}");
}

#[tokio::test]
async fn keys_that_the_user_may_not_read_are_counted_and_hide_no_others() {
    for flavour in Flavour::ALL {
        let rules = format!("{REDIS_PERMISSIONS} ~redlatch:* ~deploy:*");
        let server = Server::options().flavour(flavour).user("ada", "pw", &rules).start().unwrap();
        let all = Locks::builder().node(server.url()).connect().await.unwrap();
        let _ours = all.lock("deploy:web").await.unwrap();
        let _theirs = all.lock("billing").await.unwrap();
        server.run(&["SET", "session:1", "abc"]);
        server.run(&["HSET", "profile:1", "name", "ada"]);
        let observer = Locks::builder().node(server.url_as("ada", "pw")).observer().unwrap();

        let listing = observer.list("*").await;

        assert_eq!(names(&listing), ["deploy:web"], "{flavour}");
        let unread: Vec<_> = listing.unread.iter().map(|(_, keys)| *keys).collect();
        assert_eq!(unread, [2], "{flavour}: {listing:?}");
        let listing = observer.list("deploy:*").await;
        assert_eq!(names(&listing), ["deploy:web"], "{flavour}");
        assert_eq!(listing.unread, [], "{flavour}");
        let others = observer.others().await;
        let unseen: Vec<_> = others.unseen.iter().map(|(_, why)| why).collect();
        assert_eq!(unseen, [&Unseen::Denied(3)], "{flavour}: a hash may be a lock, too");
        if flavour != Flavour::Redis62 {
            // Older servers have no permission to read alone.
            assert!(server.run(&["ACL", "SETUSER", "ada", "%R~*"]).is_ok(), "{flavour}");
            let listing = observer.list("*").await;
            assert_eq!(names(&listing), ["billing", "deploy:web"], "{flavour}");
            assert_eq!(listing.unread, [], "{flavour}");
            let number = |at: usize| match &listing.locks[at].state {
                LockState::Held { fencing_token, .. } => *fencing_token,
                state => panic!("{flavour}: {state}"),
            };
            assert_eq!((number(0), number(1).is_some()), (None, true), "{flavour}");
        }
    }
}
