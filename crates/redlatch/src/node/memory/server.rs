//! An in-memory node: the core's reference node on two clocks, and its faults.

use super::listeners::{Listener, Listeners};
use crate::driver::clock::{Clock, wall_micros};
use redlatch_core::{
    Command, Fault, Identity, Moment, Reply, Resource, Resources, Steady, Token,
    reference::{Deadline, Reading, ReferenceNode},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
    time::Duration,
};

/// What all links of a node share.
#[derive(Debug)]
pub(super) struct Server {
    node: ReferenceNode<Timestamp>,
    /// The number of keys at which to drop expired ones.
    sweep_at: usize,
    /// When its current run began, on either clock; `None` for the first run: it can have
    /// forgotten nothing before that.
    restarted: Option<[(Clock, Steady); 2]>,
    pub(super) paused: bool,
    pub(super) failing: bool,
    pub(super) delay: Duration,
    /// Links that will have something to do later.
    pub(super) waiting: Vec<Waker>,
    /// The links whose clients can be woken.
    pub(super) listeners: Listeners,
}

/// A moment and its clock: a key expires by the clock of the link that set it.
#[derive(Debug, Clone, Copy)]
struct Timestamp {
    clock: Clock,
    at: Moment,
}

impl Timestamp {
    fn now(clock: Clock) -> Self {
        Timestamp { clock, at: clock.now() }
    }
}

impl Deadline for Timestamp {
    fn after(self, ttl: Duration) -> Self {
        Timestamp { at: self.at.after(ttl), ..self }
    }

    fn left(self, now: Self) -> Duration {
        let same = self.clock == now.clock;
        self.at.since(if same { now.at } else { self.clock.now() })
    }
}

/// The uptime of a node that was never restarted.
pub(super) const AGES: Duration = Duration::from_secs(u32::MAX as u64);

/// With fewer keys than this, it is not worth looking for expired ones.
pub(super) const FEW: usize = 64;

impl Server {
    pub(super) fn new() -> Self {
        let version = concat!("memory ", env!("CARGO_PKG_VERSION")).into();
        let identity = Identity { run: fresh_run(), version };
        let nobody = Some(BTreeSet::new());
        Server {
            node: ReferenceNode {
                listening: nobody,
                waiters: Some(BTreeMap::new()),
                ..ReferenceNode::new(identity)
            },
            sweep_at: FEW,
            restarted: None,
            paused: false,
            failing: false,
            delay: Duration::ZERO,
            waiting: Vec::new(),
            listeners: Listeners::default(),
        }
    }

    /// Loses all state, and begins another run.
    pub(super) fn restart(&mut self) {
        self.node.flush();
        self.node.restart(fresh_run());
        self.listeners.lose_all();
        self.restarted = Some([Clock::System, Clock::Tokio].map(|at| (at, at.steady())));
    }

    pub(super) fn flush(&mut self) {
        self.node.flush();
    }

    pub(super) fn fail(&mut self, failing: bool) {
        self.failing = failing;
        self.listeners.lose_all();
    }

    /// Opens a mailbox for the client, unless the node is out of reach.
    pub(super) fn listen(&mut self, client: u64) -> Option<Listener> {
        let reachable = !self.failing;
        let listener = reachable.then(|| self.listeners.add(client));
        self.node.listening = Some(self.listeners.clients());
        listener
    }

    pub(super) fn hang_up(&mut self, listener: Listener) {
        self.listeners.remove(listener);
        self.node.listening = Some(self.listeners.clients());
    }

    /// Removes one key. Returns whether it existed.
    pub(super) fn remove(&mut self, resource: &Resource) -> bool {
        let was_there = self.node.key(Timestamp::now(Clock::System), resource).is_some();
        self.node.contents.keys.remove(resource);
        was_there
    }

    /// Removes the keys of one lock.
    pub(super) fn release(&mut self, resources: &Resources, token: &Token) {
        self.node.remove(Timestamp::now(Clock::System), resources, token);
    }

    /// The names of all keys that have not expired, sorted.
    pub(super) fn names(&self) -> Vec<Resource> {
        let now = Timestamp::now(Clock::System);
        let names = self.node.contents.keys.keys();
        names.filter(|name| self.node.key(now, name).is_some()).cloned().collect()
    }

    /// How many keys are stored, including expired ones.
    #[cfg(test)]
    pub(super) fn stored(&self) -> usize {
        self.node.contents.keys.len()
    }

    pub(super) fn wake_on_change(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|known| known.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    pub(super) fn execute(&mut self, clock: Clock, command: &Command) -> Reply {
        if self.failing {
            return Reply::failed(Fault::Unreachable("a test made it fail".into()));
        }
        let reading = self.read(clock, command);
        let reply = self.node.carry_out(reading, command);
        self.node.wakes.drain(..).for_each(|wake| self.listeners.tell(&wake));
        if self.node.contents.keys.len() >= self.sweep_at {
            self.node.expire(reading.now);
            self.sweep_at = FEW.max(2 * self.node.contents.keys.len());
        }
        reply
    }

    fn read(&self, clock: Clock, command: &Command) -> Reading<Timestamp> {
        let began = self.restarted.iter().flatten().find(|(other, _)| *other == clock);
        let uptime = began.map_or(AGES, |(_, began)| clock.steady().since(*began));
        let wall = match command {
            // Whatever clock a client uses, its numbers and tickets come from the system clock.
            Command::Take { .. } | Command::Release { .. } => Duration::from_micros(wall_micros()),
            _ => clock.wall(),
        };
        Reading { now: Timestamp::now(clock), wall, uptime: Some(uptime) }
    }
}

/// Different for every node of the process, and for every restart of one.
fn fresh_run() -> Arc<str> {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    format!("memory-{}", RUNS.fetch_add(1, Ordering::Relaxed)).into()
}
