//! What a frozen minority costs: acquire with some servers stopped against
//! acquire with all of them up, in turns.
//!
//! The servers end with this process, thawed or not, however it ends.

use crate::{
    cli::{FrozenPlan, Turns},
    contender::{self, Contender, Load, SETTLE, redlatch},
    exit::Exit,
    series::{Quantiles, Series, Slice, microseconds},
    spread::Spread,
};
use anyhow::ensure;
use redlatch_testbed::Servers;
use serde::Serialize;
use serde_json::json;
use std::{fmt, time::Duration};

/// How long thawed servers may take to work off what has piled up.
const CATCH_UP: Duration = Duration::from_millis(100);

pub(crate) fn run(plan: &FrozenPlan) -> anyhow::Result<Exit> {
    let nodes = plan.setup.nodes;
    ensure!(plan.frozen * 2 < nodes, "{} of {nodes} servers are no minority", plan.frozen);
    let turns = plan.turns();
    ensure!(turns.rounds > 0 && plan.tasks > 0, "nothing to measure");
    let servers = Servers::start(nodes)?;
    let mut contenders = contender::all(&servers.urls(), plan.setup.runtime)?;
    let rows: Vec<Row> = measure(plan, &servers, &mut contenders)?.iter().map(Row::new).collect();
    if plan.setup.json {
        let setup = plan.setup.to_json(turns);
        let report = json!({ "setup": setup, "frozen": plan.frozen, "rows": rows });
        println!("{report:#}");
    } else {
        println!(
            "acquire, {} of {nodes} servers frozen; ratios of p99, less is better",
            plan.frozen
        );
        println!("{}", Row::HEAD);
        for row in &rows {
            println!("{row}");
        }
    }
    if plan.setup.check {
        return Ok(Exit::of(&missed(plan, &rows)));
    }
    Ok(Exit::Met)
}

/// One contender with all servers up and with some frozen.
struct Entry {
    contender: &'static str,
    healthy: Series,
    frozen: Series,
}

fn measure(
    plan: &FrozenPlan,
    servers: &Servers,
    contenders: &mut [Box<dyn Contender>],
) -> anyhow::Result<Vec<Entry>> {
    let Turns { rounds, slice } = plan.turns();
    let load = Load { tasks: plan.tasks, slice, limit: Some(plan.limit) };
    let mut entries: Vec<Entry> = contenders.iter().map(|one| Entry::new(one.name())).collect();
    for contender in contenders.iter_mut() {
        contender.run(load)?;
    }
    for round in 0..rounds {
        // Other servers each time: no contender depends on where one stands.
        let some: Vec<usize> = (0..plan.frozen).map(|n| (round + n) % servers.len()).collect();
        for (contender, entry) in contenders.iter_mut().zip(&mut entries) {
            entry.healthy.measure(contender.as_mut(), load)?;
            contender.settle(SETTLE)?;
            servers.freeze(&some);
            let measured = entry.frozen.measure(contender.as_mut(), load);
            servers.thaw(&some);
            measured?;
            contender.settle(CATCH_UP)?;
        }
    }
    Ok(entries)
}

impl Entry {
    fn new(contender: &'static str) -> Self {
        Self { contender, healthy: Series::new(), frozen: Series::new() }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    contender: &'static str,
    healthy_p50_us: Option<f64>,
    healthy_p99_us: Option<f64>,
    frozen_p50_us: Option<f64>,
    frozen_p99_us: Option<f64>,
    /// p99 with frozen servers over p99 without, round by round.
    p99_ratio: Option<Spread>,
    healthy_failures: u64,
    frozen_failures: u64,
}

impl Row {
    const HEAD: &str = "contender       up: p50 µs    p99 µs  frozen: p50 µs    p99 µs  ratio of p99        failed";

    fn new(entry: &Entry) -> Self {
        let p99 = |slice: &Slice| Some(microseconds(slice.acquire?.p99));
        let p50_of = |acquire: Option<Quantiles>| Some(microseconds(acquire?.p50));
        let p99_of = |acquire: Option<Quantiles>| Some(microseconds(acquire?.p99));
        let (healthy, frozen) = (entry.healthy.acquire(), entry.frozen.acquire());
        Self {
            contender: entry.contender,
            healthy_p50_us: p50_of(healthy),
            healthy_p99_us: p99_of(healthy),
            frozen_p50_us: p50_of(frozen),
            frozen_p99_us: p99_of(frozen),
            p99_ratio: Spread::of_ratios(entry.frozen.each(p99), entry.healthy.each(p99)),
            healthy_failures: entry.healthy.failures,
            frozen_failures: entry.frozen.failures,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |time: Option<f64>| time.map_or("–".to_owned(), |time| format!("{time:.1}"));
        write!(
            f,
            "{:<15} {:>10} {:>9} {:>15} {:>9}  {:<18} {:>7}",
            self.contender,
            time(self.healthy_p50_us),
            time(self.healthy_p99_us),
            time(self.frozen_p50_us),
            time(self.frozen_p99_us),
            self.p99_ratio.map_or("–".to_owned(), |ratio| ratio.to_string()),
            self.healthy_failures + self.frozen_failures,
        )
    }
}

/// One sentence for each bound that redlatch missed.
fn missed(plan: &FrozenPlan, rows: &[Row]) -> Vec<String> {
    let Some(row) = rows.iter().find(|row| row.contender == redlatch::NAME) else {
        return vec!["redlatch was not measured".to_owned()];
    };
    let mut missed = Vec::new();
    let failures = row.healthy_failures + row.frozen_failures;
    if failures > 0 {
        missed.push(format!("{failures} cycles failed"));
    }
    match row.p99_ratio {
        Some(ratio) if ratio.median <= plan.max_p99 => {}
        Some(ratio) => {
            missed.push(format!("p99 grows {ratio} times, allowed are {}", plan.max_p99));
        }
        None => missed.push("no lock while servers were frozen".to_owned()),
    }
    missed
}
