//! All slices of one contender under one load.

use crate::contender::{Contender, Load, Sample};
use anyhow::Context as _;
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// What is kept of one slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice {
    /// Locks acquired and released per second.
    pub(crate) throughput: f64,
    pub(crate) acquire: Option<Quantiles>,
    /// Acquire and release together.
    pub(crate) cycle: Option<Quantiles>,
    /// Processor time of this process per cycle, the servers' not included.
    pub(crate) cpu: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantiles {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

pub(crate) struct Series {
    pub(crate) slices: Vec<Slice>,
    pub(crate) failures: u64,
    acquire: Histogram<u64>,
    cycle: Histogram<u64>,
}

impl Series {
    pub(crate) fn new() -> Self {
        Self { slices: Vec::new(), failures: 0, acquire: histogram(), cycle: histogram() }
    }

    /// Lets the contender run for one slice and adds what came of it.
    pub(crate) fn measure(
        &mut self,
        contender: &mut dyn Contender,
        load: Load,
    ) -> anyhow::Result<()> {
        let before = processor_time();
        let sample = contender.run(load).with_context(|| contender.name())?;
        self.add(&sample, processor_time().saturating_sub(before))
    }

    /// Acquire alone, over all slices.
    pub(crate) fn acquire(&self) -> Option<Quantiles> {
        Quantiles::of(&self.acquire)
    }

    /// Acquire and release together, over all slices.
    pub(crate) fn cycle(&self) -> Option<Quantiles> {
        Quantiles::of(&self.cycle)
    }

    /// One figure of every slice, in the order of the rounds.
    pub(crate) fn each<T>(&self, figure: impl Fn(&Slice) -> T) -> impl Iterator<Item = T> {
        self.slices.iter().map(figure)
    }

    fn add(&mut self, sample: &Sample, cpu: Duration) -> anyhow::Result<()> {
        let (mut acquire, mut cycle) = (histogram(), histogram());
        for one in &sample.cycles {
            acquire.saturating_record(nanoseconds(one.acquire));
            cycle.saturating_record(nanoseconds(one.whole));
        }
        self.acquire.add(&acquire)?;
        self.cycle.add(&cycle)?;
        self.failures += sample.failures;
        self.slices.push(Slice {
            throughput: sample.cycles_per_second(),
            acquire: Quantiles::of(&acquire),
            cycle: Quantiles::of(&cycle),
            cpu: u32::try_from(sample.cycles.len()).ok().and_then(|cycles| cpu.checked_div(cycles)),
        });
        Ok(())
    }
}

impl Quantiles {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| Duration::from_nanos(histogram.value_at_quantile(quantile));
        (!histogram.is_empty()).then(|| Self { p50: at(0.5), p99: at(0.99) })
    }
}

pub(crate) fn microseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// From 1 µs to a minute, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, 60_000_000_000, 3).expect("the bounds are in order")
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Cycle;

    #[test]
    fn slices_add_up() -> anyhow::Result<()> {
        let cycle =
            |ms| Cycle { acquire: Duration::from_millis(ms), whole: Duration::from_millis(2 * ms) };
        let sample = |ms| Sample {
            cycles: vec![cycle(ms); 10],
            failures: 1,
            elapsed: Duration::from_secs(1),
        };
        let mut series = Series::new();

        series.add(&sample(1), Duration::from_millis(20))?;
        series.add(&sample(3), Duration::from_millis(20))?;

        assert_eq!(series.failures, 2);
        assert_eq!(series.each(|slice| slice.cpu).last(), Some(Some(Duration::from_millis(2))));
        assert_eq!(series.acquire().map(|acquire| acquire.p50.as_millis()), Some(1));
        assert_eq!(series.cycle().map(|cycle| cycle.p99.as_millis()), Some(6));
        Ok(())
    }

    #[test]
    fn a_slice_without_a_lock_has_no_quantiles() -> anyhow::Result<()> {
        let mut series = Series::new();

        series.add(
            &Sample { elapsed: Duration::from_secs(1), ..Sample::default() },
            Duration::ZERO,
        )?;

        assert!(series.slices[0].acquire.is_none() && series.slices[0].cpu.is_none());
        Ok(())
    }
}
