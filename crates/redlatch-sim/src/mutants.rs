//! Plants each known mistake and checks that the model or the search catches it.
//!
//! In:  the mutants, each with the scenario or the seeds it is hunted in.
//! Out: a table and, for each mutant, a history in which it breaks a promise, in
//!      `target/evidence/mutants/`, as a table and a sequence diagram. The model
//!      finds the shortest one; histories from seeds are shrunk.
//!
//! The feature `mutants` compiles the core's mistakes in; without it, the command
//! runs itself again with it. `prove` and `search` show that the same scenarios and
//! seeds hold without the mistake.

use crate::{
    evidence, model,
    node::Habits,
    search::{
        self,
        schedule::Schedule,
        world::{Options, Slip},
    },
    svg,
    trace::Trace,
};
use clap::Args as ClapArgs;
use std::{
    process::{Command, ExitCode},
    time::Instant,
};

mod list;

use list::Planted;
pub use list::{ALL, Hunt, Mutant, Plant};

/// A diagram with more steps than this is no help.
const MOST_DRAWN: usize = 2_000;

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Only this mutant (repeatable)
    #[arg(long, value_name = "NAME")]
    mutant: Vec<String>,
}

pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    if !cfg!(feature = "mutants") {
        return again(args);
    }
    let mut missed = 0;
    let wanted = |mutant: &Mutant| {
        args.mutant.is_empty() || args.mutant.iter().any(|name| name == mutant.name)
    };
    println!("{}", row(["mutant", "found in", "breaks", "steps", "tried", "seconds"]));
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
    let start = Instant::now();
    let planted = mutant.plant.split();
    plant(planted.core);
    let caught = match mutant.hunt {
        Hunt::Model(scenario) => by_model(scenario, planted)?,
        Hunt::Seeds(from, count) => by_seeds(from, count, planted),
    };
    plant(None);
    let seconds = format!("{:.1}", start.elapsed().as_secs_f64());
    let (steps, tried) = (caught.steps.to_string(), caught.tried.to_string());
    let Some((broken, trace)) = caught.broken else {
        println!("{}", row([mutant.name, &caught.place, "NOT CAUGHT", "", &tried, &seconds]));
        return Ok(false);
    };
    println!("{}", row([mutant.name, &caught.place, &broken, &steps, &tried, &seconds]));
    let text = format!("Mutant: {}.\n\n{trace}", mutant.about);
    let path = evidence::write("mutants", mutant.name, &text)?;
    if trace.steps.len() <= MOST_DRAWN {
        std::fs::write(path.with_extension("svg"), svg::sequence(&trace))?;
    }
    Ok(true)
}

fn row([name, place, breaks, steps, tried, seconds]: [&str; 6]) -> String {
    format!("{name:<24} {place:<18} {breaks:<32} {steps:>6} {tried:>9} {seconds:>8}")
}

struct Caught {
    /// The scenario, or the seed.
    place: String,
    broken: Option<(String, Trace)>,
    steps: usize,
    /// How many states, or seeds.
    tried: u64,
}

fn by_model(scenario: &str, planted: Planted) -> anyhow::Result<Caught> {
    let Planted { flaw, undos_overtake, .. } = planted;
    let one_clock = planted.slip == Some(Slip::OneClock);
    let mistake = model::Mistake { flaw, undos_overtake, one_clock };
    let outcome = model::hunt(&model::scenario(scenario)?, mistake);
    let steps = outcome.broken.as_ref().map_or(0, |broken| broken.steps);
    let broken = outcome.broken.map(|broken| (broken.property.to_string(), broken.trace));
    Ok(Caught { place: scenario.to_owned(), broken, steps, tried: outcome.states })
}

/// Finds the first seed that breaks a promise and shrinks it.
fn by_seeds(from: u64, count: u64, planted: Planted) -> Caught {
    let habits = Habits { flaw: planted.flaw, ..Habits::default() };
    let options = Options { habits, slip: planted.slip, ..Options::default() };
    for seed in from..from + count {
        let schedule = Schedule::of(seed);
        let Some(violation) = search::play_safely(&schedule, options).violation else { continue };
        let small = search::shrink_to(&schedule, &violation, options);
        let traced = search::play_safely(&small, Options { trace: true, ..options });
        let trace = traced.trace.unwrap_or_default();
        let (place, steps) = (format!("seed {seed}"), trace.steps.len());
        let broken = Some((violation.invariant.to_owned(), trace));
        return Caught { place, broken, steps, tried: seed - from + 1 };
    }
    Caught { place: "seeds".into(), broken: None, steps: 0, tried: count }
}

#[cfg(feature = "mutants")]
fn plant(mutant: Option<redlatch_core::mutant::Mutant>) {
    redlatch_core::mutant::plant(mutant);
}

#[cfg(not(feature = "mutants"))]
fn plant(_: Option<redlatch_core::mutant::Mutant>) {}

/// Runs the same command with the mutants compiled in.
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
