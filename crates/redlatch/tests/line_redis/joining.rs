//! Joining a line, and one's place in it.

use super::{
    EARLY, LINE, Scene,
    support::wire::{Claim, LONG, Wire, ahead, is_granted},
};
use redlatch_core::{Command, Holder, Reply, Then, Ticket, Vote};
use redlatch_testbed::Server;

#[tokio::test]
async fn a_refused_take_joins_the_line_once_and_says_how_many_are_ahead() {
    for mut scene in Scene::everywhere().await {
        let [_, second, third, _] = scene.claims.clone();
        let (ticket, next) = (scene.ticket(2), scene.ticket(3));

        let said = scene.vote(2, second.wait(ticket)).await;
        let owner = Holder::of_value(scene.wires[0].token().as_bytes(), None).owner;
        let Vote::Held(holder) = &said else { panic!("{said:?}") };
        assert_eq!((&holder.owner, holder.ahead, holder.reserved), (&owner, Some(0), false));
        assert!(holder.remaining.is_some_and(|left| left <= LONG));
        assert_eq!(ahead(&scene.vote(3, third.wait(next)).await), Some(1));
        assert_eq!(ahead(&scene.vote(3, third.wait_again(next)).await), Some(1));
        assert_eq!(ahead(&scene.vote(2, second.wait_again(ticket)).await), Some(0));

        assert_eq!(scene.line(), [2, 3]);
        let left = scene.server.run(&["PTTL", LINE]).int().unwrap();
        assert!((1..=30_000).contains(&left), "{left}");
        assert_eq!(scene.server.run(&["PTTL", "redlatch:line:b"]).int(), Some(-2));
    }
}

#[tokio::test]
async fn a_take_without_a_ticket_joins_no_line() {
    for mut scene in Scene::everywhere().await {
        let take = scene.claims[1].take(None);

        assert_eq!(ahead(&scene.vote(2, take).await), None);

        assert_eq!(scene.line(), [0; 0]);
    }
}

#[tokio::test]
async fn the_first_to_arrive_is_ahead_no_matter_who_joins_first() {
    for mut scene in Scene::everywhere().await {
        let [_, second, third, fourth] = scene.claims.clone();
        let early = Ticket { arrived: EARLY, ..scene.ticket(3) };
        let late = [scene.ticket(2), scene.ticket(4)];

        // In one write: the server's clock moves on by much less than the two seconds
        // between the earliest and the latest ticket it believes.
        let commands = [second.wait(late[0]), third.wait(early), fourth.wait(late[1])];
        let said = scene.wires[0].ask_all(commands).await;

        let places = said.map(|reply| match reply {
            Reply::Vote(vote) => ahead(&vote),
            other => panic!("{other:?}"),
        });
        assert_eq!(places, [Some(0), Some(0), Some(2)]);
        assert_eq!(scene.line(), [3, 2, 4]);
    }
}

#[tokio::test]
async fn a_ticket_is_brought_within_a_second_of_the_servers_clock() {
    let micros = |server: &Server| {
        let time = server.run(&["TIME"]);
        let part = |at: usize| time.items()[at].text().unwrap().parse::<u64>().unwrap();
        part(0) * 1_000_000 + part(1)
    };
    for mut scene in Scene::everywhere().await {
        let [_, second, third, _] = scene.claims.clone();
        let tickets = [scene.ticket(2), Ticket { arrived: EARLY, ..scene.ticket(3) }];

        let before = micros(&scene.server);
        let commands = [second.wait(tickets[0]), third.wait(tickets[1])];
        scene.wires[0].ask_all(commands).await;
        let after = micros(&scene.server);

        let line = scene.server.run(&["GET", LINE]).text().unwrap();
        let kept = line.split_whitespace().map(|text| Ticket::parse(text.as_bytes()).unwrap());
        for ticket in kept {
            let off = if ticket.waiter.client() == 2 { -1_000_000 } else { 1_000_000 };
            let clock = ticket.arrived.checked_add_signed(off).unwrap();
            assert!((before..=after).contains(&clock), "{before} {clock} {after}");
            assert_eq!(ticket.patience, 60_000);
        }
    }
}

#[tokio::test]
async fn a_grant_takes_a_ticket_out_of_line_that_may_be_in_it() {
    for mut scene in Scene::everywhere().await {
        let [_, second, third, _] = scene.claims.clone();
        scene.queue([2, 3]).await;
        scene.server.run(&["DEL", "a"]);

        assert!(is_granted(&scene.vote(3, third.wait_again(scene.ticket(3))).await));
        assert_eq!(scene.line(), [2]);
        scene.server.run(&["DEL", "a"]);
        assert!(is_granted(&scene.vote(2, second.wait_again(scene.ticket(2))).await));

        assert_eq!(scene.server.run(&["EXISTS", LINE]).int(), Some(0));
    }
}

#[tokio::test]
async fn a_client_that_leaves_is_out_of_line_and_passes_on_what_was_reserved_for_it() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2, 3, 4]).await;
        let leave = |scene: &Scene, client| Some(Then::Leave(scene.ticket(client)));

        assert_eq!(scene.release(3, leave(&scene, 3)).await, Vote::Gone);
        assert_eq!(scene.line(), [2, 4]);
        scene.release(1, None).await;
        scene.wires[1].woken().await;
        assert_eq!(scene.release(2, leave(&scene, 2)).await, Vote::Gone);

        scene.wires[3].woken().await;
        assert_eq!((scene.reserved(), scene.line()), (Some(4), vec![]));
        assert_eq!(scene.release(4, leave(&scene, 4)).await, Vote::Gone);
        assert!(scene.server.keys().iter().all(|key| key == "redlatch:node"));
    }
}

#[tokio::test]
async fn a_release_that_waits_again_joins_the_line_before_the_next_is_served() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2]).await;
        let wait = Some(Then::Wait(scene.ticket(1)));

        assert_eq!(scene.release(3, wait).await, Vote::Gone, "it held nothing");
        assert_eq!(scene.line(), [2]);
        assert_eq!(scene.release(1, wait).await, Vote::Granted);

        scene.wires[1].woken().await;
        assert_eq!((scene.reserved(), scene.line()), (Some(2), vec![1]));
        scene.release(2, Some(Then::Leave(scene.ticket(2)))).await;
        scene.wires[0].woken().await;
        assert_eq!((scene.reserved(), scene.line()), (Some(1), vec![]));
    }
}

#[tokio::test]
async fn several_names_are_taken_at_once_or_the_line_of_the_first_held_one_is_joined() {
    for mut scene in Scene::everywhere().await {
        let fence = scene.claims[0].fence;
        let both = |wire: &Wire| Claim::of(&["a", "b"], wire).fenced(fence);
        let (second, third) = (both(&scene.wires[1]), both(&scene.wires[2]));
        let early = Ticket { arrived: EARLY, ..scene.ticket(3) };

        let said = scene.wires[1].ask_all([second.wait(scene.wires[1].ticket())]).await;
        assert!(matches!(&said, [Reply::Vote(vote)] if ahead(vote) == Some(0)));
        assert_eq!(scene.server.run(&["EXISTS", "redlatch:line:b"]).int(), Some(0));
        scene.release(1, None).await;
        scene.wires[1].woken().await;

        // `a` is reserved for the second client, but `b` is another library's.
        scene.server.run(&["SET", "b", "theirs"]);
        assert_eq!(ahead(&scene.vote(2, second.wait(scene.ticket(2))).await), Some(0));
        assert_eq!((scene.reserved(), scene.line()), (Some(2), vec![2]));
        assert_eq!(ahead(&scene.vote(3, third.wait(scene.ticket(3))).await), Some(1));
        scene.server.run(&["DEL", "b"]);
        let far = Ticket { arrived: u64::MAX >> 12, ..scene.ticket(2) };
        scene.server.run(&["SET", "a", &far.reservation()]);
        scene.server.run(&["SET", "b", &Ticket { ..scene.ticket(4) }.reservation()]);
        assert!(is_granted(&scene.vote(3, third.wait_again(early)).await));

        assert_eq!(scene.line(), [2], "it was there already");
        let other = scene.server.run(&["GET", "redlatch:line:b"]).text().unwrap();
        assert_eq!(other.trim_end(), scene.ticket(4).to_string());
        assert_eq!(scene.vote(3, third.release(None)).await, Vote::Granted);
        assert_eq!(scene.reserved(), Some(2));
        assert_eq!(scene.server.run(&["EXISTS", "b"]).int(), Some(0), "the fourth hears nothing");
    }
}

#[tokio::test]
async fn a_list_shows_what_is_reserved_and_how_many_wait_but_no_line() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2, 3]).await;
        scene.release(1, None).await;

        let list = Command::List { pattern: b"*"[..].into(), after: None };
        let Reply::Page(page) = scene.wires[0].ask(list).await else { panic!() };

        let [lock] = &*page.locks else { panic!("{page:?}") };
        let reserved = Ticket::reserved_in(&lock.value).map(|ticket| ticket.waiter);
        assert_eq!((reserved, lock.waiters), (Some(scene.ticket(2).waiter), 1));
    }
}

/// As if it had not asked for half a minute.
fn forget(scene: &Scene, client: usize) {
    let key = format!("redlatch:waiter:{}", scene.ticket(client).waiter);
    let left = scene.server.run(&["PTTL", &key]).int().expect("a number");
    assert!((1..=30_000).contains(&left), "{left}");
    scene.server.run(&["DEL", &key]);
}

#[tokio::test]
async fn a_waiter_that_no_longer_asks_is_no_longer_listed_and_drops_out() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2, 3, 4]).await;
        forget(&scene, 2);
        forget(&scene, 4);
        let resource = scene.claims[0].resources.iter().next().unwrap().clone();

        let Reply::Line(told) = scene.wires[0].ask(Command::Line { resource }).await else {
            panic!("no line")
        };
        assert_eq!(told.count, 1);
        assert_eq!(told.first[0].ticket.waiter, scene.ticket(3).waiter);
        let look = scene.claims[2].wait_again(scene.ticket(3));
        assert_eq!(ahead(&scene.vote(3, look).await), Some(0));

        assert_eq!(scene.line(), [3]);
    }
}

#[tokio::test]
async fn a_waiter_that_no_longer_asks_is_passed_over() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2, 3]).await;
        forget(&scene, 2);

        scene.release(1, None).await;

        assert!(!scene.is_woken(2).await);
        assert_eq!(scene.reserved(), Some(3));
    }
}

/// Several commands go out in one call, which has ways of its own.
#[tokio::test]
async fn a_client_that_finds_the_lock_free_leaves_the_line_whatever_else_it_asks() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2]).await;
        scene.server.run(&["DEL", "a"]);
        let other = Claim::of(&["b"], &scene.wires[1]);
        let take = scene.claims[1].wait_again(scene.ticket(2));

        let said = scene.wires[1].ask_all([take, other.take(None)]).await;

        assert!(matches!(&said[0], Reply::Vote(vote) if is_granted(vote)), "{said:?}");
        assert_eq!(scene.line(), [0; 0]);
    }
}
