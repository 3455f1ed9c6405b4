//! What `redlatch run`, with its log, adds to a command that does nothing, beside `flock`.

use super::run;
use crate::{
    setting::{Setting, servers},
    spread::Spread,
    table::Table,
};
use anyhow::ensure;
use redlatch_testbed::Scratch;
use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

/// In milliseconds, more than `flock`. With five servers on the same two cores, it is they
/// who need the time.
const BOUND: f64 = 5.0;

pub(super) fn measure(setting: &Setting, redlatch: &Path) -> anyhow::Result<Table> {
    let (one, five) = (servers(1)?, servers(5)?);
    let scratch = Scratch::new()?;
    let node = format!("file:{}", scratch.file("node").display());
    let wrappers = [
        ("flock", vec!["flock".into(), scratch.file("lock").display().to_string()]),
        ("redlatch, file", run(redlatch, &[node])),
        ("redlatch, 1 node", run(redlatch, &one.urls())),
        ("redlatch, 5 nodes", run(redlatch, &five.urls())),
    ];
    let mut times = wrappers.each_ref().map(|_| Vec::new());
    for round in 0..setting.turns((200, 0), (20, 0)).rounds {
        for index in (0..wrappers.len()).map(|turn| (round + turn) % wrappers.len()) {
            times[index].push(time(&wrappers[index].1, scratch.path())?);
        }
    }
    Ok(report(&wrappers.map(|(name, _)| name), &times))
}

fn report(names: &[&str], times: &[Vec<f64>]) -> Table {
    let mut table = Table::new("flock: one command that does nothing");
    for (name, own) in names.iter().zip(times) {
        let added = Spread::of(own.iter().zip(&times[0]).map(|(own, flock)| own - flock));
        let median = Spread::of(own.iter().copied());
        table.row(*name, vec![("ms", median.into()), ("over flock ms", added.into())]);
        if ["redlatch, file", "redlatch, 1 node"].contains(name) {
            table.at_most(&format!("{name}: ms over flock"), added, BOUND);
        }
    }
    table
}

/// In milliseconds.
fn time(wrapper: &[String], home: &Path) -> anyhow::Result<f64> {
    let mut command = Command::new(&wrapper[0]);
    command.args(&wrapper[1..]).arg("true").current_dir(home).stdin(Stdio::null());
    command.env("HOME", home).env("XDG_STATE_HOME", home).env("XDG_CONFIG_HOME", home);
    let began = Instant::now();
    let status = command.status()?;
    let took = began.elapsed();
    ensure!(status.success(), "{wrapper:?}: {status}");
    Ok(took.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_over_flock_in_the_same_round() {
        let flock = vec![1.0, 9.0, 2.0];
        let slow = vec![7.0, 15.0, 8.0];
        let quick = vec![3.0, 11.0, 4.0];

        let table = report(&["flock", "redlatch, file", "redlatch, 1 node"], &[flock, slow, quick]);

        let met: Vec<bool> = table.bounds.iter().map(|bound| bound.met).collect();
        assert_eq!(met, [false, true], "{table}");
    }
}
