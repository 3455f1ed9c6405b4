//! A lock that is held: renewal, extension, loss, release.

use super::{Adopted, Grant, Next, Op, OpId, Order, Output, Tag, Undoing, World};
use crate::{
    command::Command,
    config::Terms,
    extend::{Decision, ExtendError, Extension},
    fence::FencingToken,
    lease::Loss,
    moment::{Moment, Now},
    mutant::{self, Mutant},
    quarantine::Cause,
    quorum::{Ballot, Vote},
    release::Undo,
    resource::Resources,
    token::Token,
};
use alloc::boxed::Box;
use core::time::Duration;

/// How long the caller of a release waits for its outcome at least: nothing of
/// the lease depends on it, and of thousands at once the last is answered late.
const RELEASE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Holding {
    resources: Resources,
    token: Token,
    terms: Terms,
    /// The longest that any command so far lets the keys live.
    key_ttl: Duration,
    /// Who may have our key: the votes on the take, and on planting it again.
    planted: Ballot,
    /// The last vote: on the take, later on the latest extension.
    ballot: Ballot,
    since: Moment,
    usable_until: Moment,
    /// Renewal ends here; `NEVER` without a cap.
    hold_until: Moment,
    next_renewal: Moment,
    /// Boxed: most of the time there is none.
    extension: Option<Box<Extension>>,
    /// The caller waits for an extension by this TTL.
    asked: Option<Duration>,
    /// The extension under way is the one the caller asked for.
    answering: bool,
    lost: bool,
    replants: bool,
    /// What extensions carry along.
    fence: Option<FencingToken>,
    round: u32,
    /// Grants of this round that come late belong to the lease all the same.
    planted_in: u32,
}

impl Holding {
    pub(super) fn new(now: Moment, order: &Order, grant: Grant, round: u32) -> Self {
        let Grant { token, usable_until, ballot, fence, .. } = grant;
        let adopted = Adopted {
            resources: order.resources.clone(),
            terms: order.terms.clone(),
            token,
            usable_until,
            replants: true,
            fence,
        };
        let mut holding = Holding::adopt(now, adopted, ballot.casts().len());
        holding.planted = ballot.clone();
        holding.ballot = ballot;
        holding.round = round;
        holding.planted_in = round;
        holding
    }

    pub(super) fn adopt(now: Moment, adopted: Adopted, nodes: usize) -> Self {
        let Adopted { resources, terms, token, usable_until, replants, fence } = adopted;
        let max_hold = terms.renewal.as_ref().map_or(Duration::MAX, |renewal| renewal.max_hold);
        let mut holding = Holding {
            resources,
            token,
            key_ttl: terms.ttl,
            planted: Ballot::of(nodes),
            ballot: Ballot::of(nodes),
            since: now,
            usable_until,
            hold_until: now.after(max_hold),
            next_renewal: Moment::NEVER,
            extension: None,
            asked: None,
            answering: false,
            lost: false,
            replants,
            fence,
            round: 0,
            planted_in: 0,
            terms,
        };
        holding.schedule_renewal(holding.renewal_before_end());
        holding
    }

    pub(super) fn at_stake(&self) -> (&Resources, &Token) {
        (&self.resources, &self.token)
    }

    pub(super) fn due(&self) -> Moment {
        if self.lost {
            return self.end();
        }
        let extending = self.extension.as_ref().filter(|extension| !extension.is_decided());
        let next = extending.map_or(self.next_renewal, |extension| extension.deadline());
        next.min(self.notice_at())
    }

    pub(super) fn tick<E>(&mut self, time: Now, id: OpId, world: &mut World<E>) -> Next {
        let now = time.lease;
        if now >= self.notice_at() {
            self.lose(id, self.cause_of_end(), world);
        }
        if self.lost {
            // Until the end somebody may still be acting on the lease.
            let over = now >= self.end();
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
        if self.lost || now >= self.end() {
            let error = ExtendError::Lost(self.ballot.clone());
            world.outbox.push_back(Output::Extended(id, Err(error)));
            return Next::Same;
        }
        self.asked = Some(ttl);
        if self.extension.as_ref().is_none_or(|extension| extension.is_decided()) {
            self.send_asked(now, id, world);
        }
        Next::Same
    }

    pub(super) fn extended_elsewhere(&mut self, until: Moment) -> Next {
        if !self.lost && until > self.usable_until {
            self.usable_until = until;
            if let Some(extension) = &mut self.extension {
                extension.lease_lasts_until(until);
            }
            self.schedule_renewal(self.renewal_before_end());
        }
        Next::Same
    }

    /// An extension that is kept from here on would keep alive a lock that
    /// nobody believes in.
    pub(super) fn give_up<E>(&mut self, id: OpId, world: &mut World<E>) -> Next {
        self.lose(id, self.cause_of_end(), world);
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
            let after = now.since(self.since);
            self.ballot.cast(node, vote.clone(), after);
            // A command that never left, to raise a register, says nothing of the
            // take before it.
            let never_sent = matches!(&vote, Vote::Failed(fault) if fault.never_sent());
            if !never_sent || *self.planted.vote(node) == Vote::Pending {
                self.planted.cast(node, vote, after);
            }
            return Next::Same;
        }
        let Some(extension) = self.extension.as_mut().filter(|_| tag.round == self.round) else {
            return Next::Same;
        };
        let decision = extension.vote(now, node, vote);
        let late = decision.is_none() && extension.is_kept();
        self.ballot = extension.ballot().clone();
        if late && !self.lost {
            self.replant(id, node, world);
        }
        self.proceed(time, id, decision, world)
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
            let error = ExtendError::Lost(self.ballot.clone());
            world.outbox.push_back(Output::Extended(id, Err(error)));
        }
        let answer_by = answer.then(|| now.after(self.terms.node_timeout.max(RELEASE)));
        let mut undoing = Undoing {
            resources: self.resources.clone(),
            token: self.token.clone(),
            undo: Undo::new(time, &self.planted, self.key_ttl, answer_by),
            patience: self.terms.node_timeout,
            round: self.round + 1,
        };
        undoing.ask(now, id, world);
        Next::Becomes(Op::Undoing(undoing))
    }

    /// The lease ends here, whatever the votes say.
    pub(super) fn end(&self) -> Moment {
        self.usable_until.min(self.hold_until)
    }

    fn notice_at(&self) -> Moment {
        self.end().before(self.terms.notice)
    }

    fn cause_of_end(&self) -> Loss {
        if self.hold_until <= self.usable_until { Loss::MaxHold } else { Loss::Expired }
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

    /// How long a renewal waits for the nodes before it asks again. Nodes with
    /// thousands of renewals to answer are slow, and asking them again while they
    /// work on the first makes them slower; towards the end there is less time.
    fn patience(&self, now: Moment) -> Duration {
        let every = self.terms.renewal.as_ref().map_or(Duration::ZERO, |renewal| renewal.every);
        let left = self.end().since(now);
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
                guard: world.fingerprint(node),
            };
            world.send(node, Tag { op: id, round: self.round }, command);
        }
        let extension = Extension::new(now, world.nodes, ttl, timeout, self.usable_until);
        self.extension = Some(Box::new(extension));
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
            Ok(until) => {
                self.schedule_renewal(self.renewal_before_end());
                world.outbox.push_back(Output::Kept(id, until, self.ballot.clone()));
                for node in 0..world.nodes {
                    self.replant(id, node, world);
                }
            }
            Err(ExtendError::Unknown(_)) => {
                self.schedule_renewal(now.after(self.terms.node_timeout));
            }
            Err(ExtendError::Lost(ballot)) => {
                let gone = ballot.tally().refusals_decide();
                let loss = if gone { Loss::Gone(ballot) } else { self.cause_of_end() };
                self.lose(id, loss, world);
                return self.release(time, id, false, world);
            }
        }
        self.send_asked(now, id, world);
        Next::Same
    }

    /// Moves the end of the lease, unless its loss was signalled: nobody counts
    /// on it any more then, and its keys are about to go.
    fn prolong(&mut self, until: Moment) -> Decision {
        if self.lost {
            return Err(ExtendError::Lost(self.ballot.clone()));
        }
        self.usable_until = self.usable_until.max(until);
        Ok(self.end())
    }

    /// Renews at `at`, unless renewal is off or the lease reaches its cap already.
    fn schedule_renewal(&mut self, at: Moment) {
        let wanted = self.terms.renewal.is_some() && self.usable_until < self.hold_until;
        self.next_renewal = if wanted { at } else { Moment::NEVER };
    }

    /// When to renew, counted back from the end: whatever moved it last, by how
    /// much and how long ago, the renewal still comes in time.
    fn renewal_before_end(&self) -> Moment {
        let every = self.terms.renewal.as_ref().map_or(Duration::MAX, |renewal| renewal.every);
        self.usable_until.before(self.terms.usable()).after(every)
    }

    /// Puts the key back where it is missing, after the vote was won without
    /// that node: a restarted node rejoins a lease that is being renewed, and
    /// has its key before it votes again.
    fn replant<E>(&mut self, id: OpId, node: usize, world: &mut World<E>) {
        let missing = match self.ballot.vote(node) {
            Vote::Gone => true,
            Vote::Quarantined(quarantine) => {
                quarantine.cause == Cause::Forgot || mutant::on(Mutant::PlantsWhereRefused)
            }
            _ => false,
        };
        if self.replants && missing {
            let command = Command::Plant {
                resources: self.resources.clone(),
                token: self.token.clone(),
                ttl: self.terms.ttl,
                guard: world.fingerprint(node),
            };
            world.send(node, Tag { op: id, round: self.planted_in }, command);
            // Whatever becomes of it: from here on the key may be there.
            self.planted.cast(node, Vote::Pending, Duration::ZERO);
        }
    }
}
