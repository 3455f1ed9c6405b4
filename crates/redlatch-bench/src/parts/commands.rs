//! How many commands each server gets for each lock, against the minimum of two:
//! one take, one release.

use super::monitor::{Monitor, calls};
use crate::{
    entrant::{Entrant, OURS, RSLOCK, Role},
    field::Shape,
    setting::{Setting, nodes_text, servers},
    spread::{Spread, number},
    table::{Cell, Table},
    team::{Slice, Team},
};
use redlatch_testbed::Servers;
use std::{collections::BTreeMap, time::Duration};

const MINIMUM: f64 = 2.0;
const HOLD: Duration = Duration::from_millis(1);
/// How long what follows a slice may take.
const SETTLE: Duration = Duration::from_millis(100);

const SHAPES: [Shape; 2] = [Shape::new(1, 16), Shape::new(50, 1)];

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    setting.each(&SHAPES, |shape, nodes| measure_one(setting, shape, nodes))
}

fn measure_one(setting: &Setting, shape: Shape, nodes: usize) -> anyhow::Result<Table> {
    let servers = servers(nodes)?;
    let mut table =
        Table::new(format!("commands: {shape}, {}, held for {HOLD:?}", nodes_text(nodes)));
    // Counts do not depend on what else the machine does: few are enough.
    let turns = setting.turns((3, 1_000), (1, 200));
    let slice = Slice::new(shape.tasks, HOLD, turns.slice);
    // Other peers would only show what rslock shows: they poll.
    for entrant in [OURS, RSLOCK] {
        let mut team = Team::start(&entrant, shape.processes, &servers.urls())?;
        team.run(Slice { span: Duration::from_millis(100), ..slice })?;
        let counts = (0..turns.rounds)
            .map(|_| Count::of(&mut team, slice, &servers))
            .collect::<anyhow::Result<Vec<_>>>()?;
        report(&mut table, &entrant, shape, &counts);
    }
    Ok(table)
}

fn report(table: &mut Table, entrant: &Entrant, shape: Shape, counts: &[Count]) {
    let ratio = Spread::of(counts.iter().filter_map(Count::ratio));
    let names = counts.last().map(Count::names).unwrap_or_default();
    let locks: u64 = counts.iter().map(|count| count.locks).sum();
    table.row(
        entrant.name,
        vec![
            ("locks", locks.into()),
            ("x minimum", ratio.into()),
            ("per lock and node", Cell::Text(names)),
        ],
    );
    if entrant.role != Role::Ours {
        return;
    }
    let bound = if shape.processes == 1 { 1.5 } else { 2.5 };
    table.at_most("commands per lock and node over the minimum", ratio, bound);
    let differ = counts.iter().filter(|count| count.monitored != count.in_stats).count();
    table.never("MONITOR and INFO commandstats differ about EVALSHA", differ as u64);
}

/// What one slice cost.
struct Count {
    locks: u64,
    nodes: usize,
    /// By name, over all nodes.
    commands: BTreeMap<String, u64>,
    /// Calls of EVALSHA, as seen by MONITOR and as the servers count them. Scripts
    /// cannot call it, so that both must be the same.
    monitored: u64,
    in_stats: u64,
}

impl Count {
    fn of(team: &mut Team, slice: Slice, servers: &Servers) -> anyhow::Result<Self> {
        let evalshas = || servers.iter().map(|server| calls(server, "evalsha")).sum::<u64>();
        let before = evalshas();
        let monitors = servers.iter().map(Monitor::start).collect::<anyhow::Result<Vec<_>>>()?;
        let locks = team.run(slice)?.all_grants();
        std::thread::sleep(SETTLE);
        let in_stats = evalshas() - before;
        let mut commands = BTreeMap::new();
        for monitor in monitors {
            for (name, count) in monitor.stop()? {
                *commands.entry(name).or_default() += count;
            }
        }
        let monitored = commands.get("evalsha").copied().unwrap_or(0);
        Ok(Self { locks, nodes: servers.len(), commands, monitored, in_stats })
    }

    fn ratio(&self) -> Option<f64> {
        let all = self.commands.values().sum();
        Some(self.per_lock_and_node(all)? / MINIMUM)
    }

    /// Such as `evalsha 2.04, subscribe 0.01`.
    fn names(&self) -> String {
        let one = |(name, count): (&String, &u64)| {
            Some(format!("{name} {:.2}", self.per_lock_and_node(*count)?))
        };
        self.commands.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    }

    fn per_lock_and_node(&self, count: u64) -> Option<f64> {
        let cells = number(self.locks) * number(self.nodes as u64);
        (self.locks > 0).then(|| number(count) / cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_counted_per_lock_and_node_against_two() {
        let commands = [("evalsha".to_owned(), 90), ("subscribe".to_owned(), 10)].into();
        let count = Count { locks: 10, nodes: 5, commands, monitored: 90, in_stats: 90 };

        assert_eq!(count.ratio(), Some(1.0));
        assert_eq!(count.names(), "evalsha 1.80, subscribe 0.20");
    }
}
