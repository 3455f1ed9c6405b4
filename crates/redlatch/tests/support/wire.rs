//! A client that sends commands to one node by hand, and hears what it says unasked.

use super::LIMIT;
use redlatch::node::{self, Clock, Link, Node};
use redlatch_core::{
    Command, Place, Proposal, Reply, Resources, Tag, Then, Ticket, Token, Vote, Waiter, Wake,
    fence::DEFAULT_SKEW,
};
use std::{collections::VecDeque, future::poll_fn, task::Poll, time::Duration};

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Wire {
    link: Box<dyn Link>,
    client: u64,
    asked: u32,
    /// Replies that have arrived and nobody has looked at.
    arrived: Vec<(Tag, Reply)>,
    wakes: VecDeque<Wake>,
}

impl Wire {
    pub(crate) fn to(url: &str, client: u64) -> Self {
        Wire::of(&*node::parse(url).unwrap_or_else(|error| panic!("{error}")), client)
    }

    pub(crate) fn of(node: &dyn Node, client: u64) -> Self {
        let link = node.open(Clock::System);
        Wire { link, client, asked: 0, arrived: Vec::new(), wakes: VecDeque::new() }
    }

    /// A ticket of this client that arrives last, wherever it joins: nodes bring it
    /// within a second of their clocks.
    pub(crate) fn ticket(&self) -> Ticket {
        let waiter = Waiter::new(self.client, 7);
        Ticket { arrived: u64::MAX >> 12, waiter, patience: 60_000 }
    }

    /// What this client would put under a name.
    pub(crate) fn token(&self) -> Token {
        Token::from_bytes(format!("{:040}@{}", self.client, self.client).as_bytes())
    }

    pub(crate) async fn ask_all<const N: usize>(&mut self, commands: [Command; N]) -> [Reply; N] {
        let tags = commands.map(|command| {
            let tag = Tag::of_driver(self.asked);
            self.asked += 1;
            self.link.send(tag, command);
            tag
        });
        let mut replies = Vec::new();
        for tag in tags {
            replies.push(self.until(|wire| wire.answer_to(tag)).await);
        }
        replies.try_into().expect("as many")
    }

    pub(crate) async fn ask(&mut self, command: Command) -> Reply {
        let [reply] = self.ask_all([command]).await;
        reply
    }

    pub(crate) async fn vote(&mut self, command: Command) -> Vote {
        match self.ask(command).await {
            Reply::Vote(vote) => vote,
            other => panic!("{other:?} is no vote"),
        }
    }

    /// Waits for a wake.
    pub(crate) async fn woken(&mut self) -> Wake {
        self.until(|wire| wire.wakes.pop_front()).await
    }

    /// Waits until it can no longer be woken.
    pub(crate) async fn deaf(&mut self) {
        assert_eq!(self.until(|wire| wire.answer_to(Tag::WAKE)).await, Reply::Deaf);
    }

    /// Returns whether a wake had been sent before the node answered this question.
    pub(crate) async fn is_woken(&mut self) -> bool {
        self.ask(Command::Identify).await;
        // Valkey sends what a command publishes to its own client after its answer.
        self.ask(Command::Identify).await;
        self.wakes.pop_front().is_some()
    }

    fn answer_to(&mut self, tag: Tag) -> Option<Reply> {
        let at = self.arrived.iter().position(|(answered, _)| *answered == tag)?;
        Some(self.arrived.remove(at).1)
    }

    async fn until<T>(&mut self, mut found: impl FnMut(&mut Self) -> Option<T>) -> T {
        let found = poll_fn(|cx| {
            let mut replies = Vec::new();
            self.link.poll(cx, &mut replies);
            for (tag, reply) in replies {
                match reply {
                    Reply::Woken(wake) if tag == Tag::WAKE => self.wakes.push_back(wake),
                    reply => self.arrived.push((tag, reply)),
                }
            }
            found(self).map_or(Poll::Pending, Poll::Ready)
        });
        tokio::time::timeout(LIMIT, found).await.expect("an answer or a wake")
    }
}

/// What to send about some names.
#[derive(Clone)]
pub(crate) struct Claim {
    pub(crate) resources: Resources,
    pub(crate) token: Token,
    pub(crate) fence: bool,
}

impl Claim {
    pub(crate) fn of(names: &[&str], wire: &Wire) -> Self {
        let resources = Resources::new(names).expect("good names");
        Claim { resources, token: wire.token(), fence: false }
    }

    pub(crate) fn fenced(self, fence: bool) -> Self {
        Claim { fence, ..self }
    }

    pub(crate) fn take(&self, place: Option<Place>) -> Command {
        let Claim { resources, token, fence } = self.clone();
        let fence = fence.then(|| Proposal::new(1, DEFAULT_SKEW));
        Command::Take { resources, token, ttl: LONG, fence, fingerprint: None, place }
    }

    /// A take that waits in line if it is refused.
    pub(crate) fn wait(&self, ticket: Ticket) -> Command {
        self.take(Some(Place { ticket, known: false }))
    }

    /// The same, for a ticket that may be in line already.
    pub(crate) fn wait_again(&self, ticket: Ticket) -> Command {
        self.take(Some(Place { ticket, known: true }))
    }

    pub(crate) fn plant(&self, ticket: Option<Ticket>) -> Command {
        let Claim { resources, token, .. } = self.clone();
        Command::Plant { resources, token, ttl: LONG, fingerprint: None, ticket }
    }

    pub(crate) fn release(&self, then: Option<Then>) -> Command {
        let Claim { resources, token, .. } = self.clone();
        Command::Release { resources, token, then }
    }
}

/// Returns how many are ahead of a take that was refused and waits.
pub(crate) fn ahead(vote: &Vote) -> Option<usize> {
    match vote {
        Vote::Held(holder) => holder.ahead.map(usize::from),
        other => panic!("{other:?} is no refusal"),
    }
}

pub(crate) fn is_granted(vote: &Vote) -> bool {
    matches!(vote, Vote::Granted | Vote::Numbered(_))
}
