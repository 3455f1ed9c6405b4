//! One sleeping thread per process that knows when each lease ends.
//!
//! It signals the loss of a lease in time, whatever the caller's runtime is doing. If an
//! engine is late with a renewal because its thread is blocked, the keeper
//! [rescues](rescue) the engine's leases, and releases those that were dropped meanwhile.
//! If a runtime shuts down with locks still on the nodes, the keeper releases them.
//!
//! A process forked without `exec` has its parent's memory but none of its threads. It gets
//! its own keeper with its first lease; the parent's leases stay with the parent.

mod rescue;

use super::{
    clock::Clock,
    engine::{Ask, Engine, Handle, LeaseCell, LeaseEnd, News, Shared},
};
pub(crate) use rescue::Rescue;

use redlatch_core::{
    AcquireError, Cast, Command, Moment, OpId, Resources, Tag, Terms, Token,
    config::Wanted,
    lease::{self, Deadlines},
    machine::Adopted,
};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc as answers,
    },
    task::{Context, Waker},
    thread,
    time::Duration,
};
use tokio::{runtime::Runtime, sync::mpsc};

/// The longest sleep while any lease is held: bounds how late a suspended machine or a
/// changed wall clock is noticed.
const LONGEST_SLEEP: Duration = Duration::from_millis(250);
/// How long a runtime that shuts down waits for its locks to be released.
const LAST_WILL: Duration = Duration::from_millis(500);
/// An engine this far behind its own timer is blocked.
const LATE: Duration = Duration::from_millis(10);
/// Leases that come due one after the other are rescued in batches, this far apart, because
/// each check goes through all of them.
const PACE: Duration = Duration::from_millis(5);
/// How long an engine may go without a turn before we release its dropped leases.
const UNHEARD: Duration = Duration::from_millis(250);

/// Watches a lease until [`unwatch`] or its end.
pub(crate) fn watch(cell: &Arc<LeaseCell>) {
    if let Some(leases) = &cell.shared.leases {
        leases.add(cell);
    }
    if cell.shared.clock != Clock::System {
        return; // virtual time has no thread; the engine's own timers do
    }
    let Some(keeper) = keeper_of(&cell.shared) else { return };
    keeper.leases().insert(cell.clone());
    let Deadlines { rescue_at, notice_at, .. } = cell.deadlines();
    if rescue_at.min(notice_at) < keeper.wakes_at() {
        let _ = keeper.jobs.send(Job::Look);
    }
}

/// Stops watching a lease.
pub(crate) fn unwatch(cell: &Arc<LeaseCell>) {
    if cell.shared.clock == Clock::System
        && let Some(keeper) = keeper_of(&cell.shared)
    {
        keeper.leases().remove(cell);
    }
}

/// Returns whether a client of the same nodes in this process holds a lock that was refused.
/// The label alone cannot tell: processes in two containers may share host name and pid.
pub(crate) fn holds(shared: &Shared, resources: &Resources, error: &AcquireError) -> bool {
    let AcquireError::Held(ballot) = error else { return false };
    let ours = Some(&*shared.label);
    let is_ours =
        |cast: &Cast| cast.vote.holder().and_then(|holder| holder.owner.as_deref()) == ours;
    if !ballot.casts().iter().any(is_ours) {
        return false; // the usual case: no need to go through all leases
    }
    if let Some(leases) = &shared.leases {
        return resources.iter().any(|name| leases.of(name).is_some());
    }
    let ours: Vec<&str> = shared.nodes.iter().map(|node| node.name()).collect();
    let is_it = |cell: &Arc<LeaseCell>| {
        cell.is_held()
            && cell.resources.iter().any(|name| resources.iter().any(|other| other == name))
            && cell.shared.nodes.iter().map(|node| node.name()).eq(ours.iter().copied())
    };
    keeper().is_some_and(|keeper| keeper.leases().iter().any(is_it))
}

/// Releases what a dropped engine still has on its nodes, and waits briefly for that: the
/// process may be about to exit.
pub(crate) fn carry_out_will(shared: &Arc<Shared>, left: Vec<(Resources, Token)>) {
    let Some(keeper) = keeper() else { return };
    let (done, waiting) = answers::channel();
    let job = Job::Will { shared: shared.clone(), left, done };
    if keeper.jobs.send(job).is_ok() {
        let _ = waiting.recv_timeout(LAST_WILL);
    }
}

struct Keeper {
    /// The process that its thread belongs to.
    process: u32,
    /// The keeper of a process forked from this one.
    forked: OnceLock<Box<Keeper>>,
    leases: Mutex<HashSet<Arc<LeaseCell>>>,
    /// Dropped leases whose engine has not learned of the drop: when we saw that, and
    /// how many turns the engine had had by then.
    dropped: Mutex<HashMap<usize, (Moment, u64)>>,
    jobs: mpsc::UnboundedSender<Job>,
    /// When the thread next wakes up by itself, in ns.
    wakes_at: AtomicU64,
}

enum Job {
    /// A lease must be checked earlier than planned.
    Look,
    Will {
        shared: Arc<Shared>,
        left: Vec<(Resources, Token)>,
        done: answers::Sender<()>,
    },
}

/// The keeper, started with the first lease. `None` if no thread can be started: until the
/// next lease, only the engine's own timers work.
fn keeper() -> Option<&'static Keeper> {
    keeper_in(std::process::id())
}

/// The same for an engine, which runs in one process only. Asking the system for our
/// process id would cost as much as everything else here.
fn keeper_of(engine: &Shared) -> Option<&'static Keeper> {
    keeper_in(engine.process)
}

fn keeper_in(process: u32) -> Option<&'static Keeper> {
    static KEEPER: OnceLock<Box<Keeper>> = OnceLock::new();
    let mut keeper = started(&KEEPER, process)?;
    while keeper.process != process {
        keeper = started(&keeper.forked, process)?;
    }
    Some(keeper)
}

/// Returns the existing keeper, or starts one. If two are started at once, one of them ends
/// again.
fn started(keeper: &'static OnceLock<Box<Keeper>>, process: u32) -> Option<&'static Keeper> {
    if keeper.get().is_none() {
        let _ = keeper.set(start(process)?);
    }
    keeper.get().map(AsRef::as_ref)
}

fn start(process: u32) -> Option<Box<Keeper>> {
    let (jobs, inbox) = mpsc::unbounded_channel();
    let run = || runtime().block_on(keep(inbox));
    thread::Builder::new().name("redlatch-keeper".into()).spawn(run).ok()?;
    let wakes_at = AtomicU64::new(Moment::NEVER.as_nanos());
    Some(Box::new(Keeper {
        process,
        forked: OnceLock::new(),
        leases: Mutex::default(),
        dropped: Mutex::default(),
        jobs,
        wakes_at,
    }))
}

/// The keeper's runtime. Retries, since a process that has run out of file descriptors may
/// soon have some again, and its leases need a keeper then.
fn runtime() -> Runtime {
    loop {
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => return runtime,
            Err(error) => tracing::error!("the keeper cannot run yet: {error}"),
        }
        thread::sleep(LONGEST_SLEEP);
    }
}

fn key(cell: &Arc<LeaseCell>) -> usize {
    Arc::as_ptr(cell) as usize
}

impl Keeper {
    fn leases(&self) -> MutexGuard<'_, HashSet<Arc<LeaseCell>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wakes_at(&self) -> Moment {
        Moment::from_nanos(self.wakes_at.load(Ordering::Acquire))
    }

    /// Signals the loss of leases whose notice has begun, rescues late ones, and releases
    /// dropped ones if their engine does not. Returns when to look again.
    fn look(&self) -> Moment {
        let now = Clock::System.now();
        let mut leases = self.leases();
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *dropped);
        let (mut over, mut late, mut unheard) = (Vec::new(), Vec::new(), Vec::new());
        let mut next = if leases.is_empty() { Moment::NEVER } else { now.after(LONGEST_SLEEP) };
        leases.retain(|cell| {
            if cell.is_released() {
                let turns = cell.shared.turns.load(Ordering::Relaxed);
                // An engine that has had a turn is running, and will learn of the drop.
                let seen = before.get(&key(cell)).copied().filter(|(_, then)| *then == turns);
                let seen = seen.unwrap_or((now, turns));
                dropped.insert(key(cell), seen);
                let until = seen.0.after(UNHEARD);
                next = next.min(until);
                if now >= until {
                    unheard.push(cell.clone());
                }
                return now < until;
            }
            let deadlines = cell.deadlines();
            if now >= deadlines.notice_at {
                over.push(cell.clone());
                return false;
            }
            let is_late = now >= deadlines.rescue_at && cell.shared.due() < now.before(LATE);
            if is_late && cell.begin_rescue() {
                late.push((deadlines.notice_at, cell.clone()));
            }
            next = next.min(next_look(&deadlines, now));
            true
        });
        // Still under the lock, so that a lease added now sees when we wake up.
        self.wakes_at.store(next.as_nanos(), Ordering::Release);
        drop((leases, dropped));
        end(&over);
        rescue::all(late);
        rescue::release(&unheard);
        next
    }
}

/// Ends leases that were not extended in time; logs only after all of them have ended.
fn end(over: &[Arc<LeaseCell>]) {
    let ended = |cell: &&Arc<LeaseCell>| {
        let ended = cell.run_out();
        cell.shared.leave_news(News::Lost(cell.op));
        ended
    };
    let ended: Vec<_> = over.iter().filter(ended).collect();
    for cell in ended {
        if let Some(LeaseEnd::Lost(loss)) = cell.why() {
            cell.shared.trace_lost(cell, &loss);
        }
    }
}

/// When a lease must next be checked.
fn next_look(deadlines: &Deadlines, now: Moment) -> Moment {
    let Deadlines { rescue_at, notice_at, .. } = *deadlines;
    let rescue_at = if rescue_at > now { rescue_at } else { Moment::NEVER };
    rescue_at.max(now.after(PACE)).min(notice_at)
}

async fn keep(mut jobs: mpsc::UnboundedReceiver<Job>) {
    // If another keeper was installed first, ours was dropped: `jobs` is closed and we end.
    while let Some(job) = wait(&mut jobs).await {
        if let Job::Will { shared, left, done } = job {
            tokio::spawn(carry_out(shared, left, done));
        }
    }
}

/// Returns the next job; watches the leases until there is one.
async fn wait(jobs: &mut mpsc::UnboundedReceiver<Job>) -> Option<Job> {
    loop {
        let keeper = keeper()?;
        let next = keeper.look();
        if next == Moment::NEVER {
            return jobs.recv().await;
        }
        let sleep = next.since(Clock::System.now());
        if let Ok(job) = tokio::time::timeout(sleep, jobs.recv()).await {
            return job;
        }
    }
}

/// Releases locks whose engine is gone.
async fn carry_out(shared: Arc<Shared>, left: Vec<(Resources, Token)>, done: answers::Sender<()>) {
    if shared.clock == Clock::Tokio {
        release_in_memory(&shared, &left);
        let _ = done.send(());
        return;
    }
    let Ok(terms) = Terms::check(&Wanted::default()) else { return };
    let (engine, handle) = Engine::new(shared.passing());
    tokio::spawn(engine);
    for (resources, token) in left {
        release(&handle, resources, token, terms.clone());
    }
    handle.settled().await;
    let _ = done.send(());
}

/// Has an engine release a lock that another engine left behind.
fn release(engine: &Handle, resources: Resources, token: Token, terms: Terms) {
    let op: OpId = engine.next_op();
    let usable_until = Clock::System.now();
    let hold_until = lease::hold_until(usable_until, &terms);
    let (keeps, fence) = (false, None);
    let adopted = Adopted { resources, terms, token, usable_until, hold_until, keeps, fence };
    engine.tell(Ask::Adopt { op, adopted, cell: None });
    engine.tell(Ask::Cancel(op));
}

/// The same in a test's virtual time. In-memory nodes answer immediately unless they are
/// broken on purpose, and then no test waits for them.
fn release_in_memory(shared: &Shared, left: &[(Resources, Token)]) {
    let mut cx = Context::from_waker(Waker::noop());
    for mut link in shared.links() {
        for (resources, token) in left {
            let (resources, token) = (resources.clone(), token.clone());
            link.send(Tag::of_driver(0), Command::Release { resources, token, then: None });
        }
        link.poll(&mut cx, &mut Vec::new());
    }
}
