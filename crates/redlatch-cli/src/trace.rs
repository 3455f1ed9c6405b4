//! The trace that every attempt leaves: who wanted which lock, and how it ended.
//!
//! In:  what happens to one attempt. Out: records, in the local log and in syslog.
//!
//! Promise: a trace that cannot be written never makes a job fail or wait. The failure
//! is reported on stderr, or in syslog with `--quiet`.

mod log_file;
mod names;
mod place;
mod process;
mod record;
mod sentence;
mod syslog;

pub(crate) use log_file::{LogFile, usual_place};
pub(crate) use place::{Place, TraceArgs};
pub(crate) use process::{Life, life};
pub(crate) use record::{End, Ending, Record, Task};
pub(crate) use sentence::sentence;

use crate::{
    exit::Exit,
    facts,
    failure::Failure,
    plain::plain,
    say::{Event, Say, Then, millis},
    secrets::hide,
    settings::Settings,
};
use names::{named, shown};
use nix::sys::signal::Signal;
use record::Outcome;
use redlatch::{Lease, NodeVote, OwnerParts, Vote, Votes};
use std::{
    ffi::OsString,
    fmt::Write as _,
    fs,
    sync::mpsc,
    thread,
    time::{Duration, Instant, SystemTime},
};

/// Longer reasons are cut: a line must fit into one write.
const LONGEST: usize = 2000;

/// How long to wait for a slow disk.
const PATIENCE: Duration = Duration::from_secs(1);

const TOO_SLOW: &str = "this attempt is not in the log: the disk is too slow";

/// What is known about one attempt so far.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    place: Place,
    record: Record,
    began: Instant,
    /// It has to wait, and that has been recorded.
    is_waiting: bool,
    /// What it waits for, or waited for last.
    obstacle: Option<String>,
    granted: Option<Instant>,
    /// When the lease ends, as far as we know.
    good_until: Option<Instant>,
}

/// What an attempt is about.
#[derive(Debug)]
pub(crate) struct About {
    task: Task,
    names: Vec<String>,
    ids: Vec<String>,
    command: Option<String>,
}

impl About {
    pub(crate) fn new(task: Task, names: &[OsString]) -> Self {
        let ids = names::ids(names);
        let names = names.iter().map(|name| named(name)).collect();
        About { task, names, ids, command: None }
    }

    /// The same, for this command; only its first word is kept.
    pub(crate) fn command(mut self, command: &[OsString]) -> Self {
        self.command = command.first().map(|word| shown(word));
        self
    }

    /// The attempt begins now.
    pub(crate) fn begin(self, place: Place) -> Trace {
        let About { task, names, ids, command } = self;
        let record = Record {
            time: SystemTime::now(),
            task,
            names,
            ids,
            host: host(),
            user: user(),
            pid: std::process::id(),
            command: command.filter(|_| place.with_command),
            nodes: Vec::new(),
            wait_ms: Some(0),
            waited_ms: 0,
            outcome: Outcome::Failed,
            votes: None,
            fencing_token: None,
            ended: None,
            command_exit: None,
            ran_ms: None,
            lost_ms: None,
            at_least_ms: None,
            why: None,
            held_ms: None,
            exit: None,
            was_killed: false,
            process: None,
        };
        if !task.is_on_nodes() {
            facts::begin(&record.names);
        }
        Trace {
            place,
            record,
            began: Instant::now(),
            is_waiting: false,
            obstacle: None,
            granted: None,
            good_until: None,
        }
    }
}

impl Trace {
    /// The same attempt, with these nodes and this patience.
    pub(crate) fn on(mut self, settings: &Settings) -> Self {
        self.record.nodes = settings.names();
        let can_wait = matches!(self.record.task, Task::Run | Task::Acquire);
        let wait = if can_wait { settings.wait() } else { Duration::ZERO };
        self.record.wait_ms = (wait != Duration::MAX).then(|| millis(wait));
        self
    }

    /// The same attempt, which keeps the lock for at least this time.
    pub(crate) fn at_least(mut self, time: Duration) -> Self {
        self.record.at_least_ms = (!time.is_zero()).then(|| millis(time));
        self
    }

    /// Whether its last event says that it is over.
    pub(crate) fn has_end(&self) -> bool {
        self.record.task == Task::Run
    }

    /// Whose attempt this is, for other users of the locks. Tells no more than the log
    /// does.
    pub(crate) fn owner(&self) -> OwnerParts {
        let Record { host, user, pid, command, .. } = &self.record;
        let mut parts = OwnerParts::default();
        parts.host = Some(host.clone());
        parts.pid = Some(*pid);
        parts.user = Some(user.clone());
        parts.command.clone_from(command);
        parts
    }

    /// The lock was taken.
    pub(crate) fn granted(&mut self, lease: &Lease) {
        self.good_for(lease.ends_in());
        self.record.votes = Some(in_short(&lease.votes()));
        self.record.fencing_token = lease.fencing_token().map(redlatch::FencingToken::get);
        facts::granted(self.record.waited_ms, self.record.fencing_token);
        facts::voted(self.record.votes.clone());
    }

    /// The lock that another process took has this fencing token.
    pub(crate) fn fenced(&mut self, number: u64) {
        self.record.fencing_token = Some(number);
        facts::granted(self.record.waited_ms, self.record.fencing_token);
    }

    /// The nodes voted on a renewal.
    pub(crate) fn renewed(&mut self, lease: &Lease) {
        self.good_for(lease.ends_in());
        self.record.votes = Some(in_short(&lease.votes()));
        facts::voted(self.record.votes.clone());
    }

    /// The lock was taken or renewed, and is ours for this long. If that is zero, we
    /// learned it too late: the lease ended at the last end that we knew of.
    pub(crate) fn good_for(&mut self, time: Duration) {
        self.succeeded();
        if !time.is_zero() {
            self.good_until = Instant::now().checked_add(time);
        }
    }

    /// The same attempt, on these nodes.
    pub(crate) fn on_nodes<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        self.record.names = names.into_iter().map(hide).collect();
    }

    /// The request was carried out; nothing more is known.
    pub(crate) fn succeeded(&mut self) {
        if self.granted.is_none() {
            self.granted = Some(Instant::now());
            self.record.outcome = Outcome::Granted;
            self.record.waited_ms = millis(self.began.elapsed());
        }
    }

    /// The command has ended, after it ran for this long.
    pub(crate) fn ran(&mut self, exit: Exit, time: Duration) {
        self.record.ran_ms = Some(millis(time));
        self.record.ended.get_or_insert(end_of(exit));
        if matches!(exit, Exit::Code(_) | Exit::Signal(_)) {
            self.record.command_exit = Some(exit.code());
        }
    }

    /// The lock is lost from now on or, if we were stopped when its lease ended, since
    /// then.
    pub(crate) fn lost(&mut self) {
        self.record.lost_ms = self.record.lost_ms.or(self.held_ms());
    }

    /// How long the lock was held: until now, or until its lease ended.
    fn held_ms(&self) -> Option<u64> {
        let now = Instant::now();
        let until = self.good_until.map_or(now, |end| end.min(now));
        self.granted.map(|since| millis(until.saturating_duration_since(since)))
    }

    /// Nothing of the command has been left for this long.
    pub(crate) fn gone_for(&mut self, time: Duration) {
        let ran = self.granted.map(|since| since.elapsed().saturating_sub(time));
        self.record.ran_ms = self.record.ran_ms.or(ran.map(millis));
    }

    /// Something was reported: anything that went wrong is part of the trace.
    pub(crate) fn see(&mut self, event: &Event) {
        // If the command is over, nobody knows when that happened.
        let is_lost = match event {
            Event::Lost { then, .. } => *then != Then::Over,
            // Otherwise, it is kept until the command has ended.
            Event::Stopped { then, .. } => *then == Then::RunsOn,
            _ => false,
        };
        if is_lost {
            self.lost();
        }
        // It is already recorded that the command was killed with redlatch.
        let is_known = self.record.ended == Some(End::Killed)
            && matches!(event, Event::Killed { late_ms: None, .. });
        if let Some(words) = event.trouble().filter(|_| !is_known) {
            self.note(&words);
        }
    }

    /// Adds something that went wrong.
    pub(crate) fn note(&mut self, words: &str) {
        let mut words: String = hide(words).chars().take(LONGEST).collect();
        if let Some(before) = &mut self.record.why {
            words.insert_str(0, "; ");
            if before.len() < LONGEST {
                before.push_str(&words);
            }
        } else {
            self.record.why = Some(words);
        }
    }

    /// The attempt failed, for this reason.
    pub(crate) fn failed(&mut self, failure: &Failure) {
        self.voted(failure);
        self.note(&failure.message);
    }

    /// The nodes' votes, if they explain a failure.
    pub(crate) fn voted(&mut self, failure: &Failure) {
        self.record.votes = failure.votes.clone().or(self.record.votes.take());
        facts::voted(self.record.votes.clone());
    }

    /// The process that held the lock, or waited for it, was killed.
    pub(crate) fn killed(&mut self) {
        self.record.ended = Some(End::Killed);
    }

    /// The process that the caller started was killed: nobody saw by which signal, so its exit
    /// status is not known.
    pub(crate) fn orphaned(&mut self) {
        self.record.was_killed = true;
    }

    /// The same, seen only after everything else is over.
    pub(crate) fn was_orphaned(&mut self) {
        if !self.record.was_killed {
            self.orphaned();
            self.note("redlatch was killed meanwhile");
        }
    }

    /// The same, while the command ran.
    pub(crate) fn front_died(&mut self) {
        self.orphaned();
        self.killed();
        self.note("redlatch was killed, and the command with it");
    }

    /// What is known so far.
    pub(crate) fn known(&self) -> Record {
        let mut record = self.record.clone();
        if self.granted.is_none() {
            record.waited_ms = millis(self.began.elapsed());
        }
        record
    }

    /// Writes what is known while the attempt waits, the command runs or nodes are taken,
    /// without waiting for the disk.
    pub(crate) fn write_start(&self) {
        self.write_aside(self.known());
    }

    fn write_aside(&self, mut record: Record) {
        let place = self.place.clone();
        if self.granted.is_none() {
            record.outcome = Outcome::Waiting;
        }
        let _ = thread::Builder::new().spawn(move || {
            record.process = process::identity(record.pid);
            let _ = place.log(&record);
            // An attempt that waits does not run.
            if record.outcome == Outcome::Granted { place.count(&record) } else { Ok(()) }
        });
    }

    /// Leaves a trace of an attempt that has to wait, for this reason, once: its end may
    /// never be written.
    pub(crate) fn waits(&mut self, why: &str) {
        self.obstacle = Some(why.into());
        if !self.is_waiting {
            self.is_waiting = true;
            // The outcome may have another reason.
            let mut waiting = self.clone();
            waiting.note(why);
            self.write_aside(waiting.known());
        }
    }

    /// Says that a signal ended the wait and, if known, what we waited for.
    pub(crate) fn interrupted(&self, signal: Signal) -> String {
        let obstacle = self.obstacle.as_ref();
        let what = obstacle.map_or(String::new(), |obstacle| format!(": {obstacle}"));
        format!("{signal} ended the wait for the lock{what}")
    }

    /// Whether the attempt is known to wait.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Writes the outcome of the attempt, which is over. Waits for a slow disk, but not
    /// for long.
    pub(crate) fn write_end(&mut self, exit: Exit, say: Say) {
        let (place, record) = (self.place.clone(), self.end(exit));
        let late = [Some(TOO_SLOW.to_owned()), place.count_is_late()];
        let (done, is_done) = mpsc::channel();
        let writing = thread::Builder::new().spawn(move || {
            let _ = done.send(place.log(&record));
            done.send(place.count(&record))
        });
        let mut reasons = Vec::new();
        if let Err(error) = writing {
            reasons.push(format!("this attempt is not in the log: {error}"));
        } else {
            let until = Instant::now() + PATIENCE;
            for late in late {
                let left = until.saturating_duration_since(Instant::now());
                let Ok(written) = is_done.recv_timeout(left) else {
                    reasons.extend(late);
                    break;
                };
                reasons.extend(written.err());
            }
        }
        for reason in reasons {
            say.say(&Event::Untraced { reason });
        }
    }

    fn end(&mut self, exit: Exit) -> Record {
        let was_killed = self.record.ended == Some(End::Killed);
        self.record.exit = (!self.record.was_killed).then(|| exit.code());
        match self.granted {
            Some(_) if self.record.task != Task::Run => {}
            Some(_) => {
                self.record.held_ms = self.record.lost_ms.or(self.held_ms());
                let end = self.record.ended.get_or_insert(end_of(exit));
                // The loss may be noticed only when the command is done.
                if exit == Exit::Lost && !was_killed {
                    *end = End::Lost;
                }
            }
            None => {
                self.record.waited_ms = millis(self.began.elapsed());
                self.record.ended = None;
                self.record.outcome = match exit {
                    _ if was_killed => Outcome::Killed,
                    Exit::Held | Exit::HeldAs(_) => Outcome::Held,
                    Exit::NoMajority => Outcome::NoMajority,
                    Exit::Lost => Outcome::Lost,
                    Exit::Signal(_) => Outcome::Interrupted,
                    _ => Outcome::Failed,
                };
            }
        }
        self.record.clone()
    }
}

/// How a command with this status ended.
fn end_of(exit: Exit) -> End {
    match exit {
        Exit::Lost => End::Lost,
        Exit::MaxHold => End::MaxHold,
        Exit::Failed | Exit::NotExecutable | Exit::NotFound => End::NotStarted,
        Exit::Signal(_) => End::Signal,
        _ => End::Exited,
    }
}

/// How many nodes voted which way: `granted 2, down 1`.
pub(crate) fn in_short(votes: &Votes) -> String {
    let tally = votes.tally();
    let is_silent =
        |node: &&NodeVote| matches!(&node.vote, Vote::Failed(fault) if fault.is_silence());
    let down = votes.iter().filter(is_silent).count();
    let kinds = [
        ("granted", tally.granted),
        ("refused", tally.refused),
        ("down", down),
        ("error", tally.failed - down),
        ("quarantined", tally.quarantined),
        ("not waited for", tally.pending),
    ];
    let counted = kinds.into_iter().filter(|(_, count)| *count > 0);
    let mut text = String::new();
    for (at, (kind, count)) in counted.enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        let _ = write!(text, "{separator}{kind} {count}");
    }
    text
}

/// The name of this host.
fn host() -> String {
    nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned()
}

/// The name of the user who runs us, from the local list only: asking a directory
/// server could take long.
fn user() -> String {
    let uid = nix::unistd::geteuid().to_string();
    let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1) == Some(&*uid)).then(|| plain(name).into_owned())
    });
    name.unwrap_or(uid)
}
