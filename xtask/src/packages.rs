//! Checks what would be published: each crate has its licences, its README and
//! the fields of a registry's page, and the links of a README work there.

use crate::{
    lowest,
    metadata::Metadata,
    neighbours,
    shell::{self, Outcome},
    stages::Stages,
};
use serde_json::Value;
use std::{fs, path::Path, process::ExitCode};

/// What is in every package.
const FILES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];
/// What a registry shows.
const FIELDS: [&str; 7] =
    ["description", "documentation", "homepage", "license", "readme", "repository", "rust_version"];
/// Where links to files of this repository lead.
const BLOB: &str = "https://github.com/redlatch/redlatch/blob/main/";
const TREE: &str = "https://github.com/redlatch/redlatch/tree/main/";

/// `cargo xtask package`: what has to be built before a release, and takes too
/// long for every change.
pub(crate) fn run() -> ExitCode {
    let mut stages = Stages::default();
    let _ = stages.run("packages", check);
    neighbours::stages(&mut stages);
    let _ = stages.run("build of the packages", build);
    let _ = stages.run("lowest versions", lowest::check);
    stages.finish()
}

/// Packs all crates and builds what was packed.
fn build() -> Outcome {
    let metadata = Metadata::of(&["--no-deps"])?;
    let mut command = shell::cargo(["package", "--quiet", "--locked", "--all-features"]);
    for name in metadata.published().filter_map(|package| package["name"].as_str()) {
        command.args(["--package", name]);
    }
    shell::run(&mut command)
}

pub(crate) fn check() -> Outcome {
    let metadata = Metadata::of(&["--no-deps"])?;
    let mut wrong = Vec::new();
    for package in metadata.published() {
        let name = package["name"].as_str().unwrap_or_default();
        let of = |what: String| format!("{name}: {what}");
        wrong.extend(missing_fields(package).map(|field| of(format!("no `{field}`"))));
        let list = ["package", "--list", "--allow-dirty", "--locked", "--quiet", "--package", name];
        let listed = shell::output(&mut shell::cargo(list))?;
        wrong.extend(missing_files(&listed).map(|file| of(format!("no {file}"))));
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        for licence in &FILES[..2] {
            if read(&manifest.with_file_name(licence))? != read(&shell::workspace().join(licence))?
            {
                wrong.push(of(format!("{licence} is not that of the workspace")));
            }
        }
        let text = read(&manifest.with_file_name(FILES[2]))?;
        if !text.starts_with("# ") {
            wrong.push(of("README.md has no title: is it a broken link?".into()));
        }
        wrong.extend(dead_links(&text).into_iter().map(|link| of(format!("README: {link}"))));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn read(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn missing_fields(package: &Value) -> impl Iterator<Item = &'static str> {
    FIELDS.into_iter().filter(|field| package[field].as_str().is_none_or(str::is_empty))
}

fn missing_files(listed: &str) -> impl Iterator<Item = &'static str> {
    FILES.into_iter().filter(|file| !listed.lines().any(|line| line == *file))
}

/// Links that lead nowhere from a registry's page: relative ones, and those to
/// files that are not here.
fn dead_links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let dead = |target: &&str| {
        if let Some(path) = target.strip_prefix(BLOB).or_else(|| target.strip_prefix(TREE)) {
            let path = path.split('#').next().unwrap_or_default();
            return !shell::workspace().join(path).exists();
        }
        !target.starts_with('#') && !target.starts_with("https://")
    };
    targets.map(|(target, _)| target).filter(dead).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_link_must_be_absolute_and_lead_to_a_file_that_is_there() {
        let text = format!(
            "[a](#here) [b](https://docs.rs/redlatch) [c](docs/cli.md) \
             [d]({BLOB}docs/cli.md#x) [e]({BLOB}docs/gone.md)"
        );

        assert_eq!(dead_links(&text), ["docs/cli.md".to_owned(), format!("{BLOB}docs/gone.md")]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let listed = "Cargo.toml\nLICENSE-MIT\nsrc/lib.rs\n";
        let package = json!({ "description": "A lock", "license": "" });

        assert_eq!(missing_files(listed).collect::<Vec<_>>(), ["LICENSE-APACHE", "README.md"]);
        assert!(missing_fields(&package).eq([
            "documentation",
            "homepage",
            "license",
            "readme",
            "repository",
            "rust_version"
        ]));
    }
}
