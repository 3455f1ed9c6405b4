//! From the start of a process to its first lock.

use crate::{
    entrant::{BY_HAND, Entrant, FLOOR, OURS, PLAIN, RSLOCK},
    setting::{Setting, nodes_text, servers},
    spread::Spread,
    table::Table,
    team::{Slice, Team},
    wire::now_ns,
};
use std::time::Duration;

/// For the order to arrive.
const ENOUGH: Duration = Duration::from_millis(200);

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    setting.nodes().iter().map(|nodes| measure_one(setting, *nodes)).collect()
}

fn measure_one(setting: &Setting, nodes: usize) -> anyhow::Result<Table> {
    let servers = servers(nodes)?;
    let own = [FLOOR, PLAIN, OURS, BY_HAND, RSLOCK];
    let entrants: Vec<Entrant> = own.into_iter().chain(setting.drivers(nodes).cloned()).collect();
    let mut times = vec![Vec::new(); entrants.len()];
    for _ in 0..setting.turns((10, 0), (2, 0)).rounds {
        for (entrant, times) in entrants.iter().zip(&mut times) {
            times.push(first_lock(entrant, &servers.urls())?);
        }
    }
    let mut table = Table::new(format!("start: to the first lock, {}", nodes_text(nodes)));
    for (entrant, own) in entrants.iter().zip(&times) {
        table.row(
            entrant.name,
            vec![
                ("ms", Spread::of(own.iter().flatten().copied()).into()),
                ("x floor", Spread::of_ratios(own.clone(), times[0].clone()).into()),
            ],
        );
    }
    Ok(table)
}

/// In milliseconds; `None` if there was none.
fn first_lock(entrant: &Entrant, urls: &[String]) -> anyhow::Result<Option<f64>> {
    let began = now_ns();
    let mut team = Team::start(entrant, 1, urls)?;
    let history = team.run(Slice { at_once: true, ..Slice::own(1, ENOUGH) })?;
    let took = history.first_grant().map(|granted| Duration::from_nanos(granted - began));
    Ok(took.map(|took| took.as_secs_f64() * 1e3))
}
