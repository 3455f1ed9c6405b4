//! Redlatch beside its peers and a bare event loop.
//!
//! In:  real servers on loopback, started for the run; contenders as processes of
//!      their own, which say when each caller asked for, got and released a lock.
//! Out: tables of figures and ratios with their spread, JSON, a plot, and each
//!      bound with what was measured.
//!
//! The machine may be shared: contenders take turns, round by round, and are
//! compared only with what ran in the same round. All that is started ends with
//! this process, however it ends.

mod alone;
mod cli;
mod entrant;
mod exit;
mod field;
mod history;
mod output;
mod parts;
mod peers;
mod setting;
mod spread;
mod table;
mod team;
mod wire;
mod worker;

use self::{
    cli::{Cli, Task},
    exit::Exit,
};
use clap::Parser as _;

fn main() -> Exit {
    let result = match Cli::parse().task {
        Task::Run(plan) => parts::run(&plan),
        Task::Worker(plan) => worker::run(&plan).map(|()| Exit::Met),
        Task::Alone(plan) => alone::run(&plan).map(|()| Exit::Met),
        Task::Hold(plan) => parts::hold(&plan).map(|()| Exit::Met),
    };
    result.unwrap_or_else(|error| {
        eprintln!("redlatch-bench: {error:#}");
        Exit::Failed
    })
}
