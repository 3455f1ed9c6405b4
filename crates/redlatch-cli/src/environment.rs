//! Our environment variables.
//!
//! In:  the names of all variables. Out: the first `REDLATCH_…` name that is unknown,
//! and what was probably meant. A typo must not send the locks elsewhere.

use crate::{cli::Cli, secrets::NODES};
use clap::CommandFactory as _;
use std::{env, ffi::OsString, fmt};

const OURS: &str = "REDLATCH_";

/// A variable, for the man pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    /// The id of the argument that marks the commands it matters to.
    pub(crate) with: &'static str,
    pub(crate) what: &'static str,
}

const fn variable(name: &'static str, with: &'static str, what: &'static str) -> Variable {
    Variable { name, with, what }
}

/// The variables that we read, or set for a command.
pub(crate) const KNOWN: [Variable; 21] = [
    variable(
        "REDLATCH_NODES",
        "nodes",
        "The nodes, separated by commas or spaces, if there is no --node. Empty is an error.",
    ),
    variable(
        "REDLATCH_NODES_REQUIRED",
        "nodes_required",
        "Fails if fewer nodes than this are named. Empty is an error.",
    ),
    variable("REDLATCH_CONFIG", "config", "The config file."),
    variable("REDLATCH_MAX_TTL", "max_ttl", "The longest TTL allowed."),
    variable("REDLATCH_SKEW", "skew", "How far clocks may be apart."),
    variable(
        "REDLATCH_RESTART_GUARD",
        "restart_guard",
        "What to do about nodes that may have forgotten locks: off, on or strict.",
    ),
    variable(
        "REDLATCH_SHARED",
        "nodes",
        "The directory of the locks that all users of this machine share, or `off`.",
    ),
    variable("REDLATCH_METRICS_DIR", "metrics_dir", "The directory for metrics, or `off`."),
    variable("REDLATCH_LOG", "log", "The log, or `off`."),
    variable("REDLATCH_LOG_SIZE", "log_size", "How large the log may grow."),
    variable("REDLATCH_SYSLOG", "syslog", "The socket of syslog or journald, or `off`."),
    variable("REDLATCH_LOCK", "handle", "The handle, which keeps it out of process listings."),
    variable(
        "REDLATCH_RESOURCE",
        "command",
        "For the command and for hooks: what is locked; several names are separated by newlines.",
    ),
    variable(
        "REDLATCH_LOCK_TOKEN",
        "command",
        "For the command: the lock's secret. Whoever knows it can release the lock.",
    ),
    variable(
        "REDLATCH_FENCING_TOKEN",
        "command",
        "For the command and for hooks: a number that grows with every grant.",
    ),
    variable(
        "REDLATCH_USABLE_UNTIL",
        "command",
        "For the command: how long the lock was good for when it started, in ms since 1970. It is renewed.",
    ),
    variable("REDLATCH_EVENT", "on_skip_run", "For hooks: `skipped` or `lost`."),
    variable("REDLATCH_REASON", "on_skip_run", "For hooks: why, in words."),
    variable(
        "REDLATCH_EXIT",
        "on_skip_run",
        "For hooks: the exit status that redlatch is going to have.",
    ),
    variable(
        "REDLATCH_WAITED_MS",
        "on_skip_run",
        "For hooks: how long it waited for the lock, in ms.",
    ),
    variable("REDLATCH_VOTES", "on_skip_run", "For hooks: how the nodes voted."),
];

impl Variable {
    /// Whether users set it, as opposed to us for a command.
    fn is_settable(&self) -> bool {
        !["command", "on_skip_run"].contains(&self.with)
    }
}

/// An unknown variable, and what was probably meant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    name: String,
    meant: Option<Meant>,
}

#[derive(Debug, PartialEq, Eq)]
enum Meant {
    /// A variable much like it.
    Variable(&'static str),
    /// An option of that name, which has no variable.
    Option(String),
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.meant {
            Some(Meant::Variable(meant)) => write!(
                f,
                "unknown environment variable {name}; did you mean {meant}? if not, unset it"
            ),
            Some(Meant::Option(option)) => write!(
                f,
                "unknown environment variable {name}; use the option {option}, which has no \
                 variable, and unset {name}"
            ),
            None => write!(f, "unknown environment variable {name}; unset it"),
        }
    }
}

/// A variable of ours, if it is set. An empty one is an error: a missing secret or
/// template value leaves it empty. `wanted` says what to do instead.
pub(crate) fn text(variable: &str, wanted: &str) -> Result<Option<OsString>, String> {
    match env::var_os(variable) {
        Some(value) if value.is_empty() => Err(format!("it is empty; {wanted}, or unset it")),
        value => Ok(value),
    }
}

/// Names that differ in more letters than this are not alike.
const ALIKE: usize = 2;

/// Finds the first unknown variable. `passwords` are the variables that the config file
/// names.
pub(crate) fn unknown<'a>(passwords: impl Iterator<Item = &'a str>) -> Option<Unknown> {
    let passwords: Vec<&str> = passwords.collect();
    let names = env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let unread = |name: &String| !passwords.contains(&&**name);
    first_unknown(names.filter(unread))
}

fn first_unknown(names: impl Iterator<Item = String>) -> Option<Unknown> {
    let ours: Vec<String> = names.filter(|name| is_ours(name)).collect();
    let services: Vec<&str> = ours.iter().filter_map(|name| name.strip_suffix(HOST)).collect();
    let is_unknown =
        |name: &&String| !is_known(name) && !services.iter().any(|service| is_of(service, name));
    let name = ours.iter().find(is_unknown)?.clone();
    let meant = option(&name).map(Meant::Option).or_else(|| nearest(&name).map(Meant::Variable));
    Some(Unknown { name, meant })
}

/// The option that such a variable would set.
fn option(name: &str) -> Option<String> {
    let wanted = name.strip_prefix(OURS)?.to_ascii_lowercase();
    // One node is an option, the list of them is a variable.
    if wanted == "node" { None } else { option_for(&wanted) }
}

/// The option for a setting: `--max-hold` for `max_hold`.
pub(crate) fn option_for(setting: &str) -> Option<String> {
    let wanted = setting.replace('_', "-");
    let cli = Cli::command();
    let mut options = cli.get_subcommands().flat_map(clap::Command::get_opts);
    options.find_map(|option| option.get_long().filter(|long| *long == wanted))?;
    Some(format!("--{wanted}"))
}

/// The most similar variable of those that users set.
fn nearest(name: &str) -> Option<&'static str> {
    let names = KNOWN.iter().filter(|known| known.is_settable()).map(|known| known.name);
    let name = name.to_ascii_uppercase();
    let (far, nearest) = names.map(|known| (distance(known, &name), known)).min()?;
    (far <= ALIKE).then_some(nearest)
}

/// Whether it is one of ours, or was meant to be: `redlatch_nodes`, `REDLACTH_NODES`. If
/// the beginning is wrong, we only look for the list of nodes, since without it each host
/// would have separate locks; many other variables may look like the rest of our names.
fn is_ours(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_near = || name.len().abs_diff(NODES.len()) <= ALIKE && distance(&name, NODES) <= ALIKE;
    name.starts_with(OURS) || is_near()
}

/// What Kubernetes sets for each service of a namespace, in all of its pods: for one called
/// `redlatch-web`, `REDLATCH_WEB_SERVICE_HOST`, `REDLATCH_WEB_PORT` and others.
const HOST: &str = "_SERVICE_HOST";

/// Whether Kubernetes sets this variable for this service.
fn is_of(service: &str, name: &str) -> bool {
    let rest = name.strip_prefix(service).unwrap_or_default();
    ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"].iter().any(|kind| {
        rest.strip_prefix(kind).is_some_and(|more| more.is_empty() || more.starts_with('_'))
    })
}

fn is_known(name: &str) -> bool {
    KNOWN.iter().any(|known| known.name == name)
}

/// The edit distance: letters to change, add or remove.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_found_and_what_was_meant_is_named() {
        let found = |name: &str| first_unknown([name.into()].into_iter());

        for (typo, nearest) in [
            ("REDLATCH_NODE", "REDLATCH_NODES"),
            ("REDLATCH_NODEZ", "REDLATCH_NODES"),
            ("REDLATCH_MAXTTL", "REDLATCH_MAX_TTL"),
            ("REDLATCH_RESTARTGUARD", "REDLATCH_RESTART_GUARD"),
            ("REDLATCH_SHARE", "REDLATCH_SHARED"),
            ("redlatch_nodes", "REDLATCH_NODES"),
            ("Redlatch_Shared", "REDLATCH_SHARED"),
            ("REDLACTH_NODES", "REDLATCH_NODES"),
            ("REDLATCHNODES", "REDLATCH_NODES"),
        ] {
            let meant = Some(Meant::Variable(nearest));
            assert_eq!(found(typo), Some(Unknown { name: typo.into(), meant }), "{typo}");
        }
        assert!(KNOWN.iter().all(|known| found(known.name).is_none()));
        assert_eq!(found("REDLATCHES"), None);
    }

    #[test]
    fn what_only_an_option_sets_or_nobody_can_set_is_not_called_a_typo() {
        let told = |name: &str| first_unknown([name.into()].into_iter()).unwrap().to_string();

        for (name, option) in [
            ("REDLATCH_WAIT", "--wait"),
            ("REDLATCH_TTL", "--ttl"),
            ("REDLATCH_NODE_TIMEOUT", "--node-timeout"),
        ] {
            assert!(told(name).contains(&format!("use the option {option}, ")), "{}", told(name));
        }
        for name in ["REDLATCH_EXITS", "REDLATCH_VOTE", "REDLATCH_SOMETHING_ELSE"] {
            assert!(!told(name).contains("did you mean"), "{}", told(name));
        }
    }
}
