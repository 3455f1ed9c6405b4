//! What was typed.
#![expect(clippy::doc_markdown, reason = "these comments are the help, which is plain text")]

use crate::{duration, exit};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use serde::Deserialize;
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// Runs commands under a distributed lock.
///
/// Locks live on N independent Redis or Valkey servers (1, 3 or 5 of them), or,
/// if none is named, in a file on this machine.
#[derive(Debug, Parser)]
#[command(name = "redlatch", version, after_help = exit::HELP, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    Run(RunArgs),
    Acquire(AcquireArgs),
    Extend(ExtendArgs),
    Release(ReleaseArgs),
    Status(StatusArgs),
    Ls(LsArgs),
    Doctor(DoctorArgs),
    Admit(AdmitArgs),
    /// Prints completions for a shell.
    Completions {
        /// Which shell.
        shell: Shell,
    },
}

/// Runs a command while holding a lock.
///
/// The command gets the terminal, stdin and the signals. Before the lock can be
/// lost it is ended, with everything it has started; it also ends with redlatch.
/// It finds REDLATCH_RESOURCE, REDLATCH_TOKEN, REDLATCH_FENCING_TOKEN and
/// REDLATCH_USABLE_UNTIL (ms since 1970, when it started) in its environment.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP, override_usage = "redlatch run [OPTIONS] <NAME>... -- <COMMAND>...")]
pub(crate) struct RunArgs {
    /// What to lock; several names are taken together, all or none.
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    /// Ends the command after this long, or `forever`.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration::parse_or_forever)]
    pub(crate) max_hold: Duration,
    /// Keeps the lock for at least this long, also if the command is done sooner.
    ///
    /// For the same cron job on many hosts: their clocks differ, and a short job
    /// would be over before the others look.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration::parse)]
    pub(crate) at_least: Duration,
    /// How long the command has after SIGTERM, before SIGKILL [default: 5s, at most TTL/6].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) grace: Option<Duration>,
    /// What to do with the command when its lock is about to be lost.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,
    /// Lets the command see the nodes' passwords in its environment.
    ///
    /// For one that calls redlatch itself. Otherwise variables that the config
    /// file names as password_env are taken away, and REDLATCH_NODES is withheld
    /// if it holds a password.
    #[arg(long)]
    pub(crate) pass_secrets: bool,
    /// The exit status if another owner has the lock, instead of 121.
    #[arg(short = 'E', long, value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// SIGTERM, and SIGKILL after the grace.
    Term,
    /// SIGKILL at once.
    Kill,
    /// Say so and let it run on, without the lock.
    Warn,
}

/// Takes a lock and leaves it behind for `extend` and `release`
///
/// Prints a handle: keep it, it is needed to extend and release the lock. There
/// is no renewal: the lock is gone after its TTL unless it is extended.
///
///   lock=$(redlatch acquire deploy --ttl 30s) || exit
///   step one
///   new=$(redlatch extend "$lock") || exit
///   lock=$new
///   step two
///   redlatch release "$lock"
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = exit::HELP)]
pub(crate) struct AcquireArgs {
    /// What to lock; several names are taken together, all or none.
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Extends a lock that `acquire` took, and prints its new handle.
///
/// The handle knows until when the lock was known to be held: use the new one
/// from then on.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct ExtendArgs {
    /// What `acquire` printed; `-` reads it from stdin.
    #[arg(env = "REDLATCH_LOCK", hide_env_values = true)]
    pub(crate) handle: String,
    /// For how long, from now [default: the TTL it was taken with].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Releases a lock that `acquire` took; with --force, anybody's.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct ReleaseArgs {
    /// What `acquire` printed; `-` reads it from stdin.
    #[arg(env = "REDLATCH_LOCK", hide_env_values = true, required_unless_present = "force")]
    pub(crate) handle: Option<String>,
    /// Takes this lock away from whoever holds it, after asking.
    ///
    /// Its holder notices with its next renewal: what it does until then, it
    /// does without the lock.
    #[arg(long, value_name = "NAME")]
    pub(crate) force: Option<OsString>,
    /// Does not ask.
    #[arg(long, requires = "force")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Says who holds a lock, by every node, without taking it.
///
/// Exits with 0 if all locks are free, 121 if one is held, 122 if too few nodes
/// say the same.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct StatusArgs {
    /// Which locks.
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    /// Looks again and again until interrupted.
    #[arg(long)]
    pub(crate) watch: bool,
    /// How often --watch looks.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    pub(crate) every: Duration,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Lists the locks that are held.
///
/// Locks of other libraries are not listed: their keys look like any other.
/// Servers are read in small steps (SCAN), so that they are not held up.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct LsArgs {
    /// Only names like this: * any text, ? one byte, [a-z] one of these.
    #[arg(default_value = "*", hide_default_value = true)]
    pub(crate) pattern: OsString,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Reads every node and says what would hurt.
///
/// Takes and releases one lock with a random name on each node, to see whether
/// that is allowed.
#[derive(Debug, Args)]
#[command(after_help = exit::DOCTOR_HELP)]
pub(crate) struct DoctorArgs {
    /// The start of the name of the lock that is tried.
    ///
    /// Where a user may only lock `deploy:*`, give `deploy:`.
    #[arg(long, value_name = "TEXT", default_value = "redlatch:doctor:")]
    pub(crate) prefix: OsString,
    /// The TTL that the round trips must suit.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Waits for nodes that are quarantined, or vouches for them
///
/// A node that may have forgotten locks (restarted, flushed, promoted, or new)
/// does not vote for --max-ttl and --skew, one minute, and then does by itself.
///
///   redlatch admit --wait         waits for all nodes; always safe
///   redlatch admit --wait NODE    the same for one, between two restarts
///   redlatch admit NODE           vouches for it: it votes at once
///   redlatch admit --all          the same for all, as for new servers
///
/// Vouch for a node only if no lock that it held can still be in use: nothing
/// was locked, or all who held locks are stopped. If locks are still to be seen
/// on any node, they are shown, and you are asked.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = exit::ADMIT_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word on the command line")]
pub(crate) struct AdmitArgs {
    /// Which nodes: as they are named in errors, or by their address.
    #[arg(value_name = "NODE", required_unless_present_any = ["all", "wait"])]
    pub(crate) which: Vec<String>,
    /// Waits until the nodes, all if none is named, vote again by themselves, and have the locks back that are held.
    #[arg(long)]
    pub(crate) wait: bool,
    /// All of them.
    #[arg(long, conflicts_with = "which")]
    pub(crate) all: bool,
    /// Does it without asking, whatever locks are still to be seen.
    #[arg(long, conflicts_with = "wait")]
    pub(crate) yes: bool,
    /// Takes the nodes from clients with another list of nodes or other times, one by one.
    ///
    /// Each is out until the locks of those clients are over, and votes for ours
    /// then. If locks are still to be seen, you are asked: those clients lose
    /// theirs when too few nodes are left to them. Refused if the lists differ by
    /// more than one node: a majority of the old one and one of the new could
    /// grant the same lock.
    #[arg(long, conflicts_with = "wait")]
    pub(crate) replace: bool,
    /// With --replace: all clients with the other list are stopped, so that it may differ by more.
    #[arg(long, requires = "replace")]
    pub(crate) all_stopped: bool,
    /// How long to wait with --wait or --replace [default: until it is done].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// How to ask for a lock.
#[derive(Debug, Args)]
pub(crate) struct Waiting {
    /// How long the lock outlives a holder that crashed [default: 30s, at most --max-ttl].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
    /// How long to wait for the lock, or `forever` [default: 0s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse_or_forever)]
    pub(crate) wait: Option<Duration>,
    /// Does not wait, whatever the config file says.
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// The label that others see on the lock [default: HOST/PID].
    #[arg(long, value_name = "LABEL")]
    pub(crate) owner: Option<String>,
}

/// Where the locks are.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Nodes")]
pub(crate) struct PlaceArgs {
    /// A server that votes; repeat it for each of them.
    ///
    /// redis://[USER[:PASSWORD]@]HOST[:PORT][/DB], rediss://… for TLS,
    /// redis+unix:///SOCKET, file:PATH. Without any: REDLATCH_NODES (separated by
    /// commas), then the config file, then a file on this machine.
    #[arg(long = "node", value_name = "URL")]
    pub(crate) nodes: Vec<String>,
    /// The config file [default: redlatch.toml here, or in the user's or the system's config directory].
    #[arg(long, value_name = "FILE", env = "REDLATCH_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The longest TTL that may be asked for [default: REDLATCH_MAX_TTL, or 30s]. All who share the nodes must agree on it.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) max_ttl: Option<Duration>,
    /// How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. All must agree on it.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) skew: Option<Duration>,
    /// What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on, and off for one node].
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) restart_guard: Option<GuardMode>,
    /// How long one node may take to answer [default: TTL/20, between 5ms and 500ms; with files alone TTL/6, at most 5s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) node_timeout: Option<Duration>,
}

/// What to do about nodes that may have forgotten locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GuardMode {
    /// They vote.
    Off,
    /// They do not vote until those locks are over: for --max-ttl and --skew.
    On,
    /// The same, and their own clocks are not trusted.
    Strict,
}

/// How much to say, and how.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Words {
    /// Says nothing but failures of redlatch itself.
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Says what is going on.
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) verbose: bool,
    /// Prints JSON: answers on stdout, events on stderr, one per line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests;
