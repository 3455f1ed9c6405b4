//! One sleeping thread per process that knows when each lease ends.
//!
//! It signals the loss of a lease in time whatever the caller's runtime is
//! doing. When an engine is late with a renewal, because its thread is blocked,
//! it [rescues](rescue) the engine's leases. When a runtime is shut down with
//! locks still on the nodes, it takes them away.
//!
//! A process that is forked without `exec` has the memory of its parent and none
//! of its threads. It gets a keeper of its own with its first lease; the leases
//! of its parent are the parent's to look after.

mod rescue;

use crate::{
    clock::Clock,
    engine::{Ask, Engine, LeaseCell, LeaseEnd, News, Place},
};
pub(crate) use rescue::Rescue;

use redlatch_core::{Moment, OpId, Resources, Terms, Token, config::Wanted, machine::Adopted};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc as answers,
    },
    thread,
    time::Duration,
};
use tokio::{runtime::Runtime, sync::mpsc};

/// The longest sleep while any lease is held: a machine that was suspended, or
/// whose wall clock was set, is noticed within this time.
const LONGEST_SLEEP: Duration = Duration::from_millis(250);
/// How long a runtime that shuts down waits for its locks to be taken away.
const LAST_WILL: Duration = Duration::from_millis(500);
/// An engine this far behind its own timer is blocked.
const LATE: Duration = Duration::from_millis(10);
/// Leases that come due one after the other are rescued in groups this far apart:
/// each look goes through all of them.
const PACE: Duration = Duration::from_millis(5);

/// Looks after a lease until [`unwatch`] or its end.
pub(crate) fn watch(cell: &Arc<LeaseCell>) {
    if cell.place.clock != Clock::System {
        return; // virtual time has no thread; the engine's own timers do
    }
    let Some(keeper) = keeper() else { return };
    keeper.leases().insert(key(cell), cell.clone());
    if Watch::of(cell).next() < keeper.wakes_at() {
        let _ = keeper.jobs.send(Job::Look);
    }
}

/// Stops looking after a lease.
pub(crate) fn unwatch(cell: &Arc<LeaseCell>) {
    if cell.place.clock == Clock::System
        && let Some(keeper) = keeper()
    {
        keeper.leases().remove(&key(cell));
    }
}

/// Takes away what an engine that is being dropped still has on its nodes, and
/// waits for it a little: the process may be about to end.
pub(crate) fn carry_out_will(place: &Arc<Place>, left: Vec<(Resources, Token)>) {
    if place.clock != Clock::System {
        return; // nodes in memory end with the process
    }
    let Some(keeper) = keeper() else { return };
    let (done, waiting) = answers::channel();
    let job = Job::Will { place: place.clone(), left, done };
    if keeper.jobs.send(job).is_ok() {
        let _ = waiting.recv_timeout(LAST_WILL);
    }
}

struct Keeper {
    /// The process whose thread it has.
    process: u32,
    /// The keeper of a process that was forked from this one.
    forked: OnceLock<Box<Keeper>>,
    leases: Mutex<HashMap<usize, Arc<LeaseCell>>>,
    jobs: mpsc::UnboundedSender<Job>,
    /// When the thread looks next by itself, in ns.
    wakes_at: AtomicU64,
}

enum Job {
    /// A lease needs a look earlier than planned.
    Look,
    Will {
        place: Arc<Place>,
        left: Vec<(Resources, Token)>,
        done: answers::Sender<()>,
    },
}

/// The keeper, started with the first lease. None while no thread can be had:
/// then the engine's own timers are all there is, until the next lease.
fn keeper() -> Option<&'static Keeper> {
    static KEEPER: OnceLock<Box<Keeper>> = OnceLock::new();
    let process = std::process::id();
    let mut keeper = started(&KEEPER)?;
    while keeper.process != process {
        keeper = started(&keeper.forked)?;
    }
    Some(keeper)
}

/// What is there, or a new one. Of two that are started at once one ends again.
fn started(keeper: &'static OnceLock<Box<Keeper>>) -> Option<&'static Keeper> {
    if keeper.get().is_none() {
        let _ = keeper.set(start()?);
    }
    keeper.get().map(AsRef::as_ref)
}

fn start() -> Option<Box<Keeper>> {
    let (jobs, inbox) = mpsc::unbounded_channel();
    let run = || runtime().block_on(keep(inbox));
    thread::Builder::new().name("redlatch-keeper".into()).spawn(run).ok()?;
    let wakes_at = AtomicU64::new(Moment::NEVER.as_nanos());
    Some(Box::new(Keeper {
        process: std::process::id(),
        forked: OnceLock::new(),
        leases: Mutex::default(),
        jobs,
        wakes_at,
    }))
}

/// The keeper's runtime. A process that has run out of descriptors may have some
/// again soon, and its leases need a keeper then.
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
    fn leases(&self) -> MutexGuard<'_, HashMap<usize, Arc<LeaseCell>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wakes_at(&self) -> Moment {
        Moment::from_nanos(self.wakes_at.load(Ordering::Acquire))
    }

    /// Ends what ran out, rescues what is late. Returns when to look again.
    fn look(&self) -> Moment {
        let now = Clock::System.now();
        let mut leases = self.leases();
        let mut late = Vec::new();
        let mut next = if leases.is_empty() { Moment::NEVER } else { now.after(LONGEST_SLEEP) };
        leases.retain(|_, cell| {
            let watch = Watch::of(cell);
            if now >= watch.notice_at {
                cell.end(LeaseEnd::Lost(cell.cause_of_end()));
                cell.place.leave_news(News::Lost(cell.op));
                return false;
            }
            if now >= watch.rescue_at && cell.place.due() < now.before(LATE) && cell.begin_rescue()
            {
                late.push((watch.notice_at, cell.clone()));
            }
            next = next.min(watch.next_after(now));
            true
        });
        rescue::all(late);
        // Still under the lock: a lease that comes now sees when we wake.
        self.wakes_at.store(next.as_nanos(), Ordering::Release);
        next
    }
}

/// The two moments at which a lease needs a look.
struct Watch {
    rescue_at: Moment,
    notice_at: Moment,
}

impl Watch {
    fn of(cell: &LeaseCell) -> Self {
        let notice_at = cell.ends_at().before(cell.terms.notice);
        let rescue_at = match &cell.terms.renewal {
            // Half-way between when renewal is due and when loss is signalled.
            Some(renewal) if cell.ends_at() == cell.usable_until() => {
                let slack = cell.terms.usable().saturating_sub(cell.terms.notice);
                notice_at.before(slack.saturating_sub(renewal.every) / 2)
            }
            _ => Moment::NEVER,
        };
        Watch { rescue_at, notice_at }
    }

    fn next(&self) -> Moment {
        self.rescue_at.min(self.notice_at)
    }

    fn next_after(&self, now: Moment) -> Moment {
        let rescue_at = if self.rescue_at > now { self.rescue_at } else { Moment::NEVER };
        rescue_at.max(now.after(PACE)).min(self.notice_at)
    }
}

async fn keep(mut jobs: mpsc::UnboundedReceiver<Job>) {
    // The keeper is in its place once `start` has returned.
    while let Some(job) = wait(&mut jobs).await {
        if let Job::Will { place, left, done } = job {
            tokio::spawn(carry_out(place, left, done));
        }
    }
}

/// The next job; while there is none, looks after the leases.
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

/// Takes away locks whose engine is gone.
async fn carry_out(place: Arc<Place>, left: Vec<(Resources, Token)>, done: answers::Sender<()>) {
    let Ok(terms) = Terms::check(&Wanted::default()) else { return };
    let (engine, handle) = Engine::new(place.passing());
    tokio::spawn(engine);
    for (resources, token) in left {
        let op: OpId = handle.next_op();
        let terms = terms.clone();
        let usable_until = Clock::System.now();
        let adopted =
            Adopted { resources, terms, token, usable_until, replants: false, fence: None };
        handle.tell(Ask::Adopt { op, adopted, cell: None });
        handle.tell(Ask::Cancel(op));
    }
    handle.settled().await;
    let _ = done.send(());
}
