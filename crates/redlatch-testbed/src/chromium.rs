//! A real browser, for tests of pages.

use std::{env, path::PathBuf};

/// Chromium, and the program that drives it.
#[derive(Debug, Clone)]
pub struct Chromium {
    pub browser: PathBuf,
    pub driver: PathBuf,
}

impl Chromium {
    /// Finds both on `PATH`, as Debian's packages `chromium` and `chromium-driver` put them.
    pub fn find() -> Option<Self> {
        Some(Chromium { browser: on_path("chromium")?, driver: on_path("chromedriver")? })
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|dir| dir.join(program)).find(|program| program.is_file())
}
