//! Reports what a search found and keeps the evidence.

use super::{
    Options, invariants::Violation, many::Found, play_safely, schedule::Schedule, shrink_to,
};
use crate::{svg, trace::Trace};
use std::{fs, path::Path};

/// More failures than this are not shrunk: they add nothing.
const MOST_SHRUNK: usize = 3;
/// A diagram with more steps than this is no help.
const MOST_DRAWN: usize = 2_000;

/// Reports on many seeds; returns whether any broke a promise.
pub(super) fn many(found: &Found, evidence: &Path) -> anyhow::Result<bool> {
    let (counts, claims) = (found.counts, found.claims);
    let seconds = found.took.as_secs_f64();
    println!("{} seeds, {} events in {seconds:.1} s", found.seeds, counts.events);
    println!("  {} commands to nodes, {} of them late", counts.commands, counts.late);
    println!(
        "  {} locks wanted, {} granted, {} times extended, {} lost",
        counts.asked, counts.granted, counts.kept, counts.lost
    );
    println!("  {} waited in line, {} wakes reached them", counts.in_line, counts.woken);
    println!(
        "  exclusion had to hold in {} of the seeds, the order of fencing tokens in {}",
        claims.exclusion, claims.fencing
    );
    println!(
        "  nodes forgot in {}, the restart guard was on in {}, {} had a thousand clients or more",
        claims.forgetting, claims.guarded, claims.crowds
    );
    for (seed, violation) in &found.broken {
        println!("\nBROKEN by seed {seed}, {}: {}", violation.invariant, violation.what);
        println!("  redlatch-sim search --seed {seed}");
    }
    for (seed, violation) in found.broken.iter().take(MOST_SHRUNK) {
        shrunk(&Schedule::of(*seed), violation, evidence)?;
    }
    let verdict = if found.broken.is_empty() { "no promise was broken" } else { "NOT CLEAN" };
    println!("{verdict}");
    Ok(!found.broken.is_empty())
}

/// Prints the history of one schedule; returns whether it broke a promise.
pub(super) fn one(schedule: &Schedule, evidence: &Path) -> anyhow::Result<bool> {
    let outcome = play_safely(schedule, Options { trace: true, ..Options::default() });
    if let Some(trace) = &outcome.trace {
        println!("{trace}");
        let name = format!("seed-{}", schedule.seed);
        keep(evidence, &name, None, trace)?;
    }
    println!("{:?}", outcome.counts);
    match &outcome.violation {
        Some(violation) => shrunk(schedule, violation, evidence)?,
        None => println!("no promise was broken"),
    }
    Ok(outcome.violation.is_some())
}

/// Shrinks a schedule and keeps the result.
fn shrunk(schedule: &Schedule, violation: &Violation, evidence: &Path) -> anyhow::Result<()> {
    let small = shrink_to(schedule, violation, Options::default());
    let (jobs, troubles) = (small.jobs.len(), small.troubles.len());
    println!(
        "\n{} cut down from {} locks and {} troubles to {jobs} and {troubles}",
        violation.invariant,
        schedule.jobs.len(),
        schedule.troubles.len()
    );
    let outcome = play_safely(&small, Options { trace: true, ..Options::default() });
    if let Some(violation) = &outcome.violation {
        println!("  at {:?}: {}", violation.at.since(redlatch_core::Moment::START), violation.what);
    }
    let name = format!("seed-{}-shrunk", schedule.seed);
    let trace = outcome.trace.unwrap_or_default();
    keep(evidence, &name, Some(&small), &trace)?;
    let file = evidence.join(name + ".schedule");
    println!("  redlatch-sim search --schedule {}", file.display());
    Ok(())
}

fn keep(
    evidence: &Path,
    name: &str,
    schedule: Option<&Schedule>,
    trace: &Trace,
) -> anyhow::Result<()> {
    fs::create_dir_all(evidence)?;
    if let Some(schedule) = schedule {
        fs::write(evidence.join(format!("{name}.schedule")), schedule.to_text()?)?;
    }
    fs::write(evidence.join(format!("{name}.txt")), trace.to_string())?;
    if trace.steps.len() <= MOST_DRAWN {
        fs::write(evidence.join(format!("{name}.svg")), svg::sequence(trace))?;
    }
    Ok(())
}
