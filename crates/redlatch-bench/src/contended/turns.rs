//! Many callers in a closed loop: how many turns per second, and who gets them.

use super::{
    Setting,
    entrant::{Entrant, Role},
    field::{Field, Lane, Shape},
    history::{History, Shares, Unevenness, p50},
    nodes_text,
    report::{Cell, Quartiles, Table},
    team::Slice,
};
use std::time::Duration;

const HOLD: Duration = Duration::from_millis(1);

const SHAPES: [Shape; 3] = [Shape::new(1, 16), Shape::new(4, 4), Shape::new(50, 1)];

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    setting.each(&SHAPES, |shape, nodes| measure_one(setting, shape, nodes))
}

fn measure_one(setting: &Setting, shape: Shape, nodes: usize) -> anyhow::Result<Table> {
    let servers = super::servers(nodes)?;
    let mut field = Field::default();
    // The floor hands the lock to and fro between two, as fast as can be.
    field.enter(&Entrant::floor(), shape.of_two(), &servers.urls())?;
    for entrant in [Entrant::ours()].iter().chain(&setting.peers) {
        field.enter(entrant, shape, &servers.urls())?;
    }
    let slice = Slice::new(shape.tasks, HOLD, setting.plan.slice());
    field.run(setting.plan.rounds(), slice)?;
    report(setting, &field, format!("turns: {shape}, {}, held for {HOLD:?}", nodes_text(nodes)))
}

fn report(setting: &Setting, field: &Field, title: String) -> anyhow::Result<Table> {
    let mut table = Table::new(title);
    let floor = field.with_role(Role::Floor).next();
    let ours = field.ours()?;
    for lane in field.lanes() {
        let shares = shares(lane);
        let ratio = |uneven: Option<Unevenness>| Cell::from(uneven.map(|uneven| uneven.ratio));
        let hold = p50(&lane.rounds.iter().filter_map(History::mean_hold).collect::<Vec<_>>());
        table.row(
            lane.name(),
            vec![
                (
                    "locks/s",
                    Quartiles::of(lane.rate_each().flatten()).map(|rate| rate.median).into(),
                ),
                ("of ideal", floor.and_then(|floor| of_ideal(lane, floor)).into()),
                ("x redlatch", lane.rate_over(ours).into()),
                ("hold ms", hold.map(|hold| hold * 1e3).into()),
                ("hand-over ms", p50(&lane.handovers()).map(|p50| p50 * 1e3).into()),
                ("uneven tasks", ratio(shares.within_processes())),
                ("processes", ratio(shares.between_processes())),
                ("wait/share", longest_wait(lane).into()),
                ("gave up", lane.gave_up().into()),
                ("broken", lane.violations().into()),
            ],
        );
    }
    let bounds = &setting.plan.bounds;
    let ideal = floor.and_then(|floor| of_ideal(ours, floor));
    table.at_least("locks per second over the ideal", ideal, bounds.min_rate);
    for peer in field.lanes().filter(|lane| matches!(lane.role(), Role::Peer | Role::Tuned)) {
        let what = format!("locks per second over {}", peer.name());
        table.at_least(&what, ours.rate_over(peer), 1.0);
    }
    let shares = shares(ours);
    require_even(&mut table, "tasks", shares.within_processes(), bounds.max_uneven_tasks);
    require_even(&mut table, "processes", shares.between_processes(), bounds.max_uneven_processes);
    table.at_most("longest wait in fair shares", longest_wait(ours), bounds.max_wait);
    super::require_sound(&mut table, ours);
    Ok(table)
}

/// Locks per second over one per hold and floor's hand-over, round by round.
fn of_ideal(lane: &Lane, floor: &Lane) -> Option<Quartiles> {
    let rounds = lane.rounds.iter().zip(floor.handover_each());
    let ratio = rounds.filter_map(|(round, handover)| {
        Some(round.per_second() * (round.mean_hold()? + handover?))
    });
    Quartiles::of(ratio)
}

fn shares(lane: &Lane) -> Shares {
    let mut shares = Shares::default();
    lane.rounds.iter().for_each(|round| shares.add(&round.turns()));
    shares
}

/// The longest wait of each round, in fair shares of that round. The median counts:
/// on a shared machine everybody is stopped once in a while, the floor, too.
fn longest_wait(lane: &Lane) -> Option<Quartiles> {
    let longest = lane.rounds.iter().map(History::longest_wait);
    Quartiles::of_ratios(longest, lane.rounds.iter().map(History::fair_share))
}

fn require_even(table: &mut Table, among: &str, uneven: Option<Unevenness>, bound: f64) {
    // With one of a kind there is nobody to share with.
    if let Some(uneven) = uneven {
        let ratio = Cell::Number(uneven.ratio);
        let what = format!("most over fewest turns among {among} is {ratio}, allowed are {bound}");
        table.require(uneven.is_within(bound), what);
    }
}
