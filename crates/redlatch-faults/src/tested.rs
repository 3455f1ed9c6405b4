//! Runs tests of this workspace by name, all at once.
//!
//! Uses the flags of `cargo xtask test`, so that nothing is built twice.

use crate::report::ReportLine;
use anyhow::Context as _;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::{Command, Stdio},
};

/// The outcomes of tests by name.
#[derive(Debug, Default)]
pub(crate) struct Tested {
    outcomes: BTreeMap<String, bool>,
}

impl Tested {
    /// Runs the tests of these names.
    pub(crate) fn run(names: &BTreeSet<&str>) -> anyhow::Result<Self> {
        if names.is_empty() {
            return Ok(Self::default());
        }
        eprintln!("running {} tests by name", names.len());
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
            .args(["test", "--workspace", "--all-features", "--locked", "--no-fail-fast"])
            // The tests mostly wait.
            .args(["--lib", "--bins", "--tests", "--", "--test-threads=4", "--exact"])
            .args(names)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("start cargo")?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            eprintln!("{}", failures(&text));
        }
        Ok(Self { outcomes: read(&text) })
    }

    /// The result of a row that these tests show.
    pub(crate) fn line(&self, names: &[&str]) -> ReportLine {
        let wrong = |name: &&&str| match self.outcomes.get(**name) {
            Some(true) => None,
            Some(false) => Some(format!("{name} failed")),
            None => Some(format!("{name} is no test, or was not run")),
        };
        let missed = names.iter().filter_map(|name| wrong(&name)).collect();
        let how = match names.len() {
            1 => "1 test".to_owned(),
            count => format!("{count} tests"),
        };
        let tests = names.iter().map(|&name| name.to_owned()).collect();
        ReportLine { how, tests, missed, ..ReportLine::default() }
    }
}

/// What failed tests printed: cargo's output between `failures:` and the result.
fn failures(output: &str) -> String {
    let mut inside = false;
    let said = output.lines().filter(|line| {
        inside = (inside || *line == "failures:") && !line.starts_with("test result:");
        inside
    });
    said.collect::<Vec<_>>().join("\n")
}

/// Reads lines such as `test clock::tests::a_name ... ok`. A test that exists in
/// two programs has passed only if it passed in both.
fn read(output: &str) -> BTreeMap<String, bool> {
    let mut outcomes = BTreeMap::new();
    for line in output.lines() {
        let Some((name, outcome)) =
            line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
        else {
            continue;
        };
        // Some expect a panic: `test name - should panic ... ok`.
        let name = name.split(' ').next().unwrap_or(name);
        let is_ok = outcomes.entry(name.to_owned()).or_insert(true);
        *is_ok &= outcome == "ok";
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_failed_or_is_not_there_is_a_miss() {
        let outcomes = read("running 2 tests\ntest a::b ... ok\ntest c ... FAILED\n");
        let tested = Tested { outcomes };

        assert_eq!(tested.line(&["a::b"]).missed, [""; 0]);
        assert_eq!(tested.line(&["a::b", "c"]).missed, ["c failed"]);
        assert_eq!(tested.line(&["d"]).missed, ["d is no test, or was not run"]);
    }

    #[test]
    fn what_failed_tests_said_is_shown_and_nothing_else() {
        let output =
            "test a ... FAILED\n\nfailures:\n\n---- a ----\nwhy\n\ntest result: FAILED\nrest";

        assert_eq!(failures(output), "failures:\n\n---- a ----\nwhy\n");
    }

    #[test]
    fn a_name_that_failed_in_one_of_two_programs_has_failed() {
        assert_eq!(read("test a ... FAILED\ntest a ... ok\n").get("a"), Some(&false));
    }
}
