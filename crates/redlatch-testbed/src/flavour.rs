//! The servers that tests run against, and where to find them.
//!
//! A program named by an environment variable wins, then one on `PATH`, then
//! one unpacked by `cargo xtask servers` into `target/servers`.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// A kind of server that the tests run against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// The distribution's Redis: 7.0 on the project's own machines, but any
    /// version from 6.2 on works.
    Redis7,
    /// Redis 6.2, the oldest supported version.
    Redis62,
    Valkey,
}

/// A server program that was found and works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub program: PathBuf,
    /// Its version as printed, such as `7.0.15`.
    pub version: String,
    /// Its memory allocator, such as `libc` or `jemalloc-5.3.0`.
    pub allocator: String,
}

/// A server program that was not found, or only in an unsuitable version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{flavour} not found ({tried}): run `cargo xtask servers`, or set {}", flavour.env_var())]
pub struct Missing {
    pub flavour: Flavour,
    /// Where we looked and what was there instead.
    pub tried: String,
}

impl Flavour {
    /// All flavours, the preferred one first.
    pub const ALL: [Self; 3] = [Self::Redis7, Self::Redis62, Self::Valkey];

    /// Returns the environment variable that names the program.
    pub const fn env_var(self) -> &'static str {
        match self {
            Self::Redis7 => "REDLATCH_REDIS_7",
            Self::Redis62 => "REDLATCH_REDIS_62",
            Self::Valkey => "REDLATCH_VALKEY",
        }
    }

    pub const fn program(self) -> &'static str {
        match self {
            Self::Redis7 | Self::Redis62 => "redis-server",
            Self::Valkey => "valkey-server",
        }
    }

    /// Returns where it is unpacked to, below `servers` in the target directory.
    pub const fn dir(self) -> &'static str {
        match self {
            Self::Redis7 => "redis-7",
            Self::Redis62 => "redis-6.2",
            Self::Valkey => "valkey-9",
        }
    }

    /// Returns whether a server of this version counts as this flavour.
    pub fn accepts(self, version: &str) -> bool {
        let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        match self {
            Self::Redis7 => found >= (6, 2),
            Self::Redis62 => found == (6, 2),
            Self::Valkey => found >= (7, 2),
        }
    }

    /// Finds the program. The first result is cached for the life of the process.
    pub fn find(self) -> Result<Found, Missing> {
        static FOUND: [OnceLock<Result<Found, Missing>>; 3] = [const { OnceLock::new() }; 3];
        FOUND[self as usize].get_or_init(|| self.look()).clone()
    }

    /// Finds the program, without the cache.
    pub fn look(self) -> Result<Found, Missing> {
        if let Some(named) = env::var_os(self.env_var()) {
            return self.inspect(Path::new(&named)).map_err(|tried| self.missing(tried));
        }
        let places = self.places();
        let mut tried = Vec::new();
        for place in places.iter().filter(|place| place.is_file()) {
            match self.inspect(place) {
                Ok(found) => return Ok(found),
                Err(why) => tried.push(why),
            }
        }
        if tried.is_empty() {
            tried.push(format!(
                "no {} on PATH nor in target/servers/{}",
                self.program(),
                self.dir()
            ));
        }
        Err(self.missing(tried.join("; ")))
    }

    /// Returns the directory for this checkout's unpacked servers: `servers` in
    /// the target directory.
    pub fn servers_dir() -> PathBuf {
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(workspace_target, PathBuf::from);
        target.join("servers")
    }

    fn places(self) -> Vec<PathBuf> {
        let path = env::var_os("PATH").unwrap_or_default();
        let on_path = env::split_paths(&path).map(|dir| dir.join(self.program()));
        // A test runs from `target/debug/deps`, so whatever the target
        // directory is, it is above the running program.
        let exe = env::current_exe().unwrap_or_default();
        let above = exe.ancestors().map(|dir| dir.join("servers"));
        let unpacked = [Self::servers_dir()]
            .into_iter()
            .chain(above)
            .chain([workspace_target().join("servers")])
            .map(|servers| servers.join(self.dir()).join(self.program()));
        on_path.chain(unpacked).collect()
    }

    fn inspect(self, program: &Path) -> Result<Found, String> {
        let found = ask(program).map_err(|why| format!("{}: {why}", program.display()))?;
        if !self.accepts(&found.version) {
            return Err(format!("{} is version {}", program.display(), found.version));
        }
        Ok(found)
    }

    fn missing(self, tried: String) -> Missing {
        Missing { flavour: self, tried }
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis7 => "Redis 7",
            Self::Redis62 => "Redis 6.2",
            Self::Valkey => "Valkey",
        })
    }
}

/// Asks a server program for its version: `Redis server v=7.0.15 … malloc=libc …`.
fn ask(program: &Path) -> Result<Found, String> {
    let output =
        Command::new(program).arg("--version").output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let field = |name| text.split_whitespace().find_map(|word| word.strip_prefix(name));
    Ok(Found {
        program: program.to_owned(),
        version: field("v=").ok_or(format!("prints no version ({})", output.status))?.to_owned(),
        allocator: field("malloc=").unwrap_or_default().to_owned(),
    })
}

fn workspace_target() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = package.ancestors().nth(2).unwrap_or(package);
    workspace.join("target")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_supported_versions_are_accepted() {
        let accepted = |flavour: Flavour| {
            ["5.0.7", "6.0.16", "6.2.14", "7.0.15", "7.2.4", "8.0.0", "9.1.2", "unstable"]
                .into_iter()
                .filter(|version| flavour.accepts(version))
                .collect::<Vec<_>>()
        };

        assert_eq!(accepted(Flavour::Redis7), ["6.2.14", "7.0.15", "7.2.4", "8.0.0", "9.1.2"]);
        assert_eq!(accepted(Flavour::Redis62), ["6.2.14"]);
        assert_eq!(accepted(Flavour::Valkey), ["7.2.4", "8.0.0", "9.1.2"]);
    }

    #[test]
    fn a_missing_server_says_what_to_run() {
        let missing = Flavour::Valkey.missing("nothing there".into());

        let text = missing.to_string();

        assert!(text.contains("cargo xtask servers"), "{text}");
        assert!(text.contains("REDLATCH_VALKEY"), "{text}");
    }
}
