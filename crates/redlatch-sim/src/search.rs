//! Seeded histories of larger worlds.

pub mod client;
pub mod clock;
pub mod dice;
pub mod draw;
pub mod event;
pub mod invariants;
pub mod ledger;
pub mod link;
pub mod schedule;
pub mod server;
pub mod world;

use schedule::Schedule;
use std::process::ExitCode;

/// What was asked for.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// first
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// trace
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(seed) = args.seed {
        let schedule = Schedule::of(seed);
        let outcome = world::play(&schedule, world::Options { trace: true, ..Default::default() });
        println!("{}", outcome.trace.unwrap());
        println!("{:?} {:?}", outcome.violation, outcome.counts);
        return Ok(ExitCode::SUCCESS);
    }
    let mut total = world::Counts::default();
    let mut kinds = std::collections::BTreeMap::new();
    for seed in args.from..args.from + args.seeds {
        let schedule = Schedule::of(seed);
        let outcome = world::play(&schedule, world::Options::default());
        total = total.and(outcome.counts);
        if let Some(v) = outcome.violation {
            println!("{seed} {v:?}");
            *kinds.entry(v.invariant).or_insert(0) += 1;
        }
    }
    println!("{total:?} {kinds:?}");
    Ok(ExitCode::SUCCESS)
}
