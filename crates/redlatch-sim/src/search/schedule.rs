//! Everything that will happen in one run, decided beforehand.
//!
//! In:  a seed (see [`draw`](super::draw)), or a file.
//! Out: who wants which lock when, what goes wrong when, and which promises
//!      must hold while it does.
//!
//! A schedule is plain data, so that a run that failed can be written down, cut
//! smaller and run again.

use redlatch_core::{Agreement, Moment, Resources};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

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

/// Which promises must hold in a run: a lock with a timeout needs clocks that
/// run at about the same rate, and nodes that do not forget behind its back.
///
/// Where more than a minority has forgotten at once, nobody can tell the fencing
/// numbers any more, and by their uptime nodes that were flushed look fit: from
/// then on the run itself gives up these claims (see [`Claims::after_amnesia`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claims {
    /// Promise 1.
    pub exclusion: bool,
    /// Promise 1 for other libraries, too: they know of no restart guard.
    pub foreign: bool,
    /// Promise 2.
    pub fencing: bool,
    /// Keys stay where they were set until they were released or ran out.
    pub keys_stay: bool,
    /// Keys are gone when their time is over by true time.
    pub keys_go: bool,
}

impl Claims {
    /// What is left of them when fewer than a majority remember.
    #[must_use]
    pub fn after_amnesia(self, guard: Guard) -> Claims {
        let exclusion = self.exclusion && guard == Guard::Strict;
        Claims { exclusion, fencing: false, ..self }
    }
}

impl Schedule {
    /// What must hold.
    #[must_use]
    pub fn claims(&self) -> Claims {
        let any = |wrong: &dyn Fn(&Wrong) -> bool| self.troubles.iter().any(|t| wrong(&t.what));
        let forgets = any(&Wrong::forgets);
        let forward = any(&|wrong| matches!(wrong, Wrong::StepNode { by: 0.., .. }));
        // A client whose clock jumps ahead believes keys dead that are not.
        let jumps = any(&|wrong| matches!(wrong, Wrong::StepClient { by: 0.., .. }));
        let back = any(&|wrong| matches!(wrong, Wrong::StepNode { by: ..0, .. }));
        // Uptime is counted by the wall clock: where that was set it proves nothing.
        let guarded = match self.guard {
            Guard::Off => !forgets,
            Guard::On => !(forgets && forward),
            Guard::Strict => true,
        };
        Claims {
            exclusion: guarded && !forward,
            foreign: !forgets && !forward,
            fencing: guarded,
            keys_stay: !forgets && !forward,
            keys_go: !back && !jumps,
        }
    }

    /// What the guarded clients agree on.
    #[must_use]
    pub fn agreement(&self) -> Option<Agreement> {
        let names = (0..self.nodes.len()).map(|node| format!("node-{node}").into());
        let agreement = Agreement::new(names, self.max_ttl.get(), self.skew.get());
        (self.guard != Guard::Off).then_some(agreement)
    }

    /// As text, one job and one trouble a line.
    pub fn to_text(&self) -> serde_json::Result<String> {
        let mut head = self.clone();
        let (jobs, troubles) = (head.jobs.split_off(0), head.troubles.split_off(0));
        let mut text = serde_json::to_string(&Line::Head(Box::new(head)))?;
        for line in jobs.into_iter().map(Line::Job).chain(troubles.into_iter().map(Line::Trouble)) {
            text.push('\n');
            text.push_str(&serde_json::to_string(&line)?);
        }
        text.push('\n');
        Ok(text)
    }

    /// Reads what [`to_text`](Self::to_text) wrote; lines may have been taken out.
    pub fn from_text(text: &str) -> Result<Schedule, BadSchedule> {
        let mut schedule = None;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let line = serde_json::from_str(line)
                .map_err(|error| BadSchedule::Line { line: at + 1, error })?;
            match (line, &mut schedule) {
                (Line::Head(head), none @ None) => *none = Some(*head),
                (Line::Job(job), Some(schedule)) => schedule.jobs.push(job),
                (Line::Trouble(trouble), Some(schedule)) => schedule.troubles.push(trouble),
                _ => return Err(BadSchedule::Head),
            }
        }
        schedule.ok_or(BadSchedule::Head)
    }
}

/// The resources with these numbers.
pub fn resources(numbers: &[u32]) -> Resources {
    let names = numbers.iter().map(|number| format!("r{number}"));
    Resources::new(names).expect("different names")
}

#[derive(Serialize, Deserialize)]
enum Line {
    Head(Box<Schedule>),
    Job(Job),
    Trouble(Trouble),
}

/// A file that is no schedule.
#[derive(Debug, thiserror::Error)]
pub enum BadSchedule {
    /// A line that makes no sense.
    #[error("line {line} is no part of a schedule: {error}")]
    Line {
        /// Which line, from one.
        line: usize,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// The head is missing, or is not first, or there are two.
    #[error("a schedule begins with one line {{\"Head\":…}}")]
    Head,
}
