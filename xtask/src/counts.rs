//! `cargo xtask counts`: how many instructions the core and the codec take, as
//! valgrind counts them, against the figures in `counts.json`.
//!
//! Counts do not depend on what else the machine does. They do on the compiler:
//! with another one than that of the figures they are shown, and no bound. Between
//! machines the C library's choices for a processor differ by less than the slack;
//! the widest of them are switched off.

use crate::{
    apt,
    metadata::Metadata,
    shell::{self, Outcome},
    stages::Stages,
};
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::Path,
    process::{Command, ExitCode},
};

/// An example, because those are never built for tests: it takes in a file of the
/// library, whose tests are there.
const PROGRAM: &str = "counts";
const FIGURES: &str = "crates/redlatch-bench/counts.json";
/// What is counted: the program's word for it, and ours.
const WORKS: [(&str, &str); 3] = [
    ("core", "core: acquire, renew, release on 5 nodes"),
    ("write", "codec: a take and a release encoded"),
    ("read", "codec: 6 replies decoded"),
];
/// The difference between two runs is free of what the start costs.
const CYCLES: [u64; 2] = [200, 1_200];
/// In percent.
const SLACK: u64 = 5;
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-FSRM";

pub(crate) fn run(write: bool) -> ExitCode {
    let mut stages = Stages::default();
    let _ = stages.run("instruction counts", || if write { record() } else { check() });
    stages.finish()
}

/// Fails if something takes more instructions than it did.
pub(crate) fn check() -> Outcome {
    let path = shell::workspace().join(FIGURES);
    let text = fs::read_to_string(path).map_err(|error| format!("{FIGURES}: {error}"))?;
    let figures: Value =
        serde_json::from_str(&text).map_err(|error| format!("{FIGURES}: {error}"))?;
    let (compiler, counts) = (compiler()?, count()?);
    let same = figures["compiler"] == compiler.as_str();
    let mut worse = Vec::new();
    for ((work, name), count) in WORKS.iter().zip(counts) {
        let before = figures[work].as_u64().ok_or_else(|| format!("{FIGURES}: no `{work}`"))?;
        let verdict = Verdict::of(count, before);
        println!("{name:<42} {count:>7} instructions, was {before:>7}  {verdict:?}");
        if verdict == Verdict::Worse {
            worse.push(*name);
        }
    }
    if !same {
        println!("no bound: the figures are of {}, this is {compiler}", figures["compiler"]);
        return Ok(());
    }
    let again = "`cargo xtask counts --write` records the present figures";
    if worse.is_empty() {
        println!("if they are better, {again}");
        return Ok(());
    }
    Err(format!(
        "more than {SLACK} % more instructions: {}; if that must be, {again}",
        worse.join("; ")
    ))
}

fn record() -> Outcome {
    let mut figures = Map::from_iter([("compiler".to_owned(), json!(compiler()?))]);
    for ((work, name), count) in WORKS.iter().zip(count()?) {
        println!("{name:<42} {count:>7} instructions");
        figures.insert((*work).to_owned(), json!(count));
    }
    let text = format!("{:#}\n", Value::Object(figures));
    fs::write(shell::workspace().join(FIGURES), text).map_err(|error| format!("{FIGURES}: {error}"))
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    Better,
    Worse,
}

impl Verdict {
    fn of(count: u64, before: u64) -> Self {
        match (100 * count, 100 * before) {
            (now, then) if now > then + SLACK * before => Self::Worse,
            (now, then) if now + SLACK * before < then => Self::Better,
            _ => Self::Same,
        }
    }
}

/// Instructions of one cycle of each work.
fn count() -> Outcome<Vec<u64>> {
    if !shell::on_path("valgrind") {
        apt::install(&["valgrind"])?;
    }
    let build =
        ["build", "--release", "--locked", "--package", "redlatch-bench", "--example", PROGRAM];
    shell::run(&mut shell::cargo(build))?;
    let program =
        Metadata::of(&["--no-deps"])?.target_dir()?.join("release/examples").join(PROGRAM);
    let per_cycle = |(work, _): &(&str, &str)| {
        let [few, many] = CYCLES.map(|cycles| collected(&program, work, cycles));
        Ok((many? - few?) / (CYCLES[1] - CYCLES[0]))
    };
    WORKS.iter().map(per_cycle).collect()
}

/// Instructions of one run.
fn collected(program: &Path, work: &str, cycles: u64) -> Outcome<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-fd=1"]);
    command.arg(program).args([work, &cycles.to_string()]).env("GLIBC_TUNABLES", TUNABLES);
    let text = shell::output(&mut command)?;
    let line = text.lines().find_map(|line| line.split_once("Collected :"));
    let count = line.and_then(|(_, count)| count.trim().parse().ok());
    count.ok_or_else(|| format!("valgrind counted nothing:\n{text}"))
}

/// What the figures depend on.
fn compiler() -> Outcome<String> {
    let text = shell::output(Command::new("rustc").arg("-vV"))?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    match (field("rustc "), field("host: "), field("LLVM version: ")) {
        (Some(rustc), Some(host), Some(llvm)) => Ok(format!("rustc {rustc}, LLVM {llvm}, {host}")),
        _ => Err(format!("rustc -vV does not say what it is:\n{text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_percent_more_are_forgiven_and_no_more() {
        assert_eq!(Verdict::of(1_050, 1_000), Verdict::Same);
        assert_eq!(Verdict::of(1_051, 1_000), Verdict::Worse);
        assert_eq!(Verdict::of(950, 1_000), Verdict::Same);
        assert_eq!(Verdict::of(949, 1_000), Verdict::Better);
    }
}
