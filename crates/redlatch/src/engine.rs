//! The thin loop around the core: one task that owns every connection.
//!
//! In:  requests of callers, replies of nodes, the time.
//! Out: commands to nodes, answers to callers, changes of leases.
//!
//! All commands that are ready in one turn go to a node as one write, and all
//! answers come back in one read. The engine decides nothing: the core's
//! [`Machine`] does.

mod cell;
mod entropy;
mod handle;
mod trace;

use crate::{keeper, node::Link};
use redlatch_core::{
    Input, Machine, Moment, Now, OpId, Output, Reply, Resources, Tag, Terms, machine::Grant,
};
use std::{
    collections::BTreeMap,
    future::Future,
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
pub(crate) use handle::{Acquire, Ask, Handle, News, Place, spawn_here, spawn_thread};

/// So many requests are taken in before bytes are moved: what was sent for the
/// first does not wait for all of a crowd.
const ASKS_AT_ONCE: usize = 256;
/// After so many rounds of one turn callers go first: those who have their locks
/// by now want to act on them.
const ROUNDS_OF_A_TURN: usize = 8;

/// The loop itself: a future that ends when every handle is gone and nothing is
/// left to undo.
pub(crate) struct Engine {
    place: Arc<Place>,
    machine: Machine<SystemEntropy>,
    links: Vec<Box<dyn Link>>,
    asks: mpsc::UnboundedReceiver<Ask>,
    replies: Vec<(Tag, Reply)>,
    callers: BTreeMap<OpId, Box<Callers>>,
    settling: Vec<oneshot::Sender<()>>,
    timer: Pin<Box<Sleep>>,
    timer_at: Moment,
    closed: bool,
    /// Several callers asked in the last turn.
    crowded: bool,
    yielded: bool,
}

/// Who waits for what of one operation.
#[derive(Default)]
struct Callers {
    acquire: Option<Acquirer>,
    /// Boxed: seldom there, and there may be very many leases.
    extend: Option<Box<Extenders>>,
    release: Option<oneshot::Sender<redlatch_core::release::Decision>>,
    survey: Option<oneshot::Sender<Box<[Reply]>>>,
    cell: Option<Arc<LeaseCell>>,
}

/// Who waits for extensions of a lease.
#[derive(Default)]
struct Extenders {
    /// Those who wait for the one under way.
    now: Vec<Extender>,
    /// Those who asked meanwhile, and for how much: theirs comes next.
    next: Vec<(Duration, Extender)>,
}

type Extender = oneshot::Sender<redlatch_core::extend::Decision>;

/// What is needed of an order once it is answered.
struct Acquirer {
    resources: Resources,
    terms: Terms,
    answer: oneshot::Sender<Result<Arc<LeaseCell>, redlatch_core::AcquireError>>,
}

impl Extenders {
    /// Starts the next extension, if one is wanted and none is under way: one
    /// for all who asked, by the longest TTL among them.
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
    /// An engine for the nodes of `place`, and the handle to talk to it.
    pub(crate) fn new(place: Place) -> (Engine, Handle) {
        let place = Arc::new(place);
        let (asking, asks) = mpsc::unbounded_channel();
        let machine = Machine::new(place.nodes.len(), SystemEntropy::default());
        let engine = Engine {
            machine: match &place.guard {
                Some(guard) => machine.guarded(guard.clone()),
                None => machine,
            },
            links: place.links(),
            asks,
            replies: Vec::new(),
            callers: BTreeMap::new(),
            settling: Vec::new(),
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
            timer_at: Moment::START,
            closed: false,
            crowded: false,
            yielded: false,
            place: place.clone(),
        };
        (engine, Handle::new(place, asking))
    }

    fn now(&self) -> Now {
        let clock = self.place.clock;
        Now { lease: clock.now(), steady: clock.steady() }
    }

    /// Takes in what callers ask. The time is read before anything is sent.
    fn take_asks(&mut self, cx: &mut Context<'_>) -> usize {
        let now = self.now();
        let mut taken = 0;
        while taken < ASKS_AT_ONCE
            && let Poll::Ready(ask) = self.asks.poll_recv(cx)
        {
            let Some(ask) = ask else {
                self.closed = true;
                break;
            };
            self.take_ask(now, ask);
            taken += 1;
        }
        taken
    }

    /// Lets callers go first where there are several: on a runtime with many
    /// threads the first one to ask wakes the engine on another thread, and
    /// without this every command would be a write of its own.
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
                let (resources, terms) = (order.resources.clone(), order.terms.clone());
                let acquire = Some(Acquirer { resources, terms, answer });
                self.remember(op, Callers { acquire, ..Callers::default() });
                Input::Acquire(op, order)
            }
            Ask::Adopt { op, adopted, cell } => {
                if let Some(cell) = &cell {
                    keeper::watch(cell);
                }
                self.remember(op, Callers { cell, ..Callers::default() });
                Input::Adopt(op, adopted)
            }
            Ask::Extend { op, ttl, answer } => {
                // Without callers the lease is gone, and so is `answer`.
                let Some(callers) = self.callers.get_mut(&op) else { return };
                let extend = callers.extend.get_or_insert_default();
                extend.next.push((ttl, answer));
                let Some(ttl) = extend.start() else { return };
                Input::Extend(op, ttl)
            }
            Ask::Release { op, answer } => {
                let Some(callers) = self.callers.get_mut(&op) else { return };
                callers.release = Some(answer);
                self.end_lease(op, LeaseEnd::Released);
                Input::Release(op)
            }
            Ask::Survey { op, command, timeout, answer } => {
                let survey = Some(answer);
                self.remember(op, Callers { survey, ..Callers::default() });
                Input::Survey(op, command, timeout)
            }
            Ask::Guard { op, vouch, answer } => {
                let survey = Some(answer);
                self.remember(op, Callers { survey, ..Callers::default() });
                Input::Guard(op, vouch)
            }
            Ask::Cancel(op) => {
                self.end_lease(op, LeaseEnd::Released);
                self.callers.remove(&op);
                Input::Cancel(op)
            }
            Ask::Forget(op) => {
                self.end_lease(op, LeaseEnd::Released);
                self.callers.remove(&op);
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

    /// Moves bytes. Whether replies came.
    fn take_replies(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        for node in 0..self.links.len() {
            self.links[node].poll(cx, &mut self.replies);
            if self.replies.is_empty() {
                continue;
            }
            moved = true;
            // Read after the replies came: what they prove, they prove by now.
            let now = self.now();
            let mut replies = std::mem::take(&mut self.replies);
            for (tag, reply) in replies.drain(..) {
                self.machine.handle(now, Input::Reply { node, tag, reply });
                self.carry_out();
            }
            self.replies = replies;
        }
        moved
    }

    /// Does what the machine says.
    fn carry_out(&mut self) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Send { node, tag, command } => self.links[node].send(tag, command),
                Output::Acquired(op, Ok(grant)) => self.granted(op, grant),
                Output::Acquired(op, Err(error)) => {
                    let callers = self.callers.remove(&op);
                    let acquirer = callers.and_then(|callers| callers.acquire);
                    if let Some(Acquirer { resources, answer, .. }) = acquirer {
                        self.place.trace_failed(&resources, &error);
                        let _ = answer.send(Err(error));
                    }
                }
                Output::Retrying(op, error, pause) => {
                    if let Some(Callers { acquire: Some(Acquirer { resources, .. }), .. }) =
                        self.callers.get(&op).map(Box::as_ref)
                    {
                        self.place.trace_retrying(resources, &error, pause);
                    }
                }
                Output::Extended(op, decision) => {
                    let Some(callers) = self.callers.get_mut(&op) else { continue };
                    let Some(mut extend) = callers.extend.take() else { continue };
                    for answer in extend.now.drain(..) {
                        let _ = answer.send(decision.clone());
                    }
                    if let Some(ttl) = extend.start() {
                        callers.extend = Some(extend);
                        let now = self.now();
                        self.machine.handle(now, Input::Extend(op, ttl));
                    }
                }
                Output::Released(op, decision) => {
                    let callers = self.callers.remove(&op);
                    if let Some(Callers { release: Some(answer), cell, .. }) = callers.map(|c| *c) {
                        if let Some(cell) = cell {
                            self.place.trace_released(&cell.resources, &decision);
                        }
                        let _ = answer.send(decision);
                    }
                }
                Output::Surveyed(op, replies) | Output::Guarded(op, replies) => {
                    if let Some(answer) = self.callers.remove(&op).and_then(|c| c.survey) {
                        let _ = answer.send(replies);
                    }
                }
                Output::Kept(op, until, ballot) => {
                    if let Some(cell) = self.cell(op) {
                        self.place.trace_kept(&cell.resources, &ballot);
                        cell.extend(until, Some(ballot));
                    }
                }
                Output::Admitted(node) => self.place.trace_admitted(node),
                Output::Lost(op, loss) => {
                    if let Some(cell) = self.cell(op) {
                        self.place.trace_lost(&cell.resources, &loss);
                    }
                    self.end_lease(op, LeaseEnd::Lost(loss));
                    self.callers.remove(&op);
                }
            }
        }
    }

    /// Learns what the keeper did while this thread was blocked: before the
    /// time, so that no lease that was kept counts as run out, and before the
    /// replies, so that none of them keeps a lease whose loss was signalled.
    fn take_news(&mut self) {
        for news in self.place.news().into_values() {
            let now = self.now();
            let input = match news {
                News::Extended(op, until) => Input::Extended(op, until),
                News::Lost(op) => Input::GivenUp(op),
            };
            self.machine.handle(now, input);
            self.carry_out();
        }
    }

    /// Remembers who waits. Boxed: a map moves its entries about.
    fn remember(&mut self, op: OpId, callers: Callers) {
        self.callers.insert(op, Box::new(callers));
    }

    fn cell(&self, op: OpId) -> Option<&Arc<LeaseCell>> {
        self.callers.get(&op).and_then(|callers| callers.cell.as_ref())
    }

    fn granted(&mut self, op: OpId, grant: Grant) {
        let Some(callers) = self.callers.get_mut(&op) else { return };
        let Some(Acquirer { resources, terms, answer }) = callers.acquire.take() else { return };
        self.place.trace_granted(&resources, &grant.ballot);
        // No later than what the machine counts from: its end is the cap's, where
        // that is shorter than the TTL.
        let renewal = terms.renewal.as_ref();
        let cap = renewal.map_or(Duration::MAX, |renewal| renewal.max_hold);
        let taken = grant.usable_until.before(terms.usable().min(cap));
        let place = self.place.clone();
        let cell = LeaseCell::new(op, resources, terms, grant, taken, place);
        let cell = Arc::new(cell);
        callers.cell = Some(cell.clone());
        keeper::watch(&cell);
        if answer.send(Ok(cell)).is_err() {
            // Nobody waits for it any more: give it back.
            let now = self.now();
            self.take_ask(now, Ask::Cancel(op));
        }
    }

    fn end_lease(&mut self, op: OpId, end: LeaseEnd) {
        if let Some(cell) = self.callers.get(&op).and_then(|callers| callers.cell.as_ref()) {
            cell.end(end);
            keeper::unwatch(cell);
        }
    }

    /// Sets the timer; whether it has gone off already.
    fn timer_is_up(&mut self, cx: &mut Context<'_>) -> bool {
        let due = self.machine.due().unwrap_or(Moment::NEVER);
        self.place.due.store(due.as_nanos(), Ordering::Release);
        if due == Moment::NEVER {
            return false;
        }
        let now = self.now().lease;
        if due <= now {
            return true;
        }
        // A timer that is set too early does no harm: the next turn sets it anew.
        if due < self.timer_at || self.timer_at <= now {
            self.timer_at = due;
            self.timer.as_mut().reset(Instant::now() + due.since(now));
        }
        self.timer.as_mut().poll(cx).is_ready() && {
            self.timer_at = Moment::START;
            true
        }
    }

    fn tick(&mut self) {
        let now = self.now();
        self.machine.handle(now, Input::Tick);
        self.carry_out();
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
        if engine.gives_way(cx) {
            return Poll::Pending;
        }
        let mut asks = 0;
        let mut is_over = false;
        for _ in 0..ROUNDS_OF_A_TURN {
            engine.take_news();
            let asked = engine.take_asks(cx);
            let moved = engine.take_replies(cx);
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
    /// A runtime that shuts down drops the engine in the middle of its work.
    /// The keeper has a thread of its own and carries out what is left.
    fn drop(&mut self) {
        if self.place.is_forked() {
            return; // a copy: the locks are the parent's
        }
        // What callers said last still counts: a lease that was handed over is
        // not ours to take away.
        let now = self.now();
        while let Ok(ask) = self.asks.try_recv() {
            self.take_ask(now, ask);
        }
        let left: Vec<_> = self
            .machine
            .left_behind()
            .map(|(resources, token)| (resources.clone(), token.clone()))
            .collect();
        for callers in self.callers.values() {
            if let Some(cell) = &callers.cell {
                cell.end(LeaseEnd::Stopped);
                keeper::unwatch(cell);
            }
        }
        if !left.is_empty() {
            keeper::carry_out_will(&self.place, left);
        }
    }
}
