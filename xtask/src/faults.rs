//! `cargo xtask faults`: breaks real servers under load, row by row of the table
//! of faults, and checks what the locks did. The work is `redlatch-faults`.

use crate::{
    metadata::Metadata,
    servers,
    shell::{self, Outcome},
    stages::Stages,
};
use std::process::{Command, ExitCode};

const HARNESS: &str = "redlatch-faults";

/// The command; `arguments` are the harness's own.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    let mut stages = Stages::default();
    if stages.run("servers", servers::provide).is_err() {
        stages.skip("faults", "they need the servers");
        return stages.finish();
    }
    let _ = stages.run("faults", || play(arguments));
    stages.finish()
}

/// Started without cargo in between: it would hold the build directory while
/// the harness has tests run by name.
fn play(arguments: &[&str]) -> Outcome {
    shell::run(&mut shell::cargo(["build", "--release", "--locked", "--package", HARNESS]))?;
    let target = Metadata::of(&["--no-deps"])?.target_dir()?;
    let mut harness = Command::new(target.join("release").join(HARNESS));
    harness.current_dir(shell::workspace()).arg("run").args(arguments);
    shell::run(harness.arg("--out").arg(target.join("evidence/faults")))
}
