//! Commands to run when the lock was not taken, or was lost.
//!
//! In:  events, in the holder. Out: processes, in the front.
//!
//! The holder kills everything below it when the lock is lost, so hooks are children of
//! the front. The holder sends the front a datagram with what to tell the hook.
//!
//! Promise: a hook delays neither the release nor the end of the command, and `redlatch`
//! waits for it only so long.

use super::{
    Plan,
    family::kill_tree,
    signals::{Original, ends_waiting},
};
use crate::{
    cli::HookArgs,
    exit::Exit,
    facts,
    say::{Event, Say, Then},
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{signal::Signal, signalfd::SignalFd},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
        unix::{ffi::OsStrExt, net::UnixDatagram, process::CommandExt},
    },
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How often to check whether a hook has ended, in ms.
const LOOK: u8 = 5;
/// Longer reasons are cut.
const LONGEST: usize = 4000;

/// The hooks, and the socket over which the holder asks for them.
#[derive(Debug)]
pub(super) struct Hooks {
    args: HookArgs,
    line: Option<(UnixDatagram, UnixDatagram)>,
}

/// What a hook is told, in its environment.
#[derive(Debug, Serialize, Deserialize)]
struct Call {
    event: String,
    reason: String,
    exit: u8,
    fencing_token: Option<u64>,
    waited_ms: u64,
    votes: Option<String>,
}

impl Hooks {
    pub(super) fn new(args: HookArgs) -> Self {
        let is_wanted = args.on_skip_run.is_some() || args.on_lost_run.is_some();
        let line = is_wanted.then(UnixDatagram::pair).and_then(Result::ok);
        if let Some((ours, theirs)) = &line {
            // A hook that cannot be asked for must not keep the holder waiting.
            let _ = ours.set_nonblocking(true);
            let _ = theirs.set_nonblocking(true);
        }
        Hooks { args, line }
    }

    fn command(&self, event: &str) -> Option<&OsStr> {
        let hook = if event == "lost" { &self.args.on_lost_run } else { &self.args.on_skip_run };
        hook.as_deref()
    }

    /// Asks the front for a hook, if this event has one.
    pub(super) fn see(&self, plan: &Plan, event: &Event) {
        let (name, exit) = match event {
            Event::Skipped { exit: Exit::Signal(_), .. } => return,
            Event::Skipped { exit, .. } => ("skipped", *exit),
            Event::Lost { .. } | Event::Failed { exit: Exit::Lost, .. } => ("lost", Exit::Lost),
            // Otherwise, the lock is kept until the command has ended.
            Event::Stopped { then: Then::RunsOn, .. } => ("lost", Exit::MaxHold),
            _ => return,
        };
        let Some((ours, _)) = self.line.as_ref().filter(|_| self.command(name).is_some()) else {
            return;
        };
        let known = plan.trace.borrow().known();
        let call = Call {
            event: name.into(),
            reason: event.trouble().unwrap_or_default().chars().take(LONGEST).collect(),
            exit: exit.code(),
            fencing_token: known.fencing_token,
            waited_ms: known.waited_ms,
            votes: known.votes,
        };
        let _ = ours.send(&serde_json::to_vec(&call).unwrap_or_default());
    }

    /// Whether this descriptor is ours, and not one that the caller gave us.
    pub(super) fn owns(&self, fd: RawFd) -> bool {
        let is_it = |socket: &UnixDatagram| socket.as_raw_fd() == fd;
        self.line.as_ref().is_some_and(|(ours, theirs)| is_it(ours) || is_it(theirs))
    }

    /// Where the front learns which hooks to start.
    pub(super) fn heard(&self) -> Option<BorrowedFd<'_>> {
        self.line.as_ref().map(|(_, theirs)| theirs.as_fd())
    }

    /// Starts the hooks that were asked for; each only once.
    pub(super) fn start(&self, plan: &Plan, original: Original, running: &mut Vec<Hook>) {
        let Some((_, theirs)) = &self.line else { return };
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length) = theirs.recv(&mut buffer) {
            let Ok(call) = serde_json::from_slice::<Call>(&buffer[..length]) else { continue };
            if running.iter().any(|hook| hook.event == call.event) {
                continue;
            }
            let Some(command) = self.command(&call.event) else { continue };
            // Only the holder has seen the votes and the grant.
            facts::granted(call.waited_ms, call.fencing_token);
            facts::voted(call.votes.clone());
            match spawn(command, &call, plan, original) {
                Ok(child) => running.push(Hook { event: call.event, child, since: Instant::now() }),
                Err(error) => {
                    let message = format!("{} cannot be started: {error}", option(&call.event));
                    plan.say.say(&Event::HookFailed { message });
                }
            }
        }
    }

    /// Waits for the hooks to end, and kills those that take too long. A signal ends
    /// the wait, even one that came before it.
    pub(super) fn finish(&self, running: Vec<Hook>, is_told: bool, signals: &SignalFd, say: Say) {
        for mut hook in running {
            if let Some(failure) = hook.finish(self.args.hook_timeout, is_told, signals) {
                let message = format!("{} {failure}", option(&hook.event));
                say.say(&Event::HookFailed { message });
            }
        }
    }
}

/// A hook that was started.
pub(super) struct Hook {
    event: String,
    child: Child,
    since: Instant,
}

impl Hook {
    pub(super) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Waits for its end. Returns what went wrong, in words.
    fn finish(&mut self, limit: Duration, was_told: bool, signals: &SignalFd) -> Option<String> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return None,
                Ok(Some(status)) => return Some(format!("failed: {status}")),
                Ok(None) => {}
                Err(error) => return Some(format!("is lost: {error}")),
            }
            let mut ready = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            let is_told = was_told
                || matches!(poll(&mut ready, PollTimeout::from(LOOK)), Ok(1..)) && is_end(signals);
            if is_told || self.since.elapsed() >= limit {
                kill_tree(self.pid());
                let _ = self.child.wait();
                let limit = humantime::format_duration(limit);
                return Some(if is_told {
                    "was killed, because a signal told redlatch to end".into()
                } else {
                    format!("did not end within {limit} and was killed")
                });
            }
        }
    }
}

/// Whether the next signal tells us to end; that of a window's new size does not.
fn is_end(signals: &SignalFd) -> bool {
    let number = signals.read_signal().ok().flatten().map(|info| info.ssi_signo);
    let number = number.and_then(|number| i32::try_from(number).ok());
    number.and_then(|number| Signal::try_from(number).ok()).is_some_and(ends_waiting)
}

/// The option that names the hook.
fn option(event: &str) -> &'static str {
    if event == "lost" { "--on-lost-run" } else { "--on-skip-run" }
}

#[expect(unsafe_code, reason = "std offers no safe way to run code between fork and exec")]
fn spawn(command: &OsStr, call: &Call, plan: &Plan, original: Original) -> io::Result<Child> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).process_group(0).stdin(Stdio::null());
    // Stdout belongs to the command.
    shell.stdout(io::stderr().as_fd().try_clone_to_owned().map_or(Stdio::null(), Stdio::from));
    if !plan.pass_secrets {
        for (name, instead) in plan.settings.secrets().changes() {
            match instead {
                Some(instead) => shell.env(name, instead),
                None => shell.env_remove(name),
            };
        }
    }
    let names: Vec<&[u8]> = plan.names.iter().map(|name| name.as_bytes()).collect();
    let facts = [
        ("REDLATCH_EVENT", Some(call.event.clone())),
        ("REDLATCH_REASON", Some(call.reason.clone())),
        ("REDLATCH_EXIT", Some(call.exit.to_string())),
        ("REDLATCH_WAITED_MS", Some(call.waited_ms.to_string())),
        ("REDLATCH_VOTES", call.votes.clone()),
        ("REDLATCH_FENCING_TOKEN", call.fencing_token.map(|token| token.to_string())),
        // The token of a lock around this one is not for the hook.
        ("REDLATCH_LOCK_TOKEN", None),
        ("REDLATCH_USABLE_UNTIL", None),
    ];
    shell.env("REDLATCH_RESOURCE", OsStr::from_bytes(&names.join(&b"\n"[..])));
    for (name, value) in facts {
        match value {
            Some(value) => shell.env(name, OsString::from(value.replace('\0', " "))),
            None => shell.env_remove(name),
        };
    }
    // SAFETY: between fork and exec, only async-signal-safe calls are allowed; this sets
    // the signal mask.
    unsafe { shell.pre_exec(move || Ok(original.restore()?)) };
    shell.spawn()
}
