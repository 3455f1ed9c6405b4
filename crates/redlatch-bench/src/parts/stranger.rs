//! What a stranger on the same server notices of 256 callers: its `PING`, beside
//! each contender at the same rate.
//!
//! All callers ask at the same time, now and then: the worst for a stranger.

use crate::{
    entrant::{BY_HAND, FLOOR, OURS, PLAIN},
    setting::{Setting, Turns, servers},
    spread::{Spread, number, quantiles},
    table::Table,
    team::{Slice, Team},
    wire::{nanoseconds, now_ns},
    worker::floor::node::dial,
};
use anyhow::{Context as _, ensure};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

const NODES: usize = 5;
const CALLERS: usize = 256;
/// Between two pings.
const PAUSE: Duration = Duration::from_micros(200);

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    let servers = servers(NODES)?;
    let entrants = [FLOOR, BY_HAND, PLAIN, OURS];
    let start = |one| Team::start(one, 1, &servers.urls());
    let mut teams = entrants.iter().map(start).collect::<anyhow::Result<Vec<_>>>()?;
    let Turns { rounds, slice } = setting.turns((15, 400), (4, 200));
    let every = pace(&mut teams)?;
    let mut stranger = dial(&servers[0].url())?;
    let mut alone = Vec::new();
    let mut beside = vec![Vec::new(); teams.len()];
    let mut rates = vec![Vec::new(); teams.len()];
    for round in 0..rounds {
        alone.push(pings(&mut stranger, now_ns() + nanoseconds(slice) / 2)?);
        for index in (0..entrants.len()).map(|turn| (round + turn) % entrants.len()) {
            let running = teams[index].begin(Slice { every, ..Slice::own(CALLERS, slice) })?;
            beside[index].push(pings(&mut stranger, running.end)?);
            rates[index].push(running.finish()?.per_second());
        }
    }

    let title = format!("stranger: PING beside {CALLERS} callers, {NODES} nodes");
    let mut table = Table::new(title);
    let p99 = |rounds: &[Option<[f64; 2]>]| -> Vec<Option<f64>> {
        rounds.iter().map(|round| round.map(|[_, p99]| p99)).collect()
    };
    let each = |rounds: &[Option<[f64; 2]>], index: usize| {
        Spread::of(rounds.iter().flatten().map(|round| round[index]))
    };
    table.row(
        "nobody",
        vec![
            ("locks/s", 0.into()),
            ("p50 µs", each(&alone, 0).into()),
            ("p99 µs", each(&alone, 1).into()),
            ("p99 x floor", Spread::of_ratios(p99(&alone), p99(&beside[0])).into()),
        ],
    );
    for (index, entrant) in entrants.iter().enumerate() {
        let ratio = Spread::of_ratios(p99(&beside[index]), p99(&beside[0]));
        table.row(
            entrant.name,
            vec![
                (
                    "locks/s",
                    Spread::of(rates[index].iter().copied()).map(|rate| rate.median).into(),
                ),
                ("p50 µs", each(&beside[index], 0).into()),
                ("p99 µs", each(&beside[index], 1).into()),
                ("p99 x floor", ratio.into()),
            ],
        );
        if [PLAIN.name, OURS.name].contains(&entrant.name) {
            let what = format!("{}: p99 over that beside bare Redlock", entrant.name);
            table.at_most(&what, ratio, 1.5);
        }
    }
    Ok(vec![table])
}

/// How often everybody can take a lock without haste: half as often as the slowest
/// of them does when nothing holds it back.
fn pace(teams: &mut [Team]) -> anyhow::Result<Duration> {
    let mut slowest = f64::INFINITY;
    for team in teams {
        team.run(Slice::own(CALLERS, Duration::from_millis(50)))?;
        let rate = team.run(Slice::own(CALLERS, Duration::from_millis(200)))?.per_second();
        slowest = slowest.min(rate);
    }
    ensure!(slowest > 0.0, "somebody got no lock at all");
    Ok(Duration::try_from_secs_f64(2.0 * number(CALLERS as u64) / slowest)?)
}

/// p50 and p99 of the stranger's round trips, in microseconds.
fn pings(stranger: &mut TcpStream, until: u64) -> anyhow::Result<Option<[f64; 2]>> {
    let mut times = Vec::new();
    while now_ns() < until {
        let (asked, mut answer) = (Instant::now(), [0; 7]);
        stranger.write_all(b"PING\r\n")?;
        stranger.read_exact(&mut answer).context("no answer to PING")?;
        times.push(asked.elapsed().as_secs_f64() * 1e6);
        ensure!(&answer == b"+PONG\r\n", "PING answered {answer:?}");
        std::thread::sleep(PAUSE);
    }
    Ok(quantiles([50, 99], times))
}
