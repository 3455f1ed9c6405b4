//! cargo-deny: licences, bans, sources and advisories, as `deny.toml` says.

use crate::{
    metadata::Metadata,
    shell::{self, Outcome},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The version that is built when none is installed.
const VERSION: &str = "0.20.2";

/// Runs some of cargo-deny's checks.
pub(crate) fn check(what: &[&str]) -> Outcome {
    let program = provide()?;
    let mut command = Command::new(program);
    command.current_dir(shell::workspace()).args(["--workspace", "--all-features", "--locked"]);
    shell::run(command.args(["check", "--hide-inclusion-graph"]).args(what))
}

/// The one on `PATH`, or else our own in `target/tools`.
fn provide() -> Outcome<PathBuf> {
    if shell::on_path("cargo-deny") {
        return Ok(PathBuf::from("cargo-deny"));
    }
    let tools = Metadata::of(&["--no-deps"])?.target_dir()?.join("tools").join(VERSION);
    let program = tools.join("bin/cargo-deny");
    if !program.is_file() {
        build(&tools)?;
    }
    Ok(program)
}

/// Builds it without optimisation: that takes one minute on two cores instead
/// of several, and it runs for a second.
fn build(tools: &Path) -> Outcome {
    eprintln!("building cargo-deny {VERSION}: this takes a minute, once");
    let install = ["install", "cargo-deny", "--version", VERSION, "--locked"];
    let scratch = tools.join("build");
    let outcome = shell::run(
        shell::cargo(install)
            .args(["--quiet", "--no-default-features", "--no-track", "--root"])
            .arg(tools)
            .env("CARGO_TARGET_DIR", &scratch)
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "256")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    );
    // Hundreds of megabytes that nobody needs again.
    let _ = fs::remove_dir_all(scratch);
    outcome
}
