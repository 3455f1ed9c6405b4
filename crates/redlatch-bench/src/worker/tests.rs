use super::*;
use crate::{
    history::History,
    wire::{nanoseconds, now_ns},
};
use redlatch_testbed::{Scratch, Server, Servers, eventually, wait_until};
use std::{path::PathBuf, time::Duration};

const SPAN: Duration = Duration::from_millis(200);
const CALM: Duration = Duration::from_secs(5);

#[test]
fn every_contender_hands_the_lock_to_and_fro_and_leaves_nothing_behind() -> anyhow::Result<()> {
    let servers = Servers::start(3)?;
    let (urls, scratch) = (servers.urls(), Scratch::in_memory()?);
    let order = |key: &str| {
        let baton = Some(scratch.file(key));
        Order { hold_us: 1_000, baton, ..order(key, 2) }
    };

    let records = [
        Relay::connect(&urls)?.run(&order("floor"))?,
        Hosted::on(Runtime::Current, Redlatch::connect(&urls, TTL_MS))?.run(&order("redlatch"))?,
        Hosted::on(Runtime::Current, async { Rslock::tuned(&urls) })?.run(&order("rslock"))?,
        Hosted::on(Runtime::Current, ByHand::connect(&urls))?.run(&order("redis"))?,
    ];

    for record in records {
        assert_eq!(record.gave_up, 0, "{}", record.why);
        let counts: Vec<usize> = record.callers.iter().map(Vec::len).collect();
        let history = History::new(vec![record], 0, u64::MAX);
        assert!(counts.len() == 2 && counts[0].abs_diff(counts[1]) <= 1, "{counts:?}");
        assert!(!history.handovers().is_empty(), "{counts:?}");
        assert_eq!(history.violations(), 0);
    }
    eventually(CALM, || servers.keys_everywhere().iter().all(Vec::is_empty));
    Ok(())
}

#[test]
fn every_contender_takes_and_releases_every_lock_on_every_node() -> anyhow::Result<()> {
    let servers = Servers::start(3)?;
    let urls = servers.urls();
    let mut floor = Own::connect(&urls)?;
    check("floor", &servers, || floor.run(&own("floor")))?;
    // Paced, it does the same, all at once and now and then.
    let paced = Order { every_us: 20_000, ..own("paced") };
    let record = check("paced", &servers, || floor.run(&paced))?;
    assert!(record.callers.iter().all(|turns| turns.len() <= 11), "{record:?}");
    for on in [Runtime::Current, Runtime::Multi] {
        let order = |kind: &str| own(&format!("own:{kind}:{on:?}"));
        // Connected before anything is counted.
        let mut plain = Hosted::on(on, Redlatch::plain(&urls))?;
        check("plain", &servers, || plain.run(&order("plain")))?;
        let mut ours = Hosted::on(on, Redlatch::connect(&urls, TTL_MS))?;
        check("redlatch", &servers, || ours.run(&order("redlatch")))?;
        let mut redis = Hosted::on(on, ByHand::connect(&urls))?;
        check("redis", &servers, || redis.run(&order("redis")))?;
        let mut rslock = Hosted::on(on, async { Rslock::as_it_comes(&urls) })?;
        check("rslock", &servers, || rslock.run(&order("rslock")))?;
    }
    Ok(())
}

/// Each lock is one `SET` and one `DEL` on every node, inside of scripts or not.
fn check(
    name: &str,
    servers: &Servers,
    run: impl FnOnce() -> anyhow::Result<Record>,
) -> anyhow::Result<Record> {
    let before: Vec<Work> = servers.iter().map(Work::of).collect();
    let record = run()?;
    let locks = record.callers.iter().map(Vec::len).sum::<usize>() as u64;
    let expected: Vec<Work> = before.iter().map(|work| work.plus(locks)).collect();
    let done = || servers.iter().map(Work::of).collect::<Vec<_>>();
    let most = |done: Vec<Work>| done.iter().zip(&expected).all(|(done, all)| done.is(*all, name));
    assert!(locks > 0 && record.gave_up == 0, "{name}: {locks} locks, {}", record.why);
    assert!(wait_until(CALM, || most(done())), "{name}: {:?}, {expected:?}", done());
    if !is_loose(name) {
        assert_eq!(servers.keys_everywhere(), [[""; 0]; 3], "{name}");
    }
    Ok(record)
}

/// On several threads a release of theirs may overtake its take.
fn is_loose(name: &str) -> bool {
    ["redis", "rslock"].contains(&name)
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Work {
    sets: u64,
    deletes: u64,
}

impl Work {
    fn plus(self, locks: u64) -> Self {
        Self { sets: self.sets + locks, deletes: self.deletes + locks }
    }

    fn is(self, all: Self, name: &str) -> bool {
        if !is_loose(name) {
            return self == all;
        }
        self.sets == all.sets
            && self.deletes <= all.deletes
            && self.deletes * 100 >= all.deletes * 99
    }

    /// What the server has done since it started, including inside scripts.
    fn of(server: &Server) -> Self {
        use crate::parts::monitor::calls;
        Self { sets: calls(server, "set"), deletes: calls(server, "del") }
    }
}

struct Hosted<L: Lock> {
    runtime: tokio::runtime::Runtime,
    host: Host<L>,
}

impl<L: Lock> Hosted<L> {
    fn on(on: Runtime, connect: impl Future<Output = anyhow::Result<L>>) -> anyhow::Result<Self> {
        let runtime = runtime(on)?;
        let host = Host::new(runtime.block_on(connect)?);
        Ok(Self { runtime, host })
    }

    fn run(&mut self, order: &Order) -> anyhow::Result<Record> {
        self.runtime.block_on(async {
            let record = self.host.serve(order).await;
            // Replies beyond the majority come in while it is still there.
            tokio::time::sleep(SPAN).await;
            record
        })
    }
}

fn own(key: &str) -> Order {
    Order { own: true, ..order(key, 8) }
}

fn order(key: &str, tasks: usize) -> Order {
    Order {
        key: key.to_owned(),
        own: false,
        every_us: 0,
        tasks,
        first: 0,
        callers: tasks,
        hold_us: 0,
        wait_ms: 10_000,
        begin_ns: now_ns(),
        end_ns: now_ns() + nanoseconds(SPAN),
        baton: None::<PathBuf>,
        crowd: false,
    }
}
