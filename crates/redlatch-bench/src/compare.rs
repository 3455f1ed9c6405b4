//! All contenders on healthy servers, with few callers and with many.

mod bounds;
mod row;

use self::row::{Row, Table};
use crate::{
    cli::{ComparePlan, Turns},
    contender::{self, Contender, Load, SETTLE},
    exit::Exit,
    series::Series,
};
use anyhow::ensure;
use redlatch_testbed::Servers;
use serde_json::json;

/// One contender under one load.
struct Entry {
    contender: &'static str,
    tasks: usize,
    series: Series,
}

pub(crate) fn run(plan: &ComparePlan) -> anyhow::Result<Exit> {
    let turns = plan.turns();
    ensure!(turns.rounds > 0 && !plan.tasks.contains(&0), "nothing to measure");
    let servers = Servers::start(plan.setup.nodes)?;
    let mut contenders = contender::all(&servers.urls(), plan.setup.runtime)?;
    let mut rows = Vec::new();
    for entries in measure(plan, &mut contenders)? {
        rows.extend(Row::of_each(&entries));
    }
    if plan.setup.json {
        println!("{:#}", json!({ "setup": plan.setup.to_json(turns), "rows": rows }));
    } else {
        print!("{}", Table(&rows));
    }
    if plan.setup.check {
        return Ok(Exit::of(&bounds::missed(plan, &rows)));
    }
    Ok(Exit::Met)
}

/// The entries of each load, in the order of the plan.
fn measure(
    plan: &ComparePlan,
    contenders: &mut [Box<dyn Contender>],
) -> anyhow::Result<Vec<Vec<Entry>>> {
    let mut loads: Vec<Vec<Entry>> = plan
        .tasks
        .iter()
        .map(|&tasks| contenders.iter().map(|one| Entry::new(one.name(), tasks)).collect())
        .collect();
    let Turns { rounds, slice } = plan.turns();
    // The first round warms up and is forgotten.
    for round in 0..=rounds {
        for entries in &mut loads {
            for turn in 0..contenders.len() {
                // Somebody else begins each time: nobody always follows the same.
                let index = (round + turn) % contenders.len();
                let (entry, contender) = (&mut entries[index], &mut contenders[index]);
                let load = Load { tasks: entry.tasks, slice, limit: None };
                entry.series.measure(contender.as_mut(), load)?;
                contender.settle(SETTLE)?;
                if round == 0 {
                    entry.series = Series::new();
                }
            }
        }
    }
    Ok(loads)
}

impl Entry {
    fn new(contender: &'static str, tasks: usize) -> Self {
        Self { contender, tasks, series: Series::new() }
    }
}
