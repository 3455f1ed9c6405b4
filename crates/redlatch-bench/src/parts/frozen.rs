//! What a frozen minority does to hand-overs.
//!
//! The servers end with this process, thawed or not, however it ends.

use crate::{
    entrant::OURS,
    field::Shape,
    history::History,
    setting::{Setting, servers},
    spread::{Spread, median},
    table::Table,
    team::{Slice, Style, Team},
};
use std::time::Duration;

const NODES: usize = 5;
const FROZEN: usize = 2;
const HOLD: Duration = Duration::from_millis(20);
/// How long thawed servers may take to work off what has piled up.
const CATCH_UP: Duration = Duration::from_millis(200);

const SHAPES: [Shape; 2] = [Shape::new(1, 2), Shape::new(2, 1)];

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    setting.shapes(&SHAPES).iter().map(|shape| measure_one(setting, *shape)).collect()
}

fn measure_one(setting: &Setting, shape: Shape) -> anyhow::Result<Table> {
    let servers = servers(NODES)?;
    let mut team = Team::start(&OURS, shape.processes, &servers.urls())?;
    let turns = setting.turns((5, 1_000), (3, 200));
    let slice = Slice { style: Style::Strict, ..Slice::new(shape.tasks, HOLD, turns.slice) };
    team.run(Slice { span: Duration::from_millis(100), ..slice })?;
    let (mut healthy, mut frozen) = (Vec::new(), Vec::new());
    for round in 0..turns.rounds {
        // Other servers each time: nothing depends on where one stands.
        let some: Vec<usize> = (0..FROZEN).map(|n| (round + n) % NODES).collect();
        healthy.push(team.run(slice)?);
        servers.freeze(&some);
        let measured = team.run(slice);
        servers.thaw(&some);
        frozen.push(measured?);
        std::thread::sleep(CATCH_UP);
    }

    let title = format!("frozen: {shape}, {FROZEN} of {NODES} nodes stopped, held for {HOLD:?}");
    let mut table = Table::new(title);
    let each = |rounds: &[History]| -> Vec<Option<f64>> {
        rounds.iter().map(|round| median(round.handovers())).collect()
    };
    let ratio = Spread::of_ratios(each(&frozen), each(&healthy));
    for (name, rounds, ratio) in [("all up", &healthy, None), ("frozen", &frozen, ratio)] {
        let all: Vec<f64> = rounds.iter().flat_map(History::handovers).collect();
        let broken: u64 = rounds.iter().map(History::violations).sum();
        let gave_up: u64 = rounds.iter().map(|round| round.gave_up).sum();
        table.row(
            name,
            vec![
                ("hand-overs", (all.len() as u64).into()),
                ("p50 ms", median(all).map(|p50| p50 * 1e3).into()),
                ("x all up", ratio.into()),
                ("gave up", gave_up.into()),
                ("broken", broken.into()),
            ],
        );
        table.never(&format!("{name}: two holders at once"), broken);
        table.never(&format!("{name}: a request gave up"), gave_up);
    }
    table.at_most("p50 over that with all up", ratio, 1.5);
    Ok(table)
}
