//! Checks every published crate without features and with each feature alone:
//! no combination that a user can ask for may warn or fail.
//!
//! The combinations come from the manifests; there is no list to keep.

use crate::{
    metadata::Metadata,
    shell::{self, Outcome},
};
use serde_json::Value;

pub(crate) fn check() -> Outcome {
    let metadata = Metadata::of(&["--no-deps"])?;
    for package in metadata.published() {
        let name = package["name"].as_str().unwrap_or_default();
        for feature in alone(package) {
            eprintln!("{name}, {}", if feature.is_empty() { "no feature" } else { feature });
            let mut command = shell::cargo(["clippy", "--quiet", "--locked", "--package", name]);
            command.args(["--no-default-features", "--features", feature, "--no-deps"]);
            shell::run(command.args(["--", "-D", "warnings"]))
                .map_err(|why| format!("{name} with `{feature}` alone: {why}"))?;
        }
    }
    Ok(())
}

/// None, and each by itself.
fn alone(package: &Value) -> impl Iterator<Item = &str> {
    let features = package["features"].as_object().into_iter().flatten();
    [""].into_iter().chain(features.map(|(name, _)| name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_feature_is_tried_alone_and_none_is_tried_too() {
        let package = json!({ "features": { "default": ["tls"], "file": [], "tls": [] } });

        assert_eq!(alone(&package).collect::<Vec<_>>(), ["", "default", "file", "tls"]);
        assert_eq!(alone(&json!({ "features": {} })).collect::<Vec<_>>(), [""]);
    }
}
