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

use redlatch_core::{Agreement, Moment, Resources};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

pub use claims::Claims;
pub use text::BadSchedule;

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
    pub clients: Vec<Place>,
    /// How long messages take.
    pub network: Network,
    /// What clients do about nodes that forgot.
    pub guard: Guard,
    /// The nodes are new: nobody has admitted them yet.
    pub fresh: bool,
    /// The longest TTL that any job asks for.
    pub max_ttl: Span,
    /// How far a proposed fencing number may be ahead of a node's clock.
    pub skew: Span,
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
    /// Wait until every lock they forgot is gone, by their uptime if it is known.
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
    /// Part of the second phase: it must be granted.
    pub must: bool,
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

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    /// When.
    pub at: Span,
    /// What.
    pub what: Wrong,
}

/// What can go wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Wrong {
    /// A connection breaks. Commands on their way are lost, or reach the node so
    /// much later, behind what the next connection carries.
    Break {
        /// Whose.
        client: usize,
        /// To which node.
        node: usize,
        /// How late what was on its way gets there.
        late: Option<Span>,
    },
    /// No message gets through, one way or both; TCP brings it later.
    Cut {
        /// Whose messages; none for everybody's.
        client: Option<usize>,
        /// To or from which node.
        node: usize,
        /// Which direction.
        way: Way,
        /// For how long.
        lasts: Span,
    },
    /// Messages to and from a node take this much longer, each a random part of it.
    Slow {
        /// Which node.
        node: usize,
        /// How much longer at most.
        by: Span,
        /// For how long.
        lasts: Span,
    },
    /// A node dies and comes back.
    CrashNode {
        /// Which node.
        node: usize,
        /// Without its memory.
        forgets: bool,
        /// Nobody says so to the other ends of its connections until it is back.
        silent: bool,
        /// After how long.
        lasts: Span,
    },
    /// A node's memory is emptied while it runs.
    Flush {
        /// Which node.
        node: usize,
    },
    /// A replica takes a node's place: without its keys, and with or without its
    /// fencing registers.
    FailOver {
        /// Which node.
        node: usize,
        /// It has the registers.
        registers: bool,
    },
    /// A node stands still; what reaches it waits.
    PauseNode {
        /// Which node.
        node: usize,
        /// For how long.
        lasts: Span,
    },
    /// A node's wall clock is set, by so many microseconds.
    StepNode {
        /// Which node.
        node: usize,
        /// Forward or back.
        by: i64,
    },
    /// A client process dies and comes back, knowing nothing.
    CrashClient {
        /// Which client.
        client: usize,
        /// How late what was on its way gets there, if it does.
        late: Option<Span>,
        /// After how long it is back.
        lasts: Span,
    },
    /// A client process stands still; what reaches it waits.
    PauseClient {
        /// Which client.
        client: usize,
        /// For how long.
        lasts: Span,
        /// On waking, the keeper gets to run before the engine.
        keeper_first: bool,
    },
    /// A client's wall clock is set, by so many microseconds.
    StepClient {
        /// Which client.
        client: usize,
        /// Forward or back.
        by: i64,
    },
    /// Another library takes the lock, by `SET NX PX` on one node after another.
    Foreign {
        /// What.
        resource: u32,
        /// For how long its keys live.
        ttl: Span,
        /// How long until it deletes them, if it does.
        hold: Option<Span>,
        /// How long it needs from one node to the next.
        pace: Span,
    },
}

impl Wrong {
    /// Whether a node loses its memory.
    #[must_use]
    pub fn forgets(&self) -> bool {
        let crash = matches!(self, Wrong::CrashNode { forgets: true, .. });
        crash || matches!(self, Wrong::Flush { .. } | Wrong::FailOver { .. })
    }

    /// Whose trouble it is, if it is one client's.
    #[must_use]
    pub fn client(&self) -> Option<usize> {
        match self {
            Wrong::Break { client, .. }
            | Wrong::CrashClient { client, .. }
            | Wrong::PauseClient { client, .. }
            | Wrong::StepClient { client, .. } => Some(*client),
            Wrong::Cut { client, .. } => *client,
            _ => None,
        }
    }
}

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Commands.
    ToNode,
    /// Replies.
    ToClient,
    /// Both.
    Both,
}

impl Schedule {
    /// What the guarded clients agree on.
    #[must_use]
    pub fn agreement(&self) -> Option<Agreement> {
        let names = (0..self.nodes.len()).map(|node| format!("node-{node}").into());
        let agreement = Agreement::new(names, self.max_ttl.get(), self.skew.get());
        (self.guard != Guard::Off).then_some(agreement)
    }
}

/// The resources with these numbers.
#[must_use]
pub fn resources(numbers: &[u32]) -> Resources {
    let names = numbers.iter().map(|number| format!("r{number}"));
    Resources::new(names).expect("different names")
}
