//! The commands of this project: `cargo xtask test`, `check`, `fix`, `faults`,
//! `evidence`, `bench`, `counts`, `package`, `servers`.

mod apt;
mod bench;
mod check;
mod counts;
mod deny;
mod evidence;
mod faults;
mod features;
mod fix;
mod lowest;
#[cfg(test)]
mod map;
mod metadata;
mod msrv;
mod neighbours;
mod no_std;
mod packages;
mod servers;
mod shell;
mod stages;
mod test;
mod wheel;

use std::{env, process::ExitCode};

const HELP: &str = "\
Checks, tests and tidies this project.

Usage: cargo xtask COMMAND

Commands:
  test     Run all tests, doctests and examples, against real servers
  check    Check formatting, lints, docs, licences; change nothing
  fix      Format the code and apply the fixes that clippy offers
  faults   Break real servers, networks, clocks and clients under load, and
           check what the locks did; evidence goes to target/evidence/faults
  evidence Run all of the evidence at full length, and put the figures into
           docs/evidence.md; with names, only those blocks
  bench    Measure Redlatch beside its peers; figures and plot go to target/bench
  counts   Count the instructions of core and codec, as `test` does, and compare
           them with the figures in crates/redlatch-bench/counts.json
  package  Build the crates as they would be published, beside others that
           bring SQLite, and with the lowest versions of their dependencies;
           publish nothing
  servers  Find the servers that the tests need, and install what is missing

Options:
  --advisories  With `check`: also ask the advisory database, which must be
                reachable
  --short       With `faults`, `bench`: everything briefly, less than three
                minutes in all
  --only WHAT   With `faults`: these rows alone, such as `--only 1,16`; with
                `bench`: these parts alone, such as `--only handover,turns`
  --check       With `bench`: print each bound with what was measured, and fail
                when one is missed
  --write       With `bench`: put figures and plot into docs and README.md; with
                `counts`: put the present figures into counts.json
  --list        With `faults`: list the rows
  -h, --help    Print this help

Environment:
  REDLATCH_REDIS_7, REDLATCH_REDIS_62, REDLATCH_VALKEY
                The server programs to use, instead of those found
  REDLATCH_POSTGRES
                The directory of PostgreSQL's programs, instead of the one found
  REDLATCH_FAKETIME
                The libfaketime library to use, instead of the one found

Exit codes: 0 all well, 1 something failed, 2 wrong usage";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if words.contains(&"--help") || words.contains(&"-h") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match words[..] {
        ["test"] => test::run(),
        ["check"] => check::run(check::Advisories::Skip),
        ["check", "--advisories"] => check::run(check::Advisories::Ask),
        ["fix"] => fix::run(),
        ["faults", ref arguments @ ..] => faults::run(arguments),
        ["evidence", ref blocks @ ..] => evidence::run(blocks),
        ["bench", ref arguments @ ..] => bench::run(arguments),
        ["counts"] => counts::run(false),
        ["counts", "--write"] => counts::run(true),
        ["package"] => packages::run(),
        ["servers"] => servers::run(),
        [] => usage("no command given"),
        _ => usage(&format!("cannot make sense of `{}`", words.join(" "))),
    }
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("error: {problem}\n\n{HELP}");
    ExitCode::from(2)
}
