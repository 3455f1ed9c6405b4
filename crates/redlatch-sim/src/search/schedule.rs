//! Everything that will happen in one run, decided beforehand.
//!
//! In:  a seed (see [`draw`](super::draw)), or a file.
//! Out: who wants which lock when, what goes wrong when, and which promises
//!      must hold while it does.
//!
//! A schedule is plain data, so that a run that failed can be written down, cut
//! smaller and run again.

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
    /// The same as everybody else has it.
    #[must_use]
    pub const fn get(self) -> Duration {
        Duration::from_micros(self.0)
    }

    /// That long after the beginning.
    #[must_use]
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

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Decides tokens, pauses and how long each message takes.
    pub seed: u64,
    /// The nodes.
    pub nodes: Vec<Place>,
    /// What the fencing registers of each node stand at when it begins. Ahead of
    /// all clocks, as after a wrong clock was set right, only they tell grants
    /// apart.
    pub registers: Vec<u64>,
    /// The client processes.
    pub clients: Vec<Process>,
    /// What clients are set to. The nodes are admitted by the first when it begins.
    pub parties: Vec<Party>,
    /// How long messages take.
    pub network: Network,
    /// The nodes are new: nobody has admitted them yet.
    pub fresh: bool,
    /// From here on nothing goes wrong any more.
    pub calm_at: Span,
    /// Who wants which lock.
    pub jobs: Vec<Job>,
    /// What goes wrong.
    pub troubles: Vec<Trouble>,
}

/// Where a process runs: what its clocks are like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// How much too fast its clocks run, in parts per million.
    pub drift: i64,
    /// How far its wall clock is off, in microseconds.
    pub wall: i64,
}

/// A client process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Where it runs.
    pub place: Place,
    /// How it is set: the number of a party.
    pub party: usize,
}

/// What some of the clients are set to. Clients of one party agree with one
/// another, and with nobody else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Party {
    /// The nodes that they name.
    pub list: Vec<usize>,
    /// What they do about nodes that forgot.
    pub guard: Guard,
    /// The longest TTL that any of their jobs asks for.
    pub max_ttl: Span,
    /// How far a fencing number that they propose may be ahead of a node's clock.
    pub skew: Span,
}

/// How long messages take, one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// At least.
    pub least: Span,
    /// At most, but for the stragglers.
    pub most: Span,
    /// How many of a thousand messages take up to `straggle`.
    pub stragglers: u64,
    /// The longest time a message takes while nothing is wrong.
    pub straggle: Span,
}

/// What clients do about nodes that forgot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Guard {
    /// Nothing.
    Off,
    /// Wait until every lock they forgot is gone, by the clock of the nodes.
    On,
    /// The same, by the clients' own clocks alone.
    Strict,
}

/// One lock that one client wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// When.
    pub at: Span,
    /// Who.
    pub client: usize,
    /// What: numbers of resources, taken together.
    pub resources: Vec<u32>,
    /// How long the keys live without renewal.
    pub ttl: Span,
    /// How long to wait for it.
    pub wait: Span,
    /// How long renewal goes on, if the lease is renewed.
    pub renewal: Option<Span>,
    /// Its other times.
    pub terms: Times,
    /// With a fencing token.
    pub fenced: bool,
    /// How long the caller works.
    pub hold: Span,
    /// Extended by hand so long after the grant, by this TTL.
    pub extend: Option<(Span, Span)>,
    /// What the caller does then.
    pub end: End,
    /// The caller gives up so long after asking, whatever there is by then.
    pub cancel: Option<Span>,
    /// Handed to another client so long after the grant, which goes on with it.
    pub hand_over: Option<(Span, usize)>,
    /// Part of the second phase: it must be granted.
    pub must: bool,
    /// Whatever goes wrong in this run, a lease that was granted must not be lost.
    pub lasts: bool,
}

/// The times of a lock but for its TTL; none where it takes the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// How long one node may take to answer.
    pub node_timeout: Option<Span>,
    /// The least a fresh lease must have left.
    pub min_validity: Option<Span>,
    /// How long before the end of the lease its loss is signalled.
    pub notice: Option<Span>,
    /// The pause from one renewal to the next.
    pub every: Option<Span>,
}

/// How a caller leaves a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Released, waiting for the outcome.
    Release,
    /// The guard is dropped.
    Drop,
    /// Kept for as long as the lease lasts.
    Keep,
}

/// Under which name clients know a node.
#[must_use]
pub fn name_of(node: usize) -> Arc<str> {
    format!("node-{node}").into()
}

impl Party {
    /// What its clients agree on, with or without a guard.
    #[must_use]
    pub fn agreement(&self) -> Agreement {
        Agreement::new(self.names(), self.max_ttl.get(), self.skew.get())
    }

    fn names(&self) -> impl Iterator<Item = Arc<str>> {
        self.list.iter().map(|node| name_of(*node))
    }

    /// Where in its list a node stands, if it does.
    #[must_use]
    pub fn position(&self, node: usize) -> Option<usize> {
        self.list.iter().position(|known| *known == node)
    }

    /// The guard of its clients, if they have one.
    #[must_use]
    pub fn guard(&self) -> Option<redlatch_core::Guard> {
        let strict = self.guard == Guard::Strict;
        let guarded = self.guard != Guard::Off;
        let (max_ttl, skew) = (self.max_ttl.get(), self.skew.get());
        guarded.then(|| redlatch_core::Guard::new(self.names(), max_ttl, skew, strict))
    }

    /// How long a node that forgot must not vote: counted here, not asked of the
    /// core.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.max_ttl.get() + self.skew.get()
    }
}

impl Schedule {
    /// How a client is set.
    #[must_use]
    pub fn party(&self, client: usize) -> &Party {
        &self.parties[self.clients[client].party]
    }

    /// When everything that is wanted has been decided, and is over.
    #[must_use]
    pub fn ends(&self) -> Moment {
        let decided = self.jobs.iter().map(|job| job.at.get() + job.wait.get() + job.hold.get());
        let last = decided.max().unwrap_or_default().max(self.calm_at.get());
        Moment::START.after(last + self.max_ttl() * 4)
    }

    /// The longest TTL that any lock has.
    #[must_use]
    pub fn max_ttl(&self) -> Duration {
        let longest = self.parties.iter().map(|party| party.max_ttl.get()).max();
        longest.unwrap_or_default()
    }
}

/// The resources with these numbers.
#[must_use]
pub fn resources(numbers: &[u32]) -> Resources {
    let names = numbers.iter().map(|number| format!("r{number}"));
    Resources::new(names).expect("different names")
}
