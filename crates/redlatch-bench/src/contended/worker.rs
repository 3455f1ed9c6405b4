//! A process of its own with one contender in it: orders come in on stdin, records
//! go out on stdout, until stdin ends.

mod caller;
mod crowd;
mod etcd;
mod floor;
mod foreign;
mod hold;
mod redlatch;
mod rslock;

use self::caller::{Host, Lock};
use super::wire::{Order, READY, Record};
use std::{
    io::{self, Write as _},
    thread,
};
use tokio::sync::mpsc;

/// Who is in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Floor,
    Redlatch,
    Rslock,
    /// With a retry delay of 5 ms instead of 200.
    RslockTuned,
    /// Plain `SET NX PX` in a loop, as somebody else might do.
    Foreign,
    Etcd,
}

/// Serves one contender.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerPlan {
    #[arg(value_enum)]
    pub(crate) kind: Kind,
    #[arg(required = true)]
    pub(crate) urls: Vec<String>,
    /// The TTL of a lock, in milliseconds.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) ttl_ms: u64,
}

pub(crate) fn run(plan: &WorkerPlan) -> anyhow::Result<()> {
    let urls = &plan.urls;
    if plan.kind == Kind::Floor {
        let mut floor = floor::Loop::connect(urls)?;
        say(READY)?;
        for line in io::stdin().lines() {
            report(&floor.run(&serde_json::from_str(&line?)?)?)?;
        }
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match plan.kind {
            Kind::Floor => unreachable!("it needs no runtime"),
            Kind::Redlatch => {
                serve_all(redlatch::Redlatch::connect(urls, plan.ttl_ms).await?).await
            }
            Kind::Rslock => serve_all(rslock::Rslock::as_it_comes(urls)?).await,
            Kind::RslockTuned => serve_all(rslock::Rslock::tuned(urls)?).await,
            Kind::Foreign => serve_all(foreign::Foreign::connect(urls).await?).await,
            Kind::Etcd => serve_all(etcd::Etcd::new(urls)?).await,
        }
    })
}

async fn serve_all<L: Lock>(lock: L) -> anyhow::Result<()> {
    let (mut host, mut orders) = (Host::new(lock), orders());
    say(READY)?;
    while let Some(line) = orders.recv().await {
        let order: Order = serde_json::from_str(&line)?;
        report(&host.serve(&order).await?)?;
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

fn report(record: &Record) -> anyhow::Result<()> {
    say(&serde_json::to_string(record)?)
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}

#[cfg(test)]
mod tests {
    use redlatch_testbed::{Scratch, Servers, eventually};
    use std::time::Duration;

    use super::*;
    use crate::contended::{
        history::History,
        wire::{nanoseconds, now_ns},
    };

    const SPAN: Duration = Duration::from_millis(200);

    #[test]
    fn every_contender_hands_the_lock_to_and_fro_and_leaves_nothing_behind() -> anyhow::Result<()> {
        let servers = Servers::start(3)?;
        let (urls, scratch) = (servers.urls(), Scratch::in_memory()?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let order = |key: &str| order(key, &scratch);

        let records = [
            floor::Loop::connect(&urls)?.run(&order("floor"))?,
            runtime.block_on(async {
                let lock = redlatch::Redlatch::connect(&urls, 10_000).await?;
                Host::new(lock).serve(&order("redlatch")).await
            })?,
            runtime.block_on(async {
                Host::new(rslock::Rslock::tuned(&urls)?).serve(&order("rslock")).await
            })?,
            runtime.block_on(async {
                Host::new(foreign::Foreign::connect(&urls).await?).serve(&order("foreign")).await
            })?,
        ];

        for record in records {
            assert_eq!(record.gave_up, 0, "{}", record.why);
            let counts: Vec<usize> = record.callers.iter().map(Vec::len).collect();
            let history = History::new(vec![record], 0, u64::MAX);
            assert!(counts.len() == 2 && counts[0].abs_diff(counts[1]) <= 1, "{counts:?}");
            assert!(!history.handovers().is_empty(), "{counts:?}");
            assert_eq!(history.violations(), 0);
        }
        eventually(SPAN * 10, || servers.keys_everywhere().iter().all(Vec::is_empty));
        Ok(())
    }

    /// Two callers in strict turns.
    fn order(key: &str, scratch: &Scratch) -> Order {
        Order {
            key: key.to_owned(),
            tasks: 2,
            first: 0,
            callers: 2,
            hold_us: 1_000,
            wait_ms: 10_000,
            begin_ns: now_ns(),
            end_ns: now_ns() + nanoseconds(SPAN),
            baton: Some(scratch.file(key)),
            crowd: false,
        }
    }
}
