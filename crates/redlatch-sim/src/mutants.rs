//! Not built yet.

use std::process::ExitCode;

/// What was asked for.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Says that there is nothing yet.
pub fn main(_: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`mutants` is not built yet")
}
