//! How callers talk to an engine.

use super::{Engine, LeaseCell};
use crate::{clock::Clock, node::Node};
use redlatch_core::{
    AcquireError, Command, Guard, Moment, OpId, Reply, extend,
    machine::{Adopted, Order, Vouch},
    release,
};
use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    thread,
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// What an engine and those around it share.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) nodes: Arc<[Arc<dyn Node>]>,
    pub(crate) clock: Clock,
    /// The restart guard, if there is one.
    pub(crate) guard: Option<Guard>,
    /// When the engine wants its next turn, in ns of its clock. A keeper that
    /// finds this in the past knows that the engine's thread is blocked.
    pub(crate) due: AtomicU64,
    /// What the keeper did, in order.
    news: Mutex<Vec<News>>,
    has_news: AtomicBool,
}

/// What the keeper did to a lease.
#[derive(Debug)]
pub(crate) enum News {
    /// It is good until then.
    Extended(OpId, Moment),
    /// Its loss was signalled.
    Lost(OpId),
}

impl Place {
    pub(crate) fn new(nodes: Arc<[Arc<dyn Node>]>, clock: Clock) -> Self {
        Place {
            nodes,
            clock,
            guard: None,
            due: AtomicU64::new(Moment::NEVER.as_nanos()),
            news: Mutex::default(),
            has_news: AtomicBool::new(false),
        }
    }

    /// The same with the restart guard, if there is one.
    pub(crate) fn guarded(mut self, guard: Option<Guard>) -> Self {
        self.guard = guard;
        self
    }

    /// The same nodes for somebody who is only passing through.
    pub(crate) fn passing(&self) -> Self {
        let guard = self.guard.clone().map(Guard::passing);
        Place::new(self.nodes.clone(), Clock::System).guarded(guard)
    }

    /// Leaves word for the engine of what was done to a lease elsewhere.
    pub(crate) fn leave_news(&self, news: News) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push(news);
        self.has_news.store(true, Ordering::Release);
    }

    pub(super) fn news(&self) -> Vec<News> {
        if !self.has_news.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn due(&self) -> Moment {
        Moment::from_nanos(self.due.load(Ordering::Acquire))
    }
}

/// One request. Where there is an `answer`, exactly one comes.
pub(crate) enum Ask {
    Acquire {
        op: OpId,
        order: Order,
        answer: oneshot::Sender<Result<Arc<LeaseCell>, AcquireError>>,
    },
    Adopt {
        op: OpId,
        adopted: Adopted,
        cell: Option<Arc<LeaseCell>>,
    },
    Extend {
        op: OpId,
        ttl: Duration,
        answer: oneshot::Sender<extend::Decision>,
    },
    Release {
        op: OpId,
        answer: oneshot::Sender<release::Decision>,
    },
    Survey {
        op: OpId,
        command: Command,
        timeout: Duration,
        answer: oneshot::Sender<Box<[Reply]>>,
    },
    Guard {
        op: OpId,
        vouch: Vouch,
        answer: oneshot::Sender<Box<[Reply]>>,
    },
    Cancel(OpId),
    Forget(OpId),
    Settle(oneshot::Sender<()>),
}

/// The engine is gone: its runtime was shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

/// A line to one engine. The engine ends when all of them are dropped and
/// nothing is left to undo.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    pub(crate) place: Arc<Place>,
    asking: mpsc::UnboundedSender<Ask>,
    next_op: Arc<AtomicU64>,
    /// Behind `asking`: the thread ends when nobody can ask any more.
    thread: Option<Arc<Dedicated>>,
}

impl Handle {
    pub(super) fn new(place: Arc<Place>, asking: mpsc::UnboundedSender<Ask>) -> Self {
        Handle { place, asking, next_op: Arc::default(), thread: None }
    }

    pub(crate) fn next_op(&self) -> OpId {
        OpId::new(self.next_op.fetch_add(1, Ordering::Relaxed))
    }

    /// Hands over a request that has no answer.
    pub(crate) fn tell(&self, ask: Ask) {
        // An engine that is gone has undone, or willed away, all it had.
        let _ = self.asking.send(ask);
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, Stopped> {
        let (answer, answered) = oneshot::channel();
        self.asking.send(ask(answer)).map_err(|_| Stopped)?;
        answered.await.map_err(|_| Stopped)
    }

    /// Takes a lock. Dropping the future undoes what there is of it.
    ///
    /// A future by hand, and asked at once: there may be very many of them, and
    /// this one does not carry the order along while it waits.
    pub(crate) fn acquire(&self, order: Order) -> Acquire {
        let op = self.next_op();
        let (answer, answered) = oneshot::channel();
        // Where the engine is gone, so is `answer`.
        self.tell(Ask::Acquire { op, order, answer });
        Acquire { asking: self.asking.clone(), op: Some(op), answered }
    }

    pub(crate) async fn extend(
        &self,
        op: OpId,
        ttl: Duration,
    ) -> Result<extend::Decision, Stopped> {
        self.ask(|answer| Ask::Extend { op, ttl, answer }).await
    }

    pub(crate) async fn release(&self, op: OpId) -> Result<release::Decision, Stopped> {
        self.ask(|answer| Ask::Release { op, answer }).await
    }

    pub(crate) async fn survey(
        &self,
        command: Command,
        timeout: Duration,
    ) -> Result<Box<[Reply]>, Stopped> {
        let op = self.next_op();
        self.ask(|answer| Ask::Survey { op, command, timeout, answer }).await
    }

    /// Looks which nodes may vote, and admits those that may be.
    pub(crate) async fn guard(&self, vouch: Vouch) -> Result<Box<[Reply]>, Stopped> {
        let op = self.next_op();
        self.ask(|answer| Ask::Guard { op, vouch, answer }).await
    }

    /// Waits until nothing is left to undo.
    pub(crate) async fn settled(&self) {
        let _ = self.ask(Ask::Settle).await;
    }
}

/// An engine's own thread. Dropping it, with the last handle, waits a little
/// until the engine has undone what was left: the process may be about to end.
#[derive(Debug)]
struct Dedicated {
    ended: Mutex<std::sync::mpsc::Receiver<()>>,
}

/// How long dropping the last handle waits at most.
const LAST_UNDO: Duration = Duration::from_millis(500);

impl Drop for Dedicated {
    fn drop(&mut self) {
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(LAST_UNDO);
    }
}

/// Runs an engine on the caller's runtime.
pub(crate) fn spawn_here(place: Place) -> io::Result<Handle> {
    let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
    let (engine, handle) = Engine::new(place);
    // The engine yields by itself; a budget would only cut its turns in half.
    runtime.spawn(tokio::task::unconstrained(engine));
    Ok(handle)
}

/// Runs an engine on a thread of its own.
pub(crate) fn spawn_thread(place: Place) -> io::Result<Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (engine, mut handle) = {
        let _inside = runtime.enter();
        Engine::new(place)
    };
    let (end, ended) = std::sync::mpsc::channel();
    let run = move || {
        runtime.block_on(tokio::task::unconstrained(engine));
        let _ = end.send(());
    };
    thread::Builder::new().name("redlatch-engine".into()).spawn(run)?;
    handle.thread = Some(Arc::new(Dedicated { ended: Mutex::new(ended) }));
    Ok(handle)
}

/// A lock that was asked for.
pub(crate) struct Acquire {
    asking: mpsc::UnboundedSender<Ask>,
    op: Option<OpId>,
    answered: oneshot::Receiver<Result<Arc<LeaseCell>, AcquireError>>,
}

impl Future for Acquire {
    type Output = Result<Result<Arc<LeaseCell>, AcquireError>, Stopped>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answered).poll(cx));
        self.op = None;
        Poll::Ready(answer.map_err(|_| Stopped))
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let Some(op) = self.op {
            let _ = self.asking.send(Ask::Cancel(op));
        }
    }
}
