//! How wakes reach the links of a memory node.

use super::{super::*, SECOND};
use crate::{
    driver::clock::wall_micros,
    node::conformance::{replies, resources, tag, take},
};
use redlatch_core::{Place, Then, Ticket, Vote, Waiter, Wake, line::TICKET_LIFE};

/// A client of a node, with its own link.
struct Client {
    link: Box<dyn Link>,
    ticket: Ticket,
    token: Token,
}

impl Client {
    fn of(node: &Memory, number: u64) -> Self {
        let arrived = wall_micros() + number;
        let ticket = Ticket { arrived, waiter: Waiter::new(number, 0), patience: 250 };
        Client {
            link: node.open(Clock::Tokio),
            ticket,
            token: Token::from_bytes(&number.to_be_bytes()),
        }
    }

    fn take(&mut self) {
        let mut take = take("a", self.token.as_bytes(), 60 * SECOND);
        if let Command::Take { place, .. } = &mut take {
            *place = Some(Place { ticket: self.ticket, known: false });
        }
        self.link.send(tag(1), take);
    }

    fn release(&mut self, then: Option<Then>) {
        let (resources, token) = (resources(["a"]), self.token.clone());
        self.link.send(tag(2), Command::Release { resources, token, then });
    }

    /// The next replies; empty if none come for a few seconds.
    async fn replies(&mut self) -> Vec<(Tag, Reply)> {
        replies(&mut *self.link, 1, 5 * SECOND).await
    }

    fn woken(&self) -> (Tag, Reply) {
        let resource = Resource::new("a").unwrap();
        (Tag::WAKE, Reply::Woken(Wake { resource, ticket: self.ticket }))
    }
}

fn granted(number: u32) -> (Tag, Reply) {
    (tag(number), Reply::Vote(Vote::Granted))
}

/// The first client holds the lock, and the others wait for it in this order.
async fn line<const N: usize>(node: &Memory) -> [Client; N] {
    let mut clients = std::array::from_fn(|number| Client::of(node, number as u64));
    for (number, client) in clients.iter_mut().enumerate() {
        client.take();
        let replies = client.replies().await;
        match (number, &replies[..]) {
            (0, [(_, Reply::Vote(Vote::Granted))]) => {}
            (_, [(_, Reply::Vote(Vote::Held(holder)))])
                if holder.ahead.map(usize::from) == Some(number - 1) => {}
            _ => panic!("{number}: {replies:?}"),
        }
    }
    clients
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_the_task_of_the_first_in_line_and_nobody_else() {
    let node = Memory::new("memory:test");
    let [mut holder, mut first, mut second] = line(&node).await;
    let start = Instant::now();

    let waiting = tokio::spawn(async move { (first.replies().await, first.woken()) });
    tokio::task::yield_now().await;
    holder.release(None);
    assert_eq!(holder.replies().await, [granted(2)]);

    let (replies, woken) = waiting.await.unwrap();
    assert_eq!((replies, start.elapsed()), (vec![woken], Duration::ZERO));
    assert_eq!(second.replies().await, []);
    assert_eq!(holder.replies().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_itself_is_woken_after_its_reply() {
    let node = Memory::new("memory:test");
    let [mut holder] = line(&node).await;

    holder.release(Some(Then::Wait(holder.ticket)));

    assert_eq!(holder.replies().await, [granted(2), holder.woken()]);
}

#[tokio::test(start_paused = true)]
async fn all_links_of_a_client_are_woken() {
    let node = Memory::new("memory:test");
    let [mut holder, mut first] = line(&node).await;
    let mut again = Client::of(&node, 1);
    again.take();
    again.replies().await;

    holder.release(None);
    holder.replies().await;

    let woken = vec![first.woken()];
    assert_eq!(first.replies().await, woken);
    assert_eq!(again.replies().await, woken);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_no_longer_asks_is_passed_over_and_one_that_does_is_not() {
    let node = Memory::new("memory:test");
    let [mut holder, mut silent, mut next] = line(&node).await;

    tokio::time::advance(TICKET_LIFE.saturating_sub(SECOND)).await;
    next.take();
    next.replies().await;
    tokio::time::advance(2 * SECOND).await;
    holder.release(None);
    holder.replies().await;

    assert_eq!(next.replies().await, [next.woken()]);
    assert_eq!(silent.replies().await, []);
}

#[tokio::test(start_paused = true)]
async fn clients_whose_links_are_dropped_are_passed_over() {
    let node = Memory::new("memory:test");
    let [mut holder, gone, mut next] = line(&node).await;

    drop(gone);
    holder.release(None);
    holder.replies().await;

    let woken = next.woken();
    assert_eq!(next.replies().await, [woken]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_for_which_only_the_gone_wait_is_free() {
    let node = Memory::new("memory:test");
    let [mut holder, gone, gone_too] = line(&node).await;

    drop((gone, gone_too));
    holder.release(None);
    holder.replies().await;

    assert_eq!(node.keys(), []);
}

#[tokio::test(start_paused = true)]
async fn a_paused_node_wakes_nobody_until_it_is_resumed() {
    let node = Memory::new("memory:test");
    let [mut holder, mut first] = line(&node).await;
    holder.release(None);
    holder.replies().await;
    node.pause();
    assert_eq!(first.replies().await, []);

    let waiting = tokio::spawn(async move { (first.replies().await, first.woken()) });
    tokio::task::yield_now().await;
    let start = Instant::now();
    node.resume();

    let (replies, woken) = waiting.await.unwrap();
    assert_eq!((replies, start.elapsed()), (vec![woken], Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_slow_node_wakes_as_late_as_it_answers() {
    let node = Memory::new("memory:test");
    let [mut holder, mut first] = line(&node).await;
    holder.release(None);
    holder.replies().await;
    let start = Instant::now();

    node.slow(SECOND);

    let woken = first.woken();
    assert_eq!((first.replies().await, start.elapsed()), (vec![woken], SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_wake_is_lost_on_the_way_from_a_node_that_fails() {
    let node = Memory::new("memory:test");
    let [mut holder, mut first, mut second] = line(&node).await;
    holder.release(None);
    holder.replies().await;

    node.fail(true);
    node.fail(false);

    assert_eq!(first.replies().await, []);
    first.take();
    assert_eq!(first.replies().await, [granted(1)], "the reservation has lapsed");
    first.release(None);
    let woken = second.woken();
    first.replies().await;
    assert_eq!(second.replies().await, [woken]);
}
