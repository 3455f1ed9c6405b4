//! The measurements as figures, and as a table.

use super::{Plan, load::Measured, topology::Topology};
use serde::Serialize;
use std::{fmt::Write, time::Duration};

/// The answer for one topology. Times in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) topology: Topology,
    pub(super) requests: u64,
    /// The share that was granted within the wait.
    pub(super) availability: f64,
    pub(super) acquire: Quantiles,
    /// From a release to the next grant, if someone waited.
    pub(super) hand_over: Option<Quantiles>,
    /// The share of grants that took a second round of fencing.
    pub(super) second_rounds: f64,
    /// Commands and replies per granted lock.
    pub(super) messages: f64,
    pub(super) simulated_events: u64,
    pub(super) simulated_seconds: f64,
    /// Every thousandth of the latencies, for the plot.
    #[serde(skip)]
    pub(super) curve: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Quantiles {
    pub(super) p50: u32,
    pub(super) p90: u32,
    pub(super) p99: u32,
    pub(super) max: u32,
}

impl Quantiles {
    /// Takes times in ascending order.
    fn of(sorted: &[u32]) -> Option<Self> {
        let max = *sorted.last()?;
        let at = |thousandths| quantile(sorted, thousandths);
        Some(Quantiles { p50: at(500), p90: at(900), p99: at(990), max })
    }
}

/// The shortest time that this many thousandths do not exceed.
fn quantile(sorted: &[u32], thousandths: usize) -> u32 {
    let rank = (sorted.len() * thousandths).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

impl Figures {
    pub(super) fn of(topology: Topology, measured: Measured) -> Self {
        let Measured { asked, mut waits, mut hand_overs, raised, messages, events, lasted } =
            measured;
        waits.sort_unstable();
        hand_overs.sort_unstable();
        let granted = u64::try_from(waits.len()).unwrap_or(u64::MAX);
        let nothing = Quantiles { p50: 0, p90: 0, p99: 0, max: 0 };
        let curve = (1..=1000).map(|thousandths| quantile(&waits, thousandths)).collect();
        Figures {
            topology,
            requests: asked,
            availability: share(granted, asked),
            acquire: Quantiles::of(&waits).unwrap_or(nothing),
            hand_over: Quantiles::of(&hand_overs),
            second_rounds: share(raised, granted),
            messages: share(messages, granted),
            simulated_events: events,
            simulated_seconds: lasted.as_secs_f64(),
            curve,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

pub(super) fn table(plan: &Plan, figures: &[Figures]) -> String {
    let mut text = question(plan) + "\n\n";
    let mut rows = vec![
        [
            "",
            "granted",
            "p50",
            "p90",
            "p99",
            "max",
            "hand-over p50",
            "p99",
            "2nd rounds",
            "messages",
        ]
        .map(str::to_owned),
    ];
    for figure in figures {
        let Figures { acquire, hand_over, .. } = figure;
        let over = |pick: fn(Quantiles) -> u32| hand_over.map_or("-".into(), |q| time(pick(q)));
        rows.push([
            figure.topology.name().to_owned(),
            format!("{:.2} %", figure.availability * 100.0),
            time(acquire.p50),
            time(acquire.p90),
            time(acquire.p99),
            time(acquire.max),
            over(|q| q.p50),
            over(|q| q.p99),
            format!("{:.2} %", figure.second_rounds * 100.0),
            format!("{:.1}", figure.messages),
        ]);
    }
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            let width = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
            let _ = match column {
                0 => write!(text, "{cell:width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text.push_str(
        "\ngranted: by an attempt that began within the wait. p50 … max: from asking to the\n\
         grant. hand-over: from a release to the next grant, where somebody waited. 2nd\n\
         rounds: grants whose fencing numbers differed at first. messages: commands,\n\
         replies and wakes per lock granted.\n",
    );
    text
}

pub(super) fn question(plan: &Plan) -> String {
    let down =
        if plan.failing > 0 { format!(", {} of them down", plan.failing) } else { String::new() };
    let how = if plan.fair { "in line" } else { "with random pauses" };
    format!(
        "{} nodes{down}; {} clients want {} locks, hold one for {:?}, think for {:?}, wait for {:?} \
         {how}",
        plan.nodes, plan.clients, plan.locks, plan.hold, plan.think, plan.wait
    )
}

/// Three digits and a fitting unit.
pub(super) fn time(micros: u32) -> String {
    let millis = f64::from(micros) / 1000.0;
    match Duration::from_micros(micros.into()) {
        t if t < Duration::from_millis(10) => format!("{millis:.2} ms"),
        t if t < Duration::from_millis(100) => format!("{millis:.1} ms"),
        t if t < Duration::from_secs(1) => format!("{millis:.0} ms"),
        _ => format!("{:.2} s", millis / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let sorted: Vec<u32> = (1..=200).collect();

        let quantiles = Quantiles::of(&sorted).unwrap();

        assert_eq!(quantiles, Quantiles { p50: 100, p90: 180, p99: 198, max: 200 });
        assert_eq!(Quantiles::of(&[]), None);
    }

    #[test]
    fn a_time_has_three_digits_and_a_unit_that_fits() {
        let shown = [210, 45_200, 180_400, 1_234_000].map(time);

        assert_eq!(shown, ["0.21 ms", "45.2 ms", "180 ms", "1.23 s"]);
    }
}
