//! A lock that is wanted: turns to wait for, attempts, each with a token of its
//! own, and pauses.

use super::{
    Grant, Holding, Load, Next, Op, OpId, Order, Output, Tag, Undoing, World, turns::is_settled,
};
use crate::{
    acquire::{AcquireError, Attempt, Decision},
    command::Command,
    moment::{Moment, Now},
    mutant::{self, Mutant},
    quorum::Vote,
    release::Undo,
    resource::Resources,
    retry::Backoff,
    token::{Entropy, Token},
};
use alloc::boxed::Box;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Acquiring {
    order: Order,
    backoff: Backoff,
    round: u32,
    state: State,
    /// What became of the last attempt, if there was a crowd then: somebody who
    /// waits in vain for another one is told that. Boxed: it is seldom there.
    last: Option<Box<AcquireError>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    /// With the ticket that the last attempt had, if it is kept.
    Pausing {
        until: Moment,
        ticket: Option<u64>,
    },
    Queueing {
        since: Moment,
        until: Moment,
        ticket: u64,
    },
    /// Boxed: of very many requests few are this far.
    Taking(Box<Taking>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Taking {
    attempt: Attempt,
    token: Token,
    ticket: u64,
}

impl Acquiring {
    pub(super) fn start<E: Entropy>(
        now: Moment,
        id: OpId,
        order: Order,
        world: &mut World<E>,
    ) -> Self {
        let backoff = Backoff::new(order.terms.ttl);
        let state = State::Pausing { until: now, ticket: None };
        let mut acquiring = Acquiring { order, backoff, round: 0, state, last: None };
        acquiring.queue(now, id, world);
        acquiring
    }

    pub(super) fn due(&self) -> Moment {
        match &self.state {
            State::Pausing { until, .. } | State::Queueing { until, .. } => *until,
            State::Taking(taking) => taking.attempt.deadline(),
        }
    }

    pub(super) fn load(&self) -> Load {
        match &self.state {
            State::Taking(taking) if !is_settled(taking.attempt.ballot()) => Load::Attempt,
            _ => Load::None,
        }
    }

    /// What the attempt under way may have put on the nodes.
    pub(super) fn at_stake(&self) -> Option<(&Resources, &Token)> {
        match &self.state {
            State::Pausing { .. } | State::Queueing { .. } => None,
            State::Taking(taking) => Some((&self.order.resources, &taking.token)),
        }
    }

    pub(super) fn tick<E: Entropy>(&mut self, time: Now, id: OpId, world: &mut World<E>) -> Next {
        let now = time.lease;
        match &mut self.state {
            State::Pausing { until, .. } if now < *until => Next::Same,
            State::Pausing { .. } => self.queue(now, id, world),
            State::Queueing { until, .. } if now < *until => Next::Same,
            State::Queueing { since, ticket, .. } => {
                world.turns.leave(id, *ticket);
                let waited = now.since(*since);
                let error = self.last.take().map(|last| *last);
                let error = error.unwrap_or_else(|| world.turns.why_not(waited));
                world.outbox.push_back(Output::Acquired(id, Err(error)));
                Next::Over
            }
            State::Taking(taking) => {
                let decision = taking.attempt.tick(now);
                self.proceed(time, id, decision, world)
            }
        }
    }

    pub(super) fn vote<E: Entropy>(
        &mut self,
        now: Now,
        id: OpId,
        tag: Tag,
        node: usize,
        vote: Vote,
        world: &mut World<E>,
    ) -> Next {
        match &mut self.state {
            State::Taking(taking) if tag.round == self.round => {
                let decision = taking.attempt.vote(now.lease, node, vote);
                self.proceed(now, id, decision, world)
            }
            // An earlier attempt's: it is lost, and its undo is on the way.
            _ => Next::Same,
        }
    }

    pub(super) fn cancel<E>(&mut self, now: Now, id: OpId, world: &mut World<E>) -> Next {
        if let State::Queueing { ticket, .. } = self.state {
            world.turns.leave(id, ticket);
        }
        self.undo(now, world);
        Next::Over
    }

    /// Starts an attempt, or waits for its turn: until waiting ends, but for as
    /// long as one node may take at least.
    fn queue<E: Entropy>(&mut self, now: Moment, id: OpId, world: &mut World<E>) -> Next {
        if world.turns.is_open() {
            return self.take(now, id, world);
        }
        let until = self.order.wait_until.max(now.after(self.order.terms.node_timeout));
        let ticket = world.turns.enter(id, self.ticket());
        self.state = State::Queueing { since: now, until, ticket };
        Next::Same
    }

    /// It is its turn. The time of lease and nodes starts here.
    pub(super) fn take<E: Entropy>(&mut self, now: Moment, id: OpId, world: &mut World<E>) -> Next {
        self.round += 1;
        let token = if mutant::on(Mutant::TokenReused) {
            Token::from_bytes(self.order.owner.as_str().as_bytes())
        } else {
            Token::fresh(&mut world.entropy, &self.order.owner)
        };
        for node in 0..world.nodes {
            let command = Command::Take {
                resources: self.order.resources.clone(),
                token: token.clone(),
                ttl: self.order.terms.ttl,
                fence: self.order.fencing.map(|clock| clock.propose(now, world.nodes)),
                guard: world.fingerprint(node),
            };
            world.send(node, Tag { op: id, round: self.round }, command);
        }
        let attempt = Attempt::new(now, world.nodes, &self.order.terms);
        let attempt = if self.order.fencing.is_some() { attempt.fenced() } else { attempt };
        // Who need not wait is ahead of all who do.
        let ticket = self.ticket().unwrap_or_default();
        self.state = State::Taking(Box::new(Taking { attempt, token, ticket }));
        Next::Same
    }

    fn ticket(&self) -> Option<u64> {
        match &self.state {
            State::Pausing { ticket, .. } => *ticket,
            State::Queueing { ticket, .. } => Some(*ticket),
            State::Taking(taking) => Some(taking.ticket),
        }
    }

    fn proceed<E: Entropy>(
        &mut self,
        time: Now,
        id: OpId,
        decision: Option<Decision>,
        world: &mut World<E>,
    ) -> Next {
        let now = time.lease;
        if let (Some(decision), State::Taking(taking)) = (&decision, &self.state) {
            world.turns.decided(now, &taking.attempt, &self.order.terms, decision.as_ref().err());
        }
        match decision {
            None => {
                self.raise(now, id, world);
                Next::Same
            }
            Some(Ok(usable_until)) => self.won(now, id, usable_until, world),
            Some(Err(error)) => self.lost(time, id, error, world),
        }
    }

    /// Asks the nodes that answered a lower number to reach the greatest.
    fn raise<E>(&mut self, now: Moment, id: OpId, world: &mut World<E>) {
        let State::Taking(taking) = &mut self.state else { return };
        let Taking { attempt, token, .. } = &mut **taking;
        for (node, to) in attempt.raise(now) {
            let command = Command::Raise {
                resources: self.order.resources.clone(),
                token: token.clone(),
                to,
                guard: world.fingerprint(node),
            };
            world.send(node, Tag { op: id, round: self.round }, command);
        }
    }

    fn won<E>(
        &mut self,
        now: Moment,
        id: OpId,
        usable_until: Moment,
        world: &mut World<E>,
    ) -> Next {
        let State::Taking(taking) = &self.state else {
            return Next::Same;
        };
        let Taking { attempt, token, .. } = &**taking;
        let (ballot, fence) = (attempt.ballot().clone(), attempt.fencing_token());
        let second_round = attempt.took_a_second_round();
        let taken = Grant { token: token.clone(), usable_until, ballot, fence, second_round };
        let holding = Holding::new(now, &self.order, taken.clone(), self.round);
        let grant = Grant { usable_until: holding.end(), ..taken };
        world.outbox.push_back(Output::Acquired(id, Ok(grant)));
        Next::Becomes(Op::Holding(holding))
    }

    fn lost<E: Entropy>(
        &mut self,
        time: Now,
        id: OpId,
        error: AcquireError,
        world: &mut World<E>,
    ) -> Next {
        let now = time.lease;
        let elapsed = match &self.state {
            State::Taking(taking) => taking.attempt.elapsed(now),
            State::Pausing { .. } | State::Queueing { .. } => return Next::Same,
        };
        self.undo(time, world);
        if now >= self.order.wait_until {
            world.outbox.push_back(Output::Acquired(id, Err(error)));
            return Next::Over;
        }
        let pause = self.backoff.pause(elapsed, &mut world.entropy);
        let until = now.after(pause).min(self.order.wait_until);
        let is_crowded = world.turns.is_crowded();
        self.last = is_crowded.then(|| Box::new(error.clone()));
        // Nodes that did not answer are no reason to wait behind everyone once
        // more. A lock that is held is: its retries would keep others waiting.
        let is_held = matches!(error, AcquireError::Held(_));
        let ticket = self.ticket().filter(|_| is_crowded && !is_held);
        world.outbox.push_back(Output::Retrying(id, error, until.since(now)));
        self.state = State::Pausing { until, ticket };
        Next::Same
    }

    /// Removes what the attempt under way may have put on the nodes: also where
    /// it was refused, since a take the network repeated is refused by our own key.
    fn undo<E>(&self, now: Now, world: &mut World<E>) {
        if let State::Taking(taking) = &self.state {
            world.spawned.push(Undoing {
                resources: self.order.resources.clone(),
                token: taking.token.clone(),
                undo: Undo::new(now, taking.attempt.ballot(), self.order.terms.ttl, None),
                patience: self.order.terms.node_timeout,
                round: 0,
            });
        }
    }
}
