//! What every contender has in common: it runs callers for a while and tells
//! how long each acquire and each release took.

use std::time::Duration;

pub(crate) mod floor;
pub(crate) mod hosted;
pub(crate) mod redis;
pub(crate) mod rslock;

/// How long a lock would live if nobody released it. No slice lasts that long.
pub(crate) const TTL: Duration = Duration::from_secs(10);

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
