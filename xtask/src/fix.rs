//! `cargo xtask fix`: what a machine can put right.

use crate::{shell, stages::Stages};
use std::process::ExitCode;

pub(crate) fn run() -> ExitCode {
    let mut stages = Stages::default();
    let _ = stages.run("clippy", || {
        let anyway = ["--fix", "--allow-dirty", "--allow-staged"];
        let everything = ["--workspace", "--all-targets", "--all-features"];
        shell::run(shell::cargo(["clippy"]).args(anyway).args(everything))
    });
    let _ = stages.run("format", || shell::run(&mut shell::cargo(["fmt", "--all"])));
    stages.finish()
}
