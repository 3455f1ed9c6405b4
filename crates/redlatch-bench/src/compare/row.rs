//! The result: one row for each contender and load.

use super::Entry;
use crate::{
    contender::{floor, redlatch, rslock},
    series::{Series, Slice, microseconds},
    spread::Spread,
};
use serde::Serialize;
use std::fmt;

#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) contender: &'static str,
    pub(super) tasks: usize,
    /// The median of the rounds.
    pub(super) locks_per_second: Option<f64>,
    /// Of acquire and release together, over all rounds.
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    /// Processor time of the client's side.
    pub(super) cpu_us_per_lock: Option<f64>,
    pub(super) failures: u64,
    pub(super) to_floor: Ratios,
    pub(super) to_rslock: Ratios,
    /// Over redlatch as plain Redlock.
    pub(super) to_plain: Ratios,
}

/// This contender's figure over another one's, round by round.
#[derive(Debug, Serialize)]
pub(super) struct Ratios {
    /// Of p50: less is better.
    pub(super) latency: Option<Spread>,
    /// Of locks per second: more is better.
    pub(super) throughput: Option<Spread>,
}

impl Row {
    /// One row for each entry of a load.
    pub(super) fn of_each(entries: &[Entry]) -> Vec<Self> {
        let named = |name| entries.iter().find(|entry| entry.contender == name);
        let others = [floor::NAME, rslock::NAME, redlatch::NAME].map(named);
        entries.iter().map(|entry| Self::new(entry, others)).collect()
    }

    fn new(entry: &Entry, [floor, rslock, plain]: [Option<&Entry>; 3]) -> Self {
        let series = &entry.series;
        let median = |figures: &mut dyn Iterator<Item = f64>| Some(Spread::of(figures)?.median);
        let cycle = series.cycle();
        Self {
            contender: entry.contender,
            tasks: entry.tasks,
            locks_per_second: median(&mut series.each(|slice| slice.throughput)),
            p50_us: cycle.map(|cycle| microseconds(cycle.p50)),
            p99_us: cycle.map(|cycle| microseconds(cycle.p99)),
            cpu_us_per_lock: median(
                &mut series.each(|slice| slice.cpu).flatten().map(microseconds),
            ),
            failures: series.failures,
            to_floor: Ratios::new(series, floor),
            to_rslock: Ratios::new(series, rslock),
            to_plain: Ratios::new(series, plain),
        }
    }

    /// What counts under this load: how fast one is, or how much many get done.
    fn ratio(&self, ratios: &Ratios) -> Option<Spread> {
        if self.tasks == 1 { ratios.latency } else { ratios.throughput }
    }
}

impl Ratios {
    fn new(this: &Series, that: Option<&Entry>) -> Self {
        let ratio = |figure: fn(&Slice) -> Option<f64>| {
            Spread::of_ratios(this.each(figure), that?.series.each(figure))
        };
        Self {
            latency: ratio(|slice| Some(microseconds(slice.cycle?.p50))),
            throughput: ratio(|slice| Some(slice.throughput)),
        }
    }
}

/// The rows of all loads, one table for each.
pub(super) struct Table<'a>(pub(super) &'a [Row]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, rows) in self.0.chunk_by(|a, b| a.tasks == b.tasks).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            match rows[0].tasks {
                1 => writeln!(f, "1 task; ratios of p50, less is better")?,
                tasks => writeln!(f, "{tasks} tasks; ratios of locks/s, more is better")?,
            }
            writeln!(
                f,
                "{:<16} {:>8} {:>9} {:>9} {:>9}  {:<18} {:<18} {:<18} {:>6}",
                "contender",
                "locks/s",
                "p50 µs",
                "p99 µs",
                "cpu µs",
                "× floor",
                "× rslock",
                "× redlatch",
                "failed"
            )?;
            rows.iter().try_for_each(|row| writeln!(f, "{row}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figure = |figure: Option<f64>, digits| match figure {
            Some(figure) => format!("{figure:.digits$}"),
            None => "–".to_owned(),
        };
        let ratio =
            |ratio: Option<Spread>| ratio.map_or("–".to_owned(), |ratio| ratio.to_string());
        write!(
            f,
            "{:<16} {:>8} {:>9} {:>9} {:>9}  {:<18} {:<18} {:<18} {:>6}",
            self.contender,
            figure(self.locks_per_second, 0),
            figure(self.p50_us, 1),
            figure(self.p99_us, 1),
            figure(self.cpu_us_per_lock, 1),
            ratio(self.ratio(&self.to_floor)),
            ratio(self.ratio(&self.to_rslock)),
            ratio(self.ratio(&self.to_plain)),
            self.failures,
        )
    }
}
