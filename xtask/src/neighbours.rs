//! A project of a user's, outside this workspace, that has our crates beside
//! another one that brings SQLite along.
//!
//! A graph of dependencies has one package that links SQLite (`links`), and cargo
//! counts even those that are optional and off. So whether ours can be in it at
//! all is seen only by resolving it.

use crate::{
    metadata::Metadata,
    shell::{self, Outcome},
    stages::Stages,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What others have, as a line of their manifest.
const NEIGHBOURS: [&str; 5] = [
    SQLX,
    r#"sqlx = { version = "0.8", features = ["sqlite", "runtime-tokio"] }"#,
    r#"sea-orm = { version = "1", features = ["sqlx-sqlite", "runtime-tokio"] }"#,
    r#"diesel = { version = "2", features = ["sqlite"] }"#,
    r#"rusqlite = "0.37""#,
];
const SQLX: &str =
    r#"sqlx = { version = "0.8", features = ["postgres", "macros", "runtime-tokio"] }"#;
/// As the documentation of `redlatch_fence::sqlite` has it: the rusqlite that shares
/// the SQLite of sqlx 0.8.
const SQLX_AND_RUSQLITE: &str = r#"
sqlx = { version = "0.8", features = ["sqlite", "runtime-tokio"] }
rusqlite = "0.32"
"#;
/// A program that gives our crate a connection of that rusqlite.
const FENCING: &str = "\
fn main() -> rusqlite::Result<()> {
    redlatch_fence::sqlite::create_table(&rusqlite::Connection::open_in_memory()?)
}
";
/// What they add: our crates, with these features.
const OURS: [&[(&str, &str)]; 3] = [
    &[("redlatch", "default")],
    &[("redlatch", "file")],
    &[("redlatch", "default"), ("redlatch-fence", "sqlite")],
];

/// Resolves each neighbour beside each of ours, and builds two of them.
pub(crate) fn stages(stages: &mut Stages) {
    // If it can't be resolved without us, the registry is not there.
    if let Err(why) = resolve(SQLX, &[]) {
        let why = why.lines().next().unwrap_or_default();
        return stages.skip("beside others", &format!("the registry cannot be reached: {why}"));
    }
    let _ = stages.run("beside others: resolve", || {
        for neighbour in NEIGHBOURS {
            for ours in OURS {
                resolve(neighbour, ours)
                    .map_err(|why| format!("{neighbour} beside {ours:?}: {why}"))?;
            }
        }
        Ok(())
    });
    let _ = stages.run("beside sqlx: build", || {
        build(SQLX, OURS[0], "fn main() {}\n")?;
        build(SQLX_AND_RUSQLITE, &[("redlatch", "file"), ("redlatch-fence", "sqlite")], FENCING)
    });
}

/// Without a lock file, as in a new project.
fn resolve(neighbour: &str, ours: &[(&str, &str)]) -> Outcome {
    let project = write(neighbour, ours, "fn main() {}\n")?;
    let mut command = shell::cargo(["generate-lockfile", "--quiet"]);
    shell::output(command.current_dir(&project)).map(drop)
}

fn build(neighbour: &str, ours: &[(&str, &str)], program: &str) -> Outcome {
    let project = write(neighbour, ours, program)?;
    // Kept, so that the second time is a matter of seconds.
    let mut command = shell::cargo(["check", "--quiet"]);
    shell::run(command.current_dir(&project).env("CARGO_TARGET_DIR", project.join("target")))
}

/// Writes the project anew and returns where it is.
fn write(neighbour: &str, ours: &[(&str, &str)], program: &str) -> Outcome<PathBuf> {
    let project = Metadata::of(&["--no-deps"])?.target_dir()?.join("neighbours");
    let failed = |error| format!("{}: {error}", project.display());
    fs::create_dir_all(project.join("src")).map_err(failed)?;
    let _ = fs::remove_file(project.join("Cargo.lock"));
    fs::write(project.join("src/main.rs"), program).map_err(failed)?;
    let manifest = manifest(neighbour, ours, shell::workspace());
    fs::write(project.join("Cargo.toml"), manifest).map_err(failed)?;
    Ok(project)
}

/// The `[workspace]` makes it one of its own, though it lies below ours.
fn manifest(neighbour: &str, ours: &[(&str, &str)], workspace: &Path) -> String {
    let ours = ours.iter().map(|(name, feature)| {
        let path = workspace.join("crates").join(name);
        format!("{name} = {{ path = \"{}\", features = [\"{feature}\"] }}\n", path.display())
    });
    format!(
        "[package]\nname = \"neighbours\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [workspace]\n\n[dependencies]\n{neighbour}\n{}",
        ours.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_has_the_neighbour_and_our_crates_by_their_paths() {
        let text = manifest("rusqlite = \"0.37\"", &[("redlatch", "file")], Path::new("/home/us"));

        assert!(text.ends_with(
            "[dependencies]\nrusqlite = \"0.37\"\n\
             redlatch = { path = \"/home/us/crates/redlatch\", features = [\"file\"] }\n"
        ));
    }
}
