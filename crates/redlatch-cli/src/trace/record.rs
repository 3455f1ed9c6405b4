//! One attempt to get a lock, or to do something with it, as the log keeps it.

use super::process::{self, Life};
use crate::name;
use serde::{Deserialize, Serialize};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, time::SystemTime};

/// One line of the log. An attempt has up to four: one if it waits, one when the
/// command has been running for a while, one when it is done and `--at-least` keeps the
/// lock, and one when everything is over; they have the same time, host and process id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// When the attempt began.
    #[serde(with = "moment")]
    pub(crate) time: SystemTime,
    pub(crate) task: Task,
    pub(crate) names: Vec<String>,
    /// The names exactly, percent-encoded, if one of them is not text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ids: Vec<String>,
    pub(crate) host: String,
    pub(crate) user: String,
    pub(crate) pid: u32,
    /// The first word of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// The names of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) nodes: Vec<String>,
    /// How long it was willing to wait; `None`: forever.
    pub(crate) wait_ms: Option<u64>,
    /// How long it waited.
    pub(crate) waited_ms: u64,
    pub(crate) outcome: Outcome,
    /// How many nodes voted which way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) votes: Option<String>,
    /// The fencing token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fencing_token: Option<u64>,
    /// How the command ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<End>,
    /// Its exit status, if it ended by itself or by a signal. The status of `redlatch`
    /// may differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command_exit: Option<u8>,
    /// How long it ran, from the moment the lock was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ran_ms: Option<u64>,
    /// How long after the grant the lock was lost, at most: when that was noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lost_ms: Option<u64>,
    /// `--at-least`: how long to keep the lock, however short the command is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at_least_ms: Option<u64>,
    /// Everything that went wrong, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// How long the lock was held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held_ms: Option<u64>,
    /// The exit status of `redlatch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit: Option<u8>,
    /// Whether the process that the caller started was killed: its exit status is not known
    /// then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) was_killed: bool,
    /// Which process it is, while its end is unknown: another process may get its id
    /// later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) process: Option<String>,
}

/// The subcommand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Task {
    Run,
    Acquire,
    Extend,
    Release,
    ForceRelease,
    /// Vouched for nodes. The names are those of the nodes.
    Admit,
    /// Took nodes from their clients. The names are those of the nodes.
    Replace,
}

impl Task {
    /// Whether it is about nodes, not locks.
    pub(crate) fn is_on_nodes(self) -> bool {
        matches!(self, Task::Admit | Task::Replace)
    }
}

/// Whether the lock was taken, or why not; for `extend` and `release`, whether that worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    Granted,
    /// Not known yet: it waits, or is taking nodes from their clients.
    Waiting,
    /// Another owner has it.
    Held,
    NoMajority,
    /// `extend`, `release`: it is no longer ours.
    Lost,
    /// A signal ended the wait.
    Interrupted,
    /// `redlatch` was killed while it waited, or was taking nodes.
    Killed,
    Failed,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// By itself; `exit` is its status.
    Exited,
    /// By a signal; `exit` is 128 plus its number.
    Signal,
    /// The lock was lost.
    Lost,
    MaxHold,
    /// With `redlatch`, which was killed.
    Killed,
    /// The command could not be started.
    NotStarted,
}

/// The outcome of a run in one word, as metrics count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Succeeded,
    /// The command failed, or a signal ended it.
    CommandFailed,
    Ended(End),
    NotRun(Outcome),
}

impl Ending {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Ending::Succeeded => "succeeded",
            Ending::CommandFailed | Ending::Ended(End::Exited | End::Signal) => "command-failed",
            Ending::Ended(End::Lost) | Ending::NotRun(Outcome::Lost) => "lost",
            Ending::Ended(End::MaxHold) => "max-hold",
            Ending::Ended(End::Killed) | Ending::NotRun(Outcome::Killed) => "killed",
            Ending::Ended(End::NotStarted)
            | Ending::NotRun(Outcome::Failed | Outcome::Granted | Outcome::Waiting) => "failed",
            Ending::NotRun(Outcome::Held) => "held",
            Ending::NotRun(Outcome::NoMajority) => "no-majority",
            Ending::NotRun(Outcome::Interrupted) => "interrupted",
        }
    }

    /// Whether the command was run.
    pub(crate) fn is_run(self) -> bool {
        !matches!(self, Ending::NotRun(_) | Ending::Ended(End::NotStarted))
    }
}

impl Record {
    /// Its outcome.
    pub(crate) fn ending(&self) -> Ending {
        match (self.outcome, self.ended) {
            (Outcome::Granted, _) if self.is_success() => Ending::Succeeded,
            // Whatever happened to redlatch afterwards.
            (Outcome::Granted, Some(End::Exited)) if self.command_exit == Some(0) => {
                Ending::Succeeded
            }
            (Outcome::Granted, None | Some(End::Exited | End::Signal)) => Ending::CommandFailed,
            (Outcome::Granted, Some(end)) => Ending::Ended(end),
            (outcome, _) => Ending::NotRun(outcome),
        }
    }

    /// Whether it is about this lock.
    pub(crate) fn is_on(&self, name: &OsStr) -> bool {
        match self.ids.as_slice() {
            [] => self.names.iter().any(|known| *known == name.to_string_lossy()),
            ids => ids.contains(&name::id(name.as_bytes())),
        }
    }

    /// Whether its end is unknown.
    pub(crate) fn is_open(&self) -> bool {
        self.exit.is_none() && !self.was_killed
    }

    /// Whether its process still exists, running the command or waiting for the lock.
    pub(crate) fn is_running(&self) -> bool {
        self.life() == Life::Runs
    }

    /// What happened to its process.
    pub(crate) fn life(&self) -> Life {
        match &self.process {
            _ if !self.is_open() => Life::Gone,
            Some(identity) => process::life(self.pid, identity, &self.host),
            None => Life::Unknown,
        }
    }

    /// The same record, corrected after the fact: a process that is gone does not wait.
    pub(crate) fn seen_now(mut self) -> Self {
        if self.outcome == Outcome::Waiting && self.life() == Life::Gone {
            self.outcome = Outcome::Killed;
            let (killed, then) = match self.task {
                Task::Replace => ("redlatch was killed, or the machine went down", ""),
                _ => (
                    "redlatch was killed while it waited, or the machine went down",
                    "it waited because ",
                ),
            };
            let why = self.why.map_or(String::new(), |why| format!("; {then}{why}"));
            self.why = Some(format!("{killed}{why}"));
        }
        self
    }

    /// Whether the command ended before `--at-least` was over, so that the lock was kept.
    pub(crate) fn is_kept(&self) -> bool {
        let is_done = matches!(self.ended, Some(End::Exited | End::Signal));
        (is_done || self.is_lost_afterwards()) && self.ran_ms < self.at_least_ms
    }

    /// Whether the lock was found to be lost only when the command was done.
    pub(crate) fn is_lost_afterwards(&self) -> bool {
        self.ended == Some(End::Lost) && self.command_exit.is_some()
    }

    /// Whether it did what it should: the lock was taken, and the command succeeded.
    pub(crate) fn is_success(&self) -> bool {
        self.outcome == Outcome::Granted && self.exit == Some(0)
    }

    /// Joins two records of the same attempt: what the later one says, completed by the
    /// earlier one. The process that writes the last record may not be the one that
    /// held the lock.
    pub(crate) fn joined(self, other: Record) -> Record {
        let (mut later, earlier) =
            if self.stage() > other.stage() { (self, other) } else { (other, self) };
        later.fencing_token = later.fencing_token.or(earlier.fencing_token);
        later.votes = later.votes.take().or(earlier.votes);
        if later.waited_ms == 0 {
            later.waited_ms = earlier.waited_ms;
        }
        later
    }

    /// How far the attempt had got. Lines may be written out of order.
    fn stage(&self) -> u8 {
        match self.outcome {
            _ if !self.is_open() => 3,
            Outcome::Waiting => 0,
            _ if self.ended.is_none() => 1,
            _ => 2,
        }
    }
}

/// Times as RFC 3339 with milliseconds.
mod moment {
    use super::SystemTime;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&humantime::format_rfc3339_millis(*time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
        let text = String::deserialize(from)?;
        humantime::parse_rfc3339(&text).map_err(D::Error::custom)
    }
}
