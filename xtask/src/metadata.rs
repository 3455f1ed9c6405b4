//! What cargo knows about the workspace.

use crate::shell::{self, Outcome};
use serde_json::Value;
use std::path::PathBuf;

/// The answer of `cargo metadata`.
pub(crate) struct Metadata {
    root: Value,
}

impl Metadata {
    /// Asks cargo, with `--no-deps` or for the whole tree of dependencies on
    /// this platform.
    pub(crate) fn of(arguments: &[&str]) -> Outcome<Self> {
        let mut command = shell::cargo(["metadata", "--format-version=1", "--locked"]);
        let text = shell::output(command.args(arguments))?;
        let root =
            serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
        Ok(Self { root })
    }

    /// The directory that builds go to.
    pub(crate) fn target_dir(&self) -> Outcome<PathBuf> {
        let dir = self.root["target_directory"].as_str();
        dir.map(PathBuf::from).ok_or_else(|| "cargo metadata: no target directory".to_owned())
    }

    pub(crate) fn packages(&self) -> &[Value] {
        self.root["packages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The packages that are published.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Value> {
        self.packages().iter().filter(|package| package["publish"].is_null())
    }

    /// The names of the examples of a package.
    pub(crate) fn examples(&self, package: &str) -> Vec<&str> {
        self.packages()
            .iter()
            .filter(|candidate| candidate["name"] == package)
            .filter_map(|package| package["targets"].as_array())
            .flatten()
            .filter(|target| target["kind"][0] == "example")
            .filter_map(|target| target["name"].as_str())
            .collect()
    }
}
