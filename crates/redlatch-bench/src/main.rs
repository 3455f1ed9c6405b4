//! Redlatch beside its peers and a bare event loop.
//!
//! In:  real servers on loopback, started for the run.
//! Out: each contender's speed as a ratio to the floor, with its spread.
//!
//! The machine may be shared: contenders take turns in short slices, many
//! rounds long, and are compared only with what ran in the same round.

mod cli;
mod compare;
mod contended;
mod contender;
mod exit;
mod frozen;
mod many;
mod memory;
mod rounds;
mod series;
mod spread;

use self::{
    cli::{Cli, Task},
    exit::Exit,
};
use clap::Parser as _;

fn main() -> Exit {
    let result = match Cli::parse().task {
        Task::Compare(plan) => compare::run(&plan),
        Task::Frozen(plan) => frozen::run(&plan),
        Task::Rounds(plan) => rounds::run(&plan),
        Task::Memory(plan) => memory::run(&plan),
        Task::Many(plan) => many::run(&plan),
        Task::Contended(plan) => contended::run(&plan),
        Task::ContendedWorker(plan) => contended::work(&plan).map(|()| Exit::Met),
        Task::ContendedHold(plan) => contended::hold(&plan).map(|()| Exit::Met),
    };
    result.unwrap_or_else(|error| {
        eprintln!("redlatch-bench: {error:#}");
        Exit::Failed
    })
}
