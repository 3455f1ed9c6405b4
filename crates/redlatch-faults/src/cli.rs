//! What was typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Breaks real servers, networks, clocks and clients under load, and checks
/// what the locks did.
#[derive(Debug, Parser)]
#[command(after_help = "Exit status: 0 all as it must be, 1 something is not, 2 wrong usage.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Plays the rows of the table of faults.
    Run(RunPlan),
    /// Lists the rows.
    List,
    /// Checks the history in a directory.
    Check {
        /// Where the `*.log` files are.
        dir: PathBuf,
    },
    /// Many processes, nodes that forget, clocks that jump: are tokens in order?
    History(HistoryPlan),
    /// What a worker process runs.
    #[command(hide = true)]
    Worker {
        /// JSON.
        orders: String,
    },
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are flags")]
pub(crate) struct RunPlan {
    /// Plays each row briefly: all of them in less than three minutes.
    #[arg(long)]
    pub(crate) short: bool,
    /// Plays these rows alone, by number.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<u32>,
    /// Leaves out what is shown by tests, which `cargo xtask test` runs anyway.
    #[arg(long)]
    pub(crate) without_tests: bool,
    /// Switches the restart guard off: rows about nodes that forget should miss,
    /// or they are too weak.
    #[arg(long)]
    pub(crate) without_guard: bool,
    /// Lists the rows instead.
    #[arg(long)]
    pub(crate) list: bool,
    /// Where the report goes, and the histories of rows that missed.
    #[arg(long, default_value = "target/evidence/faults")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryPlan {
    /// How many locks are taken in all.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) acquires: u64,
    /// By how many processes.
    #[arg(long, default_value_t = 16)]
    pub(crate) processes: u64,
    /// Keeps the history also if all is as it must be.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Where the report goes, and the history if it is not as it must be.
    #[arg(long, default_value = "target/evidence/faults")]
    pub(crate) out: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        Cli::command().debug_assert();
    }
}
