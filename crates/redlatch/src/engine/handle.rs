//! How callers talk to an engine.

use super::{Engine, LeaseCell};
use crate::{
    clock::Clock,
    keeper::Rescue,
    node::{Heeding, Link, Node},
};
use redlatch_core::{
    AcquireError, Agreement, Command, Guard, Moment, OpId, Reply, extend,
    machine::{Adopted, Order, Vouch},
    release,
};
use std::{
    collections::BTreeMap,
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
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
    /// The process that the engine runs in: a fork leaves its thread behind.
    process: u32,
    /// The restart guard, if there is one.
    pub(crate) guard: Option<Guard>,
    /// Without one: the nodes that are counted, which those who have a guard must
    /// count, too.
    counted: Option<Arc<Agreement>>,
    /// When the engine wants its next turn, in ns of its clock. A keeper that
    /// finds this in the past knows that the engine's thread is blocked.
    pub(crate) due: AtomicU64,
    /// What the keeper did: the last of it for each lease.
    news: Mutex<BTreeMap<OpId, News>>,
    has_news: AtomicBool,
    /// The keeper's own engine, while this one is blocked.
    pub(crate) rescue: Mutex<Weak<Rescue>>,
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
            process: std::process::id(),
            guard: None,
            counted: None,
            due: AtomicU64::new(Moment::NEVER.as_nanos()),
            news: Mutex::default(),
            has_news: AtomicBool::new(false),
            rescue: Mutex::default(),
        }
    }

    /// The same with the restart guard, if there is one.
    pub(crate) fn guarded(mut self, guard: Option<Guard>) -> Self {
        self.guard = guard;
        self
    }

    /// The same for a client that votes without a guard, if it does: a node votes
    /// for it only while the clients that have one count the same nodes.
    pub(crate) fn counting(mut self, counted: Arc<Agreement>) -> Self {
        self.counted = self.guard.is_none().then_some(counted);
        self
    }

    /// The same nodes for somebody who is only passing through.
    pub(crate) fn passing(&self) -> Self {
        let guard = self.guard.clone().map(Guard::passing);
        let place = Place::new(self.nodes.clone(), Clock::System).guarded(guard);
        Place { counted: self.counted.clone(), ..place }
    }

    /// A line to each node.
    pub(super) fn links(&self) -> Vec<Box<dyn Link>> {
        let open = |node: &Arc<dyn Node>| {
            let link = node.open(self.clock);
            match &self.counted {
                Some(counted) => Box::new(Heeding::new(link, counted.at(node.name()))) as _,
                None => link,
            }
        };
        self.nodes.iter().map(open).collect()
    }

    /// Leaves word for the engine of what was done to a lease elsewhere.
    /// An engine that is blocked for hours finds one word for each lease, not one
    /// for each extension.
    pub(crate) fn leave_news(&self, news: News) {
        let mut all = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        match news {
            News::Extended(op, _) if matches!(all.get(&op), Some(News::Lost(_))) => {}
            News::Extended(op, _) | News::Lost(op) => drop(all.insert(op, news)),
        }
        self.has_news.store(true, Ordering::Release);
    }

    pub(super) fn news(&self) -> BTreeMap<OpId, News> {
        if !self.has_news.swap(false, Ordering::AcqRel) {
            return BTreeMap::new();
        }
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether this is a copy in a process that was forked without `exec`.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != std::process::id()
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

/// The engine is gone: its runtime was shut down, or is another process's.
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

    /// How many operations there have been so far.
    pub(crate) fn ops_begun(&self) -> u64 {
        self.next_op.load(Ordering::Relaxed)
    }

    /// Hands over a request that has no answer.
    pub(crate) fn tell(&self, ask: Ask) {
        // An engine that is gone has undone, or willed away, all it had.
        let _ = self.asking.send(ask);
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, Stopped> {
        self.put(ask).await.map_err(|_| Stopped)
    }

    /// Hands over a request at once. Where nobody will ever answer, the answer
    /// is an error.
    fn put<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> oneshot::Receiver<T> {
        let (answer, answered) = oneshot::channel();
        // An engine of another process would never answer.
        if !self.place.is_forked() {
            self.tell(ask(answer));
        }
        answered
    }

    /// Takes a lock. Dropping the future undoes what there is of it.
    ///
    /// A future by hand, and asked at once: there may be very many of them, and
    /// this one does not carry the order along while it waits.
    pub(crate) fn acquire(&self, order: Order) -> Acquire {
        let op = self.next_op();
        let answered = self.put(|answer| Ask::Acquire { op, order, answer });
        Acquire { asking: self.asking.clone(), op: Some(op), answered }
    }

    pub(crate) async fn extend(
        &self,
        op: OpId,
        ttl: Duration,
    ) -> Result<extend::Decision, Stopped> {
        self.ask(|answer| Ask::Extend { op, ttl, answer }).await
    }

    /// Releases a lease. Asked at once: a small future, of which there may be
    /// very many.
    pub(crate) fn release(&self, op: OpId) -> oneshot::Receiver<release::Decision> {
        self.put(|answer| Ask::Release { op, answer })
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
    process: u32,
    ended: Mutex<std::sync::mpsc::Receiver<()>>,
}

/// How long dropping the last handle waits at most.
const LAST_UNDO: Duration = Duration::from_millis(500);

impl Drop for Dedicated {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return; // the thread is another process's
        }
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
    handle.thread =
        Some(Arc::new(Dedicated { process: std::process::id(), ended: Mutex::new(ended) }));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_of_an_extension_does_not_replace_word_of_a_loss() {
        let place = Place::new(Arc::new([]), Clock::System);
        let (lost, kept) = (OpId::new(1), OpId::new(2));

        place.leave_news(News::Lost(lost));
        for op in [lost, kept] {
            place.leave_news(News::Extended(op, Moment::NEVER));
        }

        let news = place.news();
        assert!(matches!(news[&lost], News::Lost(_)), "its owner was told so: {news:?}");
        assert!(matches!(news[&kept], News::Extended(..)), "{news:?}");
    }
}
