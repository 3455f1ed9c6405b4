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

/// The least time that a caller waits for the outcome of a release. The lease
/// does not depend on it, and the last of thousands of releases is answered late.
const RELEASE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Holding {
    resources: Resources,
    token: Token,
    terms: Terms,
    /// The longest TTL that any command so far gave the keys.
    key_ttl: Duration,
    /// Votes on the take and on planting the key again, showing which nodes may
    /// have it. `None` if any node may, which is usual once all have answered; boxed
    /// for that reason.
    planted: Option<Box<Ballot>>,
    deadlines: Deadlines,
    next_renewal: Moment,
    /// The last extension, while it matters. Boxed because there usually is none.
    extension: Option<Box<Extension>>,
    /// A caller is waiting for an extension by this TTL.
    asked: Option<Duration>,
    /// Whether the extension in progress is the one that the caller asked for.
    answering: bool,
    lost: bool,
    /// Whether this machine renews the lease and puts its key back; otherwise
    /// another does.
    keeps: bool,
    /// Carried by every extension.
    fence: Option<FencingToken>,
    /// Whether the take would join the line where it was refused.
    in_line: bool,
    /// Whether it was: our ticket is there, even once our key has been planted.
    has_joined: bool,
    /// The ticket, if it did. Boxed because there usually is none.
    ticket: Option<Box<Ticket>>,
    round: u32,
    /// Late grants of this round still belong to the lease.
    planted_in: u32,
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
        holding.planted = Some(Box::new(taking.attempt.ballot().clone()));
        holding.in_line = order.line.is_some();
        holding.has_joined = holding.in_line && taking.attempt.ballot().tally().refused > 0;
        holding.ticket = ticket.map(Box::new);
        holding.forget_planted();
        holding
    }

    /// Creates the state of a lock that was acquired elsewhere: any node may have
    /// its key.
    pub(super) fn adopted(lease: Adopted) -> Self {
        Holding::new(lease, 0)
    }

    fn new(lease: Adopted, round: u32) -> Self {
        let deadlines = lease.deadlines();
        let Adopted { resources, terms, token, keeps, fence, .. } = lease;
        let mut holding = Holding {
            resources,
            token,
            key_ttl: terms.ttl,
            planted: None,
            deadlines,
            next_renewal: Moment::NEVER,
            extension: None,
            asked: None,
            answering: false,
            lost: false,
            keeps,
            fence,
            in_line: false,
            has_joined: false,
            ticket: None,
            round,
            planted_in: round,
            terms,
        };
        holding.schedule_renewal();
        holding
    }

    /// Returns what the holder needs to know, the votes of the attempt included.
    pub(super) fn grant(&self, attempt: &mut Attempt) -> Grant {
        Grant {
            resources: self.resources.clone(),
            terms: self.terms.clone(),
            token: self.token.clone(),
            deadlines: self.deadlines,
            fence: self.fence,
            second_round: attempt.took_a_second_round(),
            ballot: attempt.take_ballot(),
        }
    }

    pub(super) fn at_stake(&self) -> (&Resources, &Token) {
        (&self.resources, &self.token)
    }

    pub(super) fn due(&self) -> Moment {
        if self.lost {
            return self.deadlines.ends_at;
        }
        let extending = self.extension.as_ref().filter(|extension| !extension.is_decided());
        let next = extending.map_or(self.next_renewal, |extension| extension.deadline());
        next.min(self.deadlines.notice_at)
    }

    pub(super) fn tick<E>(&mut self, time: Now, id: OpId, world: &mut World<E>) -> Next {
        let now = time.lease;
        if now >= self.deadlines.notice_at {
            self.lose(id, self.loss(now), world);
        }
        if self.lost {
            // The holder may still be acting on the lease until it ends.
            let over = now >= self.deadlines.ends_at;
            return if over { self.release(time, id, false, world) } else { Next::Same };
        }
        if let Some(extension) = self.extension.as_mut().filter(|extension| !extension.is_decided())
        {
            let decision = extension.tick(now);
            return self.proceed(time, id, decision, world);
        }
        if now >= self.next_renewal {
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
        if self.lost || now >= self.deadlines.ends_at {
            let over =
                if self.lost { ExtendError::Over } else { ExtendError::Lost(self.loss(now)) };
            world.outbox.push_back(Output::Extended(id, Err(over)));
            return Next::Same;
        }
        self.asked = Some(ttl);
        if self.extension.as_ref().is_none_or(|extension| extension.is_decided()) {
            self.send_asked(now, id, world);
        }
        Next::Same
    }

    pub(super) fn extended_elsewhere(&mut self, until: Moment) -> Next {
        if !self.lost && until > self.deadlines.ends_at {
            self.deadlines = self.deadlines.extended(&self.terms, until);
            if let Some(extension) = &mut self.extension {
                extension.extended_elsewhere(self.deadlines);
            }
            self.schedule_renewal();
        }
        Next::Same
    }

    /// Gives the lease up: extending it further would keep alive a lock that its
    /// holder believes lost.
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

    /// A node has reserved the key for a ticket of our line. Returns whether that was
    /// for us: it is our ticket, or our key was missing there. It is planted then.
    pub(super) fn woken<E>(
        &mut self,
        id: OpId,
        node: usize,
        ticket: Ticket,
        world: &mut World<E>,
    ) -> bool {
        let is_missing =
            |planted: &Ballot| matches!(planted.vote(node), Vote::Pending | Vote::Held(_));
        let missing = self.keeps && !self.lost && self.planted.as_deref().is_some_and(is_missing);
        if missing {
            self.plant(id, node, Some(ticket), world);
        }
        missing || self.ticket.as_ref().is_some_and(|ours| ours.arrived == ticket.arrived)
    }

    /// Records a late vote on the take, or one on planting the key again.
    fn planted_vote(&mut self, node: usize, vote: Vote) {
        let Some(planted) = &mut self.planted else { return };
        self.has_joined |= self.in_line && vote.holder().is_some();
        // A raise that was never sent says nothing about the take before it.
        let never_sent = matches!(&vote, Vote::Failed(fault) if fault.never_sent());
        if !never_sent || *planted.vote(node) == Vote::Pending {
            planted.cast(node, vote, Duration::ZERO);
        }
        self.forget_planted();
    }

    /// Drops the votes once they rule out no node and none of them may have put us in
    /// line: the undo then goes to all of them.
    fn forget_planted(&mut self) {
        if self.has_joined {
            return;
        }
        let (in_line, has_waited) = (self.in_line, self.ticket.is_some());
        self.planted.take_if(|planted| {
            planted.casts().iter().all(|cast| match &cast.vote {
                Vote::Pending | Vote::Held(_) => false,
                Vote::Failed(fault) => !fault.never_sent() && !in_line,
                // It votes for nobody, and lets nobody leave by that.
                Vote::Quarantined(_) => !has_waited,
                _ => true,
            })
        });
    }

    pub(super) fn release<E>(
        &mut self,
        time: Now,
        id: OpId,
        answer: bool,
        world: &mut World<E>,
    ) -> Next {
        let now = time.lease;
        if self.asked.take().is_some() || self.answering {
            world.outbox.push_back(Output::Extended(id, Err(ExtendError::Over)));
        }
        let answer_by = answer.then(|| now.after(self.terms.node_timeout.max(RELEASE)));
        let has_waited = self.ticket.is_some();
        let left = self.left_in_line(id, world);
        let then = world.lines.released(now, id, &self.resources);
        // The lock goes to another line of this client: both began at the same time,
        // each with a ticket of its own.
        if let (Some(Then::Leave(next) | Then::Wait(next) | Then::Pass(next)), Some(ticket)) =
            (then, left)
            && next.waiter != ticket.waiter
        {
            self.leave_line(time, ticket, world);
        }
        let then = then.or(left.map(Then::Leave));
        let undo = Undo::new(time, world.nodes, self.planted.as_deref(), self.key_ttl, answer_by);
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
        Next::Becomes(Op::Undoing(undoing))
    }

    /// Returns the ticket that the take left where it was refused, or will be.
    fn left_in_line<E>(&mut self, id: OpId, world: &World<E>) -> Option<Ticket> {
        self.planted.as_ref().filter(|_| self.in_line)?;
        let own =
            || world.lines.own_waiter(id).map(|waiter| Ticket { arrived: 0, waiter, patience: 0 });
        self.ticket.take().map(|ticket| *ticket).or_else(own)
    }

    /// Lets go of a lease that others manage from now on, and leaves the line, unless
    /// another caller waits in our place.
    pub(super) fn forget<E>(&mut self, time: Now, id: OpId, world: &mut World<E>) -> Next {
        let left = self.left_in_line(id, world);
        let heir = world.lines.forgotten(id);
        let left = left.filter(|ticket| heir != Some(ticket.waiter));
        if let Some(ticket) = left.filter(|_| !mutant::on(Mutant::TicketForgotten)) {
            self.leave_line(time, ticket, world);
        }
        Next::Over
    }

    /// Takes our ticket out of line, and touches nothing else.
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

    /// Returns how the lease is lost, if it is lost now.
    fn loss(&self, now: Moment) -> Loss {
        self.deadlines.loss(self.extension.as_ref().and_then(|extension| extension.failure(now)))
    }

    fn lose<E>(&mut self, id: OpId, loss: Loss, world: &mut World<E>) {
        if !self.lost {
            self.lost = true;
            world.outbox.push_back(Output::Lost(id, loss));
        }
    }

    fn send_asked<E>(&mut self, now: Moment, id: OpId, world: &mut World<E>) {
        if let Some(ttl) = self.asked.take() {
            self.answering = true;
            self.send_extension(now, id, ttl, self.terms.node_timeout, world);
        }
    }

    /// Returns how long a renewal waits for the nodes before it asks again. Nodes
    /// with thousands of renewals to answer are slow, and asking again makes them
    /// slower; near the end of the lease there is less time to wait.
    fn patience(&self, now: Moment) -> Duration {
        let every = self.terms.renewal.as_ref().map_or(Duration::ZERO, |renewal| renewal.every);
        let left = self.deadlines.ends_at.since(now);
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
        self.key_ttl = self.key_ttl.max(ttl);
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
        let extension = Extension::new(now, world.nodes, ttl, timeout, self.deadlines);
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
                self.schedule_renewal();
                world.outbox.push_back(Output::Kept(id, kept));
                for node in 0..world.nodes {
                    self.replant(id, node, world);
                }
            }
            Err(ExtendError::Unknown(ballot)) => {
                self.renew_from(now.after(self.terms.node_timeout));
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

    /// Moves the end of the lease, unless its loss was signalled: its holder no
    /// longer relies on it, and its keys are about to be removed.
    fn prolong(&mut self, until: Moment) -> Result<Kept, ExtendError> {
        match &self.extension {
            Some(extension) if !self.lost => {
                self.deadlines = self.deadlines.extended(&self.terms, until);
                Ok(Kept { deadlines: self.deadlines, ballot: extension.ballot().clone() })
            }
            _ => Err(ExtendError::Over),
        }
    }

    fn schedule_renewal(&mut self) {
        self.renew_from(self.deadlines.renew_at(&self.terms));
    }

    /// Renews at `at`, unless the lease is not (or no longer) renewed here.
    fn renew_from(&mut self, at: Moment) {
        let wanted = self.keeps && self.deadlines.renew_at(&self.terms) < Moment::NEVER;
        self.next_renewal = if wanted { at } else { Moment::NEVER };
    }

    /// Puts the key back on a node that lost it, once the vote is won without that
    /// node. A restarted node thus rejoins a lease that is being renewed, and has
    /// its key before it votes again.
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
        let planted = self.planted.get_or_insert_with(|| Box::new(Ballot::granted(world.nodes)));
        planted.cast(node, Vote::Pending, Duration::ZERO);
    }
}
