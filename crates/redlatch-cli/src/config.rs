//! The config file.
//!
//! In:  a path, or the usual places to look.
//! Out: the settings it has, or an error with file and line.

use crate::{cli::GuardMode, duration, environment::option_for};
use rustix::fs::OFlags;
use serde::{Deserialize, Deserializer};
use std::{
    env,
    fs::File,
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};
use toml::Table;

pub(crate) const NAME: &str = "redlatch.toml";

/// The contents of the file.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The path of the file, if there is one.
    #[serde(skip)]
    pub(crate) path: Option<PathBuf>,
    pub(crate) nodes: Option<Vec<NodeEntry>>,
    /// The least number of nodes that must be named.
    pub(crate) nodes_required: Option<usize>,
    /// For every node that doesn't set its own password.
    #[serde(default, deserialize_with = "some")]
    pub(crate) password_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "some")]
    pub(crate) password_env: Option<String>,
    #[serde(default, deserialize_with = "some")]
    pub(crate) owner: Option<String>,
    #[serde(default, deserialize_with = "duration_or_forever")]
    pub(crate) wait: Option<Duration>,
    #[serde(default, deserialize_with = "ttl")]
    pub(crate) ttl: Option<Duration>,
    #[serde(default, deserialize_with = "ttl")]
    pub(crate) max_ttl: Option<Duration>,
    #[serde(default, deserialize_with = "plain_duration")]
    pub(crate) skew: Option<Duration>,
    pub(crate) restart_guard: Option<GuardMode>,
    #[serde(default, deserialize_with = "some_duration")]
    pub(crate) node_timeout: Option<Duration>,
    /// The directory for the locks of the whole machine, or `off`.
    pub(crate) shared: Option<PathBuf>,
    /// Where to write metrics of runs.
    #[serde(default, deserialize_with = "some")]
    pub(crate) metrics_dir: Option<PathBuf>,
    /// Where traces go: a path, or `off`.
    #[serde(default, deserialize_with = "some")]
    pub(crate) log: Option<PathBuf>,
    #[serde(default, deserialize_with = "size")]
    pub(crate) log_size: Option<u64>,
    /// Whether they name the command.
    pub(crate) log_command: Option<bool>,
    /// The socket of syslog, or `off`.
    #[serde(default, deserialize_with = "some")]
    pub(crate) syslog: Option<PathBuf>,
}

/// A node: its address, with or without where to find its password.
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
    #[error(
        "the config file {} cannot be read: {error}; HOME leads there: set it to the home directory \
         of this user, or name a file with --config",
        .path.display()
    )]
    WrongHome { path: PathBuf, error: io::Error },
    #[error(
        "the config file {} is a link that leads nowhere; without its settings, the locks would be \
         elsewhere: restore what it points to, or remove the link", .0.display()
    )]
    Dangling(PathBuf),
    #[error(
        "the config file {} is empty, or has only comments, as if its settings were lost: write \
         them into it, or remove it",
        .0.display()
    )]
    Empty(PathBuf),
    #[error("{}:{line}: {message}", .path.display())]
    Invalid {
        path: PathBuf,
        line: usize,
        message: String,
        /// What the file says all the same about where traces go.
        traces: Box<Config>,
    },
    #[error(
        "{} belongs to another user, who could lead the locks elsewhere; \
         name it with --config if that is fine", .0.display()
    )]
    Foreign(PathBuf),
}

impl ConfigError {
    /// Where the file, whatever is wrong with it, wants traces to go: whoever looks for the
    /// mistake looks there.
    pub(crate) fn traces(&self) -> Option<&Config> {
        match self {
            ConfigError::Invalid { traces, .. } => Some(traces),
            _ => None,
        }
    }
}

impl Config {
    /// The environment variables that contain passwords.
    pub(crate) fn password_variables(&self) -> impl Iterator<Item = &str> {
        let of_nodes = self.nodes.iter().flatten().filter_map(|node| match node {
            NodeEntry::Table(table) => table.password_env.as_deref(),
            NodeEntry::Url(_) => None,
        });
        self.password_env.as_deref().into_iter().chain(of_nodes)
    }

    /// Loads the given file, or the first of the usual ones that exists.
    pub(crate) fn load(named: Option<&Path>) -> Result<Self, ConfigError> {
        if let Some(path) = named {
            let file = File::open(path).map_err(|error| unreadable(path, error))?;
            return read(path, file);
        }
        let here = Path::new(NAME);
        if let Some(file) = open(here)? {
            // Check the open file, not the path, which may lead elsewhere by now.
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
            if let Some(file) = open(&path).map_err(|error| at_home(error, env::home_dir()))? {
                return read(&path, file);
            }
        }
        Ok(Config::default())
    }
}

/// Opens a file if it exists. A file that exists but cannot be opened is an error, and so
/// is a dangling link: without its settings, the locks would be elsewhere. Anyone who can
/// write to the working directory could put a pipe or a device there: we wait for
/// neither.
fn open(path: &Path) -> Result<Option<File>, ConfigError> {
    let mut options = File::options();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    match options.open(path) {
        Ok(file) if file.metadata().is_ok_and(|found| found.is_file()) => Ok(Some(file)),
        Ok(_) => Err(unreadable(path, io::Error::other("it is not a regular file"))),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => match dangling(path) {
                Some(link) => Err(ConfigError::Dangling(link)),
                None => Ok(None),
            },
            _ => Err(unreadable(path, error)),
        },
    }
}

/// The dangling link in a path: the file itself, or the directory that is meant for it.
fn dangling(path: &Path) -> Option<PathBuf> {
    let own = path.parent().filter(|dir| dir.ends_with("redlatch"));
    let links = own.into_iter().chain([path]);
    links.filter(|path| path.is_symlink() && !path.exists()).map(Path::to_path_buf).next()
}

fn unreadable(path: &Path, error: io::Error) -> ConfigError {
    ConfigError::Unreadable { path: path.into(), error }
}

/// A file in a home that this user may not enter: `HOME` is another user's.
fn at_home(error: ConfigError, home: Option<PathBuf>) -> ConfigError {
    match error {
        ConfigError::Unreadable { path, error }
            if error.kind() == io::ErrorKind::PermissionDenied
                && home.is_some_and(|home| path.starts_with(home)) =>
        {
            ConfigError::WrongHome { path, error }
        }
        error => error,
    }
}

/// The paths of the user's and the system's config file.
fn usual_places() -> Vec<PathBuf> {
    places(env::var_os("XDG_CONFIG_HOME").map(PathBuf::from), env::home_dir())
}

/// The paths for a user with these directories.
pub(crate) fn places(config: Option<PathBuf>, home: Option<PathBuf>) -> Vec<PathBuf> {
    let home = || home.map(|home| home.join(".config"));
    let user = config.filter(|dir| dir.is_absolute());
    let user = user.or_else(home).map(|dir| dir.join("redlatch").join(NAME));
    user.into_iter().chain([Path::new("/etc/redlatch").join(NAME)]).collect()
}

fn read(path: &Path, file: File) -> Result<Config, ConfigError> {
    let text = io::read_to_string(file).map_err(|error| unreadable(path, error))?;
    // A host whose nodes are commented out must not fall back to local locks.
    if text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#')) {
        return Err(ConfigError::Empty(path.into()));
    }
    let config = toml::from_str(&text).map_err(|error| {
        let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default();
        let line = 1 + before.matches('\n').count();
        let message = error.message().lines().collect::<Vec<_>>().join(" ");
        let message = in_words(&message, key_before(before));
        ConfigError::Invalid { path: path.into(), line, message, traces: traces_in(&text).into() }
    })?;
    Ok(Config { path: Some(path.into()), ..config })
}

/// The settings for traces in a file with a mistake, as far as they can be read.
fn traces_in(text: &str) -> Config {
    let by_line = || {
        let lines = text.lines().take_while(|line| !line.trim_start().starts_with('['));
        lines.filter_map(|line| line.parse::<Table>().ok()).flatten().collect()
    };
    let settings: Table = text.parse().unwrap_or_else(|_| by_line());
    let read = |key: &str| {
        let value = settings.get(key)?.clone();
        Table::from_iter([(key.to_owned(), value)]).try_into::<Config>().ok()
    };
    // Nobody can tell whether a wrong value was meant to hide the command.
    let hides = text.lines().any(|line| line.trim_start().starts_with("log_command"));
    let log_command = read("log_command").and_then(|config| config.log_command);
    Config {
        metrics_dir: read("metrics_dir").and_then(|config| config.metrics_dir),
        log: read("log").and_then(|config| config.log),
        log_size: read("log_size").and_then(|config| config.log_size),
        log_command: log_command.or(hides.then_some(false)),
        syslog: read("syslog").and_then(|config| config.syslog),
        ..Config::default()
    }
}

/// The setting whose value comes next, if it begins on the same line.
fn key_before(text: &str) -> Option<&str> {
    let line = text.rsplit('\n').next()?;
    let key = line.trim_end().strip_suffix('=')?.trim();
    key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some(key)
}

/// What the parser says, with the setting, and without names of types.
fn in_words(message: &str, key: Option<&str>) -> String {
    let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    let option = |name| if name == "node" { None } else { Some((name, option_for(name)?)) };
    if let Some((unknown, option)) = unknown.and_then(option) {
        return format!("{unknown} cannot be set here: use the option {option}");
    }
    let wanted = message.strip_prefix("invalid type: ").and_then(|rest| {
        let (found, wanted) = rest.split_once(", expected ")?;
        let wanted = match wanted {
            "a string" | "string" | "path string" => "a text in quotes",
            "usize" => "a number without quotes",
            "a boolean" => "true or false",
            "a sequence" => "a list in square brackets",
            _ => return None,
        };
        Some(format!("{wanted} is wanted, not {found}"))
    });
    match (wanted, key) {
        (Some(wanted), Some(key)) => format!("{key}: {wanted}"),
        (Some(wanted), None) => wanted,
        (None, Some(key)) if message.starts_with("wanted ") => {
            let wanted = message.trim_start_matches("wanted ");
            let wanted = if wanted == "string or table" { "a text in quotes" } else { wanted };
            format!("{key}: {wanted} is wanted")
        }
        _ => message.into(),
    }
}

fn some<'de, D: Deserializer<'de>, T: From<String>>(input: D) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(input)?;
    if text.is_empty() {
        return Err(serde::de::Error::custom("it is empty; write a value, or leave it out"));
    }
    Ok(Some(text.into()))
}

fn plain_duration<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(input)?;
    duration::parse(&text).map(Some).map_err(serde::de::Error::custom)
}

fn some_duration<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(input)?;
    duration::parse_some(&text).map(Some).map_err(serde::de::Error::custom)
}

fn ttl<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(input)?;
    duration::parse_ttl(&text).map(Some).map_err(serde::de::Error::custom)
}

fn size<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(input)?;
    crate::size::parse(&text).map(Some).map_err(serde::de::Error::custom)
}

fn duration_or_forever<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(input)?;
    duration::parse_or_forever(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redlatch_testbed::Scratch;
    use std::fs;

    fn parsed(text: &str) -> Result<Config, String> {
        let scratch = Scratch::new().unwrap();
        let path = scratch.file("redlatch.toml");
        fs::write(&path, text).unwrap();
        let shown = path.display().to_string();
        let file = File::open(&path).unwrap();
        read(&path, file).map_err(|error| error.to_string().replace(&shown, "FILE"))
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
        assert_eq!(
            config.nodes.unwrap(),
            [NodeEntry::Url("redis://a".into()), NodeEntry::Table(b)]
        );
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
            ("node_timeout = \"0s\"\n", "FILE:1: `0s` must be longer than zero"),
            ("restart_guard = \"of\"\n", "FILE:1: unknown variant `of`, expected one of `off`"),
            ("ttl = 5\n", "FILE:1: ttl: a text in quotes is wanted, not integer `5`"),
            (
                "nodes_required = \"3\"\n",
                "FILE:1: nodes_required: a number without quotes is wanted, not string \"3\"",
            ),
            ("log_command = 1\n", "FILE:1: log_command: true or false is wanted, not integer `1`"),
            (
                "owner = \"a\"\nnodes = 'redis://a'\n",
                "FILE:2: nodes: a list in square brackets is wanted, not string \"redis://a\"",
            ),
            ("metrics_dir = \"\"\n", "FILE:1: it is empty; write a value, or leave it out"),
            ("password_env = \"\"\n", "FILE:1: it is empty"),
            ("password_file = \"\"\n", "FILE:1: it is empty"),
            ("owner = \"\"\n", "FILE:1: it is empty"),
            ("\nlog = \"\"\n", "FILE:2: it is empty"),
            ("\nsyslog = \"\"\n", "FILE:2: it is empty"),
            ("restart_guard = true\n", "FILE:1: restart_guard: a text in quotes is wanted"),
            (
                "max_hold = \"5s\"\n",
                "FILE:1: max_hold cannot be set here: use the option --max-hold",
            ),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.starts_with(start), "{text:?}: {error}");
        }
    }
}
