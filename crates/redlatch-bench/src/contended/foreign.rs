//! Beside a client that knows nothing of us, on the same key: plain `SET NX PX`,
//! every 5 ms.

use super::{
    Setting,
    entrant::Entrant,
    history::History,
    nodes_text,
    report::Table,
    team::{Slice, Team, next_key},
};
use std::time::Duration;

const HOLD: Duration = Duration::from_millis(1);

/// So that the lock is never free for long on our side.
const OURS: usize = 2;

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    setting.nodes.iter().map(|nodes| measure_one(setting, *nodes)).collect()
}

fn measure_one(setting: &Setting, nodes: usize) -> anyhow::Result<Table> {
    let servers = super::servers(nodes)?;
    let mut ours = Team::start(&Entrant::ours(), 1, &servers.urls())?;
    let mut foreign = Team::start(&Entrant::foreign(), 1, &servers.urls())?;
    let (mut turns, mut idle, mut broken, mut gave_up) = ([0, 0], [0, 0], 0, 0);
    for _ in 0..setting.plan.rounds() {
        let key = next_key();
        let slice = Slice::new(OURS, HOLD, setting.plan.slice());
        let we = ours.begin_on(&key, slice)?;
        let they = foreign.begin_on(&key, Slice { tasks: 1, ..slice })?;
        let histories = [we.finish()?, they.finish()?];
        for (side, history) in histories.iter().enumerate() {
            turns[side] += history.grants();
            idle[side] += u64::from(history.grants() == 0);
            gave_up += history.gave_up;
        }
        broken += History::together(histories).violations();
    }

    let title =
        format!("foreign: {OURS} tasks and a stranger, {}, held for {HOLD:?}", nodes_text(nodes));
    let mut table = Table::new(title);
    for (side, name) in ["redlatch", "stranger"].into_iter().enumerate() {
        table.row(name, vec![("turns", turns[side].into()), ("rounds without", idle[side].into())]);
        table.require(idle[side] == 0, format_args!("{name} had no turn in {} rounds", idle[side]));
    }
    table.row("both", vec![("turns", (turns[0] + turns[1]).into()), ("rounds without", 0.into())]);
    table.require(broken == 0, format_args!("{broken} times there were two holders"));
    table.require(gave_up == 0, format_args!("{gave_up} requests gave up"));
    Ok(table)
}
