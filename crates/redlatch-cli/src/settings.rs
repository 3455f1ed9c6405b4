//! The settings, from the command line, the environment and the config file.

use crate::{
    cli::{GuardMode, PlaceArgs, Waiting},
    config::{Config, ConfigError, NodeEntry, NodeTable},
    duration, environment,
    event::Scope,
    exit::Exit,
    failure::Failure,
    percent,
    secrets::{self, Secrets},
    share::{self, Shared},
};
use clap::ValueEnum as _;
use redlatch::{
    Builder, Locks, OwnerParts, RestartGuard,
    node::{self, Node},
};
use std::{
    env, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The default TTL: the longest that is allowed by default, so that a job survives
/// an outage of up to that length.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The longest default node timeout for files on this machine.
const LONGEST_LOCAL: Duration = Duration::from_secs(5);

/// Where the locks are, and the settings for all of them.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    nodes: Vec<String>,
    /// What named them, for messages.
    named_by: String,
    /// Whether the default file is that of the whole machine.
    is_shared: bool,
    /// Whether this user's own file does not exist yet.
    is_first: bool,
    /// The typed options that say where the locks are: the next command needs them,
    /// too.
    typed: String,
    /// The same for `redlatch doctor`, which also looks at nodes without the restart guard.
    typed_for_doctor: String,
    max_ttl: Option<Duration>,
    skew: Option<Duration>,
    restart_guard: Option<GuardMode>,
    node_timeout: Option<Duration>,
    owner: Option<String>,
    /// What else locks say about their owner.
    details: OwnerParts,
    ttl: Duration,
    wait: Duration,
    secrets: Secrets,
}

/// Why the settings cannot be used.
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
    #[error(
        "{variable} names no node; name the nodes there, or remove it to lock in a file on this \
         machine"
    )]
    Empty { variable: String },
    #[error("{0}")]
    Unknown(environment::Unknown),
    #[error(
        "{named_by} names a node in memory, which only the process that asks can see: it would \
         exclude nobody, and is for tests of one process; name servers or a file, or remove it to \
         lock in a file on this machine"
    )]
    Memory { named_by: String },
    #[error(
        "{named_by} names the file {}, but there is no directory {}: check the path, or make the \
         directory first", .path.display(), .dir.display()
    )]
    NoDirectory { named_by: String, path: PathBuf, dir: PathBuf },
    #[error(
        "{by} is set to \"{}\", which cannot keep the locks of all users of this machine: {reason}; \
         make such a directory as root (install -d -m 2770 -g GROUP {}), or write `off` for \
         locks that exclude no other user", .dir.display(), place_to_make(.dir)
    )]
    NotShared { by: String, dir: PathBuf, reason: String },
    #[error(
        "the place of the locks that all users of this machine share, {}, cannot be used: {reason}; \
         make it as root (install -d -m 2770 -g GROUP {0}), or set REDLATCH_SHARED=off for locks \
         that exclude no other user", .dir.display()
    )]
    Damaged { dir: PathBuf, reason: String },
    #[error(
        "nodes required: {required} (--nodes-required, REDLATCH_NODES_REQUIRED or nodes_required), \
         but {named_by} names {}", match .named { 0 => "any".into(), named => named.to_string() }
    )]
    TooFew { required: usize, named: usize, named_by: String },
    #[error(
        "the locks of this machine are in {}, for the group {group}, and this user is not in it: \
         join the group; or name other nodes, or set REDLATCH_SHARED=off for locks that exclude \
         nobody else", .dir.display()
    )]
    Denied { dir: PathBuf, group: String },
    #[error("there is no place for the embedded node: {}; name a node with --node", homeless())]
    NoHome,
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Failure::new(Exit::Failed, secrets::hide_typed(&error.to_string()))
    }
}

impl Settings {
    pub(crate) fn new(place: &PlaceArgs, config: Config) -> Result<Self, SettingsError> {
        if let Some(unknown) = environment::unknown(config.password_variables()) {
            return Err(SettingsError::Unknown(unknown));
        }
        let (nodes, named_by) = addresses(place, &config)?;
        let required = place.nodes_required.or(nodes_required()?).or(config.nodes_required);
        check_count(required.unwrap_or(0), &nodes, &named_by)?;
        check_kinds(&nodes, &named_by)?;
        let files = || nodes.iter().filter_map(|url| file(url));
        // Also the file of root who does without the one for all: it is the same.
        let is_shared = named_by == DEFAULT && files().any(|path| is_of_all(&path));
        let is_first = named_by == DEFAULT && !is_shared && files().any(|path| !path.exists());
        if named_by == DEFAULT && !is_shared {
            files().for_each(|path| share::make_dir(&path));
        }
        files().for_each(|path| share::make(&path));
        let of_env = (
            from_env("REDLATCH_MAX_TTL", duration::parse_ttl)?,
            from_env("REDLATCH_SKEW", duration::parse)?,
            from_env("REDLATCH_RESTART_GUARD", guard_mode)?,
        );
        let max_ttl = place.max_ttl.or(of_env.0).or(config.max_ttl);
        let restart_guard = place.restart_guard.or(of_env.2).or(config.restart_guard);
        let is_unguarded = match restart_guard {
            Some(guard) => guard == GuardMode::Off,
            None => nodes.len() == 1,
        };
        // A lower --max-ttl also lowers the default TTL.
        let ttl = max_ttl.map_or(DEFAULT_TTL, |most| DEFAULT_TTL.min(most));
        Ok(Settings {
            secrets: Secrets::of(&config),
            nodes,
            named_by,
            is_shared,
            is_first,
            typed: typed(place, is_unguarded),
            typed_for_doctor: typed(place, false),
            max_ttl,
            skew: place.skew.or(of_env.1).or(config.skew),
            restart_guard,
            node_timeout: place.node_timeout.or(config.node_timeout),
            owner: config.owner,
            details: OwnerParts::default(),
            ttl: config.ttl.unwrap_or(ttl),
            wait: config.wait.unwrap_or(Duration::ZERO),
        })
    }

    /// The same settings, with the options for one lock.
    pub(crate) fn with(mut self, waiting: &Waiting) -> Self {
        self.ttl = waiting.ttl.unwrap_or(self.ttl);
        self.owner = waiting.owner.clone().or(self.owner);
        self.wait =
            if waiting.no_wait { Duration::ZERO } else { waiting.wait.unwrap_or(self.wait) };
        self
    }

    /// The same settings, for locks that say this about their owner.
    pub(crate) fn signed(mut self, details: OwnerParts) -> Self {
        self.details = details;
        self
    }

    /// The same settings, for a lock that already has this TTL.
    pub(crate) fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The longest TTL that any client may ask for.
    pub(crate) fn max_ttl(&self) -> Duration {
        self.max_ttl.unwrap_or(DEFAULT_TTL)
    }

    pub(crate) fn wait(&self) -> Duration {
        self.wait
    }

    /// How long a node may take to answer; `None` for the library's default. Files
    /// get longer: with no network in between, a late answer only means that the
    /// machine is busy, which is no reason to give up.
    pub(crate) fn node_timeout(&self) -> Option<Duration> {
        let is_local = |url: &String| url.starts_with(EMBEDDED) || url.starts_with("file:");
        let patient = || self.nodes.iter().all(is_local).then(|| LONGEST_LOCAL.min(self.ttl / 6));
        self.node_timeout.or_else(patient)
    }

    /// The addresses of the nodes, including passwords.
    pub(crate) fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The names of the nodes, as errors show them.
    pub(crate) fn names(&self) -> Vec<String> {
        self.told(|node| node.name())
    }

    /// How each of them is reached, without its login.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.told(|node| node.address())
    }

    fn told(&self, of: fn(&dyn Node) -> &str) -> Vec<String> {
        let told = |url: &String| match url.strip_prefix(EMBEDDED) {
            Some(path) => format!("file:{path}"),
            None => match node::parse(url) {
                Ok(node) => of(&*node).to_owned(),
                Err(error) => error.address().to_owned(),
            },
        };
        self.nodes.iter().map(told).collect()
    }

    /// What named the nodes, for messages.
    pub(crate) fn named_by(&self) -> &str {
        &self.named_by
    }

    /// Who shares the locks.
    pub(crate) fn scope(&self) -> Scope {
        match self.is_shared {
            _ if self.named_by != DEFAULT => Scope::Nodes,
            true => Scope::Machine,
            false => Scope::User,
        }
    }

    /// Whether this user locks in a private file for the first time.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// The options that `redlatch admit` needs to find the same nodes, as typed but
    /// without logins; empty if it needs none.
    pub(crate) fn typed(&self) -> &str {
        &self.typed
    }

    /// The command that checks the same nodes, to paste.
    pub(crate) fn doctor(&self, options: &str) -> String {
        let words = ["redlatch doctor", options, &self.typed_for_doctor];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// What to hide from the command's environment, unless `--pass-secrets` is given.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The owner's label: the one asked for, or this host and process id.
    pub(crate) fn owner(&self) -> String {
        self.owner.clone().unwrap_or_else(|| {
            let host = nix::unistd::gethostname().unwrap_or_default();
            let host = host.to_string_lossy();
            let host: String = host.chars().filter(char::is_ascii_graphic).take(200).collect();
            format!("{host}/{}", std::process::id())
        })
    }

    /// A builder with these settings.
    pub(crate) fn builder(&self) -> Builder {
        let builder = Locks::builder().ttl(self.ttl).owner(self.owner());
        let mut builder = builder.owner_details(self.details.clone());
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

/// The options that make up `place`, to paste after `redlatch admit`, without logins.
/// `admit` has nothing to do without the restart guard, so they turn it on.
fn typed(place: &PlaceArgs, is_unguarded: bool) -> String {
    let time = |option: &str, time: Option<Duration>| {
        let shown = |time| humantime::format_duration(time).to_string().replace(' ', "");
        time.map(|time| format!("{option} {}", shown(time)))
    };
    let mut typed: Vec<String> = place
        .nodes
        .iter()
        .map(|node| format!("--node {}", quoted(&secrets::shown(node))))
        .collect();
    typed.extend(place.nodes_required.map(|count| format!("--nodes-required {count}")));
    let config = place.config.as_ref().map(|file| file.to_string_lossy());
    typed.extend(config.map(|file| format!("--config {}", quoted(&file))));
    typed.extend(time("--max-ttl", place.max_ttl));
    typed.extend(time("--skew", place.skew));
    let guard = if is_unguarded { Some(GuardMode::On) } else { place.restart_guard };
    let guard = guard.and_then(|guard| guard.to_possible_value());
    typed.extend(guard.map(|guard| format!("--restart-guard {}", guard.get_name())));
    typed.join(" ")
}

/// Quotes a word for the shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/:.,_-@%+=…".contains(c);
    if word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Reads a variable.
fn from_env<T>(
    variable: &'static str,
    read: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, SettingsError> {
    let text = environment::text(variable, "write a value");
    let value = text.and_then(|text| text.map(|text| read(&text.to_string_lossy())).transpose());
    value.map_err(|reason| SettingsError::Variable { variable, reason })
}

fn nodes_required() -> Result<Option<usize>, SettingsError> {
    let variable = "REDLATCH_NODES_REQUIRED";
    let text = environment::text(variable, "say how many nodes must be named");
    let value = text.and_then(|text| text.map(|text| number(&text.to_string_lossy())).transpose());
    value.map_err(|reason| SettingsError::Variable { variable, reason })
}

fn guard_mode(text: &str) -> Result<GuardMode, String> {
    GuardMode::from_str(text.trim(), true).map_err(|_| format!("`{text}` is not off, on or strict"))
}

/// Marks the path of the embedded node, which is not an address: it may contain `%`.
const EMBEDDED: &str = "embedded:";

/// The addresses of the nodes, and what named them. The file on this machine is the
/// default if no list is given at all; an empty list is an error.
fn addresses(place: &PlaceArgs, config: &Config) -> Result<(Vec<String>, String), SettingsError> {
    if !place.nodes.is_empty() {
        return Ok((place.nodes.clone(), "--node".into()));
    }
    if let Some(list) = env::var_os(secrets::NODES) {
        let list = list.to_string_lossy();
        if list == secrets::WITHHELD {
            return Err(SettingsError::Withheld);
        }
        return some(listed(&list)?, secrets::NODES.into());
    }
    if let Some(nodes) = &config.nodes {
        let nodes = nodes.iter().map(|node| address(node, config)).collect::<Result<_, _>>()?;
        let path = config.path.as_deref().unwrap_or(Path::new("the config file"));
        return some(nodes, path.display().to_string());
    }
    let path = match shared(config)? {
        Shared::Yes(path) => path,
        Shared::Denied { dir, group } => return Err(SettingsError::Denied { dir, group }),
        Shared::No => embedded_path(
            nix::unistd::geteuid().is_root(),
            env::var_os("XDG_STATE_HOME").map(PathBuf::from).as_deref(),
            env::home_dir().as_deref(),
        )
        .ok_or(SettingsError::NoHome)?,
    };
    Ok((vec![format!("{EMBEDDED}{}", path.display())], DEFAULT.into()))
}

/// Why the home directory of this user cannot be used.
pub(crate) fn homeless() -> String {
    match env::var_os("HOME").filter(|home| !home.is_empty()) {
        Some(home) => {
            format!("HOME is relative ({}), and must be absolute", home.to_string_lossy())
        }
        None => "HOME is not set".into(),
    }
}

/// What named the nodes, if nothing did.
const DEFAULT: &str = "default";

/// The file that the users of this machine share, if there is one. A directory that
/// somebody configured must be one for all users: without it, each user would have
/// separate locks.
fn shared(config: &Config) -> Result<Shared, SettingsError> {
    let typed = env::var_os(SHARED).map(|dir| (SHARED.into(), PathBuf::from(dir)));
    let configured = || {
        let path = config.path.as_deref().unwrap_or(Path::new("the config file"));
        config.shared.clone().map(|dir| (format!("`shared` in {}", path.display()), dir))
    };
    match typed.or_else(configured) {
        None => {
            let dir = Path::new(share::PLACE);
            share::look(dir).or_else(|reason| {
                if share::is_for_nobody_else(dir) {
                    return Ok(Shared::No);
                }
                Err(SettingsError::Damaged { dir: dir.into(), reason })
            })
        }
        Some((_, dir)) if dir.as_os_str() == share::OFF => Ok(Shared::No),
        Some((by, dir)) => {
            let found = share::look_at_named(&dir);
            found.map_err(|reason| SettingsError::NotShared { by, dir, reason })
        }
    }
}

/// Whether a default file is in a directory for all users.
fn is_of_all(file: &Path) -> bool {
    file.parent().is_some_and(|dir| matches!(share::look(dir), Ok(Shared::Yes(_))))
}

/// Names the directory of the locks that all users share.
const SHARED: &str = "REDLATCH_SHARED";

/// The directory to create, if the configured one is not suitable: the same one, if it can
/// be made suitable.
fn place_to_make(set: &Path) -> String {
    let is_free = !set.exists() || (set.is_dir() && !share::is_for_everybody(set));
    let dir = if set.is_absolute() && is_free { set } else { Path::new(share::PLACE) };
    quoted(&dir.to_string_lossy())
}

/// The path of a node that is a file.
fn file(url: &str) -> Option<PathBuf> {
    if let Some(path) = url.strip_prefix(EMBEDDED) {
        return Some(path.into());
    }
    // No other address is parsed for this: it may name a password file.
    let node = has_scheme(url, "file").then(|| node::parse(url).ok())??;
    Some(node.address().strip_prefix("file:")?.into())
}

fn has_scheme(url: &str, wanted: &str) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case(wanted))
}

/// Refuses nodes that would exclude nobody: nodes in memory, and files in directories that
/// do not exist, since a mistyped path would mean separate locks.
fn check_kinds(nodes: &[String], named_by: &str) -> Result<(), SettingsError> {
    if nodes.iter().any(|url| has_scheme(url, "memory")) {
        return Err(SettingsError::Memory { named_by: named_by.into() });
    }
    for path in nodes.iter().filter(|url| !url.starts_with(EMBEDDED)).filter_map(|url| file(url)) {
        let dir = path.parent().filter(|dir| is_missing(dir));
        if let Some(dir) = dir.map(Path::to_path_buf) {
            return Err(SettingsError::NoDirectory { named_by: named_by.into(), path, dir });
        }
    }
    Ok(())
}

/// Whether it is certain that there is no such directory. Anything else that keeps a file
/// from being used is reported by its node.
fn is_missing(dir: &Path) -> bool {
    dir.metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn some(nodes: Vec<String>, variable: String) -> Result<(Vec<String>, String), SettingsError> {
    if nodes.is_empty() {
        return Err(SettingsError::Empty { variable });
    }
    Ok((nodes, variable))
}

fn check_count(required: usize, nodes: &[String], named_by: &str) -> Result<(), SettingsError> {
    let named = nodes.iter().filter(|url| !url.starts_with(EMBEDDED)).count();
    if named < required {
        let named_by = if named == 0 { "nothing" } else { named_by };
        return Err(SettingsError::TooFew { required, named, named_by: named_by.into() });
    }
    Ok(())
}

fn number(text: &str) -> Result<usize, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a number"))
}

/// Splits a list into addresses. A piece that is not an address may be part of a
/// password that contains a separator, so the error quotes nothing of the list.
fn listed(list: &str) -> Result<Vec<String>, SettingsError> {
    let is_address = |piece: &str| {
        let piece = piece.to_ascii_lowercase();
        SCHEMES.iter().any(|scheme| piece.starts_with(scheme))
    };
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

/// How an address starts. An address in memory is refused separately.
const SCHEMES: [&str; 6] = ["redis://", "rediss://", "redis+unix:", "unix:", "file:", "memory:"];

fn split_list(list: &str) -> impl Iterator<Item = &str> {
    list.split(|c: char| c == ',' || c.is_whitespace()).filter(|url| !url.is_empty())
}

/// The path of this user's embedded node.
pub(crate) fn embedded_path(
    is_root: bool,
    state: Option<&Path>,
    home: Option<&Path>,
) -> Option<PathBuf> {
    own_dir("/var/lib/redlatch", is_root, state, home).map(|dir| dir.join(share::FILE))
}

/// The directory for what a user's runs keep: in the user's state directory; for root, the
/// given one.
pub(crate) fn own_dir(
    of_root: &str,
    is_root: bool,
    state: Option<&Path>,
    home: Option<&Path>,
) -> Option<PathBuf> {
    let state = state.filter(|dir| dir.is_absolute()).map(|dir| dir.join("redlatch"));
    let usual = || match home {
        _ if is_root => Some(of_root.into()),
        Some(home) if home.is_absolute() => Some(home.join(".local/state/redlatch")),
        _ => None,
    };
    state.or_else(usual)
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
    // Leave an address alone if it has a password, or cannot have one.
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
        Err(_) => {
            Err(SettingsError::NoPassword { node: secrets::shown(url), variable: variable.clone() })
        }
    }
}

fn has_password(url: &str) -> bool {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let login = place.rsplit_once('@').map_or("", |(login, _)| login);
    let login = login.split_once("//").map_or("", |(_, login)| login);
    let is_password = |option: &str| {
        let (key, _) = option.split_once('=').unwrap_or((option, ""));
        ["password", "password_file"].contains(&key)
    };
    login.contains(':') || query.split('&').any(is_password)
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
    fn options_to_type_again_can_be_pasted_and_show_no_login() {
        let place = PlaceArgs {
            nodes: vec!["redis://ada:secret@a?db=1&name=y".into(), "redis://b:1".into()],
            nodes_required: Some(2),
            config: Some("/etc/it's.toml".into()),
            max_ttl: Some(Duration::from_secs(90)),
            restart_guard: Some(GuardMode::Strict),
            ..PlaceArgs::default()
        };

        let words = "--node 'redis://…@a?db=1&name=y' --node redis://b:1 --nodes-required 2 \
                     --config '/etc/it'\\''s.toml' --max-ttl 1m30s --restart-guard strict";
        assert_eq!(typed(&place, false), words);
        let place = PlaceArgs { restart_guard: Some(GuardMode::Off), ..PlaceArgs::default() };
        assert_eq!(typed(&place, true), "--restart-guard on");
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
        let named = "redis://a?name=password-node";
        assert_eq!(of(named), format!("{named}&password_file=/etc/a%20b"));
        assert_eq!(of("redis://a?name=a&password=x"), "redis://a?name=a&password=x");
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
