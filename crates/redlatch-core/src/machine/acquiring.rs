//! Acquires one lock. Waits for a turn, then makes attempts, each with a fresh token.
//! Between attempts it waits in line if it may (see [`lines`](super::lines)), otherwise for
//! a random pause.

use super::{
    Holding, Load, Next, Op, OpId, Order, Output, Tag, Undoing, World,
    intake::is_settled,
    lines::{Claim, News, Stand},
    node_set::NodeSet,
};
use crate::{
    acquire::{AcquireError, Attempt, Decision},
    command::Command,
    line::{InLine, LOOK, Place, Then, Waiter, stranger_leaves_in},
    moment::{Moment, Now},
    mutant::{self, Mutant},
    release::Undo,
    resource::Resources,
    retry::Backoff,
    token::{Entropy, Token},
    vote::{Verdict, Vote},
};
use alloc::boxed::Box;
use core::time::Duration;

/// How long to wait for more wakes, if the nodes that have not woken us might still grant
/// the lock.
const GRACE: Duration = Duration::from_millis(2);
/// Nodes that have not woken us are asked after this fraction of the node timeout.
const REST: u32 = 10;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Acquiring {
    order: Order,
    backoff: Backoff,
    round: u32,
    state: State,
    /// Our place in line, if we are in line and talk to the nodes ourselves.
    place: Option<Place>,
    /// Whether an earlier attempt may have put us in line.
    was_in_line: bool,
    /// The nodes that have woken us since the last attempt.
    woken: NodeSet,
    /// The nodes that refused the last attempt.
    refused: NodeSet,
    /// A lost attempt that some nodes have not answered, while we wait in line.
    late: Option<Late>,
    /// When we last saw another library hold the lock, and when its lock expires.
    stranger: Option<(Moment, Moment)>,
    /// Why the last attempt failed, if others were waiting at the time. Reported if no
    /// further turn comes. Boxed because it is rarely set.
    last: Option<Box<AcquireError>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    /// Keeps the number of the last attempt, if it may.
    Pausing {
        until: Moment,
        number: Option<u64>,
    },
    Queueing {
        since: Moment,
        until: Moment,
        number: u64,
    },
    /// Behind other callers of this machine; it needs no state of its own.
    Behind,
    Taking(Taking),
}

/// Most late nodes refuse the take, too, and put us in line. Only a node that grants it
/// needs an undo, so we wait for their answers first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Late {
    round: u32,
    token: Token,
    /// The nodes that have not answered.
    nodes: NodeSet,
    /// How long to wait for them.
    until: Moment,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Taking {
    pub(super) attempt: Attempt,
    pub(super) token: Token,
    number: u64,
    asked: NodeSet,
    /// When to ask the nodes that have not woken us.
    rest_at: Moment,
}

impl Acquiring {
    pub(super) fn start<E: Entropy>(
        now: Moment,
        id: OpId,
        order: Order,
        world: &mut World<E>,
    ) -> Self {
        let backoff = Backoff::new(order.terms.ttl);
        let state = State::Pausing { until: now, number: None };
        let (woken, refused) = (NodeSet::NONE, NodeSet::NONE);
        let mut acquiring = Acquiring {
            order,
            backoff,
            round: 0,
            state,
            place: None,
            was_in_line: false,
            woken,
            refused,
            late: None,
            stranger: None,
            last: None,
        };
        if let Some(line) = acquiring.line(now) {
            if world.lines.wait_behind(id, &acquiring.order.resources) {
                acquiring.state = State::Behind;
                return acquiring;
            }
            let waiter = world.lines.waiter(id, &mut world.entropy);
            acquiring.place = Some(acquiring.place_of(line, waiter));
        }
        acquiring.queue(now, id, world);
        acquiring
    }

    pub(super) fn due(&self) -> Moment {
        let late = self.late.as_ref().map_or(Moment::NEVER, |late| late.until);
        late.min(match &self.state {
            State::Pausing { until, .. } | State::Queueing { until, .. } => *until,
            State::Behind => self.order.wait_until,
            State::Taking(taking) => taking.attempt.deadline().min(taking.rest_at),
        })
    }

    pub(super) fn load(&self) -> Load {
        match &self.state {
            State::Taking(taking) if !is_settled(taking.attempt.ballot()) => Load::Attempt,
            _ => Load::None,
        }
    }

    /// Returns what attempts that have not been undone may have left on the nodes.
    pub(super) fn at_stake(&self) -> impl Iterator<Item = (&Resources, &Token)> {
        let taking = match &self.state {
            State::Taking(taking) => Some(&taking.token),
            _ => None,
        };
        let late = self.late.as_ref().map(|late| &late.token);
        taking.into_iter().chain(late).map(|token| (&self.order.resources, token))
    }

    /// Returns whether the nodes may know this caller as a waiter.
    pub(super) fn is_in_line(&self) -> bool {
        self.place.is_some()
    }

    pub(super) fn tick<E: Entropy>(&mut self, time: Now, id: OpId, world: &mut World<E>) -> Next {
        let now = time.lease;
        if self.late.as_ref().is_some_and(|late| now >= late.until) {
            self.end_late(time, self.place.map(|place| Then::Wait(place.ticket)), world);
        }
        match &mut self.state {
            State::Pausing { until, .. } if now < *until => Next::Same,
            State::Pausing { .. } => self.queue(now, id, world),
            State::Behind if now < self.order.wait_until => Next::Same,
            State::Behind => {
                // Let this caller make one attempt itself, so that the error can name
                // the holder.
                world.lines.leave(id, &self.order.resources, None, now);
                self.state = State::Pausing { until: now, number: None };
                self.queue(now, id, world)
            }
            State::Queueing { until, .. } if now < *until => Next::Same,
            State::Queueing { since, number, .. } => {
                world.intake.leave(id, *number);
                let waited = now.since(*since);
                let error = self.last.take().map(|last| *last);
                let error = error.unwrap_or_else(|| world.intake.why_not(waited));
                self.leave(time, id, now, world);
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
            // The node refused the take and then woke us; the wake arrived first.
            State::Taking(_)
                if tag.round == self.round
                    && vote.holder().is_some()
                    && self.woken.contains(node) =>
            {
                self.woken = self.woken.without(NodeSet::one(node));
                self.ask(id, NodeSet::one(node), world);
                Next::Same
            }
            State::Taking(taking) if tag.round == self.round => {
                let decision = taking.attempt.vote(now.lease, node, vote);
                self.proceed(now, id, decision, world)
            }
            // A vote on an earlier, lost attempt.
            _ => {
                self.late_vote(now, tag, node, &vote, world);
                Next::Same
            }
        }
    }

    /// Handles a node's answer to a lost attempt, and undoes the attempt there unless the
    /// node has put us in line.
    fn late_vote<E>(&mut self, now: Now, tag: Tag, node: usize, vote: &Vote, world: &mut World<E>) {
        let Some(late) = self.late.as_mut().filter(|late| late.round == tag.round) else { return };
        if !late.nodes.contains(node) {
            return;
        }
        late.nodes = late.nodes.without(NodeSet::one(node));
        let token = late.token.clone();
        self.late.take_if(|late| late.nodes == NodeSet::NONE);
        if vote.holder().is_some() && tag.round == self.round {
            self.refused = self.refused.with(node);
        }
        let never_sent = matches!(vote, Vote::Failed(fault) if fault.never_sent());
        if !has_joined(vote) && !never_sent {
            let wait = self.place.map(|place| Then::Wait(place.ticket));
            self.undo_late(now, token, NodeSet::one(node), wait, world);
        }
    }

    /// Undoes an earlier, lost attempt on nodes that are not known to have refused it.
    fn undo_late<E>(
        &self,
        now: Now,
        token: Token,
        nodes: NodeSet,
        then: Option<Then>,
        world: &mut World<E>,
    ) {
        let undo = Undo::new(now, world.nodes, None, self.order.terms.ttl, None);
        let undo = undo.skip(|node| !nodes.contains(node));
        self.spawn_undo(token, undo, then, world);
    }

    /// Stops waiting for the nodes that have not answered an earlier, lost attempt, and
    /// undoes it there.
    fn end_late<E>(&mut self, now: Now, then: Option<Then>, world: &mut World<E>) {
        if let Some(Late { token, nodes, .. }) = self.late.take() {
            self.undo_late(now, token, nodes, then, world);
        }
    }

    pub(super) fn cancel<E>(&mut self, now: Now, id: OpId, world: &mut World<E>) -> Next {
        if let State::Queueing { number, .. } = self.state {
            world.intake.leave(id, number);
        }
        let look = self.due().min(now.lease.after(LOOK));
        self.leave(now, id, look, world);
        Next::Over
    }

    /// Handles news from the line.
    pub(super) fn hear<E: Entropy>(
        &mut self,
        time: Now,
        id: OpId,
        news: &News,
        world: &mut World<E>,
    ) -> Next {
        let (now, Some(line)) = (time.lease, self.order.line) else { return Next::Same };
        match news {
            News::Leads(waiter) => {
                let place = self.place_of(line, *waiter);
                self.lead(id, place, now.after(LOOK), world);
            }
            News::Inherits(place, look) => self.lead(id, *place, *look, world),
            News::Served => match &self.state {
                State::Taking(_) => {
                    for node in 0..world.nodes {
                        self.woken(now, id, node, world);
                    }
                }
                State::Pausing { .. } => return self.take_all(now, id, world),
                State::Queueing { number, .. } => {
                    world.intake.leave(id, *number);
                    return self.take_all(now, id, world);
                }
                State::Behind => {}
            },
            News::GivesWay(look) => {
                if let State::Pausing { until, .. } = &mut self.state {
                    *until = *look.min(until);
                }
            }
        }
        Next::Same
    }

    /// Becomes the head: talks to the nodes for all who wait here.
    fn lead<E>(&mut self, id: OpId, place: Place, look: Moment, world: &mut World<E>) {
        self.place = Some(place);
        self.refused = NodeSet::all(world.nodes);
        self.woken = NodeSet::NONE;
        self.state = State::Pausing { until: look.min(self.order.wait_until), number: None };
        world.lines.leads(id, &self.order.resources, self.claim(place));
    }

    /// A node has reserved the lock for us.
    pub(super) fn woken<E: Entropy>(
        &mut self,
        now: Moment,
        id: OpId,
        node: usize,
        world: &mut World<E>,
    ) -> Next {
        match &mut self.state {
            State::Taking(taking) => {
                let refused = matches!(taking.attempt.ballot().vote(node), Vote::Held(_));
                if refused || !taking.asked.contains(node) {
                    self.ask(id, NodeSet::one(node), world);
                } else if !mutant::on(Mutant::EarlyWakeIgnored) {
                    // An unanswered take finds the reservation by itself, unless its answer is
                    // already on the way.
                    self.woken = self.woken.with(node);
                }
                return Next::Same;
            }
            State::Behind => return Next::Same,
            State::Pausing { .. } | State::Queueing { .. } => {}
        }
        self.woken = self.woken.with(node);
        let majority = world.nodes / 2 + 1;
        if self.woken.count() >= majority {
            if let State::Queueing { number, .. } = self.state {
                world.intake.leave(id, number);
            }
            return self.take(now, id, self.woken, world);
        }
        // The other nodes may have no reason to wake us.
        let against = self.refused.without(self.woken).count();
        if let State::Pausing { until, .. } = &mut self.state
            && world.nodes - against >= majority
        {
            *until = now.after(GRACE).min(*until);
        }
        Next::Same
    }

    /// A node can no longer wake us. It still has our ticket, so ask again soon: that
    /// restores its wakes. Connections often break together, so wait briefly for others.
    pub(super) fn deaf<E>(
        &mut self,
        now: Moment,
        id: OpId,
        node: usize,
        world: &mut World<E>,
    ) -> Next {
        match &mut self.state {
            State::Pausing { until, .. } => *until = now.after(GRACE).min(*until),
            State::Taking(taking)
                if matches!(taking.attempt.ballot().vote(node), Vote::Held(_)) =>
            {
                self.ask(id, NodeSet::one(node), world);
            }
            // Will be asked soon, or has been asked and has not answered.
            State::Queueing { .. } | State::Taking(_) | State::Behind => {}
        }
        Next::Same
    }

    /// Starts an attempt, or waits for a turn: until `wait_until`, and for at least
    /// one node timeout.
    fn queue<E: Entropy>(&mut self, now: Moment, id: OpId, world: &mut World<E>) -> Next {
        if world.intake.is_open() {
            return self.take_all(now, id, world);
        }
        let until = self.order.wait_until.max(now.after(self.order.terms.node_timeout));
        let number = world.intake.enter(id, self.number());
        self.state = State::Queueing { since: now, until, number };
        Next::Same
    }

    /// Starts an attempt on all nodes.
    pub(super) fn take_all<E: Entropy>(
        &mut self,
        now: Moment,
        id: OpId,
        world: &mut World<E>,
    ) -> Next {
        self.take(now, id, NodeSet::all(world.nodes), world)
    }

    /// Starts an attempt, on these nodes first. The lease and the node timeout count
    /// from here.
    fn take<E: Entropy>(
        &mut self,
        now: Moment,
        id: OpId,
        nodes: NodeSet,
        world: &mut World<E>,
    ) -> Next {
        self.round += 1;
        let token = if mutant::on(Mutant::TokenReused) {
            Token::from_bytes(self.order.owner.as_str().as_bytes())
        } else {
            Token::fresh_at(&mut world.entropy, &self.order.owner, now)
        };
        let attempt = Attempt::new(now, world.nodes, &self.order.terms);
        let attempt = if self.order.fencing.is_some() { attempt.fenced() } else { attempt };
        // Callers that did not have to wait come before all that do.
        let number = self.number().unwrap_or_default();
        let is_all = nodes == NodeSet::all(world.nodes);
        let rest = now.after(self.order.terms.node_timeout / REST);
        let rest_at = if is_all { Moment::NEVER } else { rest };
        let asked = NodeSet::NONE;
        self.state = State::Taking(Taking { attempt, token, number, asked, rest_at });
        self.woken = NodeSet::NONE;
        self.ask(id, nodes, world);
        if let Some(place) = &mut self.place {
            self.was_in_line = core::mem::replace(&mut place.known, true);
        }
        if mutant::on(Mutant::WakeIsAVote) && !is_all {
            return self.believe(now, id, nodes, world);
        }
        Next::Same
    }

    /// Only ever called in a mutant build: counts wakes as votes.
    fn believe<E>(&mut self, now: Moment, id: OpId, nodes: NodeSet, world: &mut World<E>) -> Next {
        for node in (0..world.nodes).filter(|node| nodes.contains(*node)) {
            let State::Taking(taking) = &mut self.state else { return Next::Same };
            if let Some(Ok(until)) = taking.attempt.vote(now, node, Vote::Granted) {
                return self.won(now, id, until, world);
            }
        }
        Next::Same
    }

    /// Asks these nodes for the lock.
    fn ask<E>(&mut self, id: OpId, nodes: NodeSet, world: &mut World<E>) {
        let State::Taking(taking) = &mut self.state else { return };
        // One proposal for all nodes, whenever each is asked, so that they agree.
        let began = taking.attempt.started();
        for node in (0..world.nodes).filter(|node| nodes.contains(*node)) {
            if taking.asked.contains(node) {
                taking.attempt.ask_again(node);
            }
            taking.asked = taking.asked.with(node);
            let command = Command::Take {
                resources: self.order.resources.clone(),
                token: taking.token.clone(),
                ttl: self.order.terms.ttl,
                fence: self.order.fencing.map(|clock| clock.propose(began, world.nodes)),
                fingerprint: world.fingerprint(node),
                place: self.place,
            };
            world.send(node, Tag { op: id, round: self.round }, command);
        }
    }

    fn number(&self) -> Option<u64> {
        match &self.state {
            State::Pausing { number, .. } => *number,
            State::Queueing { number, .. } => Some(*number),
            State::Behind => None,
            State::Taking(taking) => Some(taking.number),
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
            world.intake.decided(now, &taking.attempt, &self.order.terms, decision.as_ref().err());
        }
        match decision {
            None => {
                self.raise(now, id, world);
                self.ask_rest(now, id, world);
                Next::Same
            }
            Some(Ok(usable_until)) => {
                self.end_late(time, None, world);
                self.won(now, id, usable_until, world)
            }
            Some(Err(error)) => self.lost(time, id, error, world),
        }
    }

    /// Asks the nodes that have not woken us, once those that have are not enough.
    fn ask_rest<E>(&mut self, now: Moment, id: OpId, world: &mut World<E>) {
        let State::Taking(taking) = &mut self.state else { return };
        let answered = |node: usize| *taking.attempt.ballot().vote(node) != Vote::Pending;
        let mut asked = (0..world.nodes).filter(|node| taking.asked.contains(*node));
        if taking.rest_at == Moment::NEVER || now < taking.rest_at && !asked.all(answered) {
            return;
        }
        taking.rest_at = Moment::NEVER;
        if taking.attempt.ballot().tally().verdict() != Verdict::Won {
            let rest = NodeSet::all(world.nodes).without(taking.asked);
            self.ask(id, rest, world);
        }
    }

    /// Asks nodes that answered with a lower number to raise it to the highest.
    fn raise<E>(&mut self, now: Moment, id: OpId, world: &mut World<E>) {
        let State::Taking(taking) = &mut self.state else { return };
        let Taking { attempt, token, .. } = taking;
        for (node, to) in attempt.raise(now) {
            let command = Command::Raise {
                resources: self.order.resources.clone(),
                token: token.clone(),
                to,
                fingerprint: world.fingerprint(node),
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
        let State::Taking(taking) = &mut self.state else {
            return Next::Same;
        };
        let refused = taking.attempt.ballot().tally().refused > 0;
        let may_be = refused || self.was_in_line;
        let in_line = |place: &Place| may_be || world.lines.has(&self.order.resources, place);
        let ticket = self.place.filter(in_line).map(|place| place.ticket);
        let holding = Holding::taken(now, &self.order, taking, usable_until, self.round, ticket);
        let grant = holding.grant(&mut taking.attempt);
        world.lines.won(id, &self.order.resources);
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
        let State::Taking(taking) = &self.state else { return Next::Same };
        let elapsed = taking.attempt.elapsed(now);
        self.refused = NodeSet::refusing(taking.attempt.ballot());
        if now >= self.order.wait_until || error.outlasts(self.order.wait_until.since(now)) {
            self.leave(time, id, now.after(GRACE), world);
            world.outbox.push_back(Output::Acquired(id, Err(error)));
            return Next::Over;
        }
        let is_held = matches!(error, AcquireError::Held(_));
        if let (true, Some(place), Some(line)) = (is_held, self.place, self.line(now))
            && let Some(pause) = line.look_again(taking.attempt.ballot())
        {
            let stays = stranger_leaves_in(taking.attempt.ballot()).map(|left| now.after(left));
            let pause = match stays {
                Some(until) => self.pause_beside(now, until, elapsed, world).min(pause),
                None => pause,
            };
            return self.wait_in_line(time, id, place, error, pause, world);
        }
        let pause = self.backoff.pause(elapsed, &mut world.entropy);
        let until = now.after(pause).min(self.order.wait_until);
        if let (Some(place), Some(_)) = (self.place, self.line(now))
            && let Stand::Behind = world.lines.join(id, &self.order.resources, self.claim(place))
        {
            return self.wait_behind(time, place, (id, error, until), world);
        }
        self.undo(time, None, world);
        let is_crowded = world.intake.is_crowded();
        self.last = is_crowded.then(|| Box::new(error.clone()));
        // If nodes failed, keep the place in the queue. If the lock is held, give the place up:
        // retries would delay other callers.
        let number = self.number().filter(|_| is_crowded && !is_held);
        world.outbox.push_back(Output::Retrying(id, error, until.since(now)));
        self.state = State::Pausing { until, number };
        Next::Same
    }

    /// Returns the pause before the next look at a lock that another library holds until
    /// `until`. It is as short as without a line, since that library may ask at any time,
    /// and grows as long as the lock does not change hands.
    fn pause_beside<E: Entropy>(
        &mut self,
        now: Moment,
        until: Moment,
        elapsed: Duration,
        world: &mut World<E>,
    ) -> Duration {
        // A lock that is still the same expires at the same time, give or take the delay of
        // the answers.
        let is_another = |(seen, ends): (Moment, Moment)| until.since(ends) > now.since(seen) / 2;
        if self.stranger.replace((now, until)).is_none_or(is_another) {
            self.backoff = Backoff::new(self.order.terms.ttl);
        }
        self.backoff.pause(elapsed, &mut world.entropy)
    }

    /// Waits until a node wakes us, for `pause` at most.
    fn wait_in_line<E>(
        &mut self,
        time: Now,
        id: OpId,
        place: Place,
        error: AcquireError,
        pause: Duration,
        world: &mut World<E>,
    ) -> Next {
        let now = time.lease;
        let stand = world.lines.join(id, &self.order.resources, self.claim(place));
        let until = now.after(pause).min(self.order.wait_until);
        if let Stand::Behind = stand {
            return self.wait_behind(time, place, (id, error, until), world);
        }
        world.outbox.push_back(Output::Retrying(id, error, until.since(now)));
        if !mutant::on(Mutant::KeepsItsPart) {
            self.undo_answered(time, place, world);
        }
        let never = mutant::on(Mutant::NeverLooksAgain);
        let until = if never { self.order.wait_until } else { until };
        self.state = State::Pausing { until, number: None };
        Next::Same
    }

    /// Undoes the current attempt on nodes that answered without putting us in line. Nodes
    /// that have not answered yet are handled later.
    fn undo_answered<E>(&mut self, now: Now, place: Place, world: &mut World<E>) {
        let wait = Some(Then::Wait(place.ticket));
        self.end_late(now, wait, world);
        let State::Taking(taking) = &self.state else { return };
        let (ballot, token) = (taking.attempt.ballot(), taking.token.clone());
        let is_pending = |node: usize| *ballot.vote(node) == Vote::Pending;
        let unanswered = |node: &usize| taking.asked.contains(*node) && is_pending(*node);
        let nodes = (0..world.nodes).filter(unanswered).fold(NodeSet::NONE, NodeSet::with);
        let undo = Undo::new(now, world.nodes, Some(ballot), self.order.terms.ttl, None);
        let undo = undo.skip(|node| is_pending(node) || has_joined(ballot.vote(node)));
        self.spawn_undo(token.clone(), undo, wait, world);
        if nodes != NodeSet::NONE {
            let until = taking.attempt.deadline();
            self.late = Some(Late { round: self.round, token, nodes, until });
        }
    }

    /// Waits behind the head, which talks to the nodes for all who wait here.
    fn wait_behind<E>(
        &mut self,
        time: Now,
        place: Place,
        (id, error, until): (OpId, AcquireError, Moment),
        world: &mut World<E>,
    ) -> Next {
        world.outbox.push_back(Output::Retrying(id, error, until.since(time.lease)));
        let leave = Some(Then::Leave(place.ticket));
        self.undo(time, leave, world);
        self.end_late(time, leave, world);
        self.place = None;
        self.state = State::Behind;
        Next::Same
    }

    /// Gives up: undoes the current attempt and leaves the line. The caller that inherits
    /// the place looks at the nodes at `look`.
    fn leave<E>(&mut self, now: Now, id: OpId, look: Moment, world: &mut World<E>) {
        let has_heir = world.lines.leave(id, &self.order.resources, self.place, look);
        let known = self.place.filter(|place| place.known).map(|place| place.ticket);
        let known = known.filter(|_| !mutant::on(Mutant::TicketLeft));
        let then = known.map(if has_heir { Then::Wait } else { Then::Leave });
        self.end_late(now, then, world);
        if let State::Taking(_) = &self.state {
            return self.undo(now, then, world);
        }
        if let Some(then @ Then::Leave(ticket)) = then {
            let token = Token::from_bytes(ticket.reservation().as_bytes());
            let undo = Undo::new(now, world.nodes, None, ticket.patience(), None);
            self.spawn_undo(token, undo, Some(then), world);
        }
    }

    /// Removes what the current attempt may have left on the nodes. That includes nodes
    /// that refused it: a take that the network repeats is refused because of our own key.
    fn undo<E>(&self, now: Now, then: Option<Then>, world: &mut World<E>) {
        if let State::Taking(taking) = &self.state {
            let ballot = taking.attempt.ballot();
            let undo = Undo::new(now, world.nodes, Some(ballot), self.order.terms.ttl, None);
            let undo = match then {
                Some(Then::Wait(_)) => undo.skip(|node| has_joined(ballot.vote(node))),
                _ => undo,
            };
            self.spawn_undo(taking.token.clone(), undo, then, world);
        }
    }

    fn spawn_undo<E>(&self, token: Token, undo: Undo, then: Option<Then>, world: &mut World<E>) {
        world.spawned.push(Undoing {
            resources: self.order.resources.clone(),
            token,
            then,
            undo,
            patience: self.order.terms.node_timeout,
            round: 0,
        });
    }

    /// Returns how it waits in line, if it does. A request for several resources never
    /// does: a reservation for one would lie idle while the others are held.
    fn line(&self, now: Moment) -> Option<InLine> {
        let one = self.order.resources.single().is_some();
        self.order.line.filter(|_| one && now < self.order.wait_until)
    }

    fn place_of(&self, line: InLine, waiter: Waiter) -> Place {
        Place { ticket: line.ticket(waiter, self.order.terms.node_timeout), known: false }
    }

    fn claim(&self, place: Place) -> Claim {
        let local_batch = self.order.line.map_or(0, |line| line.local_batch);
        Claim { ticket: place.ticket, local_batch }
    }
}

/// Returns whether a node refused a take because of another owner's key and put us in line.
/// Such a node has no key of ours.
fn has_joined(vote: &Vote) -> bool {
    vote.holder().is_some_and(|holder| holder.ahead.is_some())
}
