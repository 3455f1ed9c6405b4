//! Very many requests at once: all are granted within their wait, in bounded
//! memory, and nothing is left behind.

use crate::{
    alone::{self, What, memory},
    setting::{Setting, servers},
    table::Table,
};
use redlatch::Locks;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

const NODES: usize = 3;
const WAIT: Duration = Duration::from_secs(60);
const MEGABYTE: f64 = 1e6;

/// What became of all requests.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Crowd {
    granted: u64,
    /// When the last one was granted and released.
    last: f64,
    settled: f64,
    /// At most, in bytes.
    peak: f64,
    /// How often each error came.
    refused: BTreeMap<String, u64>,
}

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    let names = if setting.short { 20_000 } else { 100_000 };
    let servers = servers(NODES)?;
    let crowd: Crowd = alone::measure(What::Many, names, &servers.urls())?;
    let left: usize = servers.keys_everywhere().iter().map(Vec::len).sum();
    let mut table = Table::new(format!("many: {names} requests at once, {NODES} nodes"));
    table.row(
        "redlatch",
        vec![
            ("granted", crowd.granted.into()),
            ("last after s", crowd.last.into()),
            ("settled after s", crowd.settled.into()),
            ("MB at most", (crowd.peak / MEGABYTE).into()),
            ("keys left", (left as u64).into()),
        ],
    );
    let refused = crowd.refused.values().sum();
    table.never(&format!("a request was refused {:?}", crowd.refused), refused);
    table.never("keys were left behind", left as u64);
    table.at_most("megabytes at most", crowd.peak / MEGABYTE, 150.0);
    Ok(vec![table])
}

/// In a process of its own.
pub(crate) async fn ask(names: usize, urls: &[String]) -> anyhow::Result<Crowd> {
    let locks = Locks::builder().nodes(urls).wait(WAIT).admit_new_servers().connect().await?;
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for name in 0..names {
        let request = locks.lock(format!("many:{name}")).into_future();
        callers.spawn(async move {
            match request.await {
                // What became of it is seen on the servers, at the end.
                Ok(guard) => {
                    let _ = guard.release().await;
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            }
        });
    }
    let mut crowd = Crowd::default();
    while let Some(one) = callers.join_next().await {
        match one? {
            Ok(()) => crowd.granted += 1,
            Err(error) => {
                // Without the figures, which differ.
                let kind = error.split(|c: char| c.is_ascii_digit()).next().unwrap_or_default();
                *crowd.refused.entry(kind.to_owned()).or_default() += 1;
            }
        }
    }
    crowd.last = began.elapsed().as_secs_f64();
    locks.settled().await;
    crowd.settled = began.elapsed().as_secs_f64();
    crowd.peak = memory("VmHWM")?;
    Ok(crowd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_served() -> anyhow::Result<()> {
        let servers = servers(NODES)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;

        let crowd = runtime.block_on(ask(2_000, &servers.urls()))?;

        assert_eq!((crowd.granted, crowd.refused), (2_000, BTreeMap::new()));
        assert_eq!(servers.keys_everywhere(), [[""; 0]; NODES]);
        Ok(())
    }
}
