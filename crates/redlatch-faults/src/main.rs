//! Breaks real servers, networks, clocks and clients under load.
//!
//! In:  servers on loopback, started and broken for the run, and worker processes
//!      that count under locks.
//! Out: a history of everything they did, and what the checker finds in it, for
//!      each row of the table of faults.

mod checker;
mod cli;
mod counter_store;
mod crew;
mod dice;
mod disk;
mod history;
mod orders;
mod play;
mod report;
mod scenario;
mod scenarios;
mod scene;
mod tested;
mod vouch;
mod worker;

use crate::{
    cli::{Cli, HistoryPlan, RunPlan, Task},
    play::Player,
    report::{Report, ReportLine},
    scenario::{Part, Row, Scale},
    tested::Tested,
};
use anyhow::Context as _;
use clap::Parser as _;
use std::{collections::BTreeSet, path::Path, process::ExitCode, time::Instant};

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Run(plan) if plan.list => Ok(list()),
        Task::Run(plan) => run(&plan),
        Task::List => Ok(list()),
        Task::Check { dir } => check(&dir),
        Task::History(plan) => history(&plan),
        Task::Worker { orders } => work(&orders),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("redlatch-faults: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(plan: &RunPlan) -> anyhow::Result<bool> {
    let scale = if plan.short { Scale::Short } else { Scale::Full };
    let mut rows = wanted(&plan.only)?;
    if plan.without_tests {
        for row in &mut rows {
            row.parts.retain(|part| !matches!(part, Part::Tests(_)));
        }
    }
    let begin = Instant::now();
    let parts = rows.iter().flat_map(|row| &row.parts);
    let tests: BTreeSet<&str> = parts
        .filter_map(|part| match part {
            Part::Tests(names) => Some(*names),
            _ => None,
        })
        .flatten()
        .copied()
        .collect();
    let tested = Tested::run(&tests)?;
    if plan.without_guard {
        rows.iter_mut().flat_map(|row| &mut row.parts).for_each(Part::drop_guard);
    }
    let player = Player { scale, keep: plan.out.clone(), keep_all: false, tested };
    let lines = rows.iter().flat_map(|row| player.row(row)).collect();
    conclude(&Report::new(scale, begin.elapsed(), lines), &plan.out)
}

fn wanted(only: &[u32]) -> anyhow::Result<Vec<Row>> {
    let mut rows = scenarios::all();
    if let Some(number) = only.iter().find(|number| rows.iter().all(|row| row.number != **number)) {
        anyhow::bail!("there is no row {number}: see `list`");
    }
    rows.retain(|row| only.is_empty() || only.contains(&row.number));
    Ok(rows)
}

fn conclude(report: &Report, out: &Path) -> anyhow::Result<bool> {
    print!("{}", report.text());
    report.save(out).with_context(|| format!("write the report to {}", out.display()))?;
    Ok(report.missed == 0)
}

fn list() -> bool {
    for Row { number, fault, parts } in scenarios::all() {
        let parts: Vec<_> = parts
            .iter()
            .map(|part| match part {
                Part::Load(load) => format!("load: {}", load.what),
                Part::Script(script) => format!("script: {}", script.what),
                Part::Tests(names) => format!("{} tests", names.len()),
            })
            .collect();
        println!("{number:>2}  {fault}  [{}]", parts.join("; "));
    }
    true
}

fn check(dir: &Path) -> anyhow::Result<bool> {
    let tracks = history::read(dir).with_context(|| format!("read {}", dir.display()))?;
    let findings = checker::check(&tracks);
    anyhow::ensure!(findings.tries > 0, "{} holds no history", dir.display());
    let breaches = findings.breaches();
    for breach in &breaches {
        println!("{breach}");
    }
    let clean = breaches.is_empty() && findings.fenced.lost == 0;
    println!("{}", ReportLine::of(&findings, breaches));
    Ok(clean)
}

fn history(plan: &HistoryPlan) -> anyhow::Result<bool> {
    anyhow::ensure!(plan.processes > 0, "some process must take the locks");
    let row = scenarios::history::row(plan.acquires, plan.processes);
    let (keep, keep_all, tested) = (plan.out.clone(), plan.keep, Tested::default());
    let player = Player { scale: Scale::Full, keep, keep_all, tested };
    let begin = Instant::now();
    let lines = player.row(&row);
    conclude(&Report::new(Scale::Full, begin.elapsed(), lines), &plan.out.join("history"))
}

fn work(orders: &str) -> anyhow::Result<bool> {
    worker::run(&serde_json::from_str(orders).context("read the orders")?)?;
    Ok(true)
}
