//! Answers an operator's questions by simulating the shipped machine.
//!
//! In:  how many nodes where; how many clients, and how often they want locks.
//! Out: how often and how fast they get them, and what that costs: as a table,
//!      as JSON and as a plot.
//!
//! Promise: the same arguments and seed give the same answer. Not modelled: lost
//! packets, garbage collection, disks; see [`topology`] for the network and `load`
//! for the callers.

mod figures;
mod load;
mod plot;
pub mod topology;

use anyhow::ensure;
use figures::Figures;
use redlatch_core::{
    Terms,
    config::{DEFAULT_MAX_TTL, Wanted},
};
use std::{path::PathBuf, process::ExitCode, time::Duration};
use topology::Topology;

#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// How many nodes
    #[arg(long, default_value_t = 5, value_name = "N")]
    nodes: usize,
    /// Where nodes and clients are; without it, all three are compared
    #[arg(long, value_enum)]
    topology: Option<Topology>,
    /// How long a lock lives without renewal
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration, value_name = "D")]
    ttl: Duration,
    /// How many callers
    #[arg(long, default_value_t = 1000, value_name = "N")]
    clients: usize,
    /// How long a caller holds its lock
    #[arg(long, default_value = "10ms", value_parser = humantime::parse_duration, value_name = "D")]
    hold: Duration,
    /// How long a caller pauses before it wants a lock again, on average
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration, value_name = "D")]
    think: Duration,
    /// How long a caller waits for its lock
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration, value_name = "D")]
    wait: Duration,
    /// How many different locks [default: one per client]
    #[arg(long, value_name = "K")]
    locks: Option<usize>,
    /// How many nodes are down
    #[arg(long, default_value_t = 0, value_name = "F")]
    failing: usize,
    /// Without fencing tokens
    #[arg(long)]
    unfenced: bool,
    /// Callers do not wait in line, but try again after random pauses
    #[arg(long)]
    unfair: bool,
    /// How many requests in all [default: 20000, or two per client]
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Draw the latencies as an SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let plan = Plan::check(args)?;
    let topologies = args.topology.map_or(Topology::ALL.to_vec(), |only| vec![only]);
    let figures: Vec<Figures> =
        topologies.iter().map(|topology| simulate(&plan, *topology)).collect();
    if let Some(file) = &args.svg {
        std::fs::write(file, plot::latencies(&plan, &figures))?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        print!("{}", figures::table(&plan, &figures));
    }
    Ok(ExitCode::SUCCESS)
}

/// Arguments that were checked.
#[derive(Debug, Clone)]
pub struct Plan {
    nodes: usize,
    clients: usize,
    locks: usize,
    failing: usize,
    hold: Duration,
    think: Duration,
    wait: Duration,
    terms: Terms,
    fenced: bool,
    fair: bool,
    requests: u64,
    seed: u64,
}

impl Plan {
    fn check(args: &Args) -> anyhow::Result<Plan> {
        ensure!(args.nodes > 0 && args.clients > 0, "there must be a node and a client");
        ensure!(args.failing <= args.nodes, "{} of {} nodes cannot fail", args.failing, args.nodes);
        let locks = args.locks.unwrap_or(args.clients);
        ensure!(locks > 0, "there must be something to lock");
        let max_ttl = DEFAULT_MAX_TTL.max(args.ttl);
        let terms = Terms::check(&Wanted { ttl: args.ttl, max_ttl, ..Wanted::default() })?;
        let clients = u64::try_from(args.clients)?;
        Ok(Plan {
            nodes: args.nodes,
            clients: args.clients,
            locks,
            failing: args.failing,
            hold: args.hold,
            think: args.think,
            wait: args.wait,
            terms,
            fenced: !args.unfenced,
            fair: !args.unfair,
            requests: args.requests.unwrap_or((2 * clients).max(20_000)),
            seed: args.seed,
        })
    }
}

fn simulate(plan: &Plan, topology: Topology) -> Figures {
    let measured = load::run(plan, topology);
    Figures::of(topology, measured)
}
