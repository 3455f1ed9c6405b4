//! The command `prove`.

use super::{
    check::{Outcome, prove_within},
    scenario::{Expect, Scenario},
    scenarios,
};
use crate::evidence;
use anyhow::bail;
use std::{
    process::ExitCode,
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only the small scenarios
    #[arg(long)]
    short: bool,
    /// Only this scenario (repeatable)
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    /// List the scenarios and stop
    #[arg(long)]
    list: bool,
    /// How many scenarios to search at once [default: one per core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Give up on a scenario after this many states
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    most: usize,
}

pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let chosen = choose(args)?;
    if args.list {
        for scenario in &chosen {
            println!("{:<20} {:>10}  {}", scenario.name, scenario.states, scenario.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let start = Instant::now();
    println!("{:<20} {:>12} {:>12} {:>8}  verdict", "scenario", "states", "transitions", "seconds");
    let outcomes = search_all(&chosen, args.jobs.unwrap_or(cores), args.most);
    let states: u64 = outcomes.iter().map(|outcome| outcome.states).sum();
    let transitions: u64 = outcomes.iter().map(|outcome| outcome.transitions).sum();
    let seconds = start.elapsed().as_secs_f64();
    let wrong = outcomes.iter().filter(|outcome| !outcome.complaints.is_empty()).count();
    let verdict =
        if wrong == 0 { "as expected".into() } else { format!("{wrong} NOT as expected") };
    println!("{:<20} {states:>12} {transitions:>12} {seconds:>8.1}  {verdict}", "in all");
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn choose(args: &Args) -> anyhow::Result<Vec<Scenario>> {
    let mut all = scenarios::all();
    for name in &args.scenario {
        if !all.iter().any(|scenario| scenario.name == name) {
            bail!("there is no scenario `{name}`; --list shows all");
        }
    }
    all.retain(|scenario| {
        let named = args.scenario.iter().any(|name| name == scenario.name);
        named || args.scenario.is_empty() && (scenario.is_short() || !args.short)
    });
    Ok(all)
}

/// Starts with the largest, so that no core idles for long at the end.
fn search_all(scenarios: &[Scenario], jobs: usize, most: usize) -> Vec<Outcome> {
    let mut open: Vec<&Scenario> = scenarios.iter().collect();
    open.sort_by_key(|scenario| scenario.states);
    let open = Mutex::new(open);
    let next = || open.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let work = || {
        let mut outcomes = Vec::new();
        while let Some(scenario) = next() {
            let outcome = prove_within(scenario, most);
            report(scenario, &outcome);
            outcomes.push(outcome);
        }
        outcomes
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("no search panics"));
        joined.flatten().collect()
    })
}

fn report(scenario: &Scenario, outcome: &Outcome) {
    let verdict = match (&outcome.complaints[..], scenario.expect) {
        ([], Expect::Holds) => "holds".to_owned(),
        ([], Expect::Broken(property)) => format!("{property} is broken, as expected"),
        (complaints, _) => format!("NOT AS EXPECTED: {}", complaints.join("; ")),
    };
    let seconds = outcome.took.as_secs_f64();
    let Outcome { states, transitions, .. } = outcome;
    println!("{:<20} {states:>12} {transitions:>12} {seconds:>8.1}  {verdict}", scenario.name);
    if let Some(broken) = &outcome.broken {
        match evidence::write("prove", scenario.name, &broken.trace.to_string()) {
            Ok(path) => {
                let shown = path.strip_prefix(evidence::root()).unwrap_or(&path);
                println!("{:<20} {}", "", shown.display());
            }
            Err(error) => eprintln!("{error:#}\n\n{}", broken.trace),
        }
    }
}
