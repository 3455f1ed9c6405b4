//! Very many held locks: how much memory each needs, and what renewing them costs.

use crate::{
    alone::{self, What, memory},
    setting::{Setting, servers},
    spread::number,
    table::Table,
    wire::processor_ns,
    worker::floor::node::dial,
};
use anyhow::Context as _;
use redlatch::Locks;
use serde::{Deserialize, Serialize};
use std::{
    io::{BufRead as _, BufReader, Write as _},
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

const NODES: usize = 5;
const LOCKS: usize = 10_000;
const TTL: Duration = Duration::from_secs(10);
/// Two renewals of each lock, and the same share of a third.
const SPAN: Duration = Duration::from_secs(10);
const CALLERS: usize = 64;

/// What it came to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Held {
    locks: usize,
    bytes_per_lock: f64,
    /// Processor time, in percent of a core.
    client_percent: f64,
    servers_percent: f64,
    /// How many locks were lost meanwhile.
    lost: u64,
}

pub(crate) fn measure(_setting: &Setting) -> anyhow::Result<Vec<Table>> {
    let servers = servers(NODES)?;
    let held: Held = alone::measure(What::Held, LOCKS, &servers.urls())?;
    let title = format!("held: {LOCKS} locks, {NODES} nodes, ttl {TTL:?}");
    let mut table = Table::new(title);
    table.row(
        "redlatch",
        vec![
            ("bytes per lock", held.bytes_per_lock.into()),
            ("client, % of a core", held.client_percent.into()),
            ("servers, % of a core", held.servers_percent.into()),
            ("lost", held.lost.into()),
        ],
    );
    table.at_most("bytes per lock", held.bytes_per_lock, 600.0);
    table.at_most("renewing, % of a core on the client", held.client_percent, 5.0);
    table.at_most("renewing, % of a core on five servers", held.servers_percent, 10.0);
    table.never("a lock was lost", held.lost);
    Ok(vec![table])
}

/// In a process of its own.
pub(crate) async fn hold(count: usize, urls: &[String]) -> anyhow::Result<Held> {
    let locks = Locks::builder().nodes(urls).ttl(TTL).admit_new_servers().connect().await?;
    // What callers and connections need is there before the first look.
    drop(take(&locks, CALLERS * 4, "first").await?);
    locks.settled().await;
    let before = memory("VmRSS")?;
    let guards = take(&locks, count, "held").await?;
    let bytes_per_lock = (memory("VmRSS")? - before) / number(count as u64);
    let (client, servers, began) = (processor_ns(), servers_seconds(urls)?, Instant::now());
    tokio::time::sleep(SPAN).await;
    let seconds = began.elapsed().as_secs_f64();
    let client = Duration::from_nanos(processor_ns() - client).as_secs_f64();
    let servers = servers_seconds(urls)? - servers;
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    Ok(Held {
        locks: count,
        bytes_per_lock,
        client_percent: 100.0 * client / seconds,
        servers_percent: 100.0 * servers / seconds,
        lost: lost as u64,
    })
}

async fn take(
    locks: &Locks,
    count: usize,
    prefix: &'static str,
) -> anyhow::Result<Vec<redlatch::Guard>> {
    let mut guards = Vec::with_capacity(count);
    let mut callers = JoinSet::new();
    for name in 0..count {
        if callers.len() == CALLERS {
            guards.push(callers.join_next().await.context("somebody is at it")???);
        }
        callers.spawn(locks.lock(format!("{prefix}:{name}")).into_future());
    }
    while let Some(one) = callers.join_next().await {
        guards.push(one??);
    }
    Ok(guards)
}

/// Processor time of all servers so far.
fn servers_seconds(urls: &[String]) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for url in urls {
        let mut socket = dial(url)?;
        socket.write_all(b"INFO CPU\r\nPING\r\n")?;
        for line in BufReader::new(socket).lines() {
            let line = line?;
            if line == "+PONG" {
                break;
            }
            let spent = ["used_cpu_sys:", "used_cpu_user:"].map(|field| line.strip_prefix(field));
            for seconds in spent.into_iter().flatten() {
                sum += seconds.trim_end().parse::<f64>()?;
            }
        }
    }
    Ok(sum)
}
