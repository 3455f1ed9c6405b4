//! A process of its own with one contender in it: orders come in on stdin, records
//! go out on stdout, until stdin ends.

mod caller;
mod crowd;
mod etcd;
pub(crate) mod floor;
mod hold;
mod redis;
mod redlatch;
mod rslock;

use self::{
    caller::{Host, Lock},
    floor::{Own, Relay},
    redis::ByHand,
    redlatch::Redlatch,
    rslock::Rslock,
};
use crate::wire::{Order, READY, Record, processor_ns};
use std::{
    io::{self, Write as _},
    thread,
};
use tokio::{runtime::Builder, sync::mpsc};

/// The TTL of everybody's locks, unless the order is about another one. No slice
/// lasts that long.
pub(crate) const TTL_MS: u64 = 10_000;

/// The contender in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// A bare event loop; each caller has a lock of its own.
    Floor,
    /// The same, handing one lock to and fro.
    Relay,
    /// As it comes.
    Redlatch,
    /// Without fencing tokens and restart guard, as all others are.
    Plain,
    /// The `redis` crate, without a lock library.
    Redis,
    Rslock,
    /// With a retry delay of 5 ms instead of 200.
    RslockTuned,
    Etcd,
}

/// Where the callers of an async lock run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Runtime {
    /// Callers and library share one thread.
    #[default]
    Current,
    /// One worker thread per core.
    Multi,
}

/// Serves one contender.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerPlan {
    #[arg(value_enum)]
    kind: Kind,
    #[arg(required = true)]
    urls: Vec<String>,
    /// The TTL of a lock, in milliseconds.
    #[arg(long, default_value_t = TTL_MS)]
    ttl_ms: u64,
    #[arg(long, value_enum, default_value_t)]
    runtime: Runtime,
}

pub(crate) fn run(plan: &WorkerPlan) -> anyhow::Result<()> {
    let urls = &plan.urls;
    match plan.kind {
        Kind::Floor => {
            let mut floor = Own::connect(urls)?;
            return serve(|order| floor.run(order));
        }
        Kind::Relay => {
            let mut relay = Relay::connect(urls)?;
            return serve(|order| relay.run(order));
        }
        _ => {}
    }
    runtime(plan.runtime)?.block_on(async {
        match plan.kind {
            Kind::Floor | Kind::Relay => unreachable!("they need no runtime"),
            Kind::Redlatch => serve_all(Redlatch::connect(urls, plan.ttl_ms).await?).await,
            Kind::Plain => serve_all(Redlatch::plain(urls).await?).await,
            Kind::Redis => serve_all(ByHand::connect(urls).await?).await,
            Kind::Rslock => serve_all(Rslock::as_it_comes(urls)?).await,
            Kind::RslockTuned => serve_all(Rslock::tuned(urls)?).await,
            Kind::Etcd => serve_all(etcd::Etcd::new(urls)?).await,
        }
    })
}

fn runtime(on: Runtime) -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = match on {
        Runtime::Current => Builder::new_current_thread(),
        Runtime::Multi => Builder::new_multi_thread(),
    };
    Ok(builder.enable_all().build()?)
}

/// Serves on this thread.
fn serve(mut run: impl FnMut(&Order) -> anyhow::Result<Record>) -> anyhow::Result<()> {
    say(READY)?;
    for line in io::stdin().lines() {
        let order: Order = serde_json::from_str(&line?)?;
        let before = processor_ns();
        let record = run(&order)?;
        report(record, before)?;
    }
    Ok(())
}

async fn serve_all<L: Lock>(lock: L) -> anyhow::Result<()> {
    let (mut host, mut orders) = (Host::new(lock), orders());
    say(READY)?;
    while let Some(line) = orders.recv().await {
        let order: Order = serde_json::from_str(&line)?;
        let before = processor_ns();
        let record = host.serve(&order).await?;
        report(record, before)?;
    }
    Ok(())
}

/// Lines of stdin, read on a thread: the runtime goes on meanwhile.
fn orders() -> mpsc::UnboundedReceiver<String> {
    let (lines, inbox) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
    });
    inbox
}

fn report(record: Record, before: u64) -> anyhow::Result<()> {
    let cpu_ns = processor_ns() - before;
    say(&serde_json::to_string(&Record { cpu_ns, ..record })?)
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}

#[cfg(test)]
mod tests;
