//! What was typed after `contended`.

use clap::{Args, ValueEnum};
use serde::Serialize;
use std::time::Duration;

/// Many callers, one lock: how quickly, how evenly and at what cost it changes hands.
#[derive(Debug, Args)]
pub(crate) struct ContendedPlan {
    /// Measures these only.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
    /// How many servers to start, one run for each number [default: 5,1; with --short: 5].
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<usize>,
    /// Which peers take part [default: all; with --short: one].
    #[arg(long, value_enum)]
    peers: Option<Peers>,
    /// How often every contender has its turn [default: 5; with --short: 3].
    #[arg(long)]
    rounds: Option<usize>,
    /// How long a turn lasts [default: 2s; with --short: 200ms].
    #[arg(long, value_parser = humantime::parse_duration)]
    slice: Option<Duration>,
    /// Ends within some 40 seconds on a machine that has nothing else to do.
    #[arg(long)]
    pub(crate) short: bool,
    /// Prints JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Fails when a bound is missed.
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
}

/// What redlatch must reach.
#[derive(Debug, Args)]
#[command(next_help_heading = "Bounds")]
pub(crate) struct Bounds {
    /// Hand-over: p50 at most this many times the floor's.
    #[arg(long, default_value_t = 1.5)]
    pub(crate) max_handover: f64,
    /// Hand-over: p50 at least this many times shorter than the best peer's.
    #[arg(long, default_value_t = 50.0)]
    pub(crate) min_over_peer: f64,
    /// Turns: locks per second at least this share of what hold and floor allow.
    #[arg(long, default_value_t = 0.9)]
    pub(crate) min_rate: f64,
    /// Turns: most over fewest among the tasks of a process.
    #[arg(long, default_value_t = 1.1)]
    pub(crate) max_uneven_tasks: f64,
    /// Turns: most over fewest among processes.
    #[arg(long, default_value_t = 1.2)]
    pub(crate) max_uneven_processes: f64,
    /// Turns: longest wait in fair shares (callers times mean turn).
    #[arg(long, default_value_t = 3.0)]
    pub(crate) max_wait: f64,
    /// Commands per lock and node over the minimum of two, 16 tasks in a process.
    #[arg(long, default_value_t = 1.5)]
    pub(crate) max_commands: f64,
    /// The same with 50 processes.
    #[arg(long, default_value_t = 2.5)]
    pub(crate) max_commands_processes: f64,
    /// Locks per second at least this many times etcd's.
    #[arg(long, default_value_t = 8.0)]
    pub(crate) min_over_etcd: f64,
    /// `redlatch run`: gaps between commands at most this many times those of `flock`.
    #[arg(long, default_value_t = 3.0)]
    pub(crate) max_over_flock: f64,
    /// Hand-over p50 with two of five servers frozen, over p50 with all of them up.
    #[arg(long, default_value_t = 1.5)]
    pub(crate) max_frozen: f64,
    /// A crowd: how long after the death of its holder a lock may stay taken, in TTLs.
    #[arg(long, default_value_t = 1.1)]
    pub(crate) max_after_death: f64,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// From one holder's release to the next one's grant.
    Handover,
    /// How many turns per second, and how evenly shared.
    Turns,
    /// How many commands the servers get for each lock.
    Commands,
    /// Beside etcd's lock.
    Etcd,
    /// `redlatch run` beside `flock`.
    Flock,
    /// Hand-over with a frozen minority.
    Frozen,
    /// Beside a client that knows nothing of us, on the same key.
    Foreign,
    /// A thousand waiters that are killed, cancelled and lose patience.
    Crowd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Peers {
    /// rslock, Node's redlock, redlock-py, aioredlock, pottery.
    All,
    /// rslock as it comes and tuned, which needs nothing else.
    Rust,
    /// rslock as it comes.
    One,
    None,
}

impl ContendedPlan {
    pub(crate) fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    pub(crate) fn nodes(&self) -> Vec<usize> {
        match (&self.nodes[..], self.short) {
            ([], true) => vec![5],
            ([], false) => vec![5, 1],
            (some, _) => some.to_vec(),
        }
    }

    pub(crate) fn peers(&self) -> Peers {
        self.peers.unwrap_or(if self.short { Peers::One } else { Peers::All })
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.short { 3 } else { 5 })
    }

    pub(crate) fn slice(&self) -> Duration {
        self.slice.unwrap_or(Duration::from_millis(if self.short { 200 } else { 2_000 }))
    }

    /// What a reader of the figures must know.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "nodes": self.nodes(),
            "peers": self.peers(),
            "rounds": self.rounds(),
            "slice_ms": self.slice().as_millis(),
        })
    }
}
