//! Everything that will happen in one run, decided beforehand.
//!
//! In:  a seed (see [`draw`](super::draw)), or a file.
//! Out: who wants which lock when, what goes wrong when, and which promises
//!      must hold meanwhile.
//!
//! A schedule is plain data, so that a failed run can be saved, shrunk and
//! replayed.

mod claims;
mod text;
mod trouble;

use redlatch_core::{Agreement, Moment, Resources};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc, time::Duration};

pub use claims::Claims;
pub use text::BadSchedule;
pub use trouble::{Trouble, Way, Wrong};

/// A length of time, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(pub u64);

impl Span {
    pub const fn get(self) -> Duration {
        Duration::from_micros(self.0)
    }

    /// This long after the start.
    pub const fn in_true_time(self) -> Moment {
        Moment::from_nanos(self.0 * 1000)
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Span(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Decides lock tokens, pauses and the delay of each message.
    pub seed: u64,
    pub nodes: Vec<Clocks>,
    /// Each node's initial fencing register. If it is ahead of all clocks, as after
    /// a wrong clock was corrected, only the registers order grants.
    pub registers: Vec<u64>,
    pub clients: Vec<Process>,
    /// The settings of clients. The nodes are admitted at the start by the first party.
    pub parties: Vec<Party>,
    pub network: Network,
    /// Nobody has admitted the nodes yet.
    pub fresh: bool,
    /// From here on nothing goes wrong.
    pub calm_at: Span,
    pub jobs: Vec<Job>,
    pub troubles: Vec<Trouble>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clocks {
    /// How much too fast they run, in parts per million.
    pub drift: i64,
    /// How far its wall clock is off, in microseconds.
    pub wall: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    pub clocks: Clocks,
    /// An index into [`Schedule::parties`].
    pub party: usize,
}

/// The settings of some clients. Clients of one party agree with one another and
/// with nobody else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Party {
    pub list: Vec<usize>,
    pub guard: RestartGuard,
    pub max_ttl: Span,
    /// How far a fencing token they propose may be ahead of a node's clock.
    pub skew: Span,
}

/// How long messages take, one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Network {
    pub least: Span,
    /// The longest delay, except for stragglers.
    pub most: Span,
    /// How many of a thousand messages take up to `straggle`.
    pub stragglers: u64,
    /// The longest delay while nothing is wrong.
    pub straggle: Span,
    /// How many of a hundred wakes get lost, until the calm.
    #[serde(default)]
    pub wakes_lost: u64,
}

/// What clients do about nodes that forgot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartGuard {
    Off,
    /// Wait until every lock they forgot has expired, by the nodes' clocks.
    On,
    /// The same, by the clients' own clocks only.
    Strict,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub at: Span,
    pub client: usize,
    /// Numbers of resources, locked together.
    pub resources: Vec<u32>,
    /// How long the keys live without renewal.
    pub ttl: Span,
    pub wait: Span,
    /// How long renewal goes on, if at all.
    pub renewal: Option<Span>,
    pub terms: Times,
    pub fenced: bool,
    pub hold: Span,
    /// Extended by hand: this long after the grant, by this TTL.
    pub extend: Option<(Span, Span)>,
    pub end: End,
    /// The caller gives up this long after asking, whatever the state.
    pub cancel: Option<Span>,
    /// Handed over: this long after the grant, to this client.
    pub hand_over: Option<(Span, usize)>,
    /// Part of the second phase: it must be granted.
    pub must: bool,
    /// Whatever goes wrong in this run, a granted lease must not be lost.
    pub lasts: bool,
    /// How it waits in line; `None` if it tries again after random pauses.
    #[serde(default)]
    pub line: Option<Queueing>,
}

/// How a job waits in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queueing {
    /// How often the first in line checks the lock if another library holds it.
    pub poll_max: Span,
    /// How many times in a row a client passes the lock on among its own callers.
    pub local_batch: u32,
}

/// The times of a lock besides its TTL; `None` for the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    pub node_timeout: Option<Span>,
    /// The least a fresh lease must have left.
    pub min_validity: Option<Span>,
    /// How long before the end of the lease its loss is signalled.
    pub notice: Option<Span>,
    /// The pause from one renewal to the next.
    pub every: Option<Span>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    #[default]
    Release,
    Drop,
    /// Kept until the lease ends.
    Keep,
}

pub fn name_of(node: usize) -> Arc<str> {
    format!("node-{node}").into()
}

impl Party {
    /// What its clients agree on, with or without a guard.
    pub fn agreement(&self) -> Agreement {
        Agreement::new(self.names(), self.max_ttl.get(), self.skew.get())
    }

    fn names(&self) -> impl Iterator<Item = Arc<str>> {
        self.list.iter().map(|node| name_of(*node))
    }

    pub fn position(&self, node: usize) -> Option<usize> {
        self.list.iter().position(|known| *known == node)
    }

    /// The guard of its clients, if they have one.
    pub fn guard(&self) -> Option<redlatch_core::Admission> {
        let strict = self.guard == RestartGuard::Strict;
        let guarded = self.guard != RestartGuard::Off;
        let (max_ttl, skew) = (self.max_ttl.get(), self.skew.get());
        guarded.then(|| redlatch_core::Admission::new(self.names(), max_ttl, skew, strict))
    }

    /// How long a node that forgot must not vote: computed here, independently of
    /// the core.
    pub fn window(&self) -> Duration {
        self.max_ttl.get() + self.skew.get()
    }
}

impl Schedule {
    pub fn party(&self, client: usize) -> &Party {
        &self.parties[self.clients[client].party]
    }

    /// When every request has been decided and has ended.
    pub fn ends(&self) -> Moment {
        let decided = self.jobs.iter().map(|job| job.at.get() + job.wait.get() + job.hold.get());
        let last = decided.max().unwrap_or_default().max(self.calm_at.get());
        Moment::START.after(last + self.max_ttl() * 4)
    }

    pub fn max_ttl(&self) -> Duration {
        let longest = self.parties.iter().map(|party| party.max_ttl.get()).max();
        longest.unwrap_or_default()
    }
}

pub fn resources(numbers: &[u32]) -> Resources {
    let names = numbers.iter().map(|number| format!("r{number}"));
    Resources::new(names).expect("different names")
}
