//! Peers in other languages: their packages, at fixed versions, and our drivers.
//!
//! Installed once into `bench-peers` in the target directory. What cannot be had is
//! left out, with a line that says so.

use crate::entrant::Entrant;
use anyhow::{Context as _, ensure};
use redlatch_testbed::{Flavour, Process, wait_until};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// How long a registry may take.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    toolchain: Toolchain,
    /// The package and what it needs, with their versions.
    packages: &'static [&'static str],
    driver: &'static str,
    source: &'static str,
    /// It locks on one server only.
    pub(crate) single: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Toolchain {
    Node,
    Python,
}

const PEERS: [Peer; 6] = [
    Peer {
        name: "node redlock",
        toolchain: Toolchain::Node,
        packages: &["redlock@5.0.0-beta.2", "ioredis@5.4.1"],
        driver: "node_redlock.mjs",
        source: include_str!("../drivers/node_redlock.mjs"),
        single: false,
    },
    Peer {
        name: "redis-semaphore",
        toolchain: Toolchain::Node,
        packages: &["redis-semaphore@5.8.0", "ioredis@5.4.1"],
        driver: "redis_semaphore.mjs",
        source: include_str!("../drivers/redis_semaphore.mjs"),
        single: false,
    },
    Peer {
        name: "redlock-py",
        toolchain: Toolchain::Python,
        packages: &["redlock-py==1.0.8", "redis==8.1.0"],
        driver: "redlock_py.py",
        source: include_str!("../drivers/redlock_py.py"),
        single: false,
    },
    Peer {
        name: "aioredlock",
        toolchain: Toolchain::Python,
        packages: &["aioredlock==0.7.3", "aioredis==1.3.1"],
        driver: "aioredlock_py.py",
        source: include_str!("../drivers/aioredlock_py.py"),
        single: false,
    },
    Peer {
        name: "pottery",
        toolchain: Toolchain::Python,
        packages: &["pottery==3.0.1", "redis==8.1.0"],
        driver: "pottery_py.py",
        source: include_str!("../drivers/pottery_py.py"),
        single: false,
    },
    Peer {
        name: "redis-py",
        toolchain: Toolchain::Python,
        packages: &["redis==8.1.0"],
        driver: "redis_py.py",
        source: include_str!("../drivers/redis_py.py"),
        single: true,
    },
];

const CALLERS: [(&str, &str); 2] = [
    ("callers.mjs", include_str!("../drivers/callers.mjs")),
    ("callers.py", include_str!("../drivers/callers.py")),
];

/// All that can be had here.
pub(crate) fn available() -> Vec<Entrant> {
    let home = Flavour::servers_dir().with_file_name("bench-peers");
    let mut found = Vec::new();
    for peer in &PEERS {
        match peer.provide(&home) {
            Ok(home) => found.push(Entrant::driver(peer, home)),
            Err(why) => eprintln!("skipped {}: {why:#}", peer.name),
        }
    }
    found
}

impl Peer {
    pub(crate) fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(self.toolchain.interpreter());
        command.arg(home.join(self.driver)).env("PYTHONPATH", home).current_dir(home);
        command
    }

    /// Installs it if it is not there; returns where it is.
    fn provide(&self, above: &Path) -> anyhow::Result<PathBuf> {
        let home = above.join(self.name.replace(' ', "-"));
        let stamp = home.join("installed");
        let wanted = self.packages.join("\n");
        if fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted) {
            eprintln!("installing {}", self.packages.join(" "));
            let _ = fs::remove_dir_all(&home);
            fs::create_dir_all(&home)?;
            self.install(&home)?;
            fs::write(stamp, wanted)?;
        }
        fs::write(home.join(self.driver), self.source)?;
        for (name, source) in CALLERS {
            fs::write(home.join(name), source)?;
        }
        Ok(home)
    }

    fn install(&self, home: &Path) -> anyhow::Result<()> {
        let log = home.join("log");
        let mut command = self.toolchain.installer(home);
        command.args(self.packages).current_dir(home).stdin(Stdio::null());
        command.stdout(File::create(&log)?).stderr(File::options().append(true).open(&log)?);
        let what = command.get_program().display().to_string();
        let mut process = Process::spawn(command).with_context(|| format!("no {what}"))?;
        ensure!(wait_until(PATIENCE, || process.has_ended()), "{what}: not within {PATIENCE:?}");
        let marker = self.toolchain.marker(home, self.packages[0]);
        let words = fs::read_to_string(&log).unwrap_or_default();
        ensure!(marker.exists(), "{what}: {}", words.lines().last().unwrap_or("no package"));
        Ok(())
    }
}

impl Toolchain {
    fn interpreter(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Python => "python3",
        }
    }

    fn installer(self, home: &Path) -> Command {
        let mut command = Command::new(if self == Self::Node { "npm" } else { "python3" });
        match self {
            Self::Node => command.args(["install", "--no-audit", "--no-fund", "--prefix"]),
            Self::Python => command
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
                .args(["--root-user-action", "ignore", "--target"]),
        };
        command.arg(home);
        command
    }

    /// What is there if and only if the package is.
    fn marker(self, home: &Path, package: &str) -> PathBuf {
        match self {
            Self::Node => {
                let name = package.split('@').next().unwrap_or(package);
                home.join("node_modules").join(name).join("package.json")
            }
            Self::Python => home.join(package.replace('-', "_").replace("==", "-") + ".dist-info"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_has_a_version() {
        let packages = PEERS.iter().flat_map(|peer| peer.packages);

        for package in packages {
            assert!(package.contains("==") || package.contains('@'), "{package}");
        }
    }

    #[test]
    fn what_proves_an_installation_names_the_package() {
        let home = Path::new("/peers");

        let marker = Toolchain::Python.marker(home, "redlock-py==1.0.8");
        assert_eq!(marker, Path::new("/peers/redlock_py-1.0.8.dist-info"));
        let marker = Toolchain::Node.marker(home, "redlock@5.0.0-beta.2");
        assert_eq!(marker, Path::new("/peers/node_modules/redlock/package.json"));
    }
}
