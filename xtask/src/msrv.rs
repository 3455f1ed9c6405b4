//! Checks that our `rust-version` is a promise we can keep: no dependency may
//! ask for a newer Rust. (That our own code does not is clippy's
//! `incompatible_msrv`.)

use crate::{
    metadata::Metadata,
    shell::{self, Outcome},
};
use serde_json::Value;

/// The package whose promise counts; all others inherit the same.
const LIBRARY: &str = "redlatch";

pub(crate) fn check() -> Outcome {
    let host = host()?;
    let metadata = Metadata::of(&["--all-features", "--filter-platform", &host])?;
    let packages = metadata.packages();
    let ours = packages
        .iter()
        .find(|package| package["name"] == LIBRARY)
        .and_then(rust_version)
        .ok_or_else(|| format!("{LIBRARY} has no rust-version"))?;
    let newer: Vec<_> =
        packages.iter().filter(|package| rust_version(package) > Some(ours)).collect();
    eprintln!("{} packages, rust-version {}.{}", packages.len(), ours.0, ours.1);
    if newer.is_empty() {
        return Ok(());
    }
    let lines = newer.iter().map(|package| {
        let field = |name: &str| package[name].as_str().unwrap_or("?").to_owned();
        format!("  {} {} needs {}", field("name"), field("version"), field("rust_version"))
    });
    let lines: Vec<_> = lines.collect();
    Err(format!("these need a newer Rust than we promise:\n{}", lines.join("\n")))
}

/// Major and minor: a patch release adds nothing that could be missing.
fn rust_version(package: &Value) -> Option<(u32, u32)> {
    let mut numbers = package["rust_version"].as_str()?.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}

/// The platform that this runs on, as Rust calls it.
pub(crate) fn host() -> Outcome<String> {
    let text = shell::output(std::process::Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn versions_are_compared_as_numbers() {
        let version = |text: &str| rust_version(&json!({ "rust_version": text }));

        assert_eq!(version("1.89"), Some((1, 89)));
        assert!(version("1.100") > version("1.89.1"));
        assert!(version("1.9.0") < version("1.89"));
        assert_eq!(rust_version(&json!({ "rust_version": null })), None);
    }
}
