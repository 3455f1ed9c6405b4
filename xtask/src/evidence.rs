//! `cargo xtask evidence`: runs all of the evidence at full length and puts what
//! it printed into `docs/evidence.md`.
//!
//! The page has a block for each command, between two marks; the words around
//! them are written by hand.

use crate::{
    metadata::Metadata,
    servers,
    shell::{self, Outcome},
    stages::Stages,
};
use std::{
    fs,
    process::{Command, ExitCode},
};

const PAGE: &str = "docs/evidence.md";

/// A block of the page, the program that fills it and its arguments.
const BLOCKS: [(&str, &str, &[&str]); 6] = [
    ("prove", "redlatch-sim", &["prove"]),
    ("mutants", "redlatch-sim", &["mutants"]),
    ("search", "redlatch-sim", &["search", "--seeds", "10000"]),
    ("plan", "redlatch-sim", &["plan"]),
    ("faults", "redlatch-faults", &["run"]),
    ("history", "redlatch-faults", &["history"]),
];

/// The command; with names, only those blocks.
pub(crate) fn run(wanted: &[&str]) -> ExitCode {
    let mut stages = Stages::default();
    if stages.run("servers", servers::provide).is_err() || stages.run("build", build).is_err() {
        return stages.finish();
    }
    for (block, program, arguments) in BLOCKS {
        if wanted.is_empty() || wanted.contains(&block) {
            let _ = stages.run(block, || fill(block, program, arguments));
        }
    }
    stages.finish()
}

fn build() -> Outcome {
    let packages = ["--package", "redlatch-sim", "--package", "redlatch-faults"];
    shell::run(shell::cargo(["build", "--release", "--locked"]).args(packages))
}

fn fill(block: &str, program: &str, arguments: &[&str]) -> Outcome {
    let target = Metadata::of(&["--no-deps"])?.target_dir()?;
    let mut command = Command::new(target.join("release").join(program));
    let printed = shell::output(command.current_dir(shell::workspace()).args(arguments))?;
    let page = shell::workspace().join(PAGE);
    let text = fs::read_to_string(&page).map_err(|error| format!("{PAGE}: {error}"))?;
    let filled = replace(&text, block, &printed)?;
    fs::write(&page, filled).map_err(|error| format!("{PAGE}: {error}"))
}

/// The page with that block's figures in place of the old ones.
fn replace(page: &str, block: &str, printed: &str) -> Outcome<String> {
    let (begin, end) = (format!("<!-- begin {block} -->\n"), format!("<!-- end {block} -->"));
    let missing = || format!("{PAGE} has no block `{block}`");
    let (before, rest) = page.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(&end).ok_or_else(missing)?;
    let printed = printed.trim_end();
    Ok(format!("{before}{begin}```text\n{printed}\n```\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let page =
            "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n<!-- begin y -->\n<!-- end y -->\n";

        let filled = replace(page, "x", "new\n").unwrap_or_default();

        assert_eq!(
            filled,
            "a\n<!-- begin x -->\n```text\nnew\n```\n<!-- end x -->\nb\n<!-- begin y -->\n<!-- end y -->\n"
        );
        assert!(replace(page, "z", "new").is_err());
    }

    #[test]
    fn the_page_has_every_block() {
        let page = fs::read_to_string(shell::workspace().join(PAGE)).unwrap_or_default();

        for (block, ..) in BLOCKS {
            assert!(replace(&page, block, "").is_ok(), "{block}");
        }
    }
}
