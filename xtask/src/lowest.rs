//! Builds the published crates with the lowest version of each dependency that
//! their manifests allow: a user's lock file may have just these.

use crate::{
    metadata::Metadata,
    shell::{self, Outcome},
};
use std::{fs, path::Path, process::Command};

/// Sections that a user of the crate never sees.
const OURS_ALONE: [&str; 4] = ["[dev-dependencies]", "[[test]]", "[[example]]", "[[bench]]"];

pub(crate) fn check() -> Outcome {
    let metadata = Metadata::of(&["--no-deps"])?;
    let dir = metadata.target_dir()?.join("lowest");
    let _ = fs::remove_dir_all(dir.join("crates"));
    let names: Vec<_> =
        metadata.published().filter_map(|package| package["name"].as_str()).collect();
    for name in &names {
        copy(&shell::workspace().join("crates").join(name), &dir.join("crates").join(name))?;
    }
    let manifest = read(&shell::workspace().join("Cargo.toml"))?;
    write(&dir.join("Cargo.toml"), &manifest.replace(", \"xtask\"]", "]"))?;
    // The choice of versions is not in stable cargo yet; the build is.
    let mut lock = shell::cargo(["-Z", "direct-minimal-versions", "generate-lockfile"]);
    shell::run(lock.arg("--quiet").env("RUSTC_BOOTSTRAP", "1").current_dir(&dir))?;
    let mut build = shell::cargo(["check", "--workspace", "--all-features", "--locked"]);
    shell::run(build.current_dir(&dir).env("CARGO_TARGET_DIR", dir.join("target")))
}

/// A crate as its users have it: the sources, and the manifest without tests.
fn copy(from: &Path, to: &Path) -> Outcome {
    fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    shell::run(Command::new("cp").arg("-R").arg(from.join("src")).arg(to))?;
    write(&to.join("Cargo.toml"), &for_users(&read(&from.join("Cargo.toml"))?))
}

fn for_users(manifest: &str) -> String {
    let mut kept = true;
    let lines = manifest.split_inclusive('\n').filter(|line| {
        if line.starts_with('[') {
            kept = !OURS_ALONE.contains(&line.trim_end());
        }
        kept
    });
    lines.collect()
}

fn read(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_for_users_has_all_but_what_the_tests_need() {
        let manifest =
            "[package]\na = 1\n[dev-dependencies]\nb = 1\n[[test]]\nc = 1\n[features]\nd = []\n";

        assert_eq!(for_users(manifest), "[package]\na = 1\n[features]\nd = []\n");
    }
}
