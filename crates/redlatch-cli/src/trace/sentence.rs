//! A record in words, for someone who asks in the morning why a job did not run.

use super::{
    process::Life,
    record::{End, Outcome, Record, Task},
};
use crate::{duration::show, local_time::LocalTime};
use nix::sys::signal::Signal;
use std::{fmt::Write as _, time::Duration};

/// The outcome of the attempt, in one line.
pub(crate) fn sentence(record: &Record) -> String {
    let mut words = match (record.task, record.outcome) {
        (Task::Replace, Outcome::Waiting | Outcome::Killed | Outcome::Interrupted) => takes(record),
        (_, Outcome::Waiting) => waits(record),
        (Task::Run, Outcome::Granted) => ran(record),
        (Task::Run, _) => format!("not run{}", because(record)),
        (task, Outcome::Granted) => by_hand(task, record),
        (Task::Acquire, _) => format!("acquire: not locked{}", because(record)),
        (Task::Extend, _) => format!("extend: not extended{}", because(record)),
        // The reason says that the outcome is not known.
        (Task::Release, Outcome::NoMajority) => format!("release{}", because(record)),
        (Task::Release, _) => format!("release: not released{}", because(record)),
        // Some nodes may have released it.
        (Task::ForceRelease, Outcome::NoMajority) => {
            format!("release --force by {}{}", record.user, because(record))
        }
        (Task::ForceRelease, _) => {
            format!("release --force by {}: not released{}", record.user, because(record))
        }
        // Some nodes may have been admitted.
        (Task::Admit, Outcome::NoMajority) => {
            format!("admit by {}{}", record.user, because(record))
        }
        (Task::Admit, _) => format!("admit by {}: not admitted{}", record.user, because(record)),
        (Task::Replace, _) => {
            format!("admit --replace by {}: not taken{}", record.user, because(record))
        }
    };
    let is_told = |exit: &u8| *exit != 0 || record.outcome != Outcome::Granted;
    if let Some(exit) = record.exit.filter(is_told) {
        let _ = write!(words, "; exit {exit}");
    }
    if let Some(token) = record.fencing_token {
        let _ = write!(words, "; fencing token {token}");
    }
    words
}

/// What an unfinished attempt is doing.
fn waits(record: &Record) -> String {
    let command = record.command.as_deref().unwrap_or("the command");
    let who = if record.task == Task::Run { command } else { "acquire" };
    let why = record.why.as_deref().map_or(String::new(), |why| format!(": {why}"));
    let since = LocalTime::of(record.time).show();
    match record.life() {
        Life::Unknown => format!(
            "{who} has been waiting for the lock since {since}{why}; whether it still waits {}",
            unseen(record)
        ),
        _ => format!("{who} has been waiting for the lock since {since}{why}"),
    }
}

/// What an unfinished `admit --replace` is doing, or was.
fn takes(record: &Record) -> String {
    let user = &record.user;
    let (them, their) = them(record);
    let why = |before| record.why.as_ref().map_or(String::new(), |why| format!("{before}{why}"));
    let begun = format!("admit --replace: {user} began to take {them} from {their} clients");
    match (record.outcome, record.life()) {
        (Outcome::Killed, _) => format!("{begun}, and its end is not on record{}", why(": ")),
        (Outcome::Waiting, Life::Unknown) => {
            format!("{begun}{}; whether that still goes on {}", why(", "), unseen(record))
        }
        (Outcome::Waiting, _) => {
            format!("admit --replace: {user} is taking {them} from {their} clients{}", why(", "))
        }
        _ => format!("{begun}{}", why(": ")),
    }
}

/// The nodes, and whose.
fn them(record: &Record) -> (&str, &str) {
    if record.names.len() > 1 { ("them", "their") } else { ("it", "its") }
}

/// Why nobody here knows how it ended.
fn unseen(record: &Record) -> String {
    format!(
        "cannot be told from here: it was started in another container, or on another machine \
         (host {}, process {})",
        record.host, record.pid
    )
}

/// How a command that was started ended.
fn ran(record: &Record) -> String {
    let command = record.command.as_deref().unwrap_or("the command");
    let after = timed(" after ", record.held_ms);
    let waited = match record.waited_ms {
        0..1000 => String::new(),
        waited => format!(", after waiting for {}", millis(waited)),
    };
    let why = record.why.as_deref();
    let reason = why.map_or(String::new(), |why| format!(": {why}"));
    match record.ended {
        None => match record.life() {
            Life::Runs => format!("{command} is running{waited}"),
            Life::Gone => format!(
                "{command} was started{waited}, and its end is not on record: redlatch was killed, \
                 with the command, or what is left of it is stopped, or the machine went down"
            ),
            Life::Unknown => {
                format!("{command} was started{waited}; whether it still runs {}", unseen(record))
            }
        },
        Some(End::Exited | End::Signal) => {
            let but = why.map_or(String::new(), |why| format!("; {why}"));
            format!("{command} {}{waited}{}{but}", done(record), kept(record))
        }
        // Nobody has looked at the lock since, so it may have been lost before.
        Some(End::Lost) if record.is_lost_afterwards() && record.is_kept() => {
            let lost = timed(" after ", record.lost_ms);
            let done = done(record);
            format!("{command} {done}{waited}; its lock was lost{lost} at the latest{reason}")
        }
        Some(End::MaxHold) if record.lost_ms.is_none() => {
            format!("{command} was stopped{after}{reason}")
        }
        Some(End::Lost | End::MaxHold) => {
            let lost = record.lost_ms.filter(|_| !record.is_lost_afterwards());
            let (lost, ran) = match (lost, record.ran_ms) {
                (None, None) => (after, String::new()),
                (None, ran) => (String::new(), timed(", and ran for ", ran)),
                (lost, ran) => (timed(" after ", lost), timed(", and ran for ", ran)),
            };
            format!("{command} lost its lock{lost}{ran}{reason}")
        }
        Some(End::Killed) => format!("{command} was killed{after}{reason}"),
        Some(End::NotStarted) => format!("not run{reason}"),
    }
}

/// How a command that is done has ended, and how long it ran.
fn done(record: &Record) -> String {
    let time = timed(" for ", record.ran_ms.or(record.held_ms));
    match record.command_exit.or(record.exit).unwrap_or_default() {
        0 => format!("ran{time}"),
        exit if record.ended == Some(End::Signal) => {
            format!("was ended by {}; it ran{time}", signal(exit))
        }
        _ => format!("failed; it ran{time}"),
    }
}

/// How long the lock was kept after the command was done, if that is worth mentioning.
fn kept(record: &Record) -> String {
    match record.held_ms {
        None => match record.life() {
            Life::Runs => "; its lock is kept (--at-least)".into(),
            Life::Gone => {
                "; redlatch was killed before it released the lock, or the machine went down".into()
            }
            Life::Unknown => {
                format!("; whether its lock is still kept (--at-least) {}", unseen(record))
            }
        },
        held if record.is_kept() => timed("; kept its lock for ", held) + " (--at-least)",
        Some(_) => String::new(),
    }
}

fn timed(words: &str, ms: Option<u64>) -> String {
    ms.map_or(String::new(), |ms| format!("{words}{}", millis(ms)))
}

/// The signal that ended a command with this exit status.
fn signal(exit: u8) -> String {
    let number = i32::from(exit) - 128;
    Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |known| known.to_string())
}

fn by_hand(task: Task, record: &Record) -> String {
    let user = &record.user;
    let (them, their) = them(record);
    let done = match task {
        Task::Extend => "extend: extended".into(),
        Task::Release => "release: released".into(),
        Task::ForceRelease => format!("release --force by {user}"),
        Task::Admit => format!("admit: {user} vouched for {them}"),
        Task::Replace => format!("admit --replace: {user} took {them} from {their} clients"),
        Task::Acquire | Task::Run => "acquire: locked".into(),
    };
    let separator = if task.is_on_nodes() { ", " } else { ": " };
    let why = record.why.as_deref().map_or(String::new(), |why| format!("{separator}{why}"));
    format!("{done}{why}")
}

/// Why there was no lock.
fn because(record: &Record) -> String {
    match &record.why {
        Some(why) => format!(": {why}"),
        None => match record.outcome {
            Outcome::Interrupted => {
                let waited = millis(record.waited_ms);
                format!(": a signal ended the wait for the lock after {waited}")
            }
            Outcome::Killed => {
                format!(": redlatch was killed while it waited, after {}", millis(record.waited_ms))
            }
            _ => String::new(),
        },
    }
}

fn millis(ms: u64) -> String {
    show(Duration::from_millis(ms))
}
