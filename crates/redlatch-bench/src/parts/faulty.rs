//! Acquire and release with one of five servers refused, frozen, and slow, against
//! the same with all of them healthy.
//!
//! Each case has servers of its own, and their fault for the whole run: callers of
//! all cases take turns.

use crate::{
    entrant::{BY_HAND, OURS, PLAIN, RSLOCK},
    field::{Field, Shape},
    setting::{Setting, admit},
    table::Table,
    team::Slice,
};
use redlatch_testbed::{Direction, Proxy, Servers};
use std::time::Duration;

const NODES: usize = 5;
const SLOW_BY: Duration = Duration::from_millis(100);
const HEALTHY: &str = "healthy";
const CASES: [&str; 4] = [HEALTHY, "refused", "frozen", "slow"];

struct Case {
    name: &'static str,
    servers: Servers,
    /// In front of the first server.
    proxy: Proxy,
}

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    let cases = CASES.into_iter().map(Case::start).collect::<anyhow::Result<Vec<_>>>()?;
    let entrants = [PLAIN, OURS, BY_HAND, RSLOCK];
    let mut field = Field::default();
    for case in &cases {
        for entrant in &entrants {
            let name = name(entrant.name, case.name);
            field.enter_as(name, entrant, Shape::new(1, 1), &case.urls())?;
        }
    }
    // Everybody is connected and has its scripts before anything breaks.
    let turns = setting.turns((12, 250), (3, 80));
    field.run(1, Slice::own(1, turns.slice))?;
    cases.iter().for_each(Case::break_it);
    // What was noticed first, and when, is not what it costs to live with it.
    field.run(1, Slice::own(1, turns.slice))?;
    field.run(turns.rounds, Slice::own(1, turns.slice))?;

    let mut table = Table::new(format!("faulty: 1 caller, one of {NODES} nodes"));
    for entrant in &entrants {
        let healthy = field.named(&name(entrant.name, HEALTHY));
        for case in CASES {
            let Some(lane) = field.named(&name(entrant.name, case)) else { continue };
            let ratio = |percent| healthy.and_then(|healthy| lane.cycle_over(healthy, percent));
            table.row(
                &lane.name,
                vec![
                    ("p50 µs", lane.cycle(50).into()),
                    ("p99 µs", lane.cycle(99).into()),
                    ("p50 x healthy", ratio(50).into()),
                    ("p99 x healthy", ratio(99).into()),
                    ("failed", lane.gave_up().into()),
                ],
            );
            if [PLAIN.name, OURS.name].contains(&entrant.name) && case != HEALTHY {
                table.at_most(&format!("{}: p50 over healthy", lane.name), ratio(50), 1.2);
                table.at_most(&format!("{}: p99 over healthy", lane.name), ratio(99), 1.2);
                table.never(&format!("{}: a request failed", lane.name), lane.gave_up());
            }
        }
    }
    Ok(vec![table])
}

fn name(entrant: &str, case: &str) -> String {
    format!("{entrant}: {case}")
}

impl Case {
    fn start(name: &'static str) -> anyhow::Result<Self> {
        let servers = Servers::start(NODES)?;
        let case = Self { name, proxy: Proxy::to(&servers[0])?, servers };
        admit(&case.urls())?;
        Ok(case)
    }

    fn urls(&self) -> Vec<String> {
        let mut urls = self.servers.urls();
        if self.name == "slow" {
            urls[0] = self.proxy.url();
        }
        urls
    }

    fn break_it(&self) {
        match self.name {
            "refused" => self.servers.kill(&[0]),
            "frozen" => self.servers.freeze(&[0]),
            "slow" => self.proxy.delay(Direction::Replies, SLOW_BY),
            _ => {}
        }
    }
}
