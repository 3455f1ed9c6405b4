//! Holds one lock: renewal, extension, loss, release.

use super::{
    Adopted, Grant, Kept, Next, Op, OpId, Order, Output, Tag, Undoing, World, acquiring::Taking,
};
use crate::{
    acquire::Attempt,
    command::Command,
    config::Terms,
    extend::{Decision, ExtendError, Extension},
    fence::FencingToken,
    lease::{self, Deadlines, Loss},
    line::{Then, Ticket},
    moment::{Moment, Now},
    mutant::{self, Mutant},
    quarantine::Cause,
    release::Undo,
    resource::Resources,
    token::Token,
    vote::{Ballot, Vote},
};
use alloc::boxed::Box;
use core::time::Duration;

/// The least time that a caller waits for the outcome of a release. The lease does not
/// depend on it, and the last of thousands of releases is answered late.
const RELEASE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Holding {
    resources: Resources,
    token: Token,
    terms: Terms,
    ends_at: Moment,
    hold_until: Moment,
    /// The last extension, as long as it matters. Boxed because there usually is none.
    extension: Option<Box<Extension>>,
    /// Boxed because most leases have none of it.
    extra: Option<Box<Extra>>,
    /// Whether the extension in progress is the one that the caller asked for.
    answering: bool,
    lost: bool,
    /// Whether this machine renews the lease and puts its key back; if not, another one
    /// does.
    keeps: bool,
    /// Carried by every extension.
    fence: Option<FencingToken>,
    /// Whether the take asked to join the line on nodes that refuse it.
    in_line: bool,
    /// Whether some node put us in line. Our ticket stays there even once our key has
    /// been planted.
    has_joined: bool,
    round: u32,
    /// The round of the take and of planting: its late grants still belong to the lease.
    planted_in: u32,
}

/// State that few leases have, or have only for a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Extra {
    /// Votes on the take and on planting the key again: they show which nodes may have it.
    /// `None` if any node may, which is the usual case once all have answered.
    planted: Option<Ballot>,
    /// The ticket, if the take joined the line.
    ticket: Option<Ticket>,
    /// A caller is waiting for an extension by this TTL.
    asked: Option<Duration>,
    /// The longest TTL that any command gave the keys, if longer than the terms' TTL.
    longer_ttl: Option<Duration>,
    /// When to renew again after a failed extension.
    retry_at: Option<Moment>,
}

impl Holding {
    /// Creates the state of a lock that this attempt has just won.
    pub(super) fn taken(
        now: Moment,
        order: &Order,
        taking: &Taking,
        usable_until: Moment,
        round: u32,
        ticket: Option<Ticket>,
    ) -> Self {
        let Order { resources, terms, .. } = order.clone();
        let lease = Adopted {
            hold_until: lease::hold_until(now, &terms),
            token: taking.token.clone(),
            keeps: true,
            fence: taking.attempt.fencing_token(),
            resources,
            terms,
            usable_until,
        };
        let mut holding = Holding::new(lease, round);
        let planted = Some(taking.attempt.ballot().clone());
        holding.extra = Some(Box::new(Extra { planted, ticket, ..Extra::default() }));
        holding.in_line = order.line.is_some();
        holding.has_joined = holding.in_line && taking.attempt.ballot().tally().refused > 0;
        holding.forget_planted();
        holding
    }

    /// Creates the state of a lock that was acquired elsewhere: any node may have
    /// its key.
    pub(super) fn adopted(lease: Adopted) -> Self {
        Holding::new(lease, 0)
    }

    fn new(lease: Adopted, round: u32) -> Self {
        let Deadlines { ends_at, hold_until, .. } = lease.deadlines();
        let Adopted { resources, terms, token, keeps, fence, .. } = lease;
        Holding {
            resources,
            token,
            ends_at,
            hold_until,
            extension: None,
            extra: None,
            answering: false,
            lost: false,
            keeps,
            fence,
            in_line: false,
            has_joined: false,
            round,
            planted_in: round,
            terms,
        }
    }

    /// Returns what the holder needs to know, including the votes of the attempt.
    pub(super) fn grant(&self, attempt: &mut Attempt) -> Grant {
        Grant {
            resources: self.resources.clone(),
            terms: self.terms.clone(),
            token: self.token.clone(),
            deadlines: self.deadlines(),
            fence: self.fence,
            second_round: attempt.took_a_second_round(),
            ballot: attempt.take_ballot(),
        }
    }

    pub(super) fn at_stake(&self) -> (&Resources, &Token) {
        (&self.resources, &self.token)
    }

    fn deadlines(&self) -> Deadlines {
        Deadlines::of(&self.terms, self.ends_at, self.hold_until)
    }

    fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    fn planted(&self) -> Option<&Ballot> {
        self.extra.as_ref()?.planted.as_ref()
    }

    fn ticket(&self) -> Option<Ticket> {
        self.extra.as_ref()?.ticket
    }

    pub(super) fn due(&self) -> Moment {
        if self.lost {
            return self.ends_at;
        }
        let extending = self.extension.as_ref().filter(|extension| !extension.is_decided());
        let next = extending.map_or_else(|| self.next_renewal(), |extension| extension.deadline());
        next.min(lease::notice_at(&self.terms, self.ends_at))
    }

    pub(super) fn tick<E>(&mut self, time: Now, id: OpId, world: &mut World<E>) -> Next {
        let now = time.lease;
        if now >= lease::notice_at(&self.terms, self.ends_at) {
            self.lose(id, self.loss(now), world);
        }
        if self.lost {
            // The holder may keep working until the lease ends.
            let over = now >= self.ends_at;
            return if over { self.release(time, id, false, world) } else { Next::Same };
        }
        if let Some(extension) = self.extension.as_mut().filter(|extension| !extension.is_decided())
        {
            let decision = extension.tick(now);
            return self.proceed(time, id, decision, world);
        }
        if now >= self.next_renewal() {
            self.send_extension(now, id, self.terms.ttl, self.patience(now), world);
        }
        Next::Same
    }

    pub(super) fn extend<E>(
        &mut self,
        now: Moment,
        id: OpId,
        ttl: Duration,
        world: &mut World<E>,
    ) -> Next {
        if self.lost || now >= self.ends_at {
            let over =
                if self.lost { ExtendError::Over } else { ExtendError::Lost(self.loss(now)) };
            world.outbox.push_back(Output::Extended(id, Err(over)));
            return Next::Same;
        }
        self.extra().asked = Some(ttl);
        if self.extension.as_ref().is_none_or(|extension| extension.is_decided()) {
            self.send_asked(now, id, world);
        }
        Next::Same
    }

    pub(super) fn extended_elsewhere(&mut self, until: Moment) -> Next {
        if !self.lost && until > self.ends_at {
            let deadlines = self.deadlines().extended(&self.terms, until);
            self.ends_at = deadlines.ends_at;
            if let Some(extension) = &mut self.extension {
                extension.extended_elsewhere(deadlines);
            }
            self.retry_at(None);
        }
        Next::Same
    }

    /// Lets the lease end: extending it further would keep alive a lock that its holder
    /// believes to be lost.
    pub(super) fn give_up<E>(&mut self, now: Moment, id: OpId, world: &mut World<E>) -> Next {
        self.lose(id, self.loss(now), world);
        Next::Same
    }

    pub(super) fn vote<E>(
        &mut self,
        time: Now,
        id: OpId,
        tag: Tag,
        node: usize,
        vote: Vote,
        world: &mut World<E>,
    ) -> Next {
        let now = time.lease;
        if tag.round == self.planted_in {
            self.planted_vote(node, vote);
            return Next::Same;
        }
        let Some(extension) = self.extension.as_mut().filter(|_| tag.round == self.round) else {
            return Next::Same;
        };
        let decision = extension.vote(now, node, vote);
        if decision.is_none() && extension.is_kept() && !self.lost {
            self.replant(id, node, world);
        }
        let next = self.proceed(time, id, decision, world);
        self.extension.take_if(|extension| extension.is_over());
        next
    }

    /// A node has reserved the key for a ticket of our line. Returns whether that was for
    /// us: either it is our ticket, or our key was missing there, in which case it is
    /// planted.
    pub(super) fn woken<E>(
        &mut self,
        id: OpId,
        node: usize,
        ticket: Ticket,
        world: &mut World<E>,
    ) -> bool {
        let is_missing =
            |planted: &Ballot| matches!(planted.vote(node), Vote::Pending | Vote::Held(_));
        let missing = self.keeps && !self.lost && self.planted().is_some_and(is_missing);
        if missing {
            self.plant(id, node, Some(ticket), world);
        }
        missing || self.ticket().is_some_and(|ours| ours.arrived == ticket.arrived)
    }

    /// Records a late vote on the take, or a vote on planting the key again.
    fn planted_vote(&mut self, node: usize, vote: Vote) {
        let Some(planted) = self.extra.as_mut().and_then(|extra| extra.planted.as_mut()) else {
            return;
        };
        self.has_joined |= self.in_line && vote.holder().is_some();
        // A raise that was never sent says nothing about the take before it.
        let never_sent = matches!(&vote, Vote::Failed(fault) if fault.never_sent());
        if !never_sent || *planted.vote(node) == Vote::Pending {
            planted.cast(node, vote, Duration::ZERO);
        }
        self.forget_planted();
    }

    /// Drops the votes once they rule out no node and cannot have put us in line: the undo
    /// then goes to all nodes.
    fn forget_planted(&mut self) {
        if self.has_joined {
            return;
        }
        let Some(Extra { planted, ticket, .. }) = self.extra.as_deref_mut() else { return };
        planted.take_if(|planted| {
            planted.casts().iter().all(|cast| match &cast.vote {
                Vote::Pending | Vote::Held(_) => false,
                Vote::Failed(fault) => !fault.never_sent() && !self.in_line,
                // The node granted nothing, so it has not taken our ticket out of its line
                // either.
                Vote::Quarantined(_) => ticket.is_none(),
                _ => true,
            })
        });
        self.tidy();
    }

    fn tidy(&mut self) {
        self.extra.take_if(|extra| **extra == Extra::default());
    }

    /// Takes the extension that a caller asked for and that has not been sent yet.
    fn take_asked(&mut self) -> Option<Duration> {
        let asked = self.extra.as_mut()?.asked.take();
        self.tidy();
        asked
    }

    pub(super) fn release<E>(
        &mut self,
        time: Now,
        id: OpId,
        answer: bool,
        world: &mut World<E>,
    ) -> Next {
        let now = time.lease;
        if self.take_asked().is_some() || self.answering {
            world.outbox.push_back(Output::Extended(id, Err(ExtendError::Over)));
        }
        let answer_by = answer.then(|| now.after(self.terms.node_timeout.max(RELEASE)));
        let has_waited = self.ticket().is_some();
        let left = self.left_in_line(id, world);
        let then = world.lines.released(now, id, &self.resources);
        // The lock goes to another line of this client: both lines began at the same time, each
        // with its own ticket.
        if let (Some(Then::Leave(next) | Then::Wait(next) | Then::Pass(next)), Some(ticket)) =
            (then, left)
            && next.waiter != ticket.waiter
        {
            self.leave_line(time, ticket, world);
        }
        let then = then.or(left.map(Then::Leave));
        let longer_ttl = self.extra.as_ref().and_then(|extra| extra.longer_ttl);
        let key_ttl = longer_ttl.unwrap_or(self.terms.ttl);
        let undo = Undo::new(time, world.nodes, self.planted(), key_ttl, answer_by);
        let mut undoing = Undoing {
            resources: self.resources.clone(),
            token: self.token.clone(),
            then,
            undo: match then {
                Some(Then::Leave(_)) if has_waited => undo.ask_unreached(),
                _ => undo,
            },
            patience: self.terms.node_timeout,
            round: self.round + 1,
        };
        undoing.ask(now, id, world);
        Next::Becomes(Op::Undoing(Box::new(undoing)))
    }

    /// Returns the ticket that the take has left, or will leave, on nodes that refuse it.
    fn left_in_line<E>(&self, id: OpId, world: &World<E>) -> Option<Ticket> {
        self.planted().filter(|_| self.in_line)?;
        let own =
            || world.lines.own_waiter(id).map(|waiter| Ticket { arrived: 0, waiter, patience: 0 });
        self.ticket().or_else(own)
    }

    /// Hands a lease over to others, and leaves the line unless another caller waits in our
    /// place.
    pub(super) fn forget<E>(&mut self, time: Now, id: OpId, world: &mut World<E>) -> Next {
        let left = self.left_in_line(id, world);
        let heir = world.lines.forgotten(id);
        let left = left.filter(|ticket| heir != Some(ticket.waiter));
        if let Some(ticket) = left.filter(|_| !mutant::on(Mutant::TicketForgotten)) {
            self.leave_line(time, ticket, world);
        }
        Next::Over
    }

    /// Removes our ticket from the line, and nothing else.
    fn leave_line<E>(&self, time: Now, ticket: Ticket, world: &mut World<E>) {
        world.spawned.push(Undoing {
            resources: self.resources.clone(),
            token: Token::from_bytes(ticket.reservation().as_bytes()),
            then: Some(Then::Leave(ticket)),
            undo: Undo::new(time, world.nodes, None, self.terms.node_timeout, None),
            patience: self.terms.node_timeout,
            round: 0,
        });
    }

    /// Returns how the lease was lost if it is lost now.
    fn loss(&self, now: Moment) -> Loss {
        self.deadlines().loss(self.extension.as_ref().and_then(|extension| extension.failure(now)))
    }

    fn lose<E>(&mut self, id: OpId, loss: Loss, world: &mut World<E>) {
        if !self.lost {
            self.lost = true;
            world.outbox.push_back(Output::Lost(id, loss));
        }
    }

    fn send_asked<E>(&mut self, now: Moment, id: OpId, world: &mut World<E>) {
        if let Some(ttl) = self.take_asked() {
            self.answering = true;
            self.send_extension(now, id, ttl, self.terms.node_timeout, world);
        }
    }

    /// Returns how long a renewal waits for the nodes before it asks again. Nodes with
    /// thousands of renewals to answer are slow, and asking again makes them slower. Near
    /// the end of the lease there is less time to wait.
    fn patience(&self, now: Moment) -> Duration {
        let every = self.terms.renewal.as_ref().map_or(Duration::ZERO, |renewal| renewal.every);
        let left = self.ends_at.since(now);
        self.terms.node_timeout.max((every / 2).min(left / 3))
    }

    fn send_extension<E>(
        &mut self,
        now: Moment,
        id: OpId,
        ttl: Duration,
        timeout: Duration,
        world: &mut World<E>,
    ) {
        self.round += 1;
        if ttl > self.terms.ttl {
            let longer_ttl = &mut self.extra().longer_ttl;
            *longer_ttl = (*longer_ttl).max(Some(ttl));
        }
        for node in 0..world.nodes {
            let command = Command::Extend {
                resources: self.resources.clone(),
                token: self.token.clone(),
                ttl,
                fence: self.fence.filter(|_| !mutant::on(Mutant::NumberNotCarried)),
                fingerprint: world.fingerprint(node),
            };
            world.send(node, Tag { op: id, round: self.round }, command);
        }
        let extension = Extension::new(now, world.nodes, ttl, timeout, self.deadlines());
        self.extension = Some(Box::new(match self.extension.take() {
            Some(last) => extension.after(*last),
            None => extension,
        }));
    }

    fn proceed<E>(
        &mut self,
        time: Now,
        id: OpId,
        decision: Option<Decision>,
        world: &mut World<E>,
    ) -> Next {
        let now = time.lease;
        let Some(decision) = decision else {
            return Next::Same;
        };
        let decision = decision.and_then(|until| self.prolong(until));
        if core::mem::take(&mut self.answering) {
            world.outbox.push_back(Output::Extended(id, decision.clone()));
        }
        match decision {
            _ if self.lost => return Next::Same,
            Ok(kept) => {
                self.retry_at(None);
                world.outbox.push_back(Output::Kept(id, kept));
                for node in 0..world.nodes {
                    self.replant(id, node, world);
                }
            }
            Err(ExtendError::Unknown(ballot)) => {
                self.retry_at(Some(now.after(self.terms.node_timeout)));
                world.outbox.push_back(Output::NotKept(id, ballot));
            }
            Err(ExtendError::Lost(loss)) => {
                self.lose(id, loss, world);
                return self.release(time, id, false, world);
            }
            Err(ExtendError::Over) => return Next::Same,
        }
        self.send_asked(now, id, world);
        Next::Same
    }

    /// Moves the end of the lease, unless its loss has been signalled: by then the holder
    /// no longer relies on it, and its keys are about to be removed.
    fn prolong(&mut self, until: Moment) -> Result<Kept, ExtendError> {
        match &self.extension {
            Some(extension) if !self.lost => {
                let deadlines = self.deadlines().extended(&self.terms, until);
                let ballot = extension.ballot().clone();
                self.ends_at = deadlines.ends_at;
                Ok(Kept { deadlines, ballot })
            }
            _ => Err(ExtendError::Over),
        }
    }

    /// Returns when to renew: never if the lease is not, or no longer, renewed here.
    fn next_renewal(&self) -> Moment {
        let renew_at = self.deadlines().renew_at(&self.terms);
        if !self.keeps || renew_at == Moment::NEVER {
            return Moment::NEVER;
        }
        self.extra.as_ref().and_then(|extra| extra.retry_at).unwrap_or(renew_at)
    }

    fn retry_at(&mut self, at: Option<Moment>) {
        if at.is_some() || self.extra.is_some() {
            self.extra().retry_at = at;
            self.tidy();
        }
    }

    /// Puts the key back on a node that lost it, once the vote is won without that node. A
    /// restarted node thus rejoins a lease that is being renewed, and has its key before it
    /// votes again.
    fn replant<E>(&mut self, id: OpId, node: usize, world: &mut World<E>) {
        let Some(extension) = &self.extension else { return };
        let missing = match extension.ballot().vote(node) {
            Vote::Gone => true,
            Vote::Quarantined(quarantine) => {
                quarantine.cause == Cause::Forgot || mutant::on(Mutant::PlantsWhereRefused)
            }
            _ => false,
        };
        if self.keeps && missing {
            self.plant(id, node, None, world);
        }
    }

    fn plant<E>(&mut self, id: OpId, node: usize, ticket: Option<Ticket>, world: &mut World<E>) {
        let command = Command::Plant {
            resources: self.resources.clone(),
            token: self.token.clone(),
            ttl: self.terms.ttl,
            fingerprint: world.fingerprint(node),
            ticket,
        };
        world.send(node, Tag { op: id, round: self.planted_in }, command);
        // Whatever the outcome, the key may be there from now on.
        let planted = self.extra().planted.get_or_insert_with(|| Ballot::granted(world.nodes));
        planted.cast(node, Vote::Pending, Duration::ZERO);
    }
}
