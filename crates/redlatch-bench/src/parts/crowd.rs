//! A thousand waiters, of which some are killed, some change their minds and some
//! lose patience. Everybody else is served, and nothing stays behind.

use crate::{
    entrant::{Entrant, OURS},
    history::History,
    setting::{Setting, servers},
    table::{Cell, Table},
    team::{Slice, Style, Team, next_key},
    wire::{Record, now_ns},
};
use anyhow::ensure;
use redlatch_testbed::{Servers, wait_until};
use std::time::Duration;

const NODES: usize = 5;
const PROCESSES: usize = 20;
const TASKS: usize = 50;
/// How many processes are killed.
const KILLED: usize = 5;
const TTL: Duration = Duration::from_secs(2);
const HOLD: Duration = Duration::from_micros(500);
/// How long those wait who do not lose patience. A thousand turns, and a TTL for
/// every holder that may be killed, take less.
const WAIT: Duration = Duration::from_secs(30);

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    let servers = servers(NODES)?;
    let entrant = OURS.with_ttl(u64::try_from(TTL.as_millis())?);
    let mut table = Table::new(format!(
        "crowd: {PROCESSES} processes x {TASKS} tasks, {KILLED} of them killed, {NODES} nodes, ttl {TTL:?}"
    ));
    crowd(setting, &mut table, &entrant, &servers)?;
    death(&mut table, &entrant, &servers)?;
    Ok(vec![table])
}

fn crowd(
    setting: &Setting,
    table: &mut Table,
    entrant: &Entrant,
    servers: &Servers,
) -> anyhow::Result<()> {
    let mut team = Team::start(entrant, PROCESSES, &servers.urls())?;
    let span = if setting.short { Duration::from_secs(2) } else { Duration::from_secs(15) };
    let slice = Slice { wait: WAIT, style: Style::Crowd, ..Slice::new(TASKS, HOLD, span) };
    let begin = now_ns();
    let running = team.begin(slice)?;
    for turn in 0..KILLED {
        std::thread::sleep(span / u32::try_from(KILLED + 1)?);
        // Any of them: which one does not matter, so long as it differs.
        let index = usize::try_from(now_ns() / 1_000)?.wrapping_add(turn) % running.team.len();
        running.team.kill(index);
    }
    let records = running.records()?;
    drop(team);
    let left: u64 = records.iter().map(|record: &Record| record.left).sum();
    let history = History::new(records, begin, now_ns());
    let (broken, gave_up) = (history.violations(), history.gave_up);
    let keys = remaining(servers);
    table.row(
        "crowd",
        vec![
            ("locks", history.all_grants().into()),
            ("longest wait s", history.longest_wait().into()),
            ("left early", left.into()),
            ("starved", gave_up.into()),
            ("keys left", (keys.len() as u64).into()),
            ("free after s", Cell::Nothing),
            ("broken", broken.into()),
        ],
    );
    table.never("two holders at once", broken);
    table.never(&format!("a patient request starved ({})", history.why), gave_up);
    table.never(&format!("keys were left behind {keys:?}"), keys.len() as u64);
    Ok(())
}

/// A holder is killed; how long until somebody else has its lock?
fn death(table: &mut Table, entrant: &Entrant, servers: &Servers) -> anyhow::Result<()> {
    let mut doomed = Team::start(entrant, 1, &servers.urls())?;
    let mut heir = Team::start(entrant, 1, &servers.urls())?;
    let (key, minute) = (next_key(), Duration::from_secs(60));
    let holding = Slice { style: Style::Strict, ..Slice::new(1, minute, minute) };
    let running = doomed.begin_on(&key, holding)?;
    ensure!(wait_until(minute, || running.grants() == 1), "the holder did not get the lock");
    let waiting = heir.begin_on(&key, Slice::new(1, Duration::ZERO, TTL / 10))?;
    std::thread::sleep(TTL / 20);
    running.team.kill(0);
    let died = now_ns();
    let history = waiting.finish()?;
    let free = history.first_grant().map(|granted| granted.saturating_sub(died));
    let free = free.map(|free| Duration::from_nanos(free).as_secs_f64());
    drop((doomed, heir));
    let keys = remaining(servers);
    table.row(
        "killed holder",
        vec![
            ("locks", history.all_grants().into()),
            ("longest wait s", history.longest_wait().into()),
            ("left early", 0.into()),
            ("starved", history.gave_up.into()),
            ("keys left", (keys.len() as u64).into()),
            ("free after s", free.into()),
            ("broken", Cell::Nothing),
        ],
    );
    let ttls = free.map(|free| free / TTL.as_secs_f64());
    table.at_most("free after its holder's death, in TTLs", ttls, 1.1);
    table.never(&format!("keys were left behind {keys:?}"), keys.len() as u64);
    Ok(())
}

/// What is still there when every lock has expired.
fn remaining(servers: &Servers) -> Vec<String> {
    wait_until(2 * TTL, || servers.keys_everywhere().iter().all(Vec::is_empty));
    servers.keys_everywhere().concat()
}
