//! Words for people and lines for scripts, from one definition.

use crate::{cli::Words, duration::show, exit::Exit, secrets::hide};
use serde::Serialize;
use std::{
    fmt,
    io::{self, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Something worth saying. `--json` prints it as it is defined here.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    /// The lock was taken.
    Taken { resources: Vec<String>, owner: String, usable_ms: u64 },
    /// The command was started.
    Started { pid: i32 },
    /// The lock is about to be lost, or has reached its end.
    Ending { reason: String, left_ms: Option<u64> },
    /// Whatever was left of the command was killed.
    Killed,
    /// These could not be stopped before the lock ended.
    Survived { processes: Vec<Survivor> },
    /// The command is done, but the lock stays for a while.
    Lingering { left_ms: u64 },
    /// The lock was given back, or not.
    Released { outcome: &'static str },
    /// Whether it was is not known; it cannot stay for longer than this.
    Unreleased { most_ms: u64 },
    /// A node was taken from clients with other settings.
    Replaced { node: String },
    /// It did not work.
    Failed { message: String, code: u8 },
    /// `redlatch` ends.
    Finished { code: u8 },
}

/// A process that works on without the lock.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Survivor {
    pub(crate) pid: i32,
    pub(crate) name: String,
    pub(crate) user: String,
}

impl fmt::Display for Survivor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({}, user {})", self.pid, self.name, self.user)
    }
}

/// How loud an event is.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Detail,
    Notice,
    Failure,
}

impl Event {
    pub(crate) fn failed(message: impl fmt::Display, exit: Exit) -> Self {
        Event::Failed { message: hide(&message.to_string()), code: exit.code() }
    }

    fn level(&self) -> Level {
        match self {
            Event::Failed { code, .. } => match code {
                125..=127 => Level::Failure,
                _ => Level::Notice,
            },
            Event::Ending { .. } | Event::Killed | Event::Unreleased { .. } => Level::Notice,
            Event::Survived { .. } => Level::Failure,
            _ => Level::Detail,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ms: &u64| show(Duration::from_millis(*ms));
        match self {
            Event::Taken { resources, owner, usable_ms } => {
                let names = resources.join(", ");
                write!(f, "{names} taken by {owner}, renewed within {}", time(usable_ms))
            }
            Event::Started { pid } => write!(f, "the command runs as process {pid}"),
            Event::Ending { reason, left_ms: Some(left_ms) } => {
                write!(f, "{reason}; the command has to end within {}", time(left_ms))
            }
            Event::Ending { reason, left_ms: None } => {
                write!(f, "{reason}; the command runs on without the lock")
            }
            Event::Killed => write!(f, "the command did not end in time and was killed"),
            Event::Survived { processes } => {
                let processes: Vec<_> = processes.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "could not be stopped in time, and may still be at work without the lock: {}",
                    processes.join(", ")
                )
            }
            Event::Lingering { left_ms } => {
                write!(f, "the command is done; the lock is kept for another {}", time(left_ms))
            }
            Event::Released { outcome } => write!(f, "{outcome}"),
            Event::Unreleased { most_ms } => write!(
                f,
                "it is not known whether the lock is released; if it is not, it ends within {}",
                time(most_ms)
            ),
            Event::Replaced { node } => {
                write!(f, "{node} is taken from its clients; it votes when their locks are over")
            }
            Event::Failed { message, .. } => write!(f, "{message}"),
            Event::Finished { code } => write!(f, "ends with {code}"),
        }
    }
}

/// Says events on stderr.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Say {
    words: Words,
    progress: bool,
}

impl Say {
    pub(crate) fn new(words: Words) -> Self {
        let progress = !words.quiet && !words.json && io::stderr().is_terminal();
        Say { words, progress }
    }

    pub(crate) fn say(self, event: &Event) {
        // A stderr that is closed must not end the command.
        let mut stderr = io::stderr().lock();
        if self.words.json {
            let line = serde_json::to_string(event).unwrap_or_default();
            let _ = writeln!(stderr, "{line}");
        } else if event.level() >= self.threshold() {
            let _ = writeln!(stderr, "redlatch: {event}");
        }
    }

    fn threshold(self) -> Level {
        match self.words {
            Words { quiet: true, .. } => Level::Failure,
            Words { verbose: true, .. } => Level::Detail,
            _ => Level::Notice,
        }
    }

    /// Whether somebody watches: stderr is a terminal.
    pub(crate) fn has_progress(self) -> bool {
        self.progress
    }

    /// Shows a line that the next one replaces.
    pub(crate) fn progress(self, line: &str) {
        if self.progress {
            IS_SHOWN.store(true, Ordering::Relaxed);
            replace_line(line);
        }
    }

    /// Wipes that line away, if there is one.
    pub(crate) fn end_progress(self) {
        if self.progress && IS_SHOWN.swap(false, Ordering::Relaxed) {
            replace_line("");
        }
    }
}

/// There is one terminal, and one line to replace.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

fn replace_line(line: &str) {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "\r\x1b[K{line}");
    let _ = stderr.flush();
}

/// Colours, for people who want them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    /// For stdout: only a terminal, and not with `NO_COLOR`.
    pub(crate) fn stdout() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Paint(io::stdout().is_terminal() && !unwanted)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with(32, text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with(33, text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with(31, text)
    }

    fn with(self, colour: u8, text: &str) -> String {
        if self.0 { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.into() }
    }
}

/// Milliseconds as they stand in JSON.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Prints one JSON value on stdout.
pub(crate) fn print_json(value: &impl Serialize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, value)?;
    stdout.write_all(b"\n")
}
