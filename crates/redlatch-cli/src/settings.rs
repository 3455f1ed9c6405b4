//! What was typed, what stands in the environment and in the config file: what
//! it all means.

use crate::{
    cli::{GuardMode, PlaceArgs, Waiting},
    config::{Config, ConfigError, NodeEntry, NodeTable},
    duration, percent,
    secrets::{self, Secrets},
};
use clap::ValueEnum as _;
use redlatch::{Builder, Locks, RestartGuard, node};
use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The TTL unless asked for another: the longest that is allowed by default, so
/// that a job survives an outage of that length.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The longest that a file on this machine may take to answer.
const LONGEST_LOCAL: Duration = Duration::from_secs(5);

/// Where the locks are, and what holds for all of them.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    nodes: Vec<String>,
    /// Whether they stand on the command line, so that the next command needs them, too.
    are_typed: bool,
    max_ttl: Option<Duration>,
    skew: Option<Duration>,
    restart_guard: Option<GuardMode>,
    node_timeout: Option<Duration>,
    owner: Option<String>,
    ttl: Duration,
    wait: Duration,
    secrets: Secrets,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(
        "the password for {node} should be in the environment variable {variable}, which is not set"
    )]
    NoPassword { node: String, variable: String },
    #[error("{variable}: {reason}")]
    Variable { variable: &'static str, reason: String },
    #[error(
        "REDLATCH_NODES holds a password and was withheld from this command; \
         add --pass-secrets to the `redlatch run` around it"
    )]
    Withheld,
    #[error("there is no place for the embedded node: HOME is not set; name a node with --node")]
    NoHome,
}

impl Settings {
    pub(crate) fn new(place: &PlaceArgs) -> Result<Self, SettingsError> {
        let config = Config::load(place.config.as_deref())?;
        let of_env = (
            from_env("REDLATCH_MAX_TTL", duration::parse)?,
            from_env("REDLATCH_SKEW", duration::parse)?,
            from_env("REDLATCH_RESTART_GUARD", guard_mode)?,
        );
        let max_ttl = place.max_ttl.or(of_env.0).or(config.max_ttl);
        // Who allows no more has not asked for more.
        let ttl = max_ttl.map_or(DEFAULT_TTL, |most| DEFAULT_TTL.min(most));
        Ok(Settings {
            secrets: Secrets::of(&config),
            nodes: addresses(place, &config)?,
            are_typed: !place.nodes.is_empty(),
            max_ttl,
            skew: place.skew.or(of_env.1).or(config.skew),
            restart_guard: place.restart_guard.or(of_env.2).or(config.restart_guard),
            node_timeout: place.node_timeout.or(config.node_timeout),
            owner: config.owner,
            ttl: config.ttl.unwrap_or(ttl),
            wait: config.wait.unwrap_or(Duration::ZERO),
        })
    }

    /// The same, with what one lock asks for.
    pub(crate) fn with(mut self, waiting: &Waiting) -> Self {
        self.ttl = waiting.ttl.unwrap_or(self.ttl);
        self.owner = waiting.owner.clone().or(self.owner);
        self.wait =
            if waiting.no_wait { Duration::ZERO } else { waiting.wait.unwrap_or(self.wait) };
        self
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The longest that any client may let a lock live without renewal.
    pub(crate) fn max_ttl(&self) -> Duration {
        self.max_ttl.unwrap_or(DEFAULT_TTL)
    }

    pub(crate) fn wait(&self) -> Duration {
        self.wait
    }

    /// How long a node may take to answer; none for the library's default. A
    /// file has no network in between: it answers late where the machine is
    /// busy, which is no reason to give up.
    pub(crate) fn node_timeout(&self) -> Option<Duration> {
        let is_local = |url: &String| url.starts_with(EMBEDDED) || url.starts_with("file:");
        let patient = || self.nodes.iter().all(is_local).then(|| LONGEST_LOCAL.min(self.ttl / 6));
        self.node_timeout.or_else(patient)
    }

    /// The addresses of the nodes, with secrets.
    pub(crate) fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// Whether another command needs `--node` in order to find the same nodes.
    pub(crate) fn are_typed(&self) -> bool {
        self.are_typed
    }

    /// What a command shall not see in its environment unless asked for.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Whose the locks are: the label asked for, or this host and process.
    pub(crate) fn owner(&self) -> String {
        self.owner.clone().unwrap_or_else(|| {
            let host = nix::unistd::gethostname().unwrap_or_default();
            let host = host.to_string_lossy();
            let host: String = host.chars().filter(char::is_ascii_graphic).take(200).collect();
            format!("{host}/{}", std::process::id())
        })
    }

    /// All but the connecting.
    pub(crate) fn builder(&self) -> Builder {
        let mut builder = Locks::builder().ttl(self.ttl).owner(self.owner());
        for url in &self.nodes {
            builder = match url.strip_prefix(EMBEDDED) {
                Some(path) => builder.custom_node(Arc::new(node::File::new(path))),
                None => builder.node(url),
            };
        }
        if let Some(max_ttl) = self.max_ttl {
            builder = builder.max_ttl(max_ttl);
        }
        if let Some(skew) = self.skew {
            builder = builder.skew(skew);
        }
        if let Some(mode) = self.restart_guard {
            builder = builder.restart_guard(match mode {
                GuardMode::Off => RestartGuard::Off,
                GuardMode::On => RestartGuard::On,
                GuardMode::Strict => RestartGuard::Strict,
            });
        }
        if let Some(timeout) = self.node_timeout() {
            builder = builder.node_timeout(timeout);
        }
        builder
    }
}

/// What stands in a variable; one that is empty says nothing.
fn from_env<T>(
    variable: &'static str,
    read: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, SettingsError> {
    let text = env::var(variable).unwrap_or_default();
    let value = (!text.is_empty()).then(|| read(&text)).transpose();
    value.map_err(|reason| SettingsError::Variable { variable, reason })
}

fn guard_mode(text: &str) -> Result<GuardMode, String> {
    GuardMode::from_str(text.trim(), true).map_err(|_| format!("`{text}` is not off, on or strict"))
}

/// Marks the path of the embedded node, which is no address: it may hold `%`.
const EMBEDDED: &str = "embedded:";

fn addresses(place: &PlaceArgs, config: &Config) -> Result<Vec<String>, SettingsError> {
    if !place.nodes.is_empty() {
        return Ok(place.nodes.clone());
    }
    let from_env = env::var(secrets::NODES).unwrap_or_default();
    if from_env == secrets::WITHHELD {
        return Err(SettingsError::Withheld);
    }
    let from_env = listed(&from_env)?;
    if !from_env.is_empty() {
        return Ok(from_env);
    }
    if !config.nodes.is_empty() {
        return config.nodes.iter().map(|node| address(node, config)).collect();
    }
    let path = embedded_path(
        nix::unistd::geteuid().is_root(),
        env::var_os("XDG_STATE_HOME").map(PathBuf::from).as_deref(),
        env::home_dir().as_deref(),
    );
    Ok(vec![format!("{EMBEDDED}{}", path.ok_or(SettingsError::NoHome)?.display())])
}

/// The addresses of a list. A piece that is none may be a part of a password,
/// torn apart where it holds a separator: then nothing of the list is shown.
fn listed(list: &str) -> Result<Vec<String>, SettingsError> {
    let is_address = |piece: &str| SCHEMES.iter().any(|scheme| piece.starts_with(scheme));
    let wrong = split_list(list).position(|piece| !is_address(piece));
    let Some(at) = wrong else { return Ok(split_list(list).map(Into::into).collect()) };
    let nth = match at + 1 {
        1 => "1st".into(),
        2 => "2nd".into(),
        3 => "3rd".into(),
        more => format!("{more}th"),
    };
    let reason = format!(
        "the {nth} address has no scheme that is known (redis://, rediss://, redis+unix:, file:); \
         in a password, write a comma as %2C, a space as %20 and an @ as %40"
    );
    Err(SettingsError::Variable { variable: secrets::NODES, reason })
}

/// What an address starts with.
const SCHEMES: [&str; 6] = ["redis://", "rediss://", "redis+unix:", "unix:", "file:", "memory:"];

fn split_list(list: &str) -> impl Iterator<Item = &str> {
    list.split(|c: char| c == ',' || c.is_whitespace()).filter(|url| !url.is_empty())
}

/// Where the embedded node of this user is.
fn embedded_path(is_root: bool, state: Option<&Path>, home: Option<&Path>) -> Option<PathBuf> {
    let state = state.filter(|dir| dir.is_absolute()).map(|dir| dir.join("redlatch"));
    let usual = || match home {
        _ if is_root => Some("/var/lib/redlatch".into()),
        Some(home) if home.is_absolute() => Some(home.join(".local/state/redlatch")),
        _ => None,
    };
    state.or_else(usual).map(|dir| dir.join("locks.db"))
}

/// The address of a node in the config file, with its password.
fn address(node: &NodeEntry, config: &Config) -> Result<String, SettingsError> {
    let (url, own_file, own_variable) = match node {
        NodeEntry::Url(url) => (url, None, None),
        NodeEntry::Table(NodeTable { url, password_file, password_env }) => {
            (url, password_file.as_ref(), password_env.as_ref())
        }
    };
    let own = own_file.is_some() || own_variable.is_some();
    // One that has a password already, or cannot have one, is left alone.
    let bare = url.starts_with("redis") && !has_password(url);
    if !own && !bare {
        return Ok(url.clone());
    }
    let file = own_file.or(config.password_file.as_ref().filter(|_| !own));
    let variable = own_variable.or(config.password_env.as_ref().filter(|_| !own));
    if let Some(file) = file {
        return Ok(with_option(url, "password_file", &file.to_string_lossy()));
    }
    let Some(variable) = variable else { return Ok(url.clone()) };
    match env::var(variable) {
        Ok(password) => Ok(with_option(url, "password", &password)),
        Err(_) => Err(SettingsError::NoPassword { node: url.clone(), variable: variable.clone() }),
    }
}

fn has_password(url: &str) -> bool {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let login = place.rsplit_once('@').map_or("", |(login, _)| login);
    let login = login.split_once("//").map_or("", |(_, login)| login);
    login.contains(':') || query.contains("password")
}

fn with_option(url: &str, key: &str, value: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    let mut url = format!("{url}{separator}{key}=");
    percent::encode(&mut url, value.as_bytes());
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(is_root: bool, state: Option<&str>, home: Option<&str>) -> Option<String> {
        let path = embedded_path(is_root, state.map(Path::new), home.map(Path::new));
        path.map(|path| path.display().to_string())
    }

    #[test]
    fn the_embedded_node_is_in_the_state_directory() {
        let ada = Some("/home/ada");
        assert_eq!(path(false, None, ada).unwrap(), "/home/ada/.local/state/redlatch/locks.db");
        assert_eq!(path(false, Some("/s"), ada).unwrap(), "/s/redlatch/locks.db");
        assert_eq!(path(false, Some("relative"), ada), path(false, None, ada));
        assert_eq!(path(true, None, Some("/root")).unwrap(), "/var/lib/redlatch/locks.db");
        assert_eq!(path(false, None, None), None);
    }

    #[test]
    fn lists_are_separated_by_commas_or_blanks() {
        let list: Vec<_> = split_list("redis://a, redis://b\nredis://c,").collect();

        assert_eq!(list, ["redis://a", "redis://b", "redis://c"]);
    }

    #[test]
    fn a_password_file_for_all_is_for_those_without_a_password() {
        let config = Config { password_file: Some("/etc/a b".into()), ..Config::default() };
        let of = |url: &str| address(&NodeEntry::Url(url.into()), &config).unwrap();

        assert_eq!(of("redis://a"), "redis://a?password_file=/etc/a%20b");
        assert_eq!(of("redis://a?db=1"), "redis://a?db=1&password_file=/etc/a%20b");
        assert_eq!(of("redis://ada@a"), "redis://ada@a?password_file=/etc/a%20b");
        assert_eq!(of("redis://:secret@a"), "redis://:secret@a");
        assert_eq!(of("file:/x"), "file:/x");
    }

    #[test]
    fn a_password_that_should_be_in_the_environment_is_missed_by_name() {
        let entry = NodeEntry::Table(NodeTable {
            url: "redis://a".into(),
            password_file: None,
            password_env: Some("REDLATCH_TEST_UNSET".into()),
        });

        let error = address(&entry, &Config::default()).unwrap_err().to_string();

        assert!(error.contains("REDLATCH_TEST_UNSET"), "{error}");
    }
}
