//! For whom a released key is kept, and for how long.

use super::{
    EARLY, Scene,
    support::{
        LIMIT,
        wire::{ahead, is_granted},
    },
};
use redlatch_core::{
    Command, KeyState, Reply, Resource, Resources, Then, Ticket, Vote, Wake, line::RESERVED_FOR,
};
use redlatch_testbed::eventually;

#[tokio::test]
async fn a_release_reserves_the_key_for_the_first_in_line_and_wakes_it() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2, 3]).await;

        assert_eq!(scene.release(1, None).await, Vote::Granted);

        let Wake { resource, ticket } = scene.wires[1].woken().await;
        assert_eq!(resource, Resource::new("a").unwrap());
        assert_eq!(ticket.waiter, scene.ticket(2).waiter);
        let Reply::Keys(keys) = scene.wires[0].ask(inspect()).await else { panic!() };
        let KeyState::Held { value: Some(value), remaining: Some(left), .. } = &keys[0] else {
            panic!("{keys:?}")
        };
        assert_eq!(Ticket::reserved_in(value), Some(ticket));
        assert!(*left <= ticket.patience());
        assert!(!scene.is_woken(3).await && !scene.is_woken(2).await);
        assert_eq!(scene.line(), [3]);
        assert_eq!(scene.release(1, None).await, Vote::Gone);
    }
}

fn inspect() -> Command {
    Command::Inspect { resources: Resources::new(["a"]).expect("a good name") }
}

#[tokio::test]
async fn a_reservation_is_for_its_waiter_alone_and_lapses() {
    for mut scene in Scene::everywhere().await {
        let [first, second, third, _] = scene.claims.clone();
        scene.queue([2]).await;
        scene.release(1, None).await;

        // Neither another library, nor a client without a ticket or with a later one.
        assert_eq!(scene.server.run(&["SET", "a", "theirs", "NX", "PX", "9"]).text(), None);
        let refused = scene.vote(1, first.take(None)).await;
        assert!(!is_granted(&refused), "{refused:?}");
        let said = scene.vote(3, third.wait(scene.ticket(3))).await;
        let Vote::Held(holder) = &said else { panic!("{said:?}") };
        assert!(holder.reserved && holder.ahead == Some(0) && holder.owner.is_none());
        // Its extension or release by somebody who never had it.
        assert_eq!(scene.release(3, None).await, Vote::Gone);
        assert_eq!(scene.reserved(), Some(2));

        // Nobody has to do anything for it to lapse.
        let value = scene.server.run(&["GET", "a"]).text().unwrap();
        assert!(value.starts_with(RESERVED_FOR));
        scene.server.run(&["PEXPIRE", "a", "1"]);
        eventually(LIMIT, || scene.server.run(&["EXISTS", "a"]).int() == Some(0));
        assert!(is_granted(&scene.vote(2, second.wait_again(scene.ticket(2))).await));
    }
}

#[tokio::test]
async fn a_reservation_lives_as_long_as_the_tickets_patience() {
    for mut scene in Scene::everywhere().await {
        let second = scene.claims[1].clone();
        for patience in [0, 1, 40_000] {
            let ticket = Ticket { patience, ..scene.ticket(2) };
            scene.vote(2, second.wait(ticket)).await;

            scene.release(1, None).await;

            if patience == 40_000 {
                let left = scene.server.run(&["PTTL", "a"]).int().unwrap();
                assert!((10_000..=40_000).contains(&left), "{left}");
            } else {
                eventually(LIMIT, || scene.server.run(&["EXISTS", "a"]).int() == Some(0));
                let take = scene.claims[0].take(None);
                assert!(is_granted(&scene.vote(1, take).await));
            }
        }
    }
}

#[tokio::test]
async fn its_waiter_takes_what_is_reserved_and_is_out_of_line() {
    for mut scene in Scene::everywhere().await {
        let second = scene.claims[1].clone();
        scene.queue([2, 3]).await;
        scene.release(1, None).await;

        let vote = scene.vote(2, second.wait(scene.ticket(2))).await;

        assert!(is_granted(&vote), "{vote:?}");
        let value = scene.server.run(&["GET", "a"]).text().unwrap();
        assert_eq!(value.as_bytes(), scene.wires[1].token().as_bytes());
        assert!(scene.server.run(&["PTTL", "a"]).int().unwrap() > 30_000);
        assert_eq!(scene.line(), [3]);
    }
}

#[tokio::test]
async fn an_earlier_ticket_takes_what_is_reserved_for_a_later_one_which_is_back_in_line() {
    for mut scene in Scene::everywhere().await {
        let third = scene.claims[2].clone();
        let early = Ticket { arrived: EARLY, ..scene.ticket(3) };
        scene.queue([2, 4]).await;
        scene.release(1, None).await;
        scene.wires[1].woken().await;

        // However slow this machine is, it is for a later ticket than that.
        let value = scene.server.run(&["GET", "a"]).text().unwrap();
        let kept = Ticket::reserved_in(value.as_bytes()).unwrap();
        let ahead_of_time = Ticket { arrived: u64::MAX >> 12, ..kept };
        scene.server.run(&["SET", "a", &ahead_of_time.reservation(), "KEEPTTL"]);
        let vote = scene.vote(3, third.wait(early)).await;

        assert!(is_granted(&vote), "{vote:?}");
        let mut line = scene.line();
        line.sort_unstable();
        assert_eq!(line, [2, 4]);
        scene.release(3, None).await;
        scene.wires[3].woken().await;
        scene.release(4, None).await;
        assert_eq!(scene.line(), [2]);
    }
}

#[tokio::test]
async fn passing_on_reserves_for_its_own_ticket_and_wakes_nobody() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2, 3]).await;
        let pass = Some(Then::Pass(scene.ticket(3)));

        assert_eq!(scene.release(3, pass).await, Vote::Gone, "it held nothing");
        assert_eq!(scene.release(1, pass).await, Vote::Granted);

        assert_eq!((scene.reserved(), scene.line()), (Some(3), vec![2]));
        assert!(!scene.is_woken(2).await && !scene.is_woken(3).await);
    }
}

#[tokio::test]
async fn a_lease_is_planted_where_its_key_is_reserved_for_its_ticket_and_nowhere_else() {
    for mut scene in Scene::everywhere().await {
        let [_, second, third, _] = scene.claims.clone();
        scene.queue([2]).await;
        scene.release(1, None).await;
        let early = Ticket { arrived: EARLY, ..scene.ticket(3) };

        assert_eq!(ahead(&scene.vote(3, third.plant(Some(early))).await), None);
        assert_eq!(ahead(&scene.vote(2, second.plant(None)).await), None);
        assert_eq!(scene.line(), [0; 0], "nobody joins by planting");
        let vote = scene.vote(2, second.plant(Some(scene.ticket(2)))).await;

        assert_eq!(vote, Vote::Granted);
    }
}

#[tokio::test]
async fn a_server_that_is_out_of_memory_serves_the_next_all_the_same() {
    for mut scene in Scene::everywhere().await {
        scene.queue([2, 3, 4]).await;
        scene.server.run(&["CONFIG", "SET", "maxmemory", "1"]);
        let refused = scene.server.run(&["SET", "b", "more"]);
        assert!(!refused.is_ok(), "{refused:?}");

        assert_eq!(scene.release(1, None).await, Vote::Granted);
        assert_eq!((scene.reserved(), scene.line()), (Some(2), vec![3, 4]));
        scene.release(3, Some(Then::Leave(scene.ticket(3)))).await;
        assert_eq!((scene.reserved(), scene.line()), (Some(2), vec![4]));
        scene.release(2, Some(Then::Leave(scene.ticket(2)))).await;

        assert_eq!((scene.reserved(), scene.line()), (Some(4), vec![]));
    }
}
