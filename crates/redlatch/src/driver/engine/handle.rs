//! How callers talk to an engine.

use super::{Engine, LeaseCell, LeaseEnd, meter::Meter, node_log::NodeLog};
use crate::{
    client::{advice::Vouching, label_of_this_process},
    driver::{clock::Clock, keeper::Rescue},
    node::{Heeding, Link, Node, Servers, explained},
    testing::Leases,
};
use redlatch_core::{
    AcquireError, Admission, Agreement, Command, ExtendError, Moment, OpId, Reply, Resources,
    Standing, Vote,
    machine::{Adopted, Kept, Order, Vouch},
    release,
};
use std::{
    collections::BTreeMap,
    future::Future,
    io,
    ops::Deref,
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    thread,
    time::Duration,
};
use tokio::{
    runtime::RuntimeFlavor,
    sync::{mpsc, oneshot},
};

/// What an engine shares with its callers and the keeper.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) nodes: Arc<[Arc<dyn Node>]>,
    pub(crate) clock: Clock,
    /// The process that the engine runs in: a fork does not copy its thread.
    pub(crate) process: u32,
    /// The label of this client's locks, unless a request sets another one.
    pub(crate) label: Arc<str>,
    /// The restart guard, if there is one.
    pub(crate) admission: Option<Admission>,
    /// Without a restart guard: our list of nodes, which guarded clients must share.
    pub(crate) counted: Option<Arc<Agreement>>,
    /// Whether this client could vouch for new servers, which errors then suggest.
    vouching: Vouching,
    /// Whether any node has been admitted before: then the servers are not new.
    known: AtomicBool,
    /// In tests: the list of all leases.
    pub(crate) leases: Option<Arc<Leases>>,
    /// What any engine of this client has logged about the nodes.
    pub(super) node_log: Arc<NodeLog>,
    pub(super) meter: Meter,
    /// When the engine wants its next turn, in ns of its clock. If this is in
    /// the past, the keeper knows that the engine's thread is blocked.
    pub(crate) due: AtomicU64,
    /// How many turns the engine has had.
    pub(crate) turns: AtomicU64,
    /// What the keeper did: the latest news for each lease.
    news: Mutex<BTreeMap<OpId, News>>,
    has_news: AtomicBool,
    /// The keeper's own engine, as long as this one is blocked.
    pub(crate) rescue: Mutex<Weak<Rescue>>,
    /// Whether a task that [makes room](make_room) for the engine is already spawned.
    makes_room: AtomicBool,
}

/// What the keeper did to a lease.
#[derive(Debug)]
pub(crate) enum News {
    /// It was extended until this time.
    Extended(OpId, Moment),
    /// Its loss was signalled.
    Lost(OpId),
}

impl Shared {
    pub(crate) fn new(nodes: Arc<[Arc<dyn Node>]>, clock: Clock) -> Self {
        let names = nodes.iter().map(|node| Arc::from(node.name()));
        Shared {
            meter: Meter::of(names.clone()),
            node_log: Arc::new(NodeLog::of(names)),
            nodes,
            clock,
            process: std::process::id(),
            label: label_of_this_process().into(),
            admission: None,
            counted: None,
            vouching: Vouching::default(),
            known: AtomicBool::new(false),
            leases: None,
            due: AtomicU64::new(Moment::NEVER.as_nanos()),
            turns: AtomicU64::new(0),
            news: Mutex::default(),
            has_news: AtomicBool::new(false),
            rescue: Mutex::default(),
            makes_room: AtomicBool::new(false),
        }
    }

    /// Sets the restart guard, if there is one.
    pub(crate) fn admitting(mut self, admission: Option<Admission>) -> Self {
        self.node_log.set_guarded(admission.is_some());
        self.admission = admission;
        self
    }

    /// Sets the label of this client's locks.
    pub(crate) fn signing(self, label: &str) -> Self {
        Shared { label: label.into(), ..self }
    }

    /// Sets whether this client could vouch for new servers.
    pub(crate) fn with_vouching(mut self, vouching: Vouching) -> Self {
        self.vouching = vouching;
        self
    }

    /// Whether this client could vouch for new servers: not if any of them was ever admitted.
    pub(super) fn vouching(&self) -> Vouching {
        match self.vouching {
            Vouching::Possible if self.known.load(Ordering::Relaxed) => Vouching::Impossible,
            vouching => vouching,
        }
    }

    /// Remembers from a node's answer whether the node was ever admitted.
    pub(super) fn note_facts(&self, reply: &Reply) {
        if let Reply::Facts(facts) = reply
            && (facts.marker.is_some() || facts.agreement.is_some())
        {
            self.known.store(true, Ordering::Relaxed);
        }
    }

    /// Sets the list of leases, for tests.
    pub(crate) fn listing(mut self, leases: Option<Arc<Leases>>) -> Self {
        self.leases = leases;
        self
    }

    /// Sets the list of nodes for a client without a restart guard: a node
    /// votes for it only while guarded clients have the same list.
    pub(crate) fn counting(mut self, counted: Arc<Agreement>) -> Self {
        self.counted = self.admission.is_none().then_some(counted);
        self
    }

    /// What all clients of the nodes must agree on, with or without a restart guard.
    pub(crate) fn agreement(&self) -> Option<&Agreement> {
        let guarded = self.admission.as_ref().map(|admission| &admission.agreement);
        guarded.or(self.counted.as_deref())
    }

    /// The same nodes, for a short-lived client.
    pub(crate) fn passing(&self) -> Self {
        let admission = self.admission.clone().map(Admission::passing);
        let shared = Shared::new(self.nodes.clone(), Clock::System).admitting(admission);
        let shared = shared.with_vouching(self.vouching());
        Shared { counted: self.counted.clone(), node_log: self.node_log.clone(), ..shared }
    }

    /// The standings of the nodes, judged by their replies to [`Command::Examine`].
    pub(crate) fn standings(&self, replies: &[Reply]) -> Vec<Standing> {
        if let Some(admission) = &self.admission {
            return admission.standings(replies).into();
        }
        let nodes = self.nodes.iter().zip(replies);
        let standings = nodes.map(|(node, reply)| match &self.counted {
            Some(counted) => counted.at(node.name()).unguarded_standing(reply),
            None if matches!(reply, Reply::Facts(_)) => Standing::Admitted,
            None => Standing::unknown(reply),
        });
        standings.collect()
    }

    /// Opens a link to each node.
    pub(crate) fn links(&self) -> Vec<Box<dyn Link>> {
        let servers = Arc::new(Servers::of(self.nodes.iter().map(|node| node.name().into())));
        let open = |(at, node): (usize, &Arc<dyn Node>)| {
            let link = node.open(self.clock);
            match &self.counted {
                Some(counted) => {
                    let counted = counted.at(node.name());
                    Box::new(Heeding::new(link, counted, servers.clone(), at)) as _
                }
                None => link,
            }
        };
        self.nodes.iter().enumerate().map(open).collect()
    }

    /// Tells the engine what was done to a lease elsewhere. An engine blocked for hours
    /// finds one report per lease, not one per extension.
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

    /// Whether this is a copy in a process forked without `exec`.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    pub(crate) fn due(&self) -> Moment {
        Moment::from_nanos(self.due.load(Ordering::Acquire))
    }
}

/// One request. If it has an `answer`, exactly one is sent.
pub(crate) enum Ask {
    Acquire { op: OpId, order: Order, answer: oneshot::Sender<Result<Arc<LeaseCell>, NotGranted>> },
    Adopt { op: OpId, adopted: Adopted, cell: Option<Arc<LeaseCell>> },
    Extend { op: OpId, ttl: Duration, answer: oneshot::Sender<Result<Kept, ExtendError>> },
    Release { op: OpId, answer: oneshot::Sender<release::Decision> },
    Survey { op: OpId, command: Command, timeout: Duration, answer: oneshot::Sender<Box<[Reply]>> },
    Admit { op: OpId, vouch: Vouch, answer: oneshot::Sender<Box<[Standing]>> },
    Cancel(OpId),
    Forget(OpId),
    Settle(oneshot::Sender<()>),
}

/// Why a lock was not granted.
#[derive(Debug)]
pub(crate) struct NotGranted {
    pub(crate) resources: Resources,
    pub(crate) error: AcquireError,
    /// A client in this process holds it.
    pub(crate) held_here: bool,
}

/// The engine is gone: its runtime was shut down, or belongs to another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

/// A handle to one engine. The engine ends when all of them are dropped and
/// nothing is left to undo. A single pointer: every guard has one.
#[derive(Debug, Clone)]
pub(crate) struct Handle(Arc<Asking>);

/// What all handles to one engine share.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) shared: Arc<Shared>,
    asks: mpsc::UnboundedSender<Ask>,
    next_op: AtomicU64,
    /// Dropped after `asks`: the thread ends once nobody can ask any more.
    thread: OnceLock<Dedicated>,
}

impl Deref for Handle {
    type Target = Asking;

    fn deref(&self) -> &Asking {
        &self.0
    }
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>, asks: mpsc::UnboundedSender<Ask>) -> Self {
        let (next_op, thread) = (AtomicU64::new(0), OnceLock::new());
        Handle(Arc::new(Asking { shared, asks, next_op, thread }))
    }

    pub(crate) fn next_op(&self) -> OpId {
        OpId::new(self.next_op.fetch_add(1, Ordering::Relaxed))
    }

    /// How many operations have been started so far.
    pub(crate) fn ops_begun(&self) -> u64 {
        self.next_op.load(Ordering::Relaxed)
    }

    /// Sends a request that has no answer.
    pub(crate) fn tell(&self, ask: Ask) {
        // An engine that is gone has undone everything, or has left it to the keeper.
        let _ = self.asks.send(ask);
    }

    /// Releases a lease in the background. The lease ends at once, even if the engine
    /// learns of it later.
    pub(crate) fn abandon(&self, cell: &LeaseCell) {
        cell.end(LeaseEnd::Released);
        self.tell(Ask::Cancel(cell.op));
        make_room(&self.shared);
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, Stopped> {
        self.put(ask).await.map_err(|_| Stopped)
    }

    /// Sends a request immediately. If nobody will ever answer, awaiting it fails.
    fn put<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> oneshot::Receiver<T> {
        let (answer, answered) = oneshot::channel();
        // An engine in another process would never answer.
        if !self.shared.is_forked() {
            self.tell(ask(answer));
        }
        answered
    }

    /// Takes a lock. Dropping the future undoes it.
    ///
    /// A hand-written future that sends its request immediately: there may be very many of
    /// them, and this way they do not store the order while they wait.
    pub(crate) fn acquire(&self, order: Order) -> Acquire {
        let op = self.next_op();
        let answered = self.put(|answer| Ask::Acquire { op, order, answer });
        Acquire { handle: self.clone(), op: Some(op), answered }
    }

    pub(crate) async fn extend(
        &self,
        op: OpId,
        ttl: Duration,
    ) -> Result<Result<Kept, ExtendError>, Stopped> {
        self.ask(|answer| Ask::Extend { op, ttl, answer }).await
    }

    /// Releases a lease. Sends the request immediately and returns a small
    /// future, since there may be very many.
    pub(crate) fn release(&self, op: OpId) -> oneshot::Receiver<release::Decision> {
        self.put(|answer| Ask::Release { op, answer })
    }

    pub(crate) async fn survey(
        &self,
        command: Command,
        timeout: Duration,
    ) -> Result<Box<[Reply]>, Stopped> {
        let op = self.next_op();
        let mut replies = self.ask(|answer| Ask::Survey { op, command, timeout, answer }).await?;
        for (node, reply) in self.shared.nodes.iter().zip(replies.iter_mut()) {
            if let Reply::Vote(Vote::Failed(fault)) = reply {
                *fault = explained(&**node, fault.clone());
            }
        }
        Ok(replies)
    }

    /// Finds out which nodes may vote, and admits those that can be admitted.
    pub(crate) async fn admit(&self, vouch: Vouch) -> Result<Box<[Standing]>, Stopped> {
        let op = self.next_op();
        self.ask(|answer| Ask::Admit { op, vouch, answer }).await
    }

    /// Waits until nothing is left to undo.
    pub(crate) async fn settled(&self) {
        let _ = self.ask(Ask::Settle).await;
    }
}

/// An engine's own thread. Dropping it, with the last handle, waits briefly for the engine
/// to undo the rest: the process may be about to exit.
#[derive(Debug)]
struct Dedicated {
    process: u32,
    ended: Mutex<std::sync::mpsc::Receiver<()>>,
}

/// The longest wait when the last handle is dropped.
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
pub(crate) fn spawn_here(shared: Shared) -> io::Result<Handle> {
    let runtime = tokio::runtime::Handle::try_current()
        .map_err(|_| io::Error::other("not called inside a tokio runtime; call it in one"))?;
    check_drivers(shared.nodes.iter().any(|node| node.needs_io())).map_err(io::Error::other)?;
    let (engine, handle) = Engine::new(shared);
    // The engine yields by itself; tokio's budget would only cut its turns short.
    runtime.spawn(tokio::task::unconstrained(engine));
    Ok(handle)
}

/// Checks that the runtime has what an engine needs. Tokio offers no way to ask, and panics
/// if a missing driver is used, so we use each one once.
fn check_drivers(needs_io: bool) -> Result<(), String> {
    let works = |driver: fn()| std::panic::catch_unwind(driver).is_ok();
    let missing = |what, setting| {
        Err(format!("the tokio runtime has no {what}; build it with `{setting}` or `enable_all`"))
    };
    if !works(|| drop(tokio::time::sleep(Duration::ZERO))) {
        return missing("timers", "enable_time");
    }
    if needs_io && !works(|| drop(tokio::net::UnixDatagram::unbound())) {
        return missing("I/O", "enable_io");
    }
    Ok(())
}

/// Runs an engine on its own thread.
pub(crate) fn spawn_thread(shared: Shared) -> io::Result<Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (engine, handle) = {
        let _inside = runtime.enter();
        Engine::new(shared)
    };
    let (end, ended) = std::sync::mpsc::channel();
    let run = move || {
        runtime.block_on(tokio::task::unconstrained(engine));
        let _ = end.send(());
    };
    thread::Builder::new().name("redlatch-engine".into()).spawn(run)?;
    let dedicated = Dedicated { process: std::process::id(), ended: Mutex::new(ended) };
    handle.thread.get_or_init(|| dedicated);
    Ok(handle)
}

/// Lets idle workers of a multi-threaded runtime run the engine, if a worker that does not
/// wait for it has just woken it. A woken task stays with that worker until the worker's
/// current task yields, which may be never; the next task it wakes pushes the first one out
/// to where other workers look.
fn make_room(shared: &Arc<Shared>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    if runtime.runtime_flavor() == RuntimeFlavor::MultiThread
        && !shared.is_forked()
        && !shared.makes_room.swap(true, Ordering::AcqRel)
    {
        let shared = shared.clone();
        runtime.spawn(async move { shared.makes_room.store(false, Ordering::Release) });
    }
}

/// A lock request in progress.
pub(crate) struct Acquire {
    handle: Handle,
    op: Option<OpId>,
    answered: oneshot::Receiver<Result<Arc<LeaseCell>, NotGranted>>,
}

impl Future for Acquire {
    type Output = Result<Result<Arc<LeaseCell>, NotGranted>, Stopped>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answered).poll(cx));
        self.op = None;
        Poll::Ready(answer.map_err(|_| Stopped))
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let Some(op) = self.op {
            self.handle.tell(Ask::Cancel(op));
            make_room(&self.handle.shared);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_of_an_extension_does_not_replace_word_of_a_loss() {
        let shared = Shared::new(Arc::new([]), Clock::System);
        let (lost, kept) = (OpId::new(1), OpId::new(2));

        shared.leave_news(News::Lost(lost));
        for op in [lost, kept] {
            shared.leave_news(News::Extended(op, Moment::NEVER));
        }

        let news = shared.news();
        assert!(matches!(news[&lost], News::Lost(_)), "its owner was told so: {news:?}");
        assert!(matches!(news[&kept], News::Extended(..)), "{news:?}");
    }
}
