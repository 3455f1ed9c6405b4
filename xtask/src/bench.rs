//! `cargo xtask bench`: Redlatch beside its peers and a bare event loop, on servers
//! of its own. The work is `redlatch-bench`.

use crate::{
    metadata::Metadata,
    servers,
    shell::{self, Outcome},
    stages::Stages,
};
use std::process::{Command, ExitCode};

/// The harness, and the command `redlatch`, which it also measures.
const PACKAGES: [&str; 4] = ["--package", "redlatch-bench", "--package", "redlatch-cli"];

/// The command; `arguments` are the harness's own.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    let mut stages = Stages::default();
    if stages.run("servers", servers::provide).is_err() || stages.run("build", build).is_err() {
        stages.skip("bench", "it needs the servers and the programs");
        return stages.finish();
    }
    let _ = stages.run("bench", || measure(arguments));
    stages.finish()
}

fn build() -> Outcome {
    shell::run(shell::cargo(["build", "--release", "--locked"]).args(PACKAGES))
}

fn measure(arguments: &[&str]) -> Outcome {
    let target = Metadata::of(&["--no-deps"])?.target_dir()?;
    let mut harness = Command::new(target.join("release/redlatch-bench"));
    shell::run(harness.current_dir(shell::workspace()).arg("run").args(arguments))
}
