//! `cargo xtask check`: everything that can be said without running the code.
//! Changes nothing.

use crate::{deny, features, msrv, no_std, packages, shell, stages::Stages};
use std::process::ExitCode;

/// Whether to ask the advisory database, which is not part of the registry and
/// cannot be reached from everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advisories {
    Ask,
    Skip,
}

pub(crate) fn run(advisories: Advisories) -> ExitCode {
    let mut stages = Stages::default();
    let _ = stages.run("format", || shell::run(&mut shell::cargo(["fmt", "--all", "--check"])));
    let _ = stages.run("clippy", || {
        let everything = ["--workspace", "--all-targets", "--all-features", "--locked"];
        shell::run(shell::cargo(["clippy"]).args(everything).args(["--", "-D", "warnings"]))
    });
    let _ = stages.run("docs", || {
        // Libraries only: the command has the same name as one of them.
        let everything = ["--no-deps", "--workspace", "--lib", "--all-features", "--locked"];
        shell::run(shell::cargo(["doc"]).args(everything).env("RUSTDOCFLAGS", "-D warnings"))
    });
    let _ = stages.run("each feature alone", features::check);
    let _ = stages.run("packages", packages::check);
    let _ = stages.run("core without std", no_std::check);
    let _ = stages.run("oldest Rust", msrv::check);
    let _ = stages.run("licences, bans, sources", || deny::check(&["licenses", "bans", "sources"]));
    match advisories {
        Advisories::Ask => {
            let _ = stages.run("advisories", || deny::check(&["advisories"]));
        }
        Advisories::Skip => stages.skip("advisories", "needs its database: `check --advisories`"),
    }
    stages.finish()
}
