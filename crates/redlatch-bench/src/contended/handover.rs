//! One holder, one waiter, in strict turns: from the call of release to the grant.

use super::{
    Setting,
    entrant::{Entrant, Role},
    field::{Field, Lane, Shape},
    history::p50,
    nodes_text,
    report::{Quartiles, Table},
    team::Slice,
};
use std::time::Duration;

const HOLD: Duration = Duration::from_millis(20);

const SHAPES: [Shape; 2] = [Shape::new(1, 2), Shape::new(2, 1)];

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    setting.each(&SHAPES, |shape, nodes| measure_one(setting, shape, nodes))
}

fn measure_one(setting: &Setting, shape: Shape, nodes: usize) -> anyhow::Result<Table> {
    let servers = super::servers(nodes)?;
    let mut field = Field::default();
    for entrant in [Entrant::floor(), Entrant::ours()].iter().chain(&setting.peers) {
        field.enter(entrant, shape, &servers.urls())?;
    }
    let slice = Slice { strict: true, ..Slice::new(shape.tasks, HOLD, setting.plan.slice()) };
    field.run(setting.plan.rounds(), slice)?;
    report(setting, &field, format!("handover: {shape}, {}, held for {HOLD:?}", nodes_text(nodes)))
}

fn report(setting: &Setting, field: &Field, title: String) -> anyhow::Result<Table> {
    let mut table = Table::new(title);
    let ours = field.ours()?;
    let floor = field.with_role(Role::Floor).next();
    let over =
        |lane: &Lane, base: &Lane| Quartiles::of_ratios(lane.handover_each(), base.handover_each());
    for lane in field.lanes() {
        let all = lane.handovers();
        let longest = all.iter().copied().max_by(f64::total_cmp);
        table.row(
            lane.name(),
            vec![
                ("hand-overs", (all.len() as u64).into()),
                ("p50 ms", p50(&all).map(|p50| p50 * 1e3).into()),
                ("longest ms", longest.map(|longest| longest * 1e3).into()),
                ("x floor", floor.and_then(|floor| over(lane, floor)).into()),
                ("x redlatch", over(lane, ours).into()),
                ("gave up", lane.gave_up().into()),
                ("broken", lane.violations().into()),
            ],
        );
    }
    let bounds = &setting.plan.bounds;
    table.at_most(
        "p50 over the floor's",
        floor.and_then(|floor| over(ours, floor)),
        bounds.max_handover,
    );
    let median = |lane: &&Lane| p50(&lane.handovers()).unwrap_or(f64::INFINITY);
    let best = field.with_role(Role::Peer).min_by(|a, b| median(a).total_cmp(&median(b)));
    if let Some(peer) = best {
        let what = format!("p50 of {}, the best peer, over ours", peer.name());
        table.at_least(&what, over(peer, ours), bounds.min_over_peer);
    }
    super::require_sound(&mut table, ours);
    Ok(table)
}
