//! Runs many locks at once: decides what to send to which node, when, and what to
//! answer.
//!
//! In:  requests, node replies and the time ([`Input`]).
//! Out: commands, answers and lease changes ([`Output`]), and when it must be called
//!      again.
//!
//! Callers wait for their turn while the nodes have as many attempts as they can handle
//! (see [`crate::pace`]). Releases and undos never wait.
//!
//! Promise: every attempt that is lost, cancelled or cut off, and every lease
//! that is released or lost, ends in an undo on every node it may have reached.
//! Needs: each node executes and answers its commands in the order they were
//! sent, so that an undo cannot overtake its take.

mod acquiring;
mod admitting;
mod holding;
mod intake;
mod interface;
mod lines;
mod node_set;
mod undoing;

use crate::{
    agreement::{Admission, Fingerprint},
    command::{Command, Reply},
    extend,
    line::{Then, Wake},
    moment::{Moment, Now},
    mutant::{self, Mutant},
    quarantine::Quarantine,
    release,
    resource::Resources,
    survey::Survey,
    token::{Entropy, Token},
    vote::Vote,
};
use acquiring::Acquiring;
use admitting::Admitting;
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};
use core::time::Duration;
use holding::Holding;
use intake::{Intake, Load};
pub use interface::{Adopted, Grant, Input, Kept, OpId, Order, Output, Tag, Vouch};
use lines::Lines;
use undoing::Undoing;

/// The state of all operations. Equal machines have the same future; the exhaustive model
/// checker relies on that.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machine<E> {
    /// Boxed because the map moves its entries around.
    ops: BTreeMap<OpId, Box<Entry>>,
    timers: BTreeSet<(Moment, OpId)>,
    world: World<E>,
    internal: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    op: Op,
    /// When its timer fires; never later than the operation's `due`.
    armed: Moment,
    /// The load it is currently counted as.
    load: Load,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Op {
    /// Boxed to keep the enum small: most locks are being held, not acquired.
    Acquiring(Box<Acquiring>),
    Holding(Holding),
    /// Boxed for the same reason.
    Undoing(Box<Undoing>),
    Surveying(Survey),
    Admitting(Admitting),
}

/// Shared state that an operation may change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World<E> {
    nodes: usize,
    entropy: E,
    admission: Option<Admission>,
    /// Numbers the admission rounds, so that replies to an earlier round can be ignored.
    admission_round: u32,
    intake: Intake,
    lines: Lines,
    outbox: VecDeque<Output>,
    spawned: Vec<Undoing>,
}

/// What happens to an operation after an event.
enum Next {
    Same,
    Becomes(Op),
    Over,
}

impl<E: Entropy> Machine<E> {
    /// Creates a machine for this many nodes.
    pub fn new(nodes: usize, entropy: E) -> Self {
        Machine {
            ops: BTreeMap::new(),
            timers: BTreeSet::new(),
            world: World {
                nodes,
                entropy,
                admission: None,
                admission_round: 0,
                intake: Intake::default(),
                lines: Lines::default(),
                outbox: VecDeque::new(),
                spawned: Vec::new(),
            },
            internal: OpId::INTERNAL,
        }
    }

    /// Turns on the restart guard: nodes that may have forgotten locks do not vote
    /// until they are admitted again.
    #[must_use]
    pub fn admitting(mut self, admission: Admission) -> Self {
        self.world.admission = Some(admission);
        self
    }

    /// Processes one event. Call [`poll`](Self::poll) afterwards until it returns
    /// `None`.
    pub fn handle(&mut self, time: Now, input: Input) {
        let now = time.lease;
        match input {
            Input::Acquire(id, order) => {
                let op = Acquiring::start(now, id, order, &mut self.world);
                self.insert(id, Op::Acquiring(Box::new(op)));
            }
            Input::Adopt(id, adopted) => {
                let op = Op::Holding(Holding::adopted(adopted));
                self.insert(id, op);
            }
            Input::Survey(id, command, timeout) => self.survey(now, id, &command, timeout),
            Input::Admit(id, vouch) => self.admit(time, id, &vouch),
            Input::Reply { node, reply: Reply::Woken(wake), .. } => self.woken(now, node, &wake),
            Input::Reply { node, reply: Reply::Deaf, .. } => self.deaf(now, node),
            Input::Reply { node, tag, mut reply } => {
                if let Reply::Vote(Vote::Quarantined(quarantine)) = &mut reply {
                    self.quarantined(time, node, quarantine);
                }
                self.step(tag.op, |id, op, world| match (op, reply) {
                    (Op::Surveying(survey), reply) => finish(id, survey.reply(node, reply), world),
                    (Op::Admitting(op), reply) => op.reply(time, id, tag, node, reply, world),
                    (Op::Acquiring(op), Reply::Vote(vote)) => {
                        op.vote(time, id, tag, node, vote, world)
                    }
                    (Op::Holding(op), Reply::Vote(vote)) => {
                        op.vote(time, id, tag, node, vote, world)
                    }
                    (Op::Undoing(op), Reply::Vote(vote)) => {
                        op.vote(time, id, tag, node, vote, world)
                    }
                    (_, _) => Next::Same,
                });
            }
            Input::Extend(id, ttl) => self.extend(now, id, ttl),
            Input::Extended(id, until) => self.step(id, |_, op, _| match op {
                Op::Holding(op) => op.extended_elsewhere(until),
                _ => Next::Same,
            }),
            Input::GivenUp(id) => self.step(id, |id, op, world| match op {
                Op::Holding(op) => op.give_up(now, id, world),
                _ => Next::Same,
            }),
            Input::Release(id) => self.release(time, id),
            Input::Cancel(id) => self.step(id, |id, op, world| match op {
                Op::Acquiring(op) => op.cancel(time, id, world),
                Op::Holding(op) => op.release(time, id, false, world),
                Op::Undoing(_) | Op::Admitting(_) => Next::Same,
                Op::Surveying(_) => Next::Over,
            }),
            Input::Forget(id) => self.step(id, |id, op, world| match op {
                Op::Holding(op) => op.forget(time, id, world),
                _ => Next::Same,
            }),
            Input::Tick => self.tick(time),
        }
        // Undos first: they free locks that the new attempts may want.
        self.adopt_spawned(now);
        self.pass_on_news(time);
        self.let_in(now);
    }

    /// Returns the next action, if any.
    pub fn poll(&mut self) -> Option<Output> {
        self.world.outbox.pop_front()
    }

    /// Returns the latest time at which to pass in [`Input::Tick`] if nothing else happens.
    #[must_use]
    pub fn due(&self) -> Option<Moment> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Returns whether nothing is in progress: no lock is held and nothing is left to undo.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ops.keys().all(|id| *id == OpId::ADMISSION)
    }

    /// Returns how many undos are in progress.
    #[must_use]
    pub fn undos(&self) -> usize {
        self.world.intake.undos()
    }

    /// Returns the keys that would remain on the nodes if the machine stopped now and that
    /// someone else would have to remove.
    pub fn left_behind(&self) -> impl Iterator<Item = (&Resources, &Token)> {
        self.ops.values().flat_map(|entry| {
            let (acquiring, other) = match &entry.op {
                Op::Acquiring(op) => (Some(op.at_stake()), None),
                Op::Holding(op) => (None, Some(op.at_stake())),
                Op::Undoing(op) => (None, Some(op.at_stake())),
                Op::Surveying(_) | Op::Admitting(_) => (None, None),
            };
            acquiring.into_iter().flatten().chain(other)
        })
    }

    /// Extends a lease. Answers even if the lease is already over.
    fn extend(&mut self, now: Moment, id: OpId, ttl: Duration) {
        let over = Output::Extended(id, Err(extend::ExtendError::Over));
        if !self.ops.contains_key(&id) {
            return self.world.outbox.push_back(over);
        }
        self.step(id, |id, op, world| match op {
            Op::Holding(op) => op.extend(now, id, ttl, world),
            Op::Undoing(_) => {
                world.outbox.push_back(over);
                Next::Same
            }
            Op::Acquiring(_) | Op::Surveying(_) | Op::Admitting(_) => Next::Same,
        });
    }

    /// Releases a lease. Answers even if the lease is already over.
    fn release(&mut self, now: Now, id: OpId) {
        if !self.ops.contains_key(&id) {
            let gone = Output::Released(id, Ok(release::Released::AlreadyGone));
            return self.world.outbox.push_back(gone);
        }
        self.step(id, |id, op, world| match op {
            Op::Holding(op) => op.release(now, id, true, world),
            Op::Undoing(op) => op.answer(now, id, world),
            Op::Acquiring(_) | Op::Surveying(_) | Op::Admitting(_) => Next::Same,
        });
    }

    fn tick(&mut self, time: Now) {
        let now = time.lease;
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                return;
            }
            self.timers.pop_first();
            if let Some(entry) = self.ops.get_mut(&id) {
                entry.armed = Moment::NEVER;
            }
            self.step(id, |id, op, world| match op {
                Op::Acquiring(op) => op.tick(time, id, world),
                Op::Holding(op) => op.tick(time, id, world),
                Op::Undoing(op) => op.tick(time, id, world),
                Op::Surveying(survey) => finish(id, survey.tick(now), world),
                Op::Admitting(op) => op.tick(time, id, world),
            });
            // Not after the loop: a retry without a pause would overtake the previous undo.
            self.adopt_spawned(now);
            self.pass_on_news(time);
        }
    }

    /// Lets one operation react and resets its timer.
    fn step(&mut self, id: OpId, react: impl FnOnce(OpId, &mut Op, &mut World<E>) -> Next) {
        let Some(entry) = self.ops.get_mut(&id) else {
            return; // a late reply to something that is over
        };
        match react(id, &mut entry.op, &mut self.world) {
            Next::Same => {}
            Next::Becomes(op) => entry.op = op,
            Next::Over => {
                self.world.intake.shift(entry.load, Load::None);
                self.timers.remove(&(entry.armed, id));
                self.ops.remove(&id);
                return;
            }
        }
        let load = entry.op.load();
        self.world.intake.shift(entry.load, load);
        entry.load = load;
        let due = entry.op.due();
        if due < entry.armed {
            self.timers.remove(&(entry.armed, id));
            self.timers.insert((due, id));
            entry.armed = due;
        }
    }

    fn insert(&mut self, id: OpId, op: Op) {
        let (armed, load) = (op.due(), op.load());
        self.world.intake.shift(Load::None, load);
        self.timers.insert((armed, id));
        self.ops.insert(id, Box::new(Entry { op, armed, load }));
    }

    fn survey(&mut self, now: Moment, id: OpId, command: &Command, timeout: Duration) {
        for node in 0..self.world.nodes {
            let tag = Tag { op: id, round: 0 };
            self.world.send(node, tag, command.clone());
        }
        let survey = Survey::new(now, self.world.nodes, timeout);
        self.insert(id, Op::Surveying(survey));
    }

    /// Answers a caller that asks which nodes may vote.
    fn admit(&mut self, now: Now, id: OpId, vouch: &Vouch) {
        if !self.world.admission.as_ref().is_some_and(|admission| admission.admits) {
            let nobody = Output::Standings(id, Box::default());
            return self.world.outbox.push_back(nobody);
        }
        self.watch_over(now);
        self.step(OpId::ADMISSION, |watching, op, world| match op {
            Op::Admitting(op) => op.ask(now, watching, id, vouch, world),
            _ => Next::Same,
        });
    }

    /// Handles a vote from a quarantined node: starts watching it, and fills in the
    /// time left.
    fn quarantined(&mut self, now: Now, node: usize, quarantine: &mut Quarantine) {
        if !self.world.admission.as_ref().is_some_and(|admission| admission.admits) {
            return;
        }
        self.watch_over(now);
        let watching = self.ops.get(&OpId::ADMISSION).map(|entry| &entry.op);
        if let (Some(Op::Admitting(op)), Some(admission)) = (watching, &self.world.admission) {
            quarantine.remaining = op.remaining(now.steady, admission, node);
        }
    }

    fn watch_over(&mut self, now: Now) {
        if !self.ops.contains_key(&OpId::ADMISSION) {
            let admitting = Admitting::start(now, OpId::ADMISSION, &mut self.world);
            self.insert(OpId::ADMISSION, Op::Admitting(admitting));
        }
    }

    /// Tells waiting callers what has happened to them.
    fn pass_on_news(&mut self, time: Now) {
        while let Some((id, news)) = self.world.lines.news() {
            self.step(id, |id, op, world| match op {
                Op::Acquiring(op) => op.hear(time, id, &news, world),
                _ => Next::Same,
            });
            self.adopt_spawned(time.lease);
        }
    }

    /// A node has reserved a key for one of our lines.
    fn woken(&mut self, now: Moment, node: usize, wake: &Wake) {
        let waiter = wake.ticket.waiter;
        if !self.world.lines.is_ours(waiter) {
            return;
        }
        let (holder, head) = match self.world.lines.served(waiter) {
            Some(known) => known,
            None => (None, self.waiting_as(waiter.line())),
        };
        // If the holder's own key is missing on this node, the wake was meant for its take.
        let mut is_used = false;
        if let Some(holder) = holder {
            self.step(holder, |id, op, world| {
                if let Op::Holding(op) = op {
                    is_used = op.woken(id, node, wake.ticket, world);
                }
                Next::Same
            });
        }
        if is_used {
            return;
        }
        if let Some(head) = head {
            return self.step(head, |id, op, world| match op {
                Op::Acquiring(op) => op.woken(now, id, node, world),
                _ => Next::Same,
            });
        }
        // Nobody here wants it any more: pass it to the next in line.
        let command = Command::Release {
            resources: wake.resource.clone().into(),
            token: Token::from_bytes(wake.ticket.reservation().as_bytes()),
            then: Some(Then::Leave(wake.ticket)),
        };
        self.world.send(node, Tag::WAKE, command);
    }

    /// A node can no longer wake us: the head of each line asks it again.
    fn deaf(&mut self, now: Moment, node: usize) {
        if mutant::on(Mutant::DeafAndPatient) {
            return;
        }
        for head in self.world.lines.heads() {
            self.step(head, |id, op, world| match op {
                Op::Acquiring(op) => op.deaf(now, id, node, world),
                _ => Next::Same,
            });
        }
    }

    /// Returns the request with this line number that is not in a line yet.
    fn waiting_as(&self, number: u16) -> Option<OpId> {
        let (last, _) = self.ops.range(..OpId(OpId::INTERNAL)).next_back()?;
        let ids = (0..=last.0 >> 16).rev().map(|high| OpId(high << 16 | u64::from(number)));
        ids.into_iter().find(|id| match self.ops.get(id).map(|entry| &entry.op) {
            Some(Op::Acquiring(op)) => op.is_in_line(),
            _ => false,
        })
    }

    /// Starts the attempts whose turn has come.
    fn let_in(&mut self, now: Moment) {
        while let Some(id) = self.world.intake.next() {
            self.step(id, |id, op, world| match op {
                Op::Acquiring(op) => op.take_all(now, id, world),
                _ => Next::Same,
            });
        }
    }

    fn adopt_spawned(&mut self, now: Moment) {
        while let Some(mut undoing) = self.world.spawned.pop() {
            if undoing.undo.is_settled() {
                continue;
            }
            let id = OpId(self.internal);
            self.internal += 1;
            undoing.ask(now, id, &mut self.world);
            self.insert(id, Op::Undoing(Box::new(undoing)));
        }
    }
}

impl Op {
    fn due(&self) -> Moment {
        match self {
            Op::Acquiring(op) => op.due(),
            Op::Holding(op) => op.due(),
            Op::Undoing(op) => op.due(),
            Op::Surveying(survey) => survey.deadline(),
            Op::Admitting(op) => op.due(),
        }
    }

    fn load(&self) -> Load {
        match self {
            Op::Acquiring(op) => op.load(),
            Op::Undoing(op) => op.load(),
            Op::Holding(_) | Op::Surveying(_) | Op::Admitting(_) => Load::None,
        }
    }
}

impl<E> World<E> {
    /// Returns the fingerprint that this node's votes must carry.
    fn fingerprint(&self, node: usize) -> Option<Fingerprint> {
        self.admission.as_ref().map(|admission| admission.fingerprint(node))
    }

    fn send(&mut self, node: usize, tag: Tag, command: Command) {
        self.outbox.push_back(Output::Send { node, tag, command });
    }
}

fn finish<E>(id: OpId, replies: Option<Box<[Reply]>>, world: &mut World<E>) -> Next {
    let Some(replies) = replies else {
        return Next::Same;
    };
    world.outbox.push_back(Output::Surveyed(id, replies));
    Next::Over
}
