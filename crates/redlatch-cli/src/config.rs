//! The config file.
//!
//! In:  a path, or the places where one may be.
//! Out: settings with gaps, or an error with file and line.

use crate::{cli::GuardMode, duration};
use serde::{Deserialize, Deserializer};
use std::{
    env,
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

const NAME: &str = "redlatch.toml";

/// What may stand in the file.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    #[serde(default)]
    pub(crate) nodes: Vec<NodeEntry>,
    /// For every node without one of its own.
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) password_env: Option<String>,
    pub(crate) owner: Option<String>,
    #[serde(default, deserialize_with = "duration_or_forever")]
    pub(crate) wait: Option<Duration>,
    #[serde(default, deserialize_with = "plain_duration")]
    pub(crate) ttl: Option<Duration>,
    #[serde(default, deserialize_with = "plain_duration")]
    pub(crate) max_ttl: Option<Duration>,
    #[serde(default, deserialize_with = "plain_duration")]
    pub(crate) skew: Option<Duration>,
    pub(crate) restart_guard: Option<GuardMode>,
    #[serde(default, deserialize_with = "plain_duration")]
    pub(crate) node_timeout: Option<Duration>,
}

/// A node: its address, or that and where its password is.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "a node is an address, or a table with url and password_file or password_env"
)]
pub(crate) enum NodeEntry {
    Url(String),
    Table(NodeTable),
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeTable {
    pub(crate) url: String,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) password_env: Option<String>,
}

/// A config file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("the config file {} cannot be read: {error}", .path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}:{line}: {message}", .path.display())]
    Invalid { path: PathBuf, line: usize, message: String },
    #[error(
        "{} belongs to another user, who could lead the locks elsewhere; \
         name it with --config if that is fine", .0.display()
    )]
    Foreign(PathBuf),
}

impl Config {
    /// The variables that hold passwords.
    pub(crate) fn password_variables(&self) -> impl Iterator<Item = &str> {
        let of_nodes = self.nodes.iter().filter_map(|node| match node {
            NodeEntry::Table(table) => table.password_env.as_deref(),
            NodeEntry::Url(_) => None,
        });
        self.password_env.as_deref().into_iter().chain(of_nodes)
    }

    /// The file that was named, or the first of the usual ones that is there.
    pub(crate) fn load(named: Option<&Path>) -> Result<Self, ConfigError> {
        if let Some(path) = named {
            let file = File::open(path).map_err(|error| unreadable(path, error))?;
            return read(path, file);
        }
        let here = Path::new(NAME);
        if let Some(file) = open(here)? {
            // Of the very file that is read: a path may lead elsewhere by then.
            let found = file.metadata().map_err(|error| unreadable(here, error))?;
            let owner = found.uid();
            if owner != 0 && owner != nix::unistd::geteuid().as_raw() {
                return Err(ConfigError::Foreign(
                    env::current_dir().unwrap_or_default().join(here),
                ));
            }
            return read(here, file);
        }
        for path in usual_places() {
            if let Some(file) = open(&path)? {
                return read(&path, file);
            }
        }
        Ok(Config::default())
    }
}

/// Opens a file that need not be there. One that is there and cannot be opened is
/// an error: without it the locks would be elsewhere.
fn open(path: &Path) -> Result<Option<File>, ConfigError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(unreadable(path, error)),
        },
    }
}

fn unreadable(path: &Path, error: io::Error) -> ConfigError {
    ConfigError::Unreadable { path: path.into(), error }
}

/// The user's and the system's config file.
fn usual_places() -> Vec<PathBuf> {
    let home = || env::home_dir().map(|home| home.join(".config"));
    let user = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let user = user.or_else(home).map(|dir| dir.join("redlatch").join(NAME));
    user.into_iter().chain([Path::new("/etc/redlatch").join(NAME)]).collect()
}

fn read(path: &Path, file: File) -> Result<Config, ConfigError> {
    let text = io::read_to_string(file).map_err(|error| unreadable(path, error))?;
    toml::from_str(&text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = 1 + text.get(..start).unwrap_or_default().matches('\n').count();
        let message = error.message().lines().collect::<Vec<_>>().join(" ");
        ConfigError::Invalid { path: path.into(), line, message }
    })
}

fn plain_duration<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(input)?;
    duration::parse(&text).map(Some).map_err(serde::de::Error::custom)
}

fn duration_or_forever<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(input)?;
    duration::parse_or_forever(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn parsed(text: &str) -> Result<Config, String> {
        let dir = env::temp_dir().join(format!("redlatch-config-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("{:?}.toml", std::thread::current().id()));
        fs::write(&path, text).unwrap();
        let shown = path.display().to_string();
        let file = File::open(&path).unwrap();
        let config = read(&path, file).map_err(|error| error.to_string().replace(&shown, "FILE"));
        fs::remove_file(&path).unwrap();
        config
    }

    #[test]
    fn a_whole_file_is_read() {
        let config = parsed(
            r#"
            nodes = ["redis://a", { url = "redis://b", password_env = "B" }]
            password_file = "/etc/redlatch/password"
            ttl = "20s"
            wait = "forever"
            skew = "5s"
            restart_guard = "strict"
            "#,
        )
        .unwrap();

        let b = NodeTable {
            url: "redis://b".into(),
            password_file: None,
            password_env: Some("B".into()),
        };
        assert_eq!(config.nodes, [NodeEntry::Url("redis://a".into()), NodeEntry::Table(b)]);
        assert_eq!(config.ttl, Some(Duration::from_secs(20)));
        assert_eq!(config.wait, Some(Duration::MAX));
        assert_eq!(config.skew, Some(Duration::from_secs(5)));
        assert_eq!(config.restart_guard, Some(GuardMode::Strict));
        assert_eq!(config.max_ttl, None);
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, start) in [
            ("ttl = \"5s\"\nttll = \"5s\"\n", "FILE:2: unknown field `ttll`"),
            ("\n\nttl = \"5\"\n", "FILE:3: `5` is not a duration"),
            ("nodes = [\n", "FILE:1: "),
            ("ttl = 5\n", "FILE:1: invalid type"),
            ("restart_guard = \"of\"\n", "FILE:1: unknown variant `of`, expected one of `off`"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.starts_with(start), "{text:?}: {error}");
        }
    }
}
