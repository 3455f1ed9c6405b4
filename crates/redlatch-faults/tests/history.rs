//! The harness from end to end, as its own program: a short history with nodes
//! that forget and clocks that jump is clean, and one with a planted repeat is
//! not.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use redlatch_testbed::Scratch;
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

const ACQUIRES: usize = 2_000;

fn faults(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_redlatch-faults")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}\n{err}")
}

#[test]
fn a_short_history_is_clean_and_a_planted_repeat_in_it_is_found() {
    let dir = Scratch::new().unwrap();
    let out = dir.path().to_str().unwrap();
    let acquires = ACQUIRES.to_string();

    let run =
        faults(&["history", "--acquires", &acquires, "--processes", "4", "--keep", "--out", out]);
    assert!(run.status.success(), "{}", text(&run));

    let history = dir.file("row-0-history");
    let checked = faults(&["check", history.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", text(&checked));
    assert!(text(&checked).contains(&format!("acquired {ACQUIRES},")), "{}", text(&checked));

    let repeated = plant_a_repeat(&history);
    let checked = faults(&["check", history.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1), "{}", text(&checked));
    let said = format!("token {repeated} was given to");
    assert!(text(&checked).contains(&said), "{}", text(&checked));
}

/// Gives the last grant of one caller the token of the grant before it of the
/// same resource, in the file itself.
fn plant_a_repeat(history: &Path) -> String {
    let path = history.join("w1.0.log");
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    // (resource, line of the grant), in order.
    let mut grants: Vec<(String, usize)> = Vec::new();
    let mut resource = String::new();
    for (number, line) in lines.iter().enumerate() {
        match &words(line)[..] {
            [_, word, _, name] if word == "try" => resource.clone_from(name),
            [_, word, ..] if word == "granted" => grants.push((resource.clone(), number)),
            _ => {}
        }
    }
    let (resource, last) = grants.pop().unwrap();
    let (_, earlier) = grants.iter().rfind(|(name, _)| *name == resource).unwrap();
    let token = words(&lines[*earlier])[3].clone();
    let mut changed = words(&lines[last]);
    changed[3].clone_from(&token);
    lines[last] = changed.join(" ");
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    token
}

#[test]
fn a_directory_without_a_history_is_an_error() {
    let dir = Scratch::new().unwrap();

    let checked = faults(&["check", dir.path().to_str().unwrap()]);

    assert_eq!(checked.status.code(), Some(1), "{}", text(&checked));
    assert!(text(&checked).contains("holds no history"), "{}", text(&checked));
}

#[test]
fn a_row_that_is_not_in_the_table_is_an_error() {
    let run = faults(&["run", "--only", "99"]);

    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run).contains("there is no row 99"), "{}", text(&run));
}
