//! Beside a client that knows nothing of us, on the same key: plain `SET NX PX`,
//! every 5 ms.

use crate::{
    entrant::{BY_HAND, OURS},
    history::History,
    setting::{Setting, nodes_text, servers},
    table::Table,
    team::{Slice, Team, next_key},
};
use std::time::Duration;

const HOLD: Duration = Duration::from_millis(1);

/// Keeps the lock from ever being free for a long time on our side.
const TASKS: usize = 2;

/// The shortest round: clients of ours leave a lock free for others once a second.
const LEAST_ROUND: Duration = Duration::from_millis(2_500);

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    setting.nodes().iter().map(|nodes| measure_one(setting, *nodes)).collect()
}

fn measure_one(setting: &Setting, nodes: usize) -> anyhow::Result<Table> {
    let servers = servers(nodes)?;
    let mut ours = Team::start(&OURS, 1, &servers.urls())?;
    let mut foreign = Team::start(&BY_HAND, 1, &servers.urls())?;
    let (mut granted, mut idle, mut broken, mut gave_up) = ([0, 0], [0, 0], 0, 0);
    let turns = setting.contended();
    for _ in 0..turns.rounds {
        let key = next_key();
        let slice = Slice::new(TASKS, HOLD, turns.slice.max(LEAST_ROUND));
        let we = ours.begin_on(&key, slice)?;
        let they = foreign.begin_on(&key, Slice { tasks: 1, ..slice })?;
        let histories = [we.finish()?, they.finish()?];
        for (side, history) in histories.iter().enumerate() {
            granted[side] += history.grants();
            idle[side] += u64::from(history.grants() == 0);
            gave_up += history.gave_up;
        }
        broken += History::together(histories).violations();
    }

    let title =
        format!("foreign: {TASKS} tasks and a stranger, {}, held for {HOLD:?}", nodes_text(nodes));
    let mut table = Table::new(title);
    for (side, name) in ["redlatch", "stranger"].into_iter().enumerate() {
        table.row(
            name,
            vec![("turns", granted[side].into()), ("rounds without", idle[side].into())],
        );
        table.never(&format!("{name} had no turn in a round"), idle[side]);
    }
    table.row(
        "both",
        vec![("turns", (granted[0] + granted[1]).into()), ("rounds without", 0.into())],
    );
    table.never("two holders at once", broken);
    table.never("a request gave up", gave_up);
    Ok(table)
}
