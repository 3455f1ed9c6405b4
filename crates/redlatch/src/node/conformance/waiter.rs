//! A client that waits in line, with its own link.
//!
//! In:  what the node answers and whom it wakes. Out: commands, and what is wrong.

use super::site::{CheckedLink, Claim, LONG, Outcome, Site, problem, random};
use crate::driver::clock::wall_micros;
use redlatch_core::{Command, KeyState, Place, Reply, Then, Ticket, Vote, Waiter, Wake};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The longest that a reservation can last.
pub(super) const PATIENT: u16 = u16::MAX;
/// How many times to retry a check for which the machine was too slow.
pub(super) const TRIES: u32 = 10;
/// Less than the largest skew, in microseconds.
const NEARLY: i64 = 900_000;

/// A client that waits in line.
pub(super) struct WaitingClient {
    pub(super) link: CheckedLink,
    pub(super) claim: Claim,
    pub(super) ticket: Ticket,
}

impl WaitingClient {
    /// Creates clients that want the same resource and arrived in this order.
    pub(super) async fn line<const N: usize>(
        site: &Site<'_>,
        names: &[&str],
    ) -> Outcome<[Self; N]> {
        let arrived = clock(&mut site.link()).await?;
        // Their numbers are also in order, in case the node does not believe their
        // arrivals.
        let first = random() >> 24;
        Ok(std::array::from_fn(|number| {
            let number = number as u64;
            let waiter = Waiter::new(first + number, 7);
            let ticket = Ticket { arrived: arrived + number, waiter, patience: PATIENT };
            let claim = site.claim(names);
            site.waits(&claim, ticket);
            WaitingClient { link: site.link(), claim, ticket }
        }))
    }

    /// Creates the same clients; the first holds the lock `a`, and the others wait for
    /// it.
    pub(super) async fn behind_a_holder<const N: usize>(site: &Site<'_>) -> Outcome<[Self; N]> {
        let mut clients: [Self; N] = WaitingClient::line(site, &["a"]).await?;
        for (at, client) in clients.iter_mut().enumerate() {
            match at {
                0 => client.holds().await?,
                at => client.waits_behind(at - 1).await?,
            }
        }
        Ok(clients)
    }

    /// A holder, and two clients whose arrivals are as far apart as a node will believe.
    /// Also returns when they arrived: if that is too long ago, the node believes neither.
    pub(super) async fn early(site: &Site<'_>, attempt: u32) -> Outcome<([Self; 3], Instant)> {
        let [mut holder, mut early, mut late] =
            WaitingClient::line(site, &[&attempt.to_string()]).await?;
        early.arrive_earlier(NEARLY);
        late.arrive_earlier(-NEARLY);
        let start = Instant::now();
        holder.holds().await?;
        Ok(([holder, early, late], start))
    }

    /// Makes it arrive this much earlier (or later, if negative), in microseconds.
    pub(super) fn arrive_earlier(&mut self, by: i64) {
        self.ticket.arrived = self.ticket.arrived.saturating_add_signed(-by);
    }

    pub(super) fn take(&self) -> Command {
        self.claim.take_in_line(LONG, Place { ticket: self.ticket, known: false })
    }

    /// A take of a client that is in line.
    pub(super) fn take_known(&self) -> Command {
        self.claim.take_in_line(LONG, Place { ticket: self.ticket, known: true })
    }

    pub(super) fn plant(&self) -> Command {
        self.claim.plant_with(LONG, self.ticket)
    }

    pub(super) fn release(&self) -> Command {
        self.claim.release()
    }

    pub(super) fn leave(&self) -> Command {
        self.claim.release_then(Then::Leave(self.ticket))
    }

    pub(super) fn release_and_wait(&self) -> Command {
        self.claim.release_then(Then::Wait(self.ticket))
    }

    pub(super) fn pass(&self) -> Command {
        self.claim.release_then(Then::Pass(self.ticket))
    }

    /// Checks that a command is granted.
    pub(super) async fn granted(&mut self, command: Command) -> Outcome {
        self.link.granted(command).await
    }

    /// Takes the lock, which is free.
    pub(super) async fn holds(&mut self) -> Outcome {
        self.granted(self.take()).await
    }

    /// Checks that a take is refused, and how many are ahead in line.
    pub(super) async fn waits_behind(&mut self, ahead: usize) -> Outcome {
        match self.link.held(self.take()).await? {
            Vote::Held(holder) if holder.ahead.map(usize::from) == Some(ahead) => Ok(()),
            vote => problem(format!("{ahead} should be ahead in line, but the node said {vote:?}")),
        }
    }

    /// What a node should report about it.
    pub(super) fn as_told(&self) -> (Waiter, Option<Arc<str>>) {
        (self.ticket.waiter, self.claim.owner())
    }

    /// Checks that these clients wait for the first of its names, in this order.
    pub(super) async fn is_waited_for_by(
        &mut self,
        right: &[(Waiter, Option<Arc<str>>)],
    ) -> Outcome {
        let line = match self.link.ask(self.claim.line()).await? {
            Reply::Line(line) => line,
            reply => return problem(format!("the question who waits was answered with {reply:?}")),
        };
        let told = line.first.iter().map(|it| (it.ticket.waiter, it.owner.clone()));
        if line.count == right.len() && told.eq(right.iter().cloned()) {
            return Ok(());
        }
        problem(format!("{right:?} should be in line, but the node said {line:?}"))
    }

    /// Waits until it is woken for the first of its names.
    pub(super) async fn is_woken(&mut self) -> Outcome<Ticket> {
        match self.link.wake().await? {
            Some(Wake { resource, ticket })
                if resource == *self.claim.first() && ticket.waiter == self.ticket.waiter =>
            {
                Ok(ticket)
            }
            Some(wake) => problem(format!("a client was woken for something else: {wake:?}")),
            None => problem("a client was not woken, though a lock is reserved for it"),
        }
    }

    /// Checks that it has not been woken so far.
    pub(super) async fn sleeps(&mut self) -> Outcome {
        self.link.identity().await?;
        match self.link.woken() {
            None => Ok(()),
            Some(wake) => problem(format!("a client was woken out of turn: {wake:?}")),
        }
    }

    /// Checks that the first of its names is reserved for it, and returns for how long.
    pub(super) async fn has_reservation(&mut self) -> Outcome<Duration> {
        let states = self.link.states(&self.claim).await?;
        if let Some(KeyState::Held { value: Some(value), remaining: Some(left), .. }) =
            states.first()
            && Ticket::reserved_in(value).is_some_and(|it| it.waiter == self.ticket.waiter)
        {
            return Ok(*left);
        }
        problem(format!("the lock should be reserved for {:?}: {states:?}", self.ticket.waiter))
    }
}

/// What the node's clock shows, in microseconds.
pub(super) async fn clock(link: &mut CheckedLink) -> Outcome<u64> {
    let clock = link.facts(Command::Examine).await?.clock;
    Ok(clock.map_or_else(wall_micros, |clock| u64::try_from(clock.as_micros()).unwrap_or(u64::MAX)))
}

/// Checks that a refusal says nothing about a line.
pub(super) fn without_line(reply: &Reply) -> Outcome {
    match reply {
        Reply::Vote(Vote::Held(holder)) if holder.ahead.is_none() => Ok(()),
        reply => problem(format!("{reply:?} is not a refusal without a line")),
    }
}
