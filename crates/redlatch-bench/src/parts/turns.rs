//! Many callers in a closed loop: how many turns per second, and who gets them.

use super::{require_even, require_sound, shares};
use crate::{
    entrant::{OURS, RELAY, Role},
    field::{Field, Lane, Shape},
    history::{History, Unevenness},
    setting::{Setting, nodes_text, servers},
    spread::{Spread, median},
    table::{Cell, Table},
    team::Slice,
};
use std::time::Duration;

const HOLD: Duration = Duration::from_millis(1);

const SHAPES: [Shape; 3] = [Shape::new(1, 16), Shape::new(4, 4), Shape::new(50, 1)];

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    setting.each(&SHAPES, |shape, nodes| measure_one(setting, shape, nodes))
}

fn measure_one(setting: &Setting, shape: Shape, nodes: usize) -> anyhow::Result<Table> {
    let servers = servers(nodes)?;
    let mut field = Field::default();
    // The floor hands the lock to and fro between two, as fast as can be.
    field.enter(&RELAY, shape.of_two(), &servers.urls())?;
    for entrant in [OURS].iter().chain(&setting.peers(nodes)) {
        field.enter(entrant, shape, &servers.urls())?;
    }
    let turns = setting.contended();
    field.run(turns.rounds, Slice::new(shape.tasks, HOLD, turns.slice))?;
    report(&field, format!("turns: {shape}, {}, held for {HOLD:?}", nodes_text(nodes)))
}

fn report(field: &Field, title: String) -> anyhow::Result<Table> {
    let mut table = Table::new(title);
    let floor = field.floor();
    let ours = field.ours()?;
    for lane in field.lanes() {
        let shares = shares(lane);
        let ratio = |uneven: Option<Unevenness>| Cell::from(uneven.map(|uneven| uneven.ratio));
        let hold = median(lane.rounds.iter().filter_map(History::mean_hold));
        table.row(
            &lane.name,
            vec![
                ("locks/s", lane.rate().into()),
                ("of ideal", floor.and_then(|floor| of_ideal(lane, floor)).into()),
                ("x redlatch", lane.rate_over(ours).into()),
                ("hold ms", hold.map(|hold| hold * 1e3).into()),
                ("hand-over ms", lane.handover_ms().into()),
                ("uneven tasks", ratio(shares.within_processes())),
                ("processes", ratio(shares.between_processes())),
                ("wait/share", longest_wait(lane).into()),
                ("gave up", lane.gave_up().into()),
                ("broken", lane.violations().into()),
            ],
        );
    }
    let ideal = floor.and_then(|floor| of_ideal(ours, floor));
    table.at_least("locks per second over the ideal", ideal, 0.9);
    for peer in field.lanes().filter(|lane| matches!(lane.role(), Role::Peer | Role::Other)) {
        let what = format!("locks per second over {}", peer.name);
        table.at_least(&what, ours.rate_over(peer), 1.0);
    }
    let shares = shares(ours);
    require_even(&mut table, "tasks", shares.within_processes(), 1.1);
    require_even(&mut table, "processes", shares.between_processes(), 1.2);
    table.at_most("longest wait in fair shares", longest_wait(ours), 3.0);
    require_sound(&mut table, ours);
    Ok(table)
}

/// Locks per second over one per hold and floor's hand-over, round by round.
fn of_ideal(lane: &Lane, floor: &Lane) -> Option<Spread> {
    let rounds = lane.rounds.iter().zip(floor.handover_each());
    let ratio = rounds.filter_map(|(round, handover)| {
        Some(round.per_second() * (round.mean_hold()? + handover?))
    });
    Spread::of(ratio)
}

/// The longest wait of each round, in fair shares of that round. The median counts:
/// on a shared machine everyone is paused once in a while, including the floor.
fn longest_wait(lane: &Lane) -> Option<Spread> {
    let longest = lane.rounds.iter().map(History::longest_wait);
    Spread::of_ratios(longest, lane.rounds.iter().map(History::fair_share))
}
