//! Where evidence is written: `target/evidence/` of the workspace.

use anyhow::Context;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Writes one text and tells where it is.
pub fn write(kind: &str, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let directory = root().join("target/evidence").join(kind);
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    let path = directory.join(format!("{name}.txt"));
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}
