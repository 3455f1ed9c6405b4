//! Where traces go, from the command line, the environment and the config file.
#![expect(
    clippy::doc_markdown,
    reason = "some of these comments are the help, which is plain text"
)]

use super::{
    log_file::{LogFile, usual_place},
    record::{Record, Task},
    syslog,
};
use crate::{
    config::Config, environment, metrics::TextFile, secrets::shown_path, settings::homeless, size,
};
use clap::Args;
use std::{
    env, fmt, io,
    path::{Path, PathBuf},
};

/// How large the log grows by default: a job every minute fills it in about a week.
const SIZE: u64 = 5_000_000;
/// In place of a path: no log.
const OFF: &str = "off";

/// What to leave behind, and where.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Trace")]
pub(crate) struct TraceArgs {
    /// The log that `redlatch log` reads, or `off` [default: REDLATCH_LOG, or ~/.local/state/redlatch/runs.jsonl; root: /var/log/redlatch/runs.jsonl].
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// How large the log may grow before it replaces its predecessor, FILE.1 [default: REDLATCH_LOG_SIZE, or 5MB].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) log_size: Option<u64>,
    /// Keeps the command's name out of the log, out of syslog and out of the lock.
    #[arg(long)]
    pub(crate) no_log_command: bool,
    /// The socket of syslog or journald, or `off` [default: REDLATCH_SYSLOG, or /dev/log].
    #[arg(long, value_name = "SOCKET")]
    pub(crate) syslog: Option<PathBuf>,
}

/// Where traces go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) log: Option<LogFile>,
    /// Whether there would be a log if this user had a home directory.
    pub(crate) is_homeless: bool,
    syslog: Option<PathBuf>,
    pub(crate) metrics: Option<TextFile>,
    pub(super) with_command: bool,
}

impl Place {
    /// The place given by the options, the environment and the config file.
    pub(crate) fn new(args: &TraceArgs, config: &Config) -> Result<Self, String> {
        let size = match env_path("REDLATCH_LOG_SIZE", "write a size, such as 5MB")? {
            Some(text) => Some(
                size::parse(&text.to_string_lossy())
                    .map_err(|error| format!("REDLATCH_LOG_SIZE: {error}"))?,
            ),
            None => None,
        };
        let size = args.log_size.or(size).or(config.log_size).unwrap_or(SIZE);
        let pick = |typed: &Option<PathBuf>, variable: &str, configured: &Option<PathBuf>| {
            let set = env_path(variable, "write a path, or `off`")?;
            Ok::<_, String>(typed.clone().or(set).or_else(|| configured.clone()))
        };
        let named = pick(&args.log, "REDLATCH_LOG", &config.log)?;
        let is_usual = named.is_none();
        let path = named.or_else(usual);
        let socket = pick(&args.syslog, "REDLATCH_SYSLOG", &config.syslog)?;
        let socket = socket.unwrap_or_else(|| syslog::SOCKET.into());
        let wanted = |path: &PathBuf| path.as_os_str() != OFF;
        let metrics = pick(&None, "REDLATCH_METRICS_DIR", &config.metrics_dir)?.filter(wanted);
        Ok(Place {
            metrics: metrics.map(|dir| TextFile::in_dir(&dir)),
            is_homeless: path.is_none(),
            log: path.filter(wanted).map(|path| LogFile { path, size, is_usual }),
            syslog: Some(socket).filter(wanted),
            with_command: !args.no_log_command && config.log_command.unwrap_or(true),
        })
    }

    /// The same place, with metrics in this directory.
    pub(crate) fn with_metrics(mut self, dir: Option<&Path>) -> Self {
        self.metrics = dir.map(TextFile::in_dir).or(self.metrics);
        self
    }

    /// Writes a record to the log and to syslog. Returns why it is not in the log, in words.
    pub(crate) fn log(&self, record: &Record) -> Result<(), String> {
        let logged = match &self.log {
            Some(log) => log.append(record).map_err(|error| unwritten(&log.path, &error)),
            None if self.is_homeless => {
                Err(format!("this attempt is not in the log: {}", homeless()))
            }
            None => Ok(()),
        };
        // If nothing listens, there is no syslog. A run is reported when it is over.
        if let Some(socket) = self.syslog.as_ref().filter(|_| !record.is_open()) {
            let _ = syslog::send(socket, record, logged.as_ref().err());
        }
        logged
    }

    /// Counts a record in the metrics. Returns why it is not counted, in words.
    pub(crate) fn count(&self, record: &Record) -> Result<(), String> {
        let is_counted = record.task == Task::Run;
        let Some(metrics) = self.metrics.as_ref().filter(|_| is_counted) else { return Ok(()) };
        let written = if record.is_open() { metrics.begin(record) } else { metrics.add(record) };
        written.map_err(|error| uncounted(metrics, &error))
    }

    /// What to say if that takes too long.
    pub(crate) fn count_is_late(&self) -> Option<String> {
        Some(uncounted(self.metrics.as_ref()?, &"it takes too long"))
    }
}

fn uncounted(metrics: &TextFile, why: &dyn fmt::Display) -> String {
    format!("no metrics are written to {}: {why}", shown_path(metrics.dir()))
}

fn unwritten(path: &Path, error: &io::Error) -> String {
    format!("this attempt is not in the log: {} cannot be written: {error}", shown_path(path))
}

fn usual() -> Option<PathBuf> {
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    usual_place(nix::unistd::geteuid().is_root(), state.as_deref(), env::home_dir().as_deref())
}

fn env_path(variable: &str, wanted: &str) -> Result<Option<PathBuf>, String> {
    let text = environment::text(variable, wanted);
    text.map(|text| text.map(PathBuf::from)).map_err(|error| format!("{variable}: {error}"))
}
