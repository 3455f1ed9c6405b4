//! Runs the callers of an async lock as tasks on a tokio runtime.

use super::{Contender, Cycle, Load, Sample};
use std::{
    future::Future,
    time::{Duration, Instant},
};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
    time::timeout,
};

/// What an async lock library must be able to do to compete.
pub(crate) trait AsyncLock: Clone + Send + Sync + 'static {
    type Held: Send;

    fn acquire(&self, resource: &str) -> impl Future<Output = anyhow::Result<Self::Held>> + Send;
    fn release(&self, held: Self::Held) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Where the tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Flavour {
    /// Callers and library share one thread.
    Current,
    /// One worker thread per core.
    Multi,
}

pub(crate) struct Hosted<L> {
    name: &'static str,
    runtime: Runtime,
    lock: L,
    slices: u32,
}

impl<L: AsyncLock> Hosted<L> {
    /// `connect` runs on the runtime that later carries the callers.
    pub(crate) fn connect<F>(name: &'static str, on: Flavour, connect: F) -> anyhow::Result<Self>
    where
        F: Future<Output = anyhow::Result<L>>,
    {
        let mut builder = match on {
            Flavour::Current => Builder::new_current_thread(),
            Flavour::Multi => Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().build()?;
        let lock = runtime.block_on(connect)?;
        Ok(Self { name, runtime, lock, slices: 0 })
    }
}

impl<L: AsyncLock> Contender for Hosted<L> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, load: Load) -> anyhow::Result<Sample> {
        // New resources in each slice: what a failed release left behind in an
        // earlier one is in nobody's way.
        self.slices += 1;
        let prefix = format!("bench:{}:{}", self.name, self.slices);
        self.runtime.block_on(async {
            let started = Instant::now();
            let mut callers = JoinSet::new();
            for index in 0..load.tasks {
                let resource = format!("{prefix}:{index}");
                callers.spawn(call(self.lock.clone(), resource, started, load));
            }
            let mut sample = Sample::default();
            while let Some(part) = callers.join_next().await {
                let part = part?;
                sample.cycles.extend(part.cycles);
                sample.failures += part.failures;
            }
            sample.elapsed = started.elapsed();
            Ok(sample)
        })
    }

    fn settle(&mut self, limit: Duration) -> anyhow::Result<()> {
        self.runtime.block_on(async { tokio::time::sleep(limit).await });
        Ok(())
    }
}

/// One caller: acquires and releases its resource until the slice is over.
async fn call<L: AsyncLock>(lock: L, prefix: String, started: Instant, load: Load) -> Sample {
    let mut sample = Sample::default();
    let mut resource = prefix.clone();
    let mut begun = Instant::now();
    while begun < started + load.slice {
        let cycle = cycle(&lock, &resource, begun, load.limit).await;
        begun = Instant::now();
        if let Ok(cycle) = cycle {
            sample.cycles.push(cycle);
        } else {
            sample.failures += 1;
            resource = format!("{prefix}:{}", sample.failures);
        }
    }
    sample
}

async fn cycle<L: AsyncLock>(
    lock: &L,
    resource: &str,
    begun: Instant,
    limit: Option<Duration>,
) -> anyhow::Result<Cycle> {
    let held = within(limit, lock.acquire(resource)).await?;
    let acquire = begun.elapsed();
    within(limit, lock.release(held)).await?;
    Ok(Cycle { acquire, whole: begun.elapsed() })
}

async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    match limit {
        None => work.await,
        Some(limit) => timeout(limit, work).await?,
    }
}
