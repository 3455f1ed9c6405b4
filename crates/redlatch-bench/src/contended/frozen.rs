//! What a frozen minority does to hand-overs.
//!
//! The servers end with this process, thawed or not, however it ends.

use super::{
    Setting,
    entrant::Entrant,
    field::Shape,
    history::{History, p50},
    report::{Quartiles, Table},
    team::{Slice, Team},
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
    let servers = super::servers(NODES)?;
    let mut team = Team::start(&Entrant::ours(), shape.processes, &servers.urls())?;
    let slice = Slice { strict: true, ..Slice::new(shape.tasks, HOLD, setting.plan.slice()) };
    team.run(Slice { span: Duration::from_millis(100), ..slice })?;
    let (mut healthy, mut frozen) = (Vec::new(), Vec::new());
    for round in 0..setting.plan.rounds() {
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
        rounds.iter().map(|round| p50(&round.handovers())).collect()
    };
    let ratio = Quartiles::of_ratios(each(&frozen), each(&healthy));
    for (name, rounds, ratio) in [("all up", &healthy, None), ("frozen", &frozen, ratio)] {
        let all: Vec<f64> = rounds.iter().flat_map(History::handovers).collect();
        let broken: u64 = rounds.iter().map(History::violations).sum();
        let gave_up: u64 = rounds.iter().map(|round| round.gave_up).sum();
        table.row(
            name,
            vec![
                ("hand-overs", (all.len() as u64).into()),
                ("p50 ms", p50(&all).map(|p50| p50 * 1e3).into()),
                ("x all up", ratio.into()),
                ("gave up", gave_up.into()),
                ("broken", broken.into()),
            ],
        );
        table.require(broken == 0, format_args!("{name}: {broken} times there were two holders"));
        table.require(gave_up == 0, format_args!("{name}: {gave_up} requests gave up"));
    }
    table.at_most("p50 over that with all up", ratio, setting.plan.bounds.max_frozen);
    Ok(table)
}
