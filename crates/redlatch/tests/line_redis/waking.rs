//! Which waiters are woken, which are not, and what a server must allow for it.

use super::{
    Scene,
    support::{
        LIMIT,
        wire::{Claim, Wire, ahead, is_granted},
    },
};
use redlatch::node::REDIS_PERMISSIONS;
use redlatch_core::{Ticket, Vote};
use redlatch_testbed::{Flavour, Server, eventually};

/// They may be back in a moment, and keep their places until then.
#[tokio::test]
async fn a_ticket_of_a_client_that_is_gone_is_skipped() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2, 3, 4]).await;
        let heard = |scene: &Scene| scene.server.run(&["PUBSUB", "CHANNELS"]).items().len();
        assert_eq!(heard(&scene), 3);
        let url = scene.server.url();
        scene.wires[1] = Wire::to(&url, 2);
        scene.wires[2] = Wire::to(&url, 3);
        eventually(LIMIT, || heard(&scene) == 1);

        scene.release(1, None).await;

        scene.wires[3].woken().await;
        assert_eq!((scene.reserved(), scene.line()), (Some(4), vec![2, 3]));
        counts_for_a_moment(&scene, "redlatch:waiter:");
    }
}

/// All keys that start like this expire soon.
#[track_caller]
fn counts_for_a_moment(scene: &Scene, start: &str) {
    let keys: Vec<_> =
        scene.server.keys().into_iter().filter(|key| key.starts_with(start)).collect();
    assert!(!keys.is_empty());
    for key in keys {
        let left = scene.server.run(&["PTTL", &key]).int().unwrap_or_default();
        assert!((1..=3000).contains(&left), "{key} lives for {left} ms");
    }
}

#[tokio::test]
async fn where_all_that_wait_are_gone_the_key_is_deleted_and_the_line_expires() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2, 3]).await;
        let url = scene.server.url();
        scene.wires[1] = Wire::to(&url, 2);
        scene.wires[2] = Wire::to(&url, 3);
        let heard = |scene: &Scene| scene.server.run(&["PUBSUB", "CHANNELS"]).items().len();
        eventually(LIMIT, || heard(&scene) == 0);

        assert_eq!(scene.release(1, None).await, Vote::Granted);

        assert_eq!(scene.server.run(&["EXISTS", "a"]).int(), Some(0));
        for kept in ["redlatch:line:", "redlatch:waits:", "redlatch:waiter:"] {
            counts_for_a_moment(&scene, kept);
        }
    }
}

#[tokio::test]
async fn a_client_that_waits_for_nothing_subscribes_to_nothing() {
    for mut scene in Scene::everywhere().await {
        scene.release(1, None).await;

        assert_eq!(channels(&scene.server), 0);
    }
}

#[tokio::test]
async fn a_client_that_lost_its_connection_is_woken_on_the_next() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2, 3]).await;
        scene.server.run(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        eventually(LIMIT, || channels(&scene.server) == 0);
        scene.wires[2].deaf().await;

        let again = scene.claims[2].wait_again(scene.ticket(3));
        assert_eq!(ahead(&scene.vote(3, again).await), Some(1));
        scene.release(1, None).await;

        scene.wires[2].woken().await;
        assert_eq!((scene.reserved(), scene.line()), (Some(3), vec![2]));
    }
}

/// The servers would no longer believe it that it came so early.
#[tokio::test]
async fn a_client_that_is_back_has_the_place_that_it_had() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2, 3, 4]).await;
        let url = scene.server.url();
        let late = Ticket { arrived: u64::MAX, ..scene.ticket(2) };
        scene.wires[1] = Wire::to(&url, 2);
        eventually(LIMIT, || channels(&scene.server) == 2);
        scene.release(1, None).await;
        scene.wires[2].woken().await;

        let again = scene.claims[1].wait_again(late);
        assert_eq!(ahead(&scene.vote(2, again).await), Some(0));
        let take = scene.claims[2].wait_again(scene.ticket(3));
        assert!(is_granted(&scene.vote(3, take).await));
        scene.release(3, None).await;

        scene.wires[1].woken().await;
        assert_eq!((scene.reserved(), scene.line()), (Some(2), vec![4]));
    }
}

#[tokio::test]
async fn whatever_else_is_said_on_its_channel_is_ignored() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2]).await;
        let ticket = scene.ticket(2).to_string();
        for noise in ["", "x", &ticket, &format!("g{}a", &ticket[1..]), &"x".repeat(100_000)] {
            let heard = scene.server.run(&["PUBLISH", "redlatch:wake:000000000002", noise]).int();
            assert_eq!(heard, Some(1));
        }
        let real = scene.server.run(&["PUBLISH", "redlatch:wake:000000000002", &(ticket + "b")]);
        assert_eq!(real.int(), Some(1));

        let wake = scene.wires[1].woken().await;

        assert_eq!(wake.resource.as_bytes(), b"b");
        assert!(!scene.is_woken(2).await, "and answers are still in step");
    }
}

/// A server on which the user `ada` may do this; she is clients 1 to 3, and client 1
/// holds `a`.
async fn as_ada(flavour: Flavour, rules: &str) -> Scene {
    let options = Server::options().flavour(flavour).user("ada", "pw", rules);
    let mut scene = Scene::on(&options, true).await;
    let url = scene.server.url_as("ada", "pw");
    for client in 1..=3 {
        scene.wires[client - 1] = Wire::to(&url, client as u64);
    }
    scene
}

#[tokio::test]
async fn the_documented_permissions_are_enough_to_be_woken() {
    for flavour in Flavour::ALL {
        let mut scene = as_ada(flavour, &format!("{REDIS_PERMISSIONS} ~redlatch:* ~a")).await;
        scene.queue([2, 3]).await;

        scene.release(1, None).await;

        scene.wires[1].woken().await;
        assert_eq!((scene.reserved(), scene.line()), (Some(2), vec![3]));
    }
}

#[tokio::test]
async fn a_user_who_may_not_subscribe_waits_in_line_and_is_passed_over() {
    for flavour in Flavour::ALL {
        for less in ["-subscribe", "resetchannels"] {
            let mut scene = as_ada(flavour, &format!("{REDIS_PERMISSIONS} {less} ~*")).await;
            scene.queue([2, 3, 4]).await;
            assert_eq!((scene.line(), channels(&scene.server)), (vec![2, 3, 4], 1));

            // A client that may subscribe but not publish does not know who listens.
            let releases = if less == "-subscribe" { Some(4) } else { Some(2) };
            assert_eq!(scene.release(1, None).await, Vote::Granted);

            assert_eq!(scene.reserved(), releases, "{flavour}: {less}");
            assert!(!scene.is_woken(2).await && !scene.is_woken(3).await);
            let again = scene.claims[1].wait_again(scene.ticket(2));
            assert_eq!(is_granted(&scene.vote(2, again).await), releases == Some(2));
        }
    }
}

#[tokio::test]
async fn a_user_who_may_not_publish_reserves_for_the_first_in_line_and_wakes_nobody() {
    for flavour in Flavour::ALL {
        let mut scene = as_ada(flavour, &format!("{REDIS_PERMISSIONS} -publish ~*")).await;
        scene.queue([2, 3]).await;

        assert_eq!(scene.release(1, None).await, Vote::Granted);

        assert_eq!((scene.reserved(), scene.line()), (Some(2), vec![3]));
        assert!(!scene.is_woken(2).await);
    }
}

/// No server lets a user be denied `HELLO`, but an old proxy may not know it.
#[tokio::test]
async fn a_server_that_speaks_only_resp2_wakes_nobody_and_grants_locks() {
    for flavour in Flavour::ALL {
        for fence in [false, true] {
            let mute = Server::options().flavour(flavour).config("rename-command HELLO \"\"");
            let mut scene = Scene::on(&mute, fence).await;
            scene.queue([2, 3]).await;
            assert_eq!(scene.line(), [2, 3]);

            assert_eq!(scene.release(1, None).await, Vote::Granted);

            assert_eq!(scene.server.run(&["EXISTS", "a"]).int(), Some(0), "nobody heard");
            let take = scene.claims[1].wait_again(scene.ticket(2));
            assert!(is_granted(&scene.vote(2, take).await));
            assert_eq!(scene.release(2, None).await, Vote::Granted);
            assert_eq!(channels(&scene.server), 0);
        }
    }
}

/// A thousand clients that were killed do not keep the next from being served.
#[tokio::test]
async fn a_long_line_of_the_dead_is_passed_over_at_once() {
    for flavour in Flavour::ALL {
        let mut scene = Scene::on(&Server::options().flavour(flavour), false).await;
        for client in 100..1100 {
            let dead = Wire::to("redis://127.0.0.1:1", client);
            let (claim, ticket) = (Claim::of(&["a"], &dead), dead.ticket());
            // Sent on a connection that speaks RESP3, for clients that do not listen.
            assert!(ahead(&scene.vote(4, claim.wait(ticket)).await).is_some());
        }
        let url = scene.server.url();
        scene.wires[3] = Wire::to(&url, 4);
        eventually(LIMIT, || channels(&scene.server) == 0);
        scene.queue([2]).await;
        assert_eq!(scene.line().len(), 1001);

        scene.release(1, None).await;

        scene.wires[1].woken().await;
        assert_eq!((scene.reserved(), scene.line().len()), (Some(2), 1000));
    }
}

/// How many channels somebody listens to.
fn channels(server: &Server) -> usize {
    server.run(&["PUBSUB", "CHANNELS"]).items().len()
}
