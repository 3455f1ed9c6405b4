//! Each known way to get it wrong, planted, and caught by the model.
//!
//! In:  the mutants and, for each, the scenario it is hunted in.
//! Out: a table, and for each mutant the shortest history in which it breaks a
//!      promise, in `target/evidence/mutants/`: a table, and a sequence diagram.
//!
//! Mistakes of the core are compiled in by the feature `mutants`; without it
//! the command runs itself again with it. `prove` shows that the same scenarios
//! hold without the mistake.

use crate::{evidence, model, svg};
use clap::Args as ClapArgs;
use std::process::{Command, ExitCode};

mod list;

pub use list::{ALL, Mutant, Plant};

/// What was asked for.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Only this mutant (repeatable)
    #[arg(long, value_name = "NAME")]
    mutant: Vec<String>,
}

/// Plants them one by one.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    if !cfg!(feature = "mutants") {
        return again(args);
    }
    let mut missed = 0;
    let wanted = |mutant: &Mutant| {
        args.mutant.is_empty() || args.mutant.iter().any(|name| name == mutant.name)
    };
    println!(
        "{:<26} {:<18} {:<16} {:>5} {:>9} {:>8}",
        "mutant", "scenario", "breaks", "steps", "states", "seconds"
    );
    for mutant in ALL.iter().filter(|mutant| wanted(mutant)) {
        missed += u32::from(!is_caught(mutant)?);
    }
    println!(
        "{}",
        if missed == 0 { "every mutant is caught".into() } else { format!("{missed} NOT caught") }
    );
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_caught(mutant: &Mutant) -> anyhow::Result<bool> {
    let outcome = hunt(mutant)?;
    let seconds = outcome.took.as_secs_f64();
    let (name, scenario, states) = (mutant.name, mutant.scenario, outcome.states);
    let Some(broken) = outcome.broken else {
        println!(
            "{name:<26} {scenario:<18} {:<16} {:>5} {states:>9} {seconds:>8.1}",
            "NOT CAUGHT", ""
        );
        return Ok(false);
    };
    let (property, steps) = (broken.property, broken.steps);
    println!("{name:<26} {scenario:<18} {property:<16} {steps:>5} {states:>9} {seconds:>8.1}");
    let text = format!("Mutant: {}.\n\n{}", mutant.about, broken.trace);
    let path = evidence::write("mutants", name, &text)?;
    std::fs::write(path.with_extension("svg"), svg::sequence(&broken.trace))?;
    Ok(true)
}

fn hunt(mutant: &Mutant) -> anyhow::Result<model::Outcome> {
    let scenario = model::scenario(mutant.scenario)?;
    let (core, mistake) = mutant.plant.split();
    plant(core);
    let outcome = model::hunt(&scenario, mistake);
    plant(None);
    Ok(outcome)
}

#[cfg(feature = "mutants")]
fn plant(mutant: Option<redlatch_core::mutant::Mutant>) {
    redlatch_core::mutant::plant(mutant);
}

#[cfg(not(feature = "mutants"))]
fn plant(_: Option<redlatch_core::mutant::Mutant>) {}

/// Runs the same command with the mistakes compiled in.
fn again(args: &Args) -> anyhow::Result<ExitCode> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = evidence::root();
    let mut command = Command::new(cargo);
    command.current_dir(&root).args(["run", "--quiet", "--release", "-p", "redlatch-sim"]);
    command.args(["--features", "mutants", "--target-dir"]).arg(root.join("target/mutants"));
    command.args(["--", "mutants"]);
    for name in &args.mutant {
        command.args(["--mutant", name]);
    }
    let status = command.status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
