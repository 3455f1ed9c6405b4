//! README's programs are those that the transcript `new_servers` runs.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::{fs, path::Path};

/// The Rust programs of the README.
fn programs() -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let blocks = readme.split("```rust").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap().split_once('\n').unwrap().1.into())
        .collect()
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// An example, but for the words at its top.
fn example(name: &str) -> String {
    let path = root().join(format!("crates/redlatch/examples/{name}.rs"));
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().skip_while(|line| line.is_empty() || line.starts_with("//!"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn the_programs_of_the_readme_are_the_examples_but_for_the_addresses() {
    for (program, name) in programs().iter().zip(["readme", "first_lock"]) {
        let nodes = program.lines().find(|line| line.trim_start().starts_with("let nodes = ["));
        let typed = "    let nodes = std::env::args().skip(1);";
        assert_eq!(program.replace(nodes.unwrap(), typed), example(name), "examples/{name}.rs");
    }
    assert_eq!(programs().len(), 2);
}

#[test]
fn the_addresses_of_the_first_lock_are_those_of_the_compose_file() {
    let compose = fs::read_to_string(root().join("compose.yaml")).unwrap();
    for port in [6371, 6372, 6373] {
        assert!(programs()[1].contains(&format!("redis://localhost:{port}\"")), "{port}");
        assert!(compose.contains(&format!("127.0.0.1:{port}:6379")), "{port}");
    }
}

#[test]
fn the_night_of_the_guide_is_the_one_that_the_transcript_runs() {
    let guide = fs::read_to_string(root().join("docs/cli.md")).unwrap();
    let night = guide.split("```console\n$ redlatch log --since 8h\n").nth(1).unwrap();
    let night = night.split("```").next().unwrap();
    let transcript = root().join("crates/redlatch-cli/tests/transcripts/night.txt");
    let transcript = fs::read_to_string(transcript).unwrap();
    let run = transcript.split("$ redlatch log --since 8h\n").nth(1).unwrap();
    let run = run.lines().take_while(|line| line.starts_with("> ")).map(|line| &line[2..]);

    let mut settled = night.to_owned();
    for (pattern, instead) in [
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "WHEN"),
        (r"(for|after) \d[0-9a-z .]*\b", "$1 TIME"),
        (r"\(\d[0-9.]*ms\)", "(TIME)"),
        (r"token \d+", "token N"),
        (r"redis://10.0.0.2:6379", "B"),
        (r"redis://10.0.0.3:6379", "C"),
        (r"file:/srv/index.db", "file:DIR/index.db"),
    ] {
        let pattern = regex_lite::Regex::new(pattern).unwrap();
        settled = pattern.replace_all(&settled, instead).into_owned();
    }
    assert_eq!(settled.lines().collect::<Vec<_>>(), run.collect::<Vec<_>>());
}

#[test]
fn the_snapshot_of_the_guide_is_the_one_that_the_transcript_takes() {
    let guide = fs::read_to_string(root().join("docs/cli.md")).unwrap();
    let shown = guide.split("```console\n$ redlatch top --once\n").nth(1).unwrap();
    let shown = shown.split("```").next().unwrap();
    let transcript = root().join("crates/redlatch-cli/tests/transcripts/live.txt");
    let transcript = fs::read_to_string(transcript).unwrap();
    let taken = transcript.split("redlatch top --once; kill $!; wait\n").nth(1).unwrap();
    let taken = taken.lines().take_while(|line| line.starts_with("> ")).map(|line| &line[2..]);

    let mut settled = shown.to_owned();
    for (pattern, instead) in [
        (r"redis://10.0.0.1:6379", "A"),
        (r"redis://10.0.0.2:6379", "B"),
        (r"redis://10.0.0.3:6379", "C"),
        (r"\d\d:\d\d:\d\d", "WHEN"),
        (r" {2,}", "  "),
        (r"[+-]?[0-9.]+m?s\b", "TIME"),
    ] {
        let pattern = regex_lite::Regex::new(pattern).unwrap();
        settled = pattern.replace_all(&settled, instead).into_owned();
    }
    assert_eq!(settled.lines().collect::<Vec<_>>(), taken.collect::<Vec<_>>());
}
