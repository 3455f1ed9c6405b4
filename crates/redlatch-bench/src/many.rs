//! Very many requests at once: all are granted within their wait, in bounded
//! memory, and nothing is left behind.

use crate::{cli::ManyPlan, contender::redlatch::guarded, exit::Exit};
use anyhow::{Context as _, ensure};
use redlatch::{Locks, RestartGuard};
use redlatch_testbed::Servers;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

pub(crate) fn run(plan: &ManyPlan) -> anyhow::Result<Exit> {
    ensure!(plan.names > 0, "nothing to lock");
    let servers = Servers::start(plan.nodes)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let loops = BusyLoops::start(plan.busy);
    let crowd = runtime.block_on(crowd(plan, &servers.urls()))?;
    drop(loops);
    let left: usize = servers.keys_everywhere().iter().map(Vec::len).sum();
    let (peak, after) = (megabytes("VmHWM")?, megabytes("VmRSS")?);
    println!(
        "{} of {} granted and released, the last after {:.2?}; settled after {:.2?}; \
         {peak:.0} MB at most, {after:.0} MB afterwards; {left} keys left",
        crowd.granted, plan.names, crowd.last, crowd.settled
    );
    let mut missed = Vec::new();
    for (error, times) in &crowd.refused {
        missed.push(format!("{times} times: {error}"));
    }
    if left > 0 {
        missed.push(format!("{left} keys were left behind"));
    }
    if peak > plan.max_mb {
        missed.push(format!("{peak:.0} MB, allowed are {}", plan.max_mb));
    }
    let exit = Exit::of(&missed);
    Ok(if plan.check { exit } else { Exit::Met })
}

/// What became of all requests.
#[derive(Default)]
struct Crowd {
    granted: usize,
    /// When the last one was granted and released.
    last: Duration,
    settled: Duration,
    /// How often each error came.
    refused: BTreeMap<String, usize>,
}

async fn crowd(plan: &ManyPlan, urls: &[String]) -> anyhow::Result<Crowd> {
    let builder = if plan.guard {
        guarded(urls).await?
    } else {
        Locks::builder().nodes(urls).restart_guard(RestartGuard::Off)
    };
    let locks = builder.ttl(plan.ttl).wait(plan.wait).connect().await?;
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for name in 0..plan.names {
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
            Ok(()) => {
                crowd.granted += 1;
                crowd.last = began.elapsed();
            }
            Err(error) => {
                // Without the figures, which differ.
                let kind = error.split(|c: char| c.is_ascii_digit()).next().unwrap_or_default();
                *crowd.refused.entry(kind.to_owned()).or_default() += 1;
            }
        }
    }
    locks.settled().await;
    crowd.settled = began.elapsed();
    Ok(crowd)
}

/// What the system says of this process, in megabytes.
fn megabytes(field: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(field));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kilobytes.context("the system does not tell our memory")?.parse::<f64>()? / 1e3)
}

/// Threads that do nothing as fast as they can, until they are dropped.
struct BusyLoops {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl BusyLoops {
    fn start(count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |_| {
            let stop = stop.clone();
            std::thread::spawn(move || while !stop.load(Ordering::Relaxed) {})
        };
        let threads = (0..count).map(spin).collect();
        BusyLoops { stop, threads }
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_served_and_a_bound_that_is_too_tight_is_missed() -> anyhow::Result<()> {
        let (ttl, wait) = (Duration::from_secs(10), Duration::from_secs(60));
        let (nodes, names, guard, busy, check) = (3, 2_000, false, 0, true);
        let plan = ManyPlan { nodes, names, ttl, wait, guard, busy, max_mb: 200.0, check };

        assert_eq!(run(&plan)?, Exit::Met);
        assert_eq!(run(&ManyPlan { max_mb: 0.1, ..plan })?, Exit::Missed);
        Ok(())
    }
}
