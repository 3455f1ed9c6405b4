//! The thin loop around the core: one task that owns every connection.
//!
//! In:  requests from callers, replies from nodes, the time.
//! Out: commands to nodes, answers to callers, changes to leases.
//!
//! All commands that are ready in one turn go to a node in one write, and all answers come
//! back in one read. The engine decides nothing; the core's [`Machine`] does.

mod bells;
mod cell;
mod entropy;
mod handle;
mod last_votes;
#[cfg_attr(not(feature = "metrics"), path = "engine/no_meter.rs")]
pub(crate) mod meter;
mod node_log;
mod trace;

use super::{
    ids::{IdMap, IdSet},
    keeper,
};
use crate::node::Link;
use bells::Bells;
use redlatch_core::{
    ExtendError, Input, Machine, Moment, Now, OpId, Output, Reply, Resources, Standing, Tag,
    machine::{Grant, Kept},
};
use std::{
    borrow::Borrow,
    collections::BTreeMap,
    future::Future,
    hash::{Hash, Hasher},
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, Sleep},
};

pub(crate) use cell::{LeaseCell, LeaseEnd};
pub(crate) use entropy::SystemEntropy;
pub(crate) use handle::{Acquire, Ask, Handle, News, NotGranted, Shared, spawn_here, spawn_thread};

/// The most requests to accept before moving bytes, so that the first request's commands do
/// not wait for a whole crowd.
const ASKS_AT_ONCE: usize = 256;
/// After this many rounds in one turn, callers go first: some have won their locks by now
/// and want to use them.
const ROUNDS_OF_A_TURN: usize = 8;

/// The loop itself: a future that completes when every handle is dropped and
/// nothing is left to undo.
pub(crate) struct Engine {
    shared: Arc<Shared>,
    machine: Machine<SystemEntropy>,
    links: Vec<Box<dyn Link>>,
    bells: Bells,
    asks: mpsc::UnboundedReceiver<Ask>,
    replies: Vec<(Tag, Reply)>,
    /// The callers waiting, per operation.
    callers: IdMap<OpId, Callers>,
    leases: IdSet<ByOp>,
    /// Callers waiting to learn which nodes may vote. Kept apart from the others, which may
    /// be very many.
    looking: BTreeMap<OpId, oneshot::Sender<Box<[Standing]>>>,
    settling: Vec<oneshot::Sender<()>>,
    timer: Pin<Box<Sleep>>,
    /// When it fires; `NEVER` if it is not set.
    timer_at: Moment,
    /// The time when it was last read.
    seen: Moment,
    closed: bool,
    /// Whether several callers asked in the last turn.
    crowded: bool,
    yielded: bool,
    on_the_way: meter::OnTheWay,
}

/// A lease, found by its operation.
struct ByOp(Arc<LeaseCell>);

impl Borrow<OpId> for ByOp {
    fn borrow(&self) -> &OpId {
        &self.0.op
    }
}

impl PartialEq for ByOp {
    fn eq(&self, other: &Self) -> bool {
        self.0.op == other.0.op
    }
}

impl Eq for ByOp {}

impl Hash for ByOp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.op.hash(state);
    }
}

/// The callers waiting on one operation.
#[derive(Default)]
struct Callers {
    acquire: Option<Acquirer>,
    /// Boxed: there usually are none.
    extend: Option<Box<Extenders>>,
    release: Option<oneshot::Sender<redlatch_core::release::Decision>>,
    survey: Option<oneshot::Sender<Box<[Reply]>>>,
}

/// The callers waiting for extensions of a lease.
#[derive(Default)]
struct Extenders {
    /// Callers waiting for the extension in progress.
    now: Vec<Extender>,
    /// Callers that asked in the meantime, with their TTLs: their extension comes next.
    next: Vec<(Duration, Extender)>,
}

type Extender = oneshot::Sender<Result<Kept, ExtendError>>;

/// The caller waiting for a lock.
struct Acquirer {
    /// For the log.
    resources: Resources,
    answer: oneshot::Sender<Result<Arc<LeaseCell>, NotGranted>>,
}

impl Extenders {
    /// Starts the next extension if one is wanted and none is in progress: one for all
    /// callers, with the longest of their TTLs.
    fn start(&mut self) -> Option<Duration> {
        if !self.now.is_empty() {
            return None;
        }
        let longest = self.next.iter().map(|(ttl, _)| *ttl).max();
        self.now = self.next.drain(..).map(|(_, answer)| answer).collect();
        longest
    }
}

impl Engine {
    /// Creates an engine for the nodes of `shared`, and the handle to talk to it.
    pub(crate) fn new(shared: Shared) -> (Engine, Handle) {
        let shared = Arc::new(shared);
        let (asking, asks) = mpsc::unbounded_channel();
        let machine = Machine::new(shared.nodes.len(), SystemEntropy::default());
        let engine = Engine {
            machine: match &shared.admission {
                Some(admission) => machine.admitting(admission.clone()),
                None => machine,
            },
            links: shared.links(),
            bells: Bells::new(shared.nodes.len()),
            asks,
            replies: Vec::new(),
            callers: IdMap::default(),
            leases: IdSet::default(),
            looking: BTreeMap::new(),
            settling: Vec::new(),
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
            timer_at: Moment::NEVER,
            seen: Moment::START,
            closed: false,
            crowded: false,
            yielded: false,
            on_the_way: meter::OnTheWay::default(),
            shared: shared.clone(),
        };
        (engine, Handle::new(shared, asking))
    }

    fn now(&mut self) -> Now {
        let clock = self.shared.clock;
        self.seen = clock.now();
        Now { lease: self.seen, steady: clock.steady() }
    }

    /// Accepts requests from callers. Reads the time, once, before anything is sent.
    fn take_asks(&mut self, cx: &mut Context<'_>) -> usize {
        let (mut taken, mut read, mut wall) = (0, None, None);
        while taken < ASKS_AT_ONCE
            && let Poll::Ready(ask) = self.asks.poll_recv(cx)
        {
            let Some(mut ask) = ask else {
                self.closed = true;
                break;
            };
            // Requests that arrive together propose the same number, so nodes read it only once.
            if let Ask::Acquire { order, .. } = &mut ask
                && let Some(clock) = order.fencing
            {
                order.fencing = Some(*wall.get_or_insert(clock));
            }
            let now = *read.get_or_insert_with(|| self.now());
            self.take_ask(now, ask);
            taken += 1;
        }
        taken
    }

    /// Lets callers go first if there are several: on a multi-threaded runtime
    /// the first request wakes the engine on another thread, and without this
    /// every command would be a separate write.
    fn gives_way(&mut self, cx: &mut Context<'_>) -> bool {
        self.yielded = self.crowded && !self.yielded;
        if self.yielded {
            cx.waker().wake_by_ref();
        }
        self.yielded
    }

    fn take_ask(&mut self, now: Now, ask: Ask) {
        let input = match ask {
            Ask::Acquire { op, order, answer } => {
                let acquire = Some(Acquirer { resources: order.resources.clone(), answer });
                self.remember(op, Callers { acquire, ..Callers::default() });
                Input::Acquire(op, order)
            }
            Ask::Adopt { op, adopted, cell } => {
                match cell {
                    Some(cell) => self.look_after(cell),
                    None => self.remember(op, Callers::default()),
                }
                Input::Adopt(op, adopted)
            }
            Ask::Extend { op, ttl, answer } => {
                let Some(callers) = self.callers_of(op) else { return };
                let extend = callers.extend.get_or_insert_default();
                extend.next.push((ttl, answer));
                let Some(ttl) = extend.start() else { return };
                Input::Extend(op, ttl)
            }
            Ask::Release { op, answer } => {
                let Some(callers) = self.callers_of(op) else { return };
                callers.release = Some(answer);
                self.end_lease(op, LeaseEnd::Released);
                Input::Release(op)
            }
            Ask::Survey { op, command, timeout, answer } => {
                let survey = Some(answer);
                self.remember(op, Callers { survey, ..Callers::default() });
                Input::Survey(op, command, timeout)
            }
            Ask::Admit { op, vouch, answer } => {
                self.looking.insert(op, answer);
                Input::Admit(op, vouch)
            }
            Ask::Cancel(op) => {
                self.end_lease(op, LeaseEnd::Released);
                self.forget(op);
                Input::Cancel(op)
            }
            Ask::Forget(op) => {
                self.end_lease(op, LeaseEnd::HandedOver);
                self.forget(op);
                Input::Forget(op)
            }
            Ask::Settle(answer) => {
                self.settling.push(answer);
                return;
            }
        };
        self.machine.handle(now, input);
        self.carry_out();
    }

    /// Moves bytes where there are any. Returns whether replies came in.
    fn take_replies(&mut self) -> bool {
        let mut moved = false;
        for node in 0..self.links.len() {
            let Some(mut cx) = self.bells.answer(node) else { continue };
            self.links[node].poll(&mut cx, &mut self.replies);
            if self.replies.is_empty() {
                continue;
            }
            moved = true;
            // Read after the replies came, so that the wait for them counts.
            let now = self.now();
            let mut replies = std::mem::take(&mut self.replies);
            for (tag, reply) in replies.drain(..) {
                self.shared.node_log.reply(now.lease, node, &reply);
                self.shared.note_facts(&reply);
                self.on_the_way.replied(now.lease, node, (tag, &reply), &self.shared.meter);
                self.machine.handle(now, Input::Reply { node, tag, reply });
                self.carry_out();
            }
            self.replies = replies;
        }
        if self.callers.is_empty() {
            self.callers.shrink_to(ASKS_AT_ONCE); // frees the memory that a crowd needed
        }
        moved
    }

    /// Carries out the machine's outputs.
    fn carry_out(&mut self) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Send { node, tag, command } => {
                    self.on_the_way.sent(self.shared.clock, node, tag);
                    self.links[node].send(tag, command);
                    self.bells.ring(node);
                }
                Output::Acquired(op, Ok(grant)) => self.granted(op, grant),
                Output::Acquired(op, Err(error)) => {
                    let callers = self.callers.remove(&op);
                    let acquirer = callers.and_then(|callers| callers.acquire);
                    if let Some(Acquirer { resources, answer }) = acquirer {
                        self.shared.trace_failed(&resources, &error);
                        let held_here = keeper::holds(&self.shared, &resources, &error);
                        let _ = answer.send(Err(NotGranted { resources, error, held_here }));
                    }
                }
                Output::Retrying(op, error, pause) => {
                    if let Some(Callers { acquire: Some(Acquirer { resources, .. }), .. }) =
                        self.callers.get(&op)
                    {
                        self.shared.trace_retrying(resources, &error, pause);
                    }
                }
                Output::Extended(op, answered) => {
                    let Some(callers) = self.callers.get_mut(&op) else { continue };
                    let extend = callers.extend.get_or_insert_default();
                    for answer in extend.now.drain(..) {
                        let _ = answer.send(answered.clone());
                    }
                    if let Some(ttl) = extend.start() {
                        let now = self.now();
                        self.machine.handle(now, Input::Extend(op, ttl));
                    } else if callers.release.is_none() && self.leases.contains(&op) {
                        self.callers.remove(&op); // nobody waits any more
                    }
                }
                Output::Released(op, decision) => {
                    let (callers, cell) = self.forget(op);
                    if let Some(answer) = callers.and_then(|callers| callers.release) {
                        if let Some(cell) = cell {
                            self.shared.trace_released(&cell, &decision);
                        }
                        let _ = answer.send(decision);
                    }
                }
                Output::Surveyed(op, replies) => {
                    self.shared.log_silent(&replies);
                    if let Some(answer) = self.callers.remove(&op).and_then(|c| c.survey) {
                        let _ = answer.send(replies);
                    }
                }
                Output::Standings(op, standings) => {
                    self.shared.log_standings(&standings);
                    if let Some(answer) = self.looking.remove(&op) {
                        let _ = answer.send(standings);
                    }
                }
                Output::Kept(op, kept) => {
                    if let Some(ByOp(cell)) = self.leases.get(&op) {
                        self.shared.trace_kept(cell, &kept.ballot);
                        cell.keep(kept);
                    }
                }
                Output::NotKept(op, ballot) => {
                    if let Some(ByOp(cell)) = self.leases.get(&op) {
                        self.shared.trace_not_kept(cell, &ballot);
                        cell.not_kept(ballot);
                    }
                }
                Output::Admitted(node) => self.shared.trace_admitted(node),
                Output::Lost(op, loss) => {
                    let trace = loss.clone();
                    if let Some(cell) = self.end_lease(op, LeaseEnd::Lost(loss)) {
                        self.shared.trace_lost(cell, &trace);
                    }
                    self.forget(op);
                }
            }
        }
    }

    /// Applies what the keeper did while this thread was blocked. It comes before the
    /// time, so that no extended lease counts as expired, and before the replies, so that
    /// none of them extends a lease whose loss was signalled.
    fn take_news(&mut self) {
        for news in self.shared.news().into_values() {
            let now = self.now();
            let input = match news {
                News::Extended(op, until) => Input::Extended(op, until),
                News::Lost(op) => Input::GivenUp(op),
            };
            self.machine.handle(now, input);
            self.carry_out();
        }
    }

    fn remember(&mut self, op: OpId, callers: Callers) {
        self.callers.insert(op, callers);
    }

    /// The callers waiting on a lease; `None` if the lease is gone and nobody waits on it.
    fn callers_of(&mut self, op: OpId) -> Option<&mut Callers> {
        if self.leases.contains(&op) {
            return Some(self.callers.entry(op).or_default());
        }
        self.callers.get_mut(&op)
    }

    fn forget(&mut self, op: OpId) -> (Option<Callers>, Option<Arc<LeaseCell>>) {
        (self.callers.remove(&op), self.leases.take(&op).map(|ByOp(cell)| cell))
    }

    fn look_after(&mut self, cell: Arc<LeaseCell>) {
        keeper::watch(&cell);
        self.leases.insert(ByOp(cell));
    }

    fn granted(&mut self, op: OpId, grant: Grant) {
        let acquirer = self.callers.remove(&op).and_then(|callers| callers.acquire);
        let Some(Acquirer { answer, .. }) = acquirer else { return };
        self.shared.trace_granted(&grant.resources, &grant.ballot);
        let cell = Arc::new(LeaseCell::new(op, grant, self.shared.clone()));
        self.look_after(cell.clone());
        if answer.send(Ok(cell)).is_err() {
            // Nobody waits for it any more: release it.
            let now = self.now();
            self.take_ask(now, Ask::Cancel(op));
        }
    }

    /// Ends the lease of an operation, if it has one that is not over yet.
    fn end_lease(&self, op: OpId, end: LeaseEnd) -> Option<&Arc<LeaseCell>> {
        let ByOp(cell) = self.leases.get(&op)?;
        let ended = cell.end(end);
        keeper::unwatch(cell);
        ended.then_some(cell)
    }

    /// Sets the timer. Returns whether it has already expired.
    fn timer_is_up(&mut self, cx: &mut Context<'_>) -> bool {
        let due = self.machine.due().unwrap_or(Moment::NEVER);
        self.shared.due.store(due.as_nanos(), Ordering::Release);
        if due == Moment::NEVER {
            return false;
        }
        // A timer set too early does no harm: the next turn sets it again. Nor does a timer
        // on a slower clock, as long as no clock reading shows the difference.
        if due < self.timer_at || self.timer_at <= self.seen {
            let now = self.now().lease;
            self.timer_at = due;
            self.timer.as_mut().reset(Instant::now() + due.since(now));
        }
        let is_up = due <= self.seen || self.timer.as_mut().poll(cx).is_ready();
        if is_up {
            self.timer_at = Moment::NEVER;
        }
        is_up
    }

    fn tick(&mut self) {
        let now = self.now();
        self.machine.handle(now, Input::Tick);
        self.carry_out();
        // Links have no timers of their own for servers that do not answer.
        self.bells.ring_all();
    }

    fn answer_settled(&mut self) {
        if !self.settling.is_empty() && self.machine.undos() == 0 {
            for answer in self.settling.drain(..) {
                let _ = answer.send(());
            }
        }
    }
}

impl Future for Engine {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let engine = self.get_mut();
        engine.shared.turns.fetch_add(1, Ordering::Relaxed);
        engine.bells.wake(cx.waker());
        if engine.gives_way(cx) {
            return Poll::Pending;
        }
        let mut asks = 0;
        let mut is_over = false;
        for _ in 0..ROUNDS_OF_A_TURN {
            engine.take_news();
            let asked = engine.take_asks(cx);
            let moved = engine.take_replies();
            let ticked = engine.timer_is_up(cx);
            if ticked {
                engine.tick();
            }
            asks += asked;
            is_over = !moved && !ticked && asked < ASKS_AT_ONCE;
            if is_over {
                break;
            }
        }
        if !is_over {
            cx.waker().wake_by_ref();
        }
        engine.crowded = asks > 1;
        engine.answer_settled();
        if engine.closed && engine.machine.is_idle() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Engine {
    /// A runtime that shuts down drops the engine in the middle of its work. The keeper,
    /// which has its own thread, finishes the rest.
    fn drop(&mut self) {
        if self.shared.is_forked() {
            return; // a copy: the locks belong to the parent
        }
        // The callers' last requests still count: we must not release a lease that was handed over.
        let now = self.now();
        while let Ok(ask) = self.asks.try_recv() {
            self.take_ask(now, ask);
        }
        let left: Vec<_> = self
            .machine
            .left_behind()
            .map(|(resources, token)| (resources.clone(), token.clone()))
            .collect();
        for ByOp(cell) in &self.leases {
            cell.end(LeaseEnd::Stopped);
            keeper::unwatch(cell);
        }
        if !left.is_empty() {
            keeper::carry_out_will(&self.shared, left);
        }
    }
}
