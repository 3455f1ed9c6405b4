//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Break real servers, networks, clocks and clients under load, and check what the
/// locks did.
#[derive(Debug, Parser)]
#[command(after_help = "Exit status: 0 all as it must be, 1 something is not, 2 wrong usage.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Play the rows of the table of faults
    Run(RunPlan),
    /// List the rows
    List,
    /// Check the history in a directory
    Check {
        /// Where the `*.log` files are
        dir: PathBuf,
    },
    /// Check the order of tokens: many processes, nodes that forget, clocks that
    /// jump
    History(HistoryPlan),
    /// Run as a worker process
    #[command(hide = true)]
    Worker {
        /// Orders as JSON
        orders: String,
    },
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are flags")]
pub(crate) struct RunPlan {
    /// Play each row briefly: all of them in less than three minutes
    #[arg(long)]
    pub(crate) short: bool,
    /// Play only these rows, by number
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<u32>,
    /// Leave out rows shown by tests, which `cargo xtask test` runs anyway
    #[arg(long)]
    pub(crate) without_tests: bool,
    /// Switch the restart guard off: rows about nodes that forget should then miss,
    /// or they are too weak
    #[arg(long)]
    pub(crate) without_guard: bool,
    /// List the rows instead
    #[arg(long)]
    pub(crate) list: bool,
    /// Where the report goes, and the histories of rows that missed
    #[arg(long, default_value = "target/evidence/faults")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryPlan {
    /// How many locks to take in all
    #[arg(long, default_value_t = 100_000)]
    pub(crate) acquires: u64,
    /// How many processes take them
    #[arg(long, default_value_t = 16)]
    pub(crate) processes: u64,
    /// Keep the history even of a clean run
    #[arg(long)]
    pub(crate) keep: bool,
    /// Where the report goes, and the history if it is kept
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
