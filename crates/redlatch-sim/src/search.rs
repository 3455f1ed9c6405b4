//! Seeded histories of larger worlds.
//!
//! In:  seeds, or a schedule in a file.
//! Out: the broken promises, if any, each with the command that replays it, the
//!      shrunk schedule, its trace and a diagram.
//!
//! Promise: the seed decides everything. Each client process runs the shipped
//! [`Machine`](redlatch_core::Machine) on virtual nodes, connections and clocks. In
//! the first phase things go wrong, and safety is checked at every step; in the
//! second nothing goes wrong, and every client must get a lock once more.

pub mod client;
pub mod clock;
pub mod draw;
pub mod event;
pub mod invariants;
pub mod leases;
pub mod link;
mod many;
pub mod memory;
mod report;
pub mod schedule;
pub mod server;
pub mod shrink;
pub mod world;

use anyhow::Context;
use invariants::Violation;
use schedule::Schedule;
use std::{path::PathBuf, process::ExitCode};
use world::{Options, Outcome, play};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many seeds
    #[arg(long, default_value_t = 1000, value_name = "N")]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0, value_name = "S")]
    from: u64,
    /// A search that takes seconds: 400 seeds
    #[arg(long, conflicts_with = "seeds")]
    short: bool,
    /// Play only this seed and print its history
    #[arg(long, value_name = "S", conflicts_with_all = ["seeds", "short", "from"])]
    seed: Option<u64>,
    /// Play the schedule in this file and print its history
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "short", "from", "seed"])]
    schedule: Option<PathBuf>,
    /// Write the schedule to this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Where schedules, traces and diagrams of failures go
    #[arg(long, default_value = "target/evidence/search", value_name = "DIR")]
    evidence: PathBuf,
}

const SHORT: u64 = 400;

pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let one = match (args.seed, &args.schedule) {
        (Some(seed), _) => Some(Schedule::of(seed)),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("{} cannot be read", file.display()))?;
            Some(Schedule::from_text(&text)?)
        }
        (None, None) => None,
    };
    if let (Some(file), Some(schedule)) = (&args.save, &one) {
        std::fs::write(file, schedule.to_text()?)?;
    }
    let failed = if let Some(schedule) = one {
        report::one(&schedule, &args.evidence)?
    } else {
        let seeds = if args.short { SHORT } else { args.seeds };
        let found = many::search(args.from..args.from.saturating_add(seeds))?;
        report::many(&found, &args.evidence)?
    };
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Shrinks the schedule to what still breaks the same promise.
pub fn shrink_to(schedule: &Schedule, violation: &Violation, options: Options) -> Schedule {
    let broken = |candidate: &Schedule| {
        let found = play_safely(candidate, options).violation;
        found.is_some_and(|found| found.invariant == violation.invariant)
    };
    shrink::shrink(schedule, &broken)
}

/// Plays a schedule; a panic counts as a broken promise.
pub fn play_safely(schedule: &Schedule, options: Options) -> Outcome {
    let played = std::panic::catch_unwind(|| play(schedule, options));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let what = text.unwrap_or_else(|| "no words".to_owned());
        let at = redlatch_core::Moment::START;
        let violation = Some(Violation { invariant: "no panic", at, what });
        Outcome { violation, counts: world::Counts::default(), trace: None }
    })
}
