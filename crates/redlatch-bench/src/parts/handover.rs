//! One holder, one waiter, in strict turns: from the call of release to the grant.

use super::require_sound;
use crate::{
    entrant::{OURS, RELAY},
    field::{Field, Lane, Shape},
    setting::{Setting, nodes_text, servers},
    spread::Spread,
    table::Table,
    team::{Slice, Style},
};
use std::time::Duration;

const HOLD: Duration = Duration::from_millis(20);

const SHAPES: [Shape; 2] = [Shape::new(1, 2), Shape::new(2, 1)];

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    setting.each(&SHAPES, |shape, nodes| measure_one(setting, shape, nodes))
}

fn measure_one(setting: &Setting, shape: Shape, nodes: usize) -> anyhow::Result<Table> {
    let servers = servers(nodes)?;
    let mut field = Field::default();
    for entrant in [RELAY, OURS].iter().chain(&setting.peers(nodes)) {
        field.enter(entrant, shape, &servers.urls())?;
    }
    let turns = setting.turns((5, 1_000), (3, 200));
    let slice = Slice { style: Style::Strict, ..Slice::new(shape.tasks, HOLD, turns.slice) };
    field.run(turns.rounds, slice)?;
    report(&field, title(shape, nodes))
}

pub(crate) fn title(shape: Shape, nodes: usize) -> String {
    format!("handover: {shape}, {}, held for {HOLD:?}", nodes_text(nodes))
}

fn report(field: &Field, title: String) -> anyhow::Result<Table> {
    let mut table = Table::new(title);
    let ours = field.ours()?;
    let floor = field.floor();
    let over =
        |lane: &Lane, base: &Lane| Spread::of_ratios(lane.handover_each(), base.handover_each());
    for lane in field.lanes() {
        let all = lane.handovers();
        let longest = all.iter().copied().max_by(f64::total_cmp);
        table.row(
            &lane.name,
            vec![
                ("hand-overs", (all.len() as u64).into()),
                ("p50 ms", lane.handover_ms().into()),
                ("longest ms", longest.map(|longest| longest * 1e3).into()),
                ("x floor", floor.and_then(|floor| over(lane, floor)).into()),
                ("x redlatch", over(lane, ours).into()),
                ("gave up", lane.gave_up().into()),
                ("broken", lane.violations().into()),
            ],
        );
    }
    table.at_most("p50 over the floor's", floor.and_then(|floor| over(ours, floor)), 1.5);
    if let Some(peer) = field.best_peer(|lane| Some(-lane.handover_ms()?)) {
        let what = format!("p50 of {}, the best peer, over ours", peer.name);
        table.at_least(&what, over(peer, ours), 50.0);
    }
    require_sound(&mut table, ours);
    Ok(table)
}
