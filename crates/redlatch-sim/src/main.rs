//! The command `redlatch-sim`: proofs, mutants, searches and plans.

use clap::{Parser, Subcommand};
use redlatch_sim::{model, mutants, plan, search};
use std::process::ExitCode;

/// Drive the shipped core of Redlatch through every history of small worlds and
/// through many of larger ones.
#[derive(Parser)]
#[command(
    name = "redlatch-sim",
    after_help = "Exit codes: 0 as expected, 1 not as expected, 2 wrong usage"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Search every history of each scenario and check every promise
    Prove(model::Args),
    /// Plant each known mistake and check that it is caught
    Mutants(mutants::Args),
    /// Search seeded histories of larger worlds
    Search(search::Args),
    /// Answer an operator's questions about nodes, regions and load by simulation
    Plan(plan::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Prove(args) => model::main(&args),
        Command::Mutants(args) => mutants::main(&args),
        Command::Search(args) => search::main(&args),
        Command::Plan(args) => plan::main(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("redlatch-sim: {error:#}");
        ExitCode::FAILURE
    })
}
