//! The command line, as parsed. The doc comments are the `--help` texts.
#![expect(clippy::doc_markdown, reason = "these comments are the help, which is plain text")]

use crate::{doctor, duration, help, local_time, manual::Page, trace::TraceArgs};
use clap::{ArgAction, Args, Command, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use serde::Deserialize;
use std::{
    ffi::OsString,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, SystemTime},
};

/// Runs commands under a distributed lock.
///
/// Locks live on independent Redis or Valkey servers (1, 3 or 5 of them) or, if
/// you name none, in a file on this machine.
#[derive(Debug, Parser)]
#[command(name = "redlatch", version, after_help = help::after("redlatch"), disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) task: Task,
}

/// The arguments as they are parsed: `help COMMAND` means `COMMAND --help`.
pub(crate) fn typed(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if args.get(1).is_some_and(|first| first == "help") {
        args.remove(1);
        args.truncate(2);
        args.push("--help".into());
    }
    args
}

/// Parses the arguments. Of `run`, which others wait for, only its own options are
/// built: those of all commands take longer than everything else before the lock. What
/// it does not understand is left to the whole, which knows what else could be meant.
pub(crate) fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    let is_run = args.get(1).is_some_and(|first| first == "run");
    let run = is_run.then(|| only_run(&args[1..])).flatten();
    run.map_or_else(|| Cli::try_parse_from(args), |run| Ok(Cli { task: Task::Run(run) }))
}

fn only_run(args: &[OsString]) -> Option<RunArgs> {
    let matches = RunArgs::augment_args(Command::new("run")).try_get_matches_from(args).ok()?;
    RunArgs::from_arg_matches(&matches).ok()
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
    Log(LogArgs),
    Top(TopArgs),
    Web(WebArgs),
    Exporter(ExporterArgs),
    /// Prints completions for a shell.
    #[command(after_help = help::after("completions"))]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Prints a man page, or writes all of them.
    #[command(after_help = help::after("man"))]
    Man {
        /// The page: `redlatch`, or the name of a command.
        #[arg(default_value = "redlatch", value_parser = Page::named)]
        page: Page,
        /// Writes all pages into this directory.
        #[arg(long, value_name = "DIR", conflicts_with = "page")]
        into: Option<PathBuf>,
    },
}

/// Runs a command while holding a lock.
///
/// The command gets the terminal, stdin and the signals. If the lock is about to
/// be lost, the command and everything it has started are ended first; they also
/// end with redlatch. Its environment has REDLATCH_RESOURCE, REDLATCH_LOCK_TOKEN,
/// REDLATCH_FENCING_TOKEN and REDLATCH_USABLE_UNTIL (ms since 1970, as of its start).
#[derive(Debug, Args)]
#[command(after_help = help::after("run"), override_usage = "redlatch run [OPTIONS] <NAME>... -- <COMMAND>...")]
pub(crate) struct RunArgs {
    /// What to lock; several names are taken together, all or none.
    ///
    /// Put an extra `--` before names that start with a dash:
    /// redlatch run -- -x -- COMMAND
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    /// Ends the command after this long, or `forever`; with --on-lost warn, only the lock ends.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration::parse_some_or_forever)]
    pub(crate) max_hold: Duration,
    /// Keeps the lock for at least this long, even if the command is done sooner; must be shorter than --max-hold.
    ///
    /// For the same cron job on many hosts: their clocks differ, and a short job
    /// could be over before the others try.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration::parse)]
    pub(crate) at_least: Duration,
    /// How long the command has between SIGTERM and SIGKILL [default: 5s, at most TTL/6].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) grace: Option<Duration>,
    /// What to do with the command when its lock is about to be lost.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,
    #[command(flatten)]
    pub(crate) hooks: HookArgs,
    /// Writes metrics of all runs into this directory, for node_exporter's textfile collector [default: REDLATCH_METRICS_DIR, or none].
    #[arg(long, value_name = "DIR")]
    pub(crate) metrics_dir: Option<PathBuf>,
    /// Lets the command see the nodes' passwords in its environment.
    ///
    /// For a command that calls redlatch itself. Otherwise, variables that the
    /// config file names as password_env are removed, and REDLATCH_NODES is
    /// withheld if it contains a password.
    #[arg(long)]
    pub(crate) pass_secrets: bool,
    /// The exit status if another owner has the lock, instead of 121.
    #[arg(short = 'E', long, value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// SIGTERM, then SIGKILL after --grace.
    Term,
    /// SIGKILL at once.
    Kill,
    /// Print a warning and let it keep running without the lock.
    Warn,
}

/// Takes a lock and leaves it behind for `extend` and `release`
///
/// Prints a handle: you need it to extend and release the lock. Nothing renews
/// the lock: it expires after its TTL unless you extend it.
///
///   lock=$(redlatch acquire deploy --ttl 30s) || exit
///   step one
///   new=$(redlatch extend "$lock") || exit
///   lock=$new
///   step two
///   redlatch release "$lock"
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = help::after("acquire"))]
pub(crate) struct AcquireArgs {
    /// What to lock; several names are taken together, all or none.
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Extends a lock that `acquire` took, and prints its new handle.
///
/// The handle records until when the lock is known to be held: use the new one
/// from then on.
#[derive(Debug, Args)]
#[command(after_help = help::after("extend"))]
pub(crate) struct ExtendArgs {
    /// What `acquire` printed; `-` reads it from stdin.
    #[arg(env = "REDLATCH_LOCK", hide_env_values = true)]
    pub(crate) handle: String,
    /// The new TTL, from now [default: the TTL it was taken with].
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ttl)]
    pub(crate) ttl: Option<Duration>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Releases a lock that `acquire` took; with --force, anyone's.
#[derive(Debug, Args)]
#[command(after_help = help::after("release"))]
pub(crate) struct ReleaseArgs {
    /// What `acquire` printed, `-` reads it from stdin [default: REDLATCH_LOCK]; with --force, the lock's name.
    #[arg(value_name = "HANDLE|NAME")]
    pub(crate) handle: Option<OsString>,
    /// Releases the lock NAME by force, after showing who holds it and asking.
    ///
    /// Its holder notices at its next renewal, and works without the lock until
    /// then. A lock that has changed hands since it was shown stays.
    #[arg(long)]
    pub(crate) force: bool,
    /// With --force: NAME is an `id`, as JSON has it.
    #[arg(long, requires = "force")]
    pub(crate) id: bool,
    /// Doesn't ask for confirmation.
    #[arg(long, requires = "force")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Shows who holds a lock, node by node, and who waits for it, without taking it.
///
/// Exits with 0 if all locks are free, 121 if one is held or reserved for the next
/// in line, 122 if no majority agrees.
#[derive(Debug, Args)]
#[command(after_help = help::after("status"))]
pub(crate) struct StatusArgs {
    /// The locks to look at.
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    /// Each NAME is an `id`, as JSON has it.
    #[arg(long)]
    pub(crate) id: bool,
    /// Keeps looking until interrupted.
    #[arg(long)]
    pub(crate) watch: bool,
    /// How often --watch looks.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse_some)]
    pub(crate) every: Duration,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Lists the locks of Redlatch that are held: by whom, since when, and how many wait for them.
///
/// Locks of other libraries are not listed: their keys look like any other key;
/// `redlatch status NAME` shows them.
/// Servers are read in small steps (SCAN), so that nothing blocks them.
#[derive(Debug, Args)]
#[command(after_help = help::after("ls"))]
pub(crate) struct LsArgs {
    /// Only names that match: * is any text, ? one byte, [a-z] one of these.
    #[arg(default_value = "*", hide_default_value = true)]
    pub(crate) pattern: OsString,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Checks every node and reports what could cause trouble.
///
/// Takes and releases one lock with a random name on each node, to see whether
/// that is allowed.
#[derive(Debug, Args)]
#[command(after_help = help::after("doctor"))]
pub(crate) struct DoctorArgs {
    /// How the name of the test lock starts.
    ///
    /// If your user may only lock `deploy:*`, use `deploy:`.
    #[arg(long, value_name = "TEXT", default_value = doctor::UNNAMED)]
    pub(crate) prefix: OsString,
    /// The TTL to judge response times by.
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ttl)]
    pub(crate) ttl: Option<Duration>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Waits for quarantined nodes, or vouches for them
///
/// A node that may have forgotten locks (restarted, flushed, promoted, or new)
/// does not vote for --max-ttl plus --skew, one minute by default. After that, it
/// votes again without your help.
///
///   redlatch admit --wait         waits for all nodes; always safe
///   redlatch admit --wait NODE    the same for one, between two restarts
///   redlatch admit NODE           vouches for it: it votes at once
///   redlatch admit --all          the same for all, as for new servers
///
/// Vouch for a node only if no lock that it held can still be in use: nothing
/// was locked, or all holders are stopped. If any node still has locks, or keys
/// that may be locks of other libraries, they are shown, and you are asked.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = help::after("admit"))]
#[expect(clippy::struct_excessive_bools, reason = "each is a word on the command line")]
pub(crate) struct AdmitArgs {
    /// The nodes, by name or by address.
    #[arg(value_name = "NODE")]
    pub(crate) which: Vec<String>,
    /// Waits until the nodes (all, if you name none) may vote again and have back the locks that are held.
    #[arg(long)]
    pub(crate) wait: bool,
    /// All nodes.
    #[arg(long, conflicts_with = "which")]
    pub(crate) all: bool,
    /// Doesn't ask for confirmation, even if the nodes have locks, or keys that may be locks.
    #[arg(long, conflicts_with = "wait")]
    pub(crate) yes: bool,
    /// Takes the nodes from clients with another list of nodes or other times, one by one.
    ///
    /// Each node stays quarantined until the locks of those clients have expired, then
    /// votes for ours. If there are locks on the nodes, or those clients know the
    /// nodes by other names, you are asked: they lose their locks when they
    /// have no majority left. Refused if the lists differ by more than one server:
    /// majorities of the old and the new list could grant the same lock.
    #[arg(long, conflicts_with = "wait")]
    pub(crate) replace: bool,
    /// With --replace: says that all clients with the other list are stopped, so the lists may differ by more.
    #[arg(long, requires = "replace")]
    pub(crate) all_stopped: bool,
    /// How long --wait or --replace may take [default: until it is done].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Shows the outcome of every attempt: why a job did not run last night.
///
/// Each `run`, `acquire`, `extend` and `release` of this user leaves a line in a
/// log on this machine, and so do `admit` and `admit --replace`. Without a NAME,
/// everything is shown.
#[derive(Debug, Args)]
#[command(after_help = help::after("log"))]
pub(crate) struct LogArgs {
    /// Only attempts on these locks, or nodes.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    /// Each NAME is an `id`, as JSON has it.
    #[arg(long, requires = "names")]
    pub(crate) id: bool,
    /// Only attempts since then: 8h (ago), 01:00 or "2026-11-17 01:00".
    #[arg(long, value_name = "TIME", value_parser = local_time::parse_past)]
    pub(crate) since: Option<SystemTime>,
    /// Only those that did not run their command to a successful end.
    #[arg(long)]
    pub(crate) failed: bool,
    /// Only the last N of them.
    #[arg(long, value_name = "N", value_parser = some)]
    pub(crate) last: Option<usize>,
    /// The log, as for `run`; another user's, if you may read it.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// The config file, which may name the log [default: as for `run`].
    #[arg(long, value_name = "FILE", env = "REDLATCH_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Prints JSON: one object per attempt.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows nodes, locks and what is wrong, live.
///
/// Keys: q quits, ? helps, / filters, s sorts, Enter looks into a lock. If stdout
/// is not a terminal, it prints one snapshot after the other as plain text. It takes
/// no lock and changes nothing.
#[derive(Debug, Args)]
#[command(after_help = help::after("top"))]
pub(crate) struct TopArgs {
    /// The pause between two looks at the nodes.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse_some)]
    pub(crate) every: Duration,
    /// Prints one snapshot as plain text, or as JSON with --json.
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Serves what `top` shows as a web page, live.
///
/// The page needs nothing from elsewhere, and the nodes are asked only while
/// someone looks. It changes nothing, unless you let those who have a password
/// release locks by force.
#[derive(Debug, Args)]
#[command(after_help = help::after("web"))]
pub(crate) struct WebArgs {
    /// The address to listen at; port 0 is any free one.
    ///
    /// Anyone who can reach it can see the names of all locks and their owners.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9735")]
    pub(crate) listen: SocketAddr,
    /// A host name by which browsers may ask, besides localhost and IP addresses; repeat it for each.
    ///
    /// Other names are refused, so that no other web page can read this one.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// How often the page looks at the nodes, however many look at the page.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse_some)]
    pub(crate) every: Duration,
    /// Lets anyone with the password in this file release locks by force.
    ///
    /// The file must be readable by its owner alone, and have at least 16
    /// characters. Only at an address of this machine: the page is plain HTTP.
    #[arg(long, value_name = "FILE")]
    pub(crate) allow_release_with: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Serves metrics of the nodes and their locks to Prometheus.
///
/// At /metrics: locks held, how long the oldest has been seen, which nodes are
/// admitted, quarantined or down, and how far their clocks are off. It takes no
/// lock and changes nothing.
#[derive(Debug, Args)]
#[command(after_help = help::after("exporter"))]
pub(crate) struct ExporterArgs {
    /// The address to listen at.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9734")]
    pub(crate) listen: SocketAddr,
    /// A host name by which Prometheus may ask, besides localhost and IP addresses; repeat it for each.
    ///
    /// Other names are refused, so that no web page can have a browser read this.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// How long an answer is good for: the nodes are not asked more often than this.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse)]
    pub(crate) every: Duration,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) words: Words,
}

/// Commands to run when something happens.
#[derive(Debug, Clone, Args)]
pub(crate) struct HookArgs {
    /// A shell command to run if there is no lock, so that COMMAND is not run.
    ///
    /// It does not run if a signal ended the wait, if the settings are wrong or if
    /// COMMAND was not found.
    ///
    /// It finds the facts in its environment: REDLATCH_EVENT (skipped or lost),
    /// REDLATCH_RESOURCE, REDLATCH_REASON, REDLATCH_EXIT, REDLATCH_WAITED_MS,
    /// REDLATCH_VOTES, REDLATCH_FENCING_TOKEN. Its output goes to stderr.
    #[arg(long, value_name = "CMD")]
    pub(crate) on_skip_run: Option<OsString>,
    /// A shell command to run when the lock is lost, at once and beside COMMAND.
    #[arg(long, value_name = "CMD")]
    pub(crate) on_lost_run: Option<OsString>,
    /// How long these may take before they are killed.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse_some)]
    pub(crate) hook_timeout: Duration,
}

/// How to ask for a lock.
#[derive(Debug, Args)]
pub(crate) struct Waiting {
    /// How long the lock outlives a crashed holder [default: 30s, at most --max-ttl].
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ttl)]
    pub(crate) ttl: Option<Duration>,
    /// How long to wait for the lock, or `forever` [default: 0s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse_or_forever)]
    pub(crate) wait: Option<Duration>,
    /// Doesn't wait, whatever the config file says.
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// The label that others see on the lock [default: HOST/PID].
    #[arg(long, value_name = "LABEL")]
    pub(crate) owner: Option<String>,
}

/// Parses a number greater than zero.
fn some(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("use a number from 1 on".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("this is not a number".into()),
    }
}

/// Where the locks are.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Nodes")]
pub(crate) struct PlaceArgs {
    /// A server that votes; repeat this option for each server.
    ///
    /// redis://[USER[:PASSWORD]@]HOST[:PORT][/DB], rediss://… for TLS,
    /// redis+unix:///SOCKET, file:PATH. Append ?name=NAME to set the name that all
    /// clients use for the node, whichever address they reach it by. Without this
    /// option, redlatch uses REDLATCH_NODES (separated by commas or spaces), then the
    /// config file, then a file on this machine.
    #[arg(long = "node", value_name = "URL")]
    pub(crate) nodes: Vec<String>,
    /// Fails if fewer nodes than this are named [default: REDLATCH_NODES_REQUIRED, or any number].
    ///
    /// For hosts that must never fall back to local locks: the file on this machine,
    /// used if no node is named, doesn't count.
    #[arg(long, value_name = "N")]
    pub(crate) nodes_required: Option<usize>,
    /// The config file [default: redlatch.toml here, or in the user's or the system's config directory].
    #[arg(long, value_name = "FILE", env = "REDLATCH_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The longest TTL allowed [default: REDLATCH_MAX_TTL, or 30s]. Must be the same for everyone who shares the nodes.
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ttl)]
    pub(crate) max_ttl: Option<Duration>,
    /// How far clocks may be apart before fencing tokens take longer [default: REDLATCH_SKEW, or 30s]. Must be the same for everyone.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) skew: Option<Duration>,
    /// What to do about nodes that may have forgotten locks [default: REDLATCH_RESTART_GUARD, or on; off with one node].
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) restart_guard: Option<GuardMode>,
    /// How long one node may take to vote [default: TTL/20, between 5ms and 500ms; TTL/6, at most 5s, if all nodes are files].
    #[arg(long, value_name = "TIME", value_parser = duration::parse_some)]
    pub(crate) node_timeout: Option<Duration>,
}

/// What to do about nodes that may have forgotten locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GuardMode {
    /// They vote.
    Off,
    /// They do not vote until those locks have expired: for --max-ttl plus --skew.
    On,
    /// The same, without trusting the nodes' own clocks.
    Strict,
}

/// How much to print, and how.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Words {
    /// Prints only failures. A lock that another owner holds is not one.
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Prints what is going on.
    #[arg(short, long, action = ArgAction::SetTrue)]
    pub(crate) verbose: bool,
    /// Prints JSON: answers on stdout, events on stderr, one per line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests;
