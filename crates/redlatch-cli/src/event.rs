//! What can be reported: words for people, and fields for scripts.

use crate::{duration::show, exit::Exit, facts, secrets::hide};
use serde::Serialize;
use serde_json::Value;
use std::{fmt, time::Duration};

/// Something to report. `--json` adds these fields to those that all events have.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Event {
    /// We use these nodes; `by` is where they are configured.
    Using {
        nodes: Vec<String>,
        /// How each of them is reached.
        addresses: Vec<String>,
        by: String,
        scope: Scope,
        /// Only this user uses these locks, and no message has said so yet.
        #[serde(skip)]
        is_news: bool,
    },
    /// We are waiting for the lock, or for nodes.
    Waiting {
        message: String,
        #[serde(skip)]
        is_trouble: bool,
    },
    /// The lock was taken.
    Taken { owner: String, usable_ms: u64 },
    /// There is no lock, so the command is not run.
    Skipped {
        message: String,
        #[serde(rename = "code")]
        exit: Exit,
        /// It stays like this until somebody does something about it.
        #[serde(skip)]
        is_for_somebody: bool,
    },
    /// The command was started.
    Started { pid: i32 },
    /// The lock was renewed.
    Renewed { usable_ms: u64 },
    /// Some nodes do not vote, but enough others do.
    Degraded { message: String },
    /// The lock is lost, or is about to be.
    Lost { reason: String, then: Then },
    /// `--max-hold` is reached.
    Stopped { reason: String, then: Then },
    /// The command, or what was left of it, was killed.
    Killed {
        how: Killed,
        /// How long it may have kept working after its lease had ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        late_ms: Option<u64>,
    },
    /// These processes could not be stopped before the lock ended. If the list is empty,
    /// there are others that `/proc` does not show.
    Survived { processes: Vec<Survivor> },
    /// The command is done, and `--at-least` keeps the lock.
    Lingering { left_ms: u64 },
    /// A signal ended `--at-least` early; `None` if it killed us, since then it is not
    /// known.
    CutShort { signal: Option<&'static str>, left_ms: u64 },
    /// A signal could not be forwarded to these processes, which keep running.
    Unsignalled { signal: &'static str, processes: Vec<Survivor> },
    /// How the release went.
    Released { outcome: &'static str },
    /// The lock may not be released, for this reason; it expires after at most this time.
    Unreleased { reason: String, most_ms: u64 },
    /// We are waiting until these nodes may vote.
    Awaited {
        nodes: Vec<Value>,
        #[serde(skip)]
        words: String,
    },
    /// A node was taken from clients with other settings.
    Replaced { node: String },
    /// The exporter, or the page, is at this address.
    Listening { address: String },
    /// Something failed.
    Failed {
        message: String,
        #[serde(rename = "code")]
        exit: Exit,
        /// It stays like this until somebody does something about it.
        #[serde(skip)]
        is_for_somebody: bool,
    },
    /// A hook failed, or took too long.
    HookFailed { message: String },
    /// The attempt leaves no trace.
    Untraced { reason: String },
    /// This many lines were lost before this one, because nobody read them.
    Unread { lines: u64 },
    /// `redlatch` exits.
    Finished { code: u8 },
}

/// Who shares the locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scope {
    /// Everyone who names the same nodes.
    Nodes,
    /// The users of this machine, by a file that they share.
    Machine,
    /// This user, by a private file.
    User,
}

/// What happens to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Then {
    /// It has this long to end.
    Ends { left_ms: u64 },
    /// It is killed at once.
    Killed,
    /// It keeps running without the lock.
    RunsOn,
    /// Nothing: it has ended.
    Over,
}

/// Why the command, or what was left of it, was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Killed {
    /// It got no time to end.
    AtOnce,
    /// It did not end within its grace period.
    TooLate,
    /// It had ended, but processes that it had started had not.
    LeftBehind,
    /// The kill came in time, or should have, and took effect too late.
    Late,
}

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Killed::AtOnce => "the command was killed",
            Killed::TooLate => "the command did not end in time and was killed",
            Killed::LeftBehind => {
                "the command ended, but processes that it had started did not, and were killed"
            }
            Killed::Late => {
                "the command, or something it had started, was killed, but did not die in time"
            }
        })
    }
}

/// A process that keeps running without the lock.
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

/// Added to the reason if the command was left alone.
const RAN_ON: &str = "; the command kept running without the lock";

/// Added to how the command was killed, if that was after the end of its lease.
fn past_lease(late_ms: Option<u64>) -> String {
    let late = late_ms.map(|late_ms| show(Duration::from_millis(late_ms)));
    late.map_or(String::new(), |late| {
        format!(": it may have kept working for up to {late} after its lease had ended")
    })
}

/// How loud an event is.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// For `--json` only.
    Event,
    Detail,
    Notice,
    Failure,
}

impl Event {
    pub(crate) fn failed(message: impl fmt::Display, exit: Exit) -> Self {
        Event::Failed { message: hide(&message.to_string()), exit, is_for_somebody: false }
    }

    pub(crate) fn skipped(message: impl fmt::Display, exit: Exit) -> Self {
        Event::Skipped { message: hide(&message.to_string()), exit, is_for_somebody: false }
    }

    /// The same event, marked if it stays like this until somebody does something about
    /// it: then `--quiet` does not hide it.
    pub(crate) fn for_somebody(mut self, is_so: bool) -> Self {
        if let Event::Failed { is_for_somebody, .. } | Event::Skipped { is_for_somebody, .. } =
            &mut self
        {
            *is_for_somebody = is_so;
        }
        self
    }

    /// What `--json` calls it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Event::Using { .. } => "using",
            Event::Waiting { .. } => "waiting",
            Event::Taken { .. } => "taken",
            Event::Skipped { .. } => "skipped",
            Event::Started { .. } => "started",
            Event::Renewed { .. } => "renewed",
            Event::Degraded { .. } => "degraded",
            Event::Lost { .. } => "lost",
            Event::Stopped { .. } => "stopped",
            Event::Killed { .. } => "killed",
            Event::Survived { .. } => "survived",
            Event::Lingering { .. } => "lingering",
            Event::CutShort { .. } => "cut-short",
            Event::Unsignalled { .. } => "unsignalled",
            Event::Released { .. } => "released",
            Event::Unreleased { .. } => "unreleased",
            Event::Awaited { .. } => "awaited",
            Event::Replaced { .. } => "replaced",
            Event::Listening { .. } => "listening",
            Event::Failed { .. } => "failed",
            Event::HookFailed { .. } => "hook-failed",
            Event::Untraced { .. } => "untraced",
            Event::Unread { .. } => "unread",
            Event::Finished { .. } => "finished",
        }
    }

    /// What the trace of the attempt says about it, in words.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            Event::Lost { reason, then } | Event::Stopped { reason, then } => {
                let reason = reason.strip_prefix("the lock is lost: ").unwrap_or(reason);
                let on = if *then == Then::RunsOn { RAN_ON } else { "" };
                Some(format!("{reason}{on}"))
            }
            Event::Failed { .. }
            | Event::Skipped { .. }
            | Event::Killed { .. }
            | Event::Survived { .. }
            | Event::CutShort { .. }
            | Event::Unsignalled { .. }
            | Event::Unreleased { .. } => Some(self.to_string()),
            _ => None,
        }
    }

    pub(crate) fn level(&self) -> Level {
        match self {
            Event::Failed { is_for_somebody: true, .. }
            | Event::Skipped { is_for_somebody: true, .. } => Level::Failure,
            // Another owner does the work, or the failure has no effect.
            Event::Failed { exit: Exit::Held | Exit::HeldAs(_) | Exit::Done, .. }
            | Event::Skipped { exit: Exit::Held | Exit::HeldAs(_), .. }
            // The sender of the signal knows about it, but not what we were waiting
            // for.
            | Event::Failed { exit: Exit::Signal(_), .. }
            | Event::Skipped { exit: Exit::Signal(_), .. }
            | Event::Awaited { .. }
            | Event::Listening { .. }
            | Event::Untraced { .. }
            | Event::Using { is_news: true, .. }
            | Event::Waiting { is_trouble: true, .. } => Level::Notice,
            Event::Renewed { .. } => Level::Event,
            Event::Failed { .. }
            | Event::Skipped { .. }
            | Event::Lost { .. }
            | Event::Stopped { .. }
            | Event::HookFailed { .. }
            | Event::Unread { .. }
            | Event::Killed { how: Killed::TooLate | Killed::LeftBehind | Killed::Late, .. }
            | Event::CutShort { .. }
            | Event::Unreleased { .. }
            | Event::Unsignalled { .. }
            | Event::Survived { .. } => Level::Failure,
            _ => Level::Detail,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ms: &u64| show(Duration::from_millis(*ms));
        match self {
            Event::Using { nodes, addresses, by, scope, .. } => {
                let labels = nodes.iter().zip(addresses).map(|(name, address)| {
                    if name == address { name.clone() } else { format!("{name} ({address})") }
                });
                write!(
                    f,
                    "nodes, by {by}: {}{}",
                    labels.collect::<Vec<_>>().join(", "),
                    match scope {
                        Scope::Nodes => "",
                        Scope::Machine => " (shared by the users of this machine)",
                        Scope::User => " (of this user alone; other users have other locks)",
                    }
                )
            }
            Event::Taken { owner, usable_ms } => {
                let (names, time) = (facts::names().join(", "), time(usable_ms));
                write!(
                    f,
                    "{names} taken by {owner}: held for another {time}, and renewed while the command runs"
                )
            }
            Event::Renewed { usable_ms } => {
                write!(f, "the lock is renewed, for {}", time(usable_ms))
            }
            Event::Started { pid } => write!(f, "the command runs as process {pid}"),
            Event::Lost { reason, then } | Event::Stopped { reason, then } => match then {
                Then::Ends { left_ms } => {
                    write!(f, "{reason}; the command has to end within {}", time(left_ms))
                }
                Then::Killed => write!(f, "{reason}; the command is killed"),
                Then::RunsOn => write!(f, "{reason}; the command keeps running without the lock"),
                Then::Over => f.write_str(reason),
            },
            Event::Killed { how, late_ms } => write!(f, "{how}{}", past_lease(*late_ms)),
            Event::Survived { processes } if processes.is_empty() => f.write_str(
                "the command has left processes that redlatch cannot see in /proc, and could not \
                 stop in time; they may still be at work without the lock (mount /proc, without \
                 hidepid)",
            ),
            Event::Survived { processes } => {
                let processes: Vec<_> = processes.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "these processes could not be stopped in time, and may still be at work without the \
                     lock: {}",
                    processes.join(", ")
                )
            }
            Event::Lingering { left_ms } => {
                write!(f, "the command is done; the lock is kept for another {}", time(left_ms))
            }
            Event::CutShort { signal, left_ms } => {
                let who = signal.unwrap_or("redlatch was killed, which");
                write!(
                    f,
                    "{who} cut --at-least short: the lock is released {} early",
                    time(left_ms)
                )
            }
            Event::Unsignalled { signal, processes } => {
                let processes: Vec<_> = processes.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "{signal} could not be sent to {}: this user may not signal it; it keeps \
                     running, and the lock is kept for it",
                    processes.join(", ")
                )
            }
            Event::Released { outcome } => write!(f, "{outcome}"),
            Event::Unreleased { reason, most_ms } => write!(
                f,
                "it is not known whether the lock is released: {reason}; if it is not, it ends \
                 within {}",
                time(most_ms)
            ),
            Event::Awaited { words, .. } => f.write_str(words),
            Event::Listening { address } => write!(f, "listening at {address}"),
            Event::Replaced { node } => {
                write!(
                    f,
                    "{node} is taken from its clients; it votes once their locks have expired"
                )
            }
            Event::Waiting { message, .. }
            | Event::Degraded { message }
            | Event::Skipped { message, .. }
            | Event::HookFailed { message }
            | Event::Failed { message, .. } => f.write_str(message),
            Event::Untraced { reason } => f.write_str(reason),
            Event::Unread { lines: 1 } => f.write_str("1 line was lost: nobody read stderr"),
            Event::Unread { lines } => write!(f, "{lines} lines were lost: nobody read stderr"),
            Event::Finished { code } => write!(f, "ends with {code}"),
        }
    }
}
