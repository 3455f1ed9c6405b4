//! What redlatch must reach.

use super::row::Row;
use crate::{cli::ComparePlan, contender::redlatch, spread::Spread};

/// One sentence for each bound that was missed.
pub(super) fn missed(plan: &ComparePlan, rows: &[Row]) -> Vec<String> {
    let ours: Vec<&Row> = rows.iter().filter(|row| row.contender == redlatch::NAME).collect();
    if ours.is_empty() {
        return vec!["redlatch was not measured".to_owned()];
    }
    let guarded = rows.iter().filter(|row| row.contender == redlatch::GUARDED);
    let missed = ours.into_iter().flat_map(|row| missed_by(plan, row));
    missed.chain(guarded.filter_map(|row| guard_missed(plan, row))).collect()
}

/// What fencing and the restart guard may cost.
fn guard_missed(plan: &ComparePlan, row: &Row) -> Option<String> {
    let Row { tasks, to_plain, .. } = row;
    let (what, ratio, met) = if *tasks == 1 {
        let met = |ratio: Spread| ratio.median <= plan.max_guard_latency;
        ("p50", to_plain.latency, to_plain.latency.is_some_and(met))
    } else {
        let met = |ratio: Spread| ratio.median >= plan.min_guard_throughput;
        ("throughput", to_plain.throughput, to_plain.throughput.is_some_and(met))
    };
    let whose = "with fencing and guard";
    (!met).then(|| format!("{tasks} tasks: {what} {whose} is {} times the plain one", text(ratio)))
}

fn missed_by(plan: &ComparePlan, row: &Row) -> Vec<String> {
    let mut missed = Vec::new();
    let tasks = row.tasks;
    let mut require = |met: bool, what: String| {
        if !met {
            missed.push(what);
        }
    };
    require(row.failures == 0, format!("{tasks} tasks: {} cycles failed", row.failures));
    if tasks == 1 {
        let (p50, bound) = (row.to_floor.latency, plan.max_latency);
        require(
            p50.is_some_and(|p50| p50.median <= bound),
            format!("1 task: p50 is {} times the floor's, allowed are {bound}", text(p50)),
        );
    } else {
        let bounds = [
            ("the floor's", row.to_floor.throughput, plan.min_throughput),
            ("rslock's", row.to_rslock.throughput, plan.min_over_rslock),
        ];
        for (whose, ratio, bound) in bounds {
            require(
                ratio.is_some_and(|ratio| ratio.median >= bound),
                format!(
                    "{tasks} tasks: throughput is {} times {whose}, needed are {bound}",
                    text(ratio)
                ),
            );
        }
    }
    missed
}

fn text(ratio: Option<Spread>) -> String {
    ratio.map_or("unknown".to_owned(), |ratio| ratio.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Task};
    use crate::compare::row::Ratios;

    #[test]
    fn one_caller_is_held_to_latency_alone() {
        let good_latency = row(1, 1.3, 0.1);
        let bad_latency = row(1, 1.5, 9.0);

        assert_eq!(missed(&plan(), &[good_latency]), [""; 0]);
        assert_eq!(missed(&plan(), &[bad_latency]).len(), 1);
    }

    #[test]
    fn many_callers_are_held_to_throughput_alone() {
        let far_ahead = row(256, 9.0, 2.1);
        let behind_rslock = row(256, 1.0, 1.9);
        let behind_both = row(256, 1.0, 0.5);

        assert_eq!(missed(&plan(), &[far_ahead]), [""; 0]);
        assert_eq!(missed(&plan(), &[behind_rslock]).len(), 1);
        assert_eq!(missed(&plan(), &[behind_both]).len(), 2);
    }

    #[test]
    fn fencing_and_guard_are_held_to_the_plain_lock() {
        let guarded = |tasks, latency, throughput| Row {
            contender: redlatch::GUARDED,
            ..row(tasks, latency, throughput)
        };
        let plain = || row(1, 1.0, 1.0);

        assert_eq!(missed(&plan(), &[plain(), guarded(1, 1.2, 0.1)]), [""; 0]);
        assert_eq!(missed(&plan(), &[plain(), guarded(1, 1.3, 9.0)]).len(), 1);
        assert_eq!(missed(&plan(), &[plain(), guarded(256, 9.0, 0.5)]), [""; 0]);
        assert_eq!(missed(&plan(), &[plain(), guarded(256, 1.0, 0.4)]).len(), 1);
    }

    #[test]
    fn what_was_not_measured_misses_its_bounds() {
        let mut silent = row(256, 1.0, 1.0);
        silent.to_floor.throughput = None;
        silent.to_rslock.throughput = None;

        assert_eq!(missed(&plan(), &[]).len(), 1);
        assert_eq!(missed(&plan(), &[silent]).len(), 2);
    }

    #[test]
    fn a_failure_is_a_miss_however_fast() {
        let mut hasty = row(1, 1.0, 1.0);
        hasty.failures = 1;

        assert_eq!(missed(&plan(), &[hasty]).len(), 1);
    }

    fn plan() -> ComparePlan {
        match Cli::parse_from(["redlatch-bench", "compare"]).task {
            Task::Compare(plan) => plan,
            _ => panic!("`compare` was typed"),
        }
    }

    fn row(tasks: usize, latency: f64, throughput: f64) -> Row {
        let ratios =
            || Ratios { latency: Spread::of([latency]), throughput: Spread::of([throughput]) };
        Row {
            contender: redlatch::NAME,
            tasks,
            locks_per_second: None,
            p50_us: None,
            p99_us: None,
            cpu_us_per_lock: None,
            failures: 0,
            to_floor: ratios(),
            to_rslock: ratios(),
            to_plain: ratios(),
        }
    }
}
