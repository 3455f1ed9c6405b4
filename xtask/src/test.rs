//! `cargo xtask test`: everything that is executed to see whether it works.

use crate::{
    counts,
    metadata::Metadata,
    neighbours, servers,
    shell::{self, Outcome},
    stages::Stages,
};
use std::{
    num::NonZero,
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

const EVERYTHING: [&str; 3] = ["--workspace", "--all-features", "--locked"];
/// The package whose examples are run.
const LIBRARY: &str = "redlatch";
/// An example shows something; it does not make its reader wait.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(60);

/// Examples that need servers of their own: a transcript of the command runs them.
const RUN_BY_TESTS: [&str; 2] = ["first_lock", "readme"];

/// The evidence in its short form: what it is called, the program, its arguments.
const EVIDENCE: [(&str, &str, &[&str]); 4] = [
    ("prove --short", "redlatch-sim", &["prove", "--short"]),
    ("mutants", "redlatch-sim", &["mutants"]),
    ("search --short", "redlatch-sim", &["search", "--short"]),
    // What a test shows of a row was run with the tests.
    ("faults --short", "redlatch-faults", &["run", "--short", "--without-tests"]),
];

pub(crate) fn run() -> ExitCode {
    let mut stages = Stages::default();
    let servers = stages.run("servers", servers::provide);
    if servers.is_err() {
        stages.skip("tests, examples", "they need the servers");
        return stages.finish();
    }
    let _ = stages.run("tests", tests);
    let _ = stages.run("doctests", doctests);
    neighbours::stages(&mut stages);
    match built_examples() {
        Ok(examples) if examples.is_empty() => stages.skip("examples", "there are none"),
        Ok(examples) => {
            for (name, mut command) in examples {
                if RUN_BY_TESTS.contains(&name.as_str()) {
                    stages.skip(&format!("example {name}"), "the transcript new_servers runs it");
                    continue;
                }
                let _ = stages.run(&format!("example {name}"), || {
                    shell::run_within(EXAMPLE_LIMIT, &mut command)
                });
            }
        }
        Err(why) => {
            let _ = stages.run("examples", || Err(why));
        }
    }
    match built_evidence() {
        Ok(programs) => {
            for (name, mut command) in programs {
                let _ = stages.run(name, || shell::run(&mut command));
            }
        }
        Err(why) => {
            let _ = stages.run("evidence", || Err(why));
        }
    }
    let _ = stages.run("instruction counts", counts::check);
    stages.finish()
}

fn tests() -> Outcome {
    if shell::on_path("cargo-nextest") {
        // Most tests wait for servers and clocks, not for the processor.
        let threads = 2 * thread::available_parallelism().map_or(2, NonZero::get);
        let mut command = shell::cargo(["nextest", "run", "--no-fail-fast", "--test-threads"]);
        return shell::run(command.arg(threads.to_string()).args(EVERYTHING));
    }
    eprintln!("cargo-nextest is not installed: `cargo test` does the same, only slower");
    let targets = ["test", "--no-fail-fast", "--lib", "--bins", "--tests"];
    shell::run(shell::cargo(targets).args(EVERYTHING))
}

fn doctests() -> Outcome {
    shell::run(shell::cargo(["test", "--doc", "--no-fail-fast"]).args(EVERYTHING))
}

/// Builds the examples and returns how to start each. They are started without
/// cargo in between, which would survive the time limit.
fn built_examples() -> Outcome<Vec<(String, Command)>> {
    let metadata = Metadata::of(&["--no-deps"])?;
    let names = metadata.examples(LIBRARY);
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let build = ["build", "--examples", "--package", LIBRARY, "--all-features", "--locked"];
    shell::run(&mut shell::cargo(build))?;
    let dir = metadata.target_dir()?.join("debug/examples");
    let command = |name: &str| {
        let mut command = Command::new(dir.join(name));
        command.current_dir(shell::workspace());
        command
    };
    Ok(names.into_iter().map(|name| (name.to_owned(), command(name))).collect())
}

/// Builds the programs of the evidence and returns how to start each.
fn built_evidence() -> Outcome<Vec<(&'static str, Command)>> {
    let packages = ["--package", "redlatch-sim", "--package", "redlatch-faults"];
    shell::run(shell::cargo(["build", "--release", "--locked"]).args(packages))?;
    let dir = Metadata::of(&["--no-deps"])?.target_dir()?.join("release");
    let command = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(dir.join(program));
        command.args(arguments).current_dir(shell::workspace());
        command
    };
    Ok(EVIDENCE.map(|(name, program, arguments)| (name, command(program, arguments))).into())
}
