//! Many locks at once: what to send, to whom, when, and what to answer.
//!
//! In:  requests, replies of nodes and the time ([`Input`]).
//! Out: commands, answers and changes of leases ([`Output`]), and the moment at
//!      which it wants to be called again.
//!
//! Callers whose attempt would be one too many for the nodes wait for their turn
//! (see [`crate::pace`]); whoever gives something back does not.
//!
//! Promise: every attempt that was lost, cancelled or cut off, and every lease
//! that was released or lost, ends in an undo on every node it may have reached.
//! Needs: each node carries out and answers its commands in the order they were
//! sent, so that an undo cannot overtake its take.

mod acquiring;
mod guarding;
mod holding;
mod turns;
mod undoing;

use crate::{
    acquire,
    command::{Command, Reply},
    config::Terms,
    extend,
    fence::{FencingToken, WallClock},
    lease::Loss,
    moment::{Moment, Now},
    quarantine::{Fingerprint, Guard, Quarantine},
    quorum::{Ballot, Vote},
    release,
    resource::Resources,
    survey::Survey,
    token::{Entropy, Owner, Token},
};
use acquiring::Acquiring;
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};
use core::time::Duration;
use guarding::Guarding;
use holding::Holding;
use turns::{Load, Turns};
use undoing::Undoing;

/// One operation. The driver counts them up from zero and never reuses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(u64);

impl OpId {
    /// Undos of lost attempts are the machine's own; their ids have this bit.
    const INTERNAL: u64 = 1 << 63;
    /// Watching over quarantined nodes is one operation for all.
    const GUARD: OpId = OpId(u64::MAX);

    /// The id with that number, which must be below 2^63.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        OpId(number & !Self::INTERNAL)
    }
}

/// Says which question a reply answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    op: OpId,
    round: u32,
}

impl Tag {
    /// For a question that a driver asks a node by itself; no machine uses it.
    pub const DRIVER: Tag = Tag { op: OpId(u64::MAX - 1), round: 0 };
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// Somebody wants a lock.
    Acquire(OpId, Order),
    /// A lease from elsewhere shall be looked after here. It counts as held
    /// until the given moment; extend it to prove more.
    Adopt(OpId, Adopted),
    /// Extend the lease now, by this TTL.
    Extend(OpId, Duration),
    /// Give the lock back and answer what became of it.
    Release(OpId),
    /// The caller is gone: undo whatever there is, answer nothing.
    Cancel(OpId),
    /// Stop looking after the lease, but leave its keys alone.
    Forget(OpId),
    /// Somebody else extended the lease; it now ends at that moment.
    Extended(OpId, Moment),
    /// Somebody else signalled its loss: let it end, whatever the nodes say.
    GivenUp(OpId),
    /// Ask every node the same and answer with all replies.
    Survey(OpId, Command, Duration),
    /// Look which nodes may vote, admit those that may be admitted, and answer
    /// once nothing more can be done but wait, or a majority may vote.
    Guard(OpId, Vouch),
    /// A node answered.
    Reply {
        /// Which node.
        node: usize,
        /// Which question.
        tag: Tag,
        /// What it said.
        reply: Reply,
    },
    /// Time has passed.
    Tick,
}

/// A lock that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Order {
    /// What to lock.
    pub resources: Resources,
    /// Its times.
    pub terms: Terms,
    /// Whose it will be.
    pub owner: Owner,
    /// Until when to try again, or to wait for a turn. There is one attempt at
    /// least, unless a turn does not come within the node timeout either.
    pub wait_until: Moment,
    /// With fencing: the wall clock that numbers are proposed by.
    pub fencing: Option<WallClock>,
}

/// A lease that was taken elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Adopted {
    /// What is locked.
    pub resources: Resources,
    /// Its times from here on.
    pub terms: Terms,
    /// What signs it.
    pub token: Token,
    /// Until when it is known to be held.
    pub usable_until: Moment,
    /// Whether its key is put back on nodes that lost it. Only one place may do
    /// that, or a key is planted behind its release.
    pub replants: bool,
    /// Its fencing token, which extensions carry along.
    pub fence: Option<FencingToken>,
}

/// An operator's word for some nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Vouch {
    /// These nodes have forgotten no lock that could still be held: admit them
    /// at once.
    pub remembers: Box<[usize]>,
    /// Take these nodes from the clients that have another agreement, and admit
    /// them when all of their locks are over.
    pub replace: Box<[usize]>,
    /// Answer only when all nodes were looked at, also if a majority may vote.
    /// Who vouches gets such an answer in any case.
    pub patient: bool,
}

/// What shall be done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send a command to a node.
    Send {
        /// Which node.
        node: usize,
        /// Comes back with the reply.
        tag: Tag,
        /// What to send.
        command: Command,
    },
    /// The answer to [`Input::Acquire`].
    Acquired(OpId, Result<Grant, acquire::AcquireError>),
    /// The answer to [`Input::Extend`].
    Extended(OpId, extend::Decision),
    /// The answer to [`Input::Release`].
    Released(OpId, release::Decision),
    /// The answer to [`Input::Survey`], in the order of the nodes.
    Surveyed(OpId, Box<[Reply]>),
    /// The answer to [`Input::Guard`]: what each node says of itself, in their
    /// order, or that it says nothing.
    Guarded(OpId, Box<[Reply]>),
    /// This node may vote again.
    Admitted(usize),
    /// The lease is good until that moment, by these votes.
    Kept(OpId, Moment, Ballot),
    /// One attempt failed; another will follow after a pause.
    Retrying(OpId, acquire::AcquireError, Duration),
    /// The lease is lost, or will be before anything can be done about it.
    Lost(OpId, Loss),
}

/// A lock that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grant {
    /// What signs it.
    pub token: Token,
    /// The end of the lease.
    pub usable_until: Moment,
    /// The votes when the majority was complete.
    pub ballot: Ballot,
    /// Its number, with fencing.
    pub fence: Option<FencingToken>,
    /// The nodes did not answer one and the same number at once: agreeing on one
    /// took a second round trip.
    pub second_round: bool,
}

/// The state of all operations. Machines that are equal have the same future,
/// which is what an explorer of all histories needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machine<E> {
    /// Boxed: a map moves its entries about.
    ops: BTreeMap<OpId, Box<Entry>>,
    timers: BTreeSet<(Moment, OpId)>,
    world: World<E>,
    internal: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    op: Op,
    /// When its timer is set; never later than the operation's own `due`.
    armed: Moment,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Op {
    Acquiring(Acquiring),
    Holding(Holding),
    Undoing(Undoing),
    Surveying(Survey),
    Guarding(Guarding),
}

/// What an operation may touch besides itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World<E> {
    nodes: usize,
    entropy: E,
    guard: Option<Guard>,
    /// Counts the turns of watching over nodes: a reply to an earlier watch is
    /// not one to this.
    guard_round: u32,
    turns: Turns,
    outbox: VecDeque<Output>,
    spawned: Vec<Undoing>,
}

/// What an operation is after an event.
enum Next {
    Same,
    Becomes(Op),
    Over,
}

impl<E: Entropy> Machine<E> {
    /// A machine for that many nodes.
    pub fn new(nodes: usize, entropy: E) -> Self {
        Machine {
            ops: BTreeMap::new(),
            timers: BTreeSet::new(),
            world: World {
                nodes,
                entropy,
                guard: None,
                guard_round: 0,
                turns: Turns::default(),
                outbox: VecDeque::new(),
                spawned: Vec::new(),
            },
            internal: OpId::INTERNAL,
        }
    }

    /// The same with the restart guard: nodes that may have forgotten locks do
    /// not vote, and are admitted again when they may.
    #[must_use]
    pub fn guarded(mut self, guard: Guard) -> Self {
        self.world.guard = Some(guard);
        self
    }

    /// Takes in what happened. Afterwards [`poll`](Self::poll) until it is empty.
    pub fn handle(&mut self, time: Now, input: Input) {
        let now = time.lease;
        match input {
            Input::Acquire(id, order) => {
                let op = Op::Acquiring(Acquiring::start(now, id, order, &mut self.world));
                self.insert(id, op);
            }
            Input::Adopt(id, adopted) => {
                let op = Op::Holding(Holding::adopt(now, adopted, self.world.nodes));
                self.insert(id, op);
            }
            Input::Survey(id, command, timeout) => self.survey(now, id, &command, timeout),
            Input::Guard(id, vouch) => self.guard(time, id, &vouch),
            Input::Reply { node, tag, mut reply } => {
                if let Reply::Vote(Vote::Quarantined(quarantine)) = &mut reply {
                    self.quarantined(time, node, quarantine);
                }
                self.step(tag.op, |id, op, world| match (op, reply) {
                    (Op::Surveying(survey), reply) => finish(id, survey.reply(node, reply), world),
                    (Op::Guarding(op), reply) => op.reply(time, id, tag, node, reply, world),
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
                Op::Holding(op) => op.give_up(id, world),
                _ => Next::Same,
            }),
            Input::Release(id) => self.release(time, id),
            Input::Cancel(id) => self.step(id, |id, op, world| match op {
                Op::Acquiring(op) => op.cancel(time, id, world),
                Op::Holding(op) => op.release(time, id, false, world),
                Op::Undoing(_) | Op::Guarding(_) => Next::Same,
                Op::Surveying(_) => Next::Over,
            }),
            Input::Forget(id) => self.step(id, |_, op, _| match op {
                Op::Holding(_) => Next::Over,
                _ => Next::Same,
            }),
            Input::Tick => self.tick(time),
        }
        // In this order: what is undone makes way for what is taken.
        self.adopt_spawned(now);
        self.let_in(now);
    }

    /// The next thing to do, if any.
    pub fn poll(&mut self) -> Option<Output> {
        self.world.outbox.pop_front()
    }

    /// When to hand in [`Input::Tick`] at the latest, even if nothing happens.
    #[must_use]
    pub fn due(&self) -> Option<Moment> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Whether no operation is under way: nothing held, nothing left to undo.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ops.keys().all(|id| *id == OpId::GUARD)
    }

    /// How many undos are still under way.
    #[must_use]
    pub fn undos(&self) -> usize {
        self.world.turns.undos()
    }

    /// What would stay on the nodes if the machine stopped now: the driver's
    /// last will, for whoever carries it out.
    pub fn left_behind(&self) -> impl Iterator<Item = (&Resources, &Token)> {
        self.ops.values().filter_map(|entry| match &entry.op {
            Op::Acquiring(op) => op.at_stake(),
            Op::Holding(op) => Some(op.at_stake()),
            Op::Undoing(op) => Some(op.at_stake()),
            Op::Surveying(_) | Op::Guarding(_) => None,
        })
    }

    /// Extends a lease; one that is over is answered too, whoever ended it.
    fn extend(&mut self, now: Moment, id: OpId, ttl: Duration) {
        let lost = |ballot| Output::Extended(id, Err(extend::ExtendError::Lost(ballot)));
        if !self.ops.contains_key(&id) {
            let nobody = Ballot::of(self.world.nodes);
            return self.world.outbox.push_back(lost(nobody));
        }
        self.step(id, |id, op, world| match op {
            Op::Holding(op) => op.extend(now, id, ttl, world),
            Op::Undoing(op) => {
                world.outbox.push_back(lost(op.ballot().clone()));
                Next::Same
            }
            Op::Acquiring(_) | Op::Surveying(_) | Op::Guarding(_) => Next::Same,
        });
    }

    /// Releases a lease; one that is over is answered too, whoever ended it.
    fn release(&mut self, now: Now, id: OpId) {
        if !self.ops.contains_key(&id) {
            let gone = Output::Released(id, Ok(release::Released::AlreadyGone));
            return self.world.outbox.push_back(gone);
        }
        self.step(id, |id, op, world| match op {
            Op::Holding(op) => op.release(now, id, true, world),
            Op::Undoing(op) => op.answer(now, id, world),
            Op::Acquiring(_) | Op::Surveying(_) | Op::Guarding(_) => Next::Same,
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
                Op::Guarding(op) => op.tick(time, id, world),
            });
            // At once: an attempt without a pause would overtake the undo of the last.
            self.adopt_spawned(now);
        }
    }

    /// Lets one operation react, and sets its timer anew.
    fn step(&mut self, id: OpId, react: impl FnOnce(OpId, &mut Op, &mut World<E>) -> Next) {
        let Some(entry) = self.ops.get_mut(&id) else {
            return; // a late reply to something that is over
        };
        let load = entry.op.load();
        match react(id, &mut entry.op, &mut self.world) {
            Next::Same => {}
            Next::Becomes(op) => entry.op = op,
            Next::Over => {
                self.world.turns.shift(load, Load::None);
                self.timers.remove(&(entry.armed, id));
                self.ops.remove(&id);
                return;
            }
        }
        self.world.turns.shift(load, entry.op.load());
        let due = entry.op.due();
        if due < entry.armed {
            self.timers.remove(&(entry.armed, id));
            self.timers.insert((due, id));
            entry.armed = due;
        }
    }

    fn insert(&mut self, id: OpId, op: Op) {
        self.world.turns.shift(Load::None, op.load());
        let armed = op.due();
        self.timers.insert((armed, id));
        self.ops.insert(id, Box::new(Entry { op, armed }));
    }

    fn survey(&mut self, now: Moment, id: OpId, command: &Command, timeout: Duration) {
        for node in 0..self.world.nodes {
            let tag = Tag { op: id, round: 0 };
            self.world.send(node, tag, command.clone());
        }
        let survey = Survey::new(now, self.world.nodes, timeout);
        self.insert(id, Op::Surveying(survey));
    }

    /// Somebody wants to know which nodes may vote.
    fn guard(&mut self, now: Now, id: OpId, vouch: &Vouch) {
        if !self.world.guard.as_ref().is_some_and(|guard| guard.admits) {
            let nobody = Output::Guarded(id, Box::default());
            return self.world.outbox.push_back(nobody);
        }
        self.watch_over(now);
        self.step(OpId::GUARD, |guard, op, world| match op {
            Op::Guarding(op) => op.ask(now, guard, id, vouch, world),
            _ => Next::Same,
        });
    }

    /// A node says that it may not vote: look after it, and tell how long still.
    fn quarantined(&mut self, now: Now, node: usize, quarantine: &mut Quarantine) {
        if !self.world.guard.as_ref().is_some_and(|guard| guard.admits) {
            return;
        }
        self.watch_over(now);
        if let Some(Op::Guarding(op)) = self.ops.get(&OpId::GUARD).map(|entry| &entry.op) {
            quarantine.remaining = op.remaining(now.steady, node);
        }
    }

    fn watch_over(&mut self, now: Now) {
        if !self.ops.contains_key(&OpId::GUARD) {
            let guarding = Guarding::start(now, OpId::GUARD, &mut self.world);
            self.insert(OpId::GUARD, Op::Guarding(guarding));
        }
    }

    /// Starts the attempts of those whose turn has come.
    fn let_in(&mut self, now: Moment) {
        while let Some(id) = self.world.turns.next() {
            self.step(id, |id, op, world| match op {
                Op::Acquiring(op) => op.take(now, id, world),
                _ => Next::Same,
            });
        }
    }

    fn adopt_spawned(&mut self, now: Moment) {
        while let Some(mut undoing) = self.world.spawned.pop() {
            let id = OpId(self.internal);
            self.internal += 1;
            undoing.ask(now, id, &mut self.world);
            self.insert(id, Op::Undoing(undoing));
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
            Op::Guarding(op) => op.due(),
        }
    }

    fn load(&self) -> Load {
        match self {
            Op::Acquiring(op) => op.load(),
            Op::Undoing(op) => op.load(),
            Op::Holding(_) | Op::Surveying(_) | Op::Guarding(_) => Load::None,
        }
    }
}

impl<E> World<E> {
    /// What votes of this node are cast by.
    fn fingerprint(&self, node: usize) -> Option<Fingerprint> {
        self.guard.as_ref().map(|guard| guard.fingerprint(node))
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
