//! What every contender has in common: it runs callers for a while and tells
//! how long each acquire and each release took.

use self::{
    floor::Floor,
    hosted::{Flavour, Hosted},
    redis::Bare,
    redlatch::Redlatch,
    rslock::Rslock,
};
use std::time::Duration;

pub(crate) mod floor;
pub(crate) mod hosted;
pub(crate) mod redis;
pub(crate) mod redlatch;
pub(crate) mod rslock;

/// How long a lock would live if nobody released it. No slice lasts that long.
pub(crate) const TTL: Duration = Duration::from_secs(10);

/// How long replies nobody waits for may take on healthy servers.
pub(crate) const SETTLE: Duration = Duration::from_millis(5);

/// Everyone who takes part, connected to the nodes.
pub(crate) fn all(urls: &[String], on: Flavour) -> anyhow::Result<Vec<Box<dyn Contender>>> {
    Ok(vec![
        Box::new(Floor::connect(urls)?),
        Box::new(Hosted::connect(redlatch::NAME, on, Redlatch::plain(urls))?),
        Box::new(Hosted::connect(redlatch::GUARDED, on, Redlatch::guarded(urls))?),
        Box::new(Hosted::connect(redis::NAME, on, Bare::connect(urls))?),
        Box::new(Hosted::connect(rslock::NAME, on, async { Rslock::new(urls) })?),
    ])
}

/// One way to take and release a lock on all nodes, connected and ready.
pub(crate) trait Contender {
    fn name(&self) -> &'static str;

    /// Lets the callers of `load` acquire and release, each on a resource of its
    /// own, until the slice is over; then waits for the cycles under way.
    fn run(&mut self, load: Load) -> anyhow::Result<Sample>;

    /// Waits, at most `limit`, for replies nobody waits for any more, so that
    /// the next contender does not pay for them.
    fn settle(&mut self, limit: Duration) -> anyhow::Result<()>;
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) tasks: usize,
    pub(crate) slice: Duration,
    /// Gives up an acquire or a release after this long. `None` sets no timer,
    /// so that it costs nothing where all nodes answer.
    pub(crate) limit: Option<Duration>,
}

/// What one slice brought.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub(crate) cycles: Vec<Cycle>,
    /// Acquires and releases that failed or ran into the limit.
    pub(crate) failures: u64,
    /// From the first acquire to the end of the last cycle.
    pub(crate) elapsed: Duration,
}

/// One lock taken and released.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cycle {
    pub(crate) acquire: Duration,
    /// Acquire and release together.
    pub(crate) whole: Duration,
}

impl Sample {
    pub(crate) fn cycles_per_second(&self) -> f64 {
        count(self.cycles.len()) / self.elapsed.as_secs_f64()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run stay far below 2^52")]
fn count(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use redlatch_testbed::{Server, Servers, wait_until};

    use super::*;

    const CALM: Duration = Duration::from_secs(5);

    #[test]
    fn every_contender_takes_and_releases_every_lock_on_every_node() -> anyhow::Result<()> {
        let servers = Servers::start(3)?;
        for on in [Flavour::Current, Flavour::Multi] {
            for mut contender in all(&servers.urls(), on)? {
                let before: Vec<Work> = servers.iter().map(work).collect();

                let load = Load { tasks: 8, slice: Duration::from_millis(100), limit: None };
                let sample = contender.run(load)?;
                let locks = u64::try_from(sample.cycles.len())?;
                let expected: Vec<Work> = before.iter().map(|work| work.plus(locks)).collect();
                wait_until(CALM, || {
                    let _ = contender.settle(SETTLE);
                    servers.iter().map(work).eq(expected.iter().copied())
                });

                let name = contender.name();
                assert!(
                    locks > 0 && sample.failures == 0,
                    "{name}: {locks} locks, {} failures",
                    sample.failures
                );
                let done: Vec<Work> = servers.iter().map(work).collect();
                if [redis::NAME, rslock::NAME].contains(&name) {
                    // On several threads a release of theirs may overtake its take.
                    let most = |(done, all): (&Work, &Work)| done.is_nearly(*all);
                    assert!(done.iter().zip(&expected).all(most), "{name}: {done:?}, {expected:?}");
                    servers.iter().for_each(|server| drop(server.run(&["FLUSHALL"])));
                } else {
                    assert_eq!(done, expected, "{name}");
                    assert_eq!(servers.keys_everywhere(), [[""; 0]; 3], "{name}");
                }
            }
        }
        Ok(())
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

        fn is_nearly(self, all: Self) -> bool {
            self.sets == all.sets
                && self.deletes <= all.deletes
                && self.deletes * 100 >= all.deletes * 99
        }
    }

    /// What the server has done since it started, inside scripts, too.
    fn work(server: &Server) -> Work {
        let stats = server.run(&["INFO", "commandstats"]).text().unwrap_or_default();
        let calls = |command: &str| {
            let line = stats.lines().find_map(|line| line.strip_prefix(command));
            let calls = line.and_then(|line| line.split(',').next()?.parse().ok());
            calls.unwrap_or(0)
        };
        Work { sets: calls("cmdstat_set:calls="), deletes: calls("cmdstat_del:calls=") }
    }
}
