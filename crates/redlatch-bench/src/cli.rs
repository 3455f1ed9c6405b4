//! What was typed.

use crate::{
    alone::AlonePlan,
    parts::{HoldPlan, Part},
    worker::WorkerPlan,
};
use clap::{Args, Parser, Subcommand};

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
    /// Measures all of it, or some parts.
    Run(Plan),
    /// A contender, in a process of its own.
    #[command(hide = true)]
    Worker(WorkerPlan),
    /// A measurement of this process's own memory and processor time.
    #[command(hide = true)]
    Alone(AlonePlan),
    /// A command under a lock.
    #[command(hide = true)]
    Hold(HoldPlan),
}

#[derive(Debug, Default, Args)]
pub(crate) struct Plan {
    /// Measures these parts only.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Few rounds of everything, less than three minutes in all.
    #[arg(long)]
    pub(crate) short: bool,
    /// Prints every bound with what was measured, and fails when one is missed.
    #[arg(long)]
    pub(crate) check: bool,
    /// Puts figures and plot into `docs`, and the table into the README.
    #[arg(long, conflicts_with = "only")]
    pub(crate) write: bool,
}

impl Plan {
    pub(crate) fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn half_a_run_is_not_published() {
        let typed = ["redlatch-bench", "run", "--only", "handover", "--write"];

        assert!(Cli::try_parse_from(typed).is_err());
    }
}
