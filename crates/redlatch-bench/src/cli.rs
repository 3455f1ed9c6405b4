//! What was typed.

use crate::{
    contended::{ContendedPlan, HoldPlan, WorkerPlan},
    contender::hosted::Flavour,
};
use clap::{Args, Parser, Subcommand};
use std::time::Duration;

/// Measures Redlatch beside its peers and a bare event loop.
#[derive(Debug, Parser)]
#[command(after_help = "\
Exit status: 0 measured (and, with --check, all bounds met), 1 a bound was missed,
2 nothing was measured or wrong usage.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Acquire and release on healthy servers: latency and throughput.
    Compare(ComparePlan),
    /// Acquire with some servers frozen against acquire with all of them up.
    Frozen(FrozenPlan),
    /// How many grants agree on their fencing token only in a second round trip.
    Rounds(RoundsPlan),
    /// How much memory a server needs for names that were locked once.
    Memory(MemoryPlan),
    /// Very many requests at once, each for a name of its own.
    Many(ManyPlan),
    /// Many callers, one lock: how quickly and evenly it changes hands.
    Contended(ContendedPlan),
    /// A contender of `contended`, in a process of its own.
    #[command(hide = true)]
    ContendedWorker(WorkerPlan),
    /// A command under a lock, for `contended`.
    #[command(hide = true)]
    ContendedHold(HoldPlan),
}

#[derive(Debug, Args)]
pub(crate) struct ComparePlan {
    #[command(flatten)]
    pub(crate) setup: Setup,
    /// How many callers at once, one workload for each number.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 256])]
    pub(crate) tasks: Vec<usize>,
    /// With one caller: p50 of redlatch at most this many times the floor's.
    #[arg(long, default_value_t = 1.4)]
    pub(crate) max_latency: f64,
    /// With many callers: locks per second at least this many times the floor's.
    #[arg(long, default_value_t = 0.6)]
    pub(crate) min_throughput: f64,
    /// With many callers: locks per second at least this many times rslock's.
    #[arg(long, default_value_t = 2.0)]
    pub(crate) min_over_rslock: f64,
    /// With one caller: p50 with fencing and guard at most this many times without.
    #[arg(long, default_value_t = 1.25)]
    pub(crate) max_guard_latency: f64,
    /// With many callers: locks per second with fencing and guard at least this
    /// many times without.
    #[arg(long, default_value_t = 0.45)]
    pub(crate) min_guard_throughput: f64,
}

/// How many grants agree on their fencing token only in a second round trip.
#[derive(Debug, Args)]
pub(crate) struct RoundsPlan {
    /// How many servers to start.
    #[arg(long, default_value_t = 5)]
    pub(crate) nodes: usize,
    /// How many grants to count under each load.
    #[arg(long, default_value_t = 20_000)]
    pub(crate) grants: usize,
    /// Uncontended, at most this share of the grants, in percent.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) max_percent: f64,
    /// Prints JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Fails when the bound is missed.
    #[arg(long)]
    pub(crate) check: bool,
}

/// How much memory a server needs for names that were locked once.
#[derive(Debug, Args)]
pub(crate) struct MemoryPlan {
    /// How many names to lock, each once.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) names: usize,
    /// The server may be larger by this many megabytes afterwards.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) max_mb: f64,
    /// Fails when the bound is missed.
    #[arg(long)]
    pub(crate) check: bool,
}

/// Very many requests at once, each for a name of its own.
#[derive(Debug, Args)]
pub(crate) struct ManyPlan {
    /// How many servers to start.
    #[arg(long, default_value_t = 3)]
    pub(crate) nodes: usize,
    /// How many locks to ask for at once.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) names: usize,
    /// Their TTL.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) ttl: Duration,
    /// How long each of them waits.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) wait: Duration,
    /// With the restart guard.
    #[arg(long)]
    pub(crate) guard: bool,
    /// Loops that keep the processors busy meanwhile.
    #[arg(long, default_value_t = 0)]
    pub(crate) busy: usize,
    /// This process may have so many megabytes at most.
    #[arg(long, default_value_t = 150.0)]
    pub(crate) max_mb: f64,
    /// Fails when a lock is refused or left behind, or the bound is missed.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FrozenPlan {
    #[command(flatten)]
    pub(crate) setup: Setup,
    /// How many servers to freeze; less than half of them.
    #[arg(long, default_value_t = 2)]
    pub(crate) frozen: usize,
    /// How many callers at once.
    #[arg(long, default_value_t = 1)]
    pub(crate) tasks: usize,
    /// Gives up an acquire or a release after this long.
    #[arg(long, default_value = "2s", value_parser = humantime::parse_duration)]
    pub(crate) limit: Duration,
    /// p99 of redlatch with frozen servers at most this many times p99 without.
    #[arg(long, default_value_t = 1.5)]
    pub(crate) max_p99: f64,
}

/// What both have in common.
#[derive(Debug, Args)]
pub(crate) struct Setup {
    /// How many servers to start.
    #[arg(long, default_value_t = 5)]
    pub(crate) nodes: usize,
    /// How often every contender has its turn [default: compare 100, frozen 20;
    /// with --short: 4].
    #[arg(long)]
    rounds: Option<usize>,
    /// How long a turn lasts [default: compare 100ms, frozen 500ms; with --short:
    /// 200ms].
    #[arg(long, value_parser = humantime::parse_duration)]
    slice: Option<Duration>,
    /// Ends within some 20 seconds.
    #[arg(long)]
    short: bool,
    /// The tokio runtime of the contenders that need one.
    #[arg(long, value_enum, default_value_t = Flavour::Current)]
    pub(crate) runtime: Flavour,
    /// Prints JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Fails when a bound is missed.
    #[arg(long)]
    pub(crate) check: bool,
}

/// How the time is shared out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Turns {
    pub(crate) rounds: usize,
    pub(crate) slice: Duration,
}

impl ComparePlan {
    /// Many short turns: what else the machine does then hits neighbours alike,
    /// and the median of their ratios comes out the same in every run.
    pub(crate) fn turns(&self) -> Turns {
        self.setup.turns(Turns { rounds: 100, slice: Duration::from_millis(100) })
    }
}

impl FrozenPlan {
    /// Few long turns: a contender that waits for frozen servers makes its turn
    /// last for as long as they stay so.
    pub(crate) fn turns(&self) -> Turns {
        self.setup.turns(Turns { rounds: 20, slice: Duration::from_millis(500) })
    }
}

impl Setup {
    fn turns(&self, usual: Turns) -> Turns {
        let short = Turns { rounds: 4, slice: Duration::from_millis(200) };
        let Turns { rounds, slice } = if self.short { short } else { usual };
        Turns { rounds: self.rounds.unwrap_or(rounds), slice: self.slice.unwrap_or(slice) }
    }

    /// What a reader of the figures must know.
    pub(crate) fn to_json(&self, turns: Turns) -> serde_json::Value {
        serde_json::json!({
            "nodes": self.nodes,
            "rounds": turns.rounds,
            "slice_ms": turns.slice.as_millis(),
            "runtime": self.runtime,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn short_gives_way_to_what_is_spelled_out() {
        let typed = ["redlatch-bench", "compare", "--short", "--rounds", "7"];

        let Task::Compare(plan) = Cli::parse_from(typed).task else {
            panic!("`compare` was typed");
        };

        assert_eq!(plan.turns(), Turns { rounds: 7, slice: Duration::from_millis(200) });
    }
}
