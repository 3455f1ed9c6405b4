//! The command `prove`.

use super::{
    explore,
    scenario::Scenario,
    scenarios,
    world::{Setting, World},
};
use std::{process::ExitCode, rc::Rc, time::Instant};

/// What was asked for.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this one
    #[arg(long)]
    scenario: Option<String>,
    #[arg(long, default_value_t = 1_000_000_000)]
    most: usize,
}

/// Proves.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    for scenario in scenarios::all() {
        if args.scenario.as_ref().is_some_and(|name| name != scenario.name) {
            continue;
        }
        one(&scenario, args.most);
    }
    Ok(ExitCode::SUCCESS)
}

fn one(scenario: &Scenario, most: usize) {
    let start = Instant::now();
    let setting = Rc::new(Setting::new(scenario.clone(), None, false));
    let world = World::new(setting);
    let found = explore::depth_first(world.clone(), scenario.promises, most);
    let secs = start.elapsed().as_secs_f64();
    println!(
        "{} states {} transitions {} {secs:.1}s {:.0}/s {:?} {:?}",
        scenario.name,
        found.states,
        found.transitions,
        found.transitions as f64 / secs,
        found.marks,
        found.violation
    );
    if found.violation.is_some() {
        let found = explore::breadth_first(world.clone(), scenario.promises, 5_000_000);
        if let Some(v) = found.violation {
            println!("{}", super::history::trace(scenario.about.into(), &world, &v.steps, &v.text));
        }
    }
}
