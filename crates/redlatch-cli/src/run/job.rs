//! The command as a process: starts it, signals it, and watches its processes.

use super::{
    cage::Cage,
    course::Event,
    family::{self, BURY, Spared},
    signals::Original,
    terminal::Terminal,
};
use crate::{exit::Exit, say::Survivor};
use nix::{
    sys::{
        prctl,
        signal::{Signal, killpg},
    },
    unistd::{Pid, getppid},
};
// A child may die of a signal that `nix` has no name for.
use rustix::{
    io::Errno,
    process::{WaitOptions, wait},
};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Write},
    os::unix::process::CommandExt,
    process::Command,
    time::Instant,
};
use tokio::signal::unix::{SignalKind, signal};

/// A running command. The id of its process group is its process id.
pub(super) struct Job {
    pid: Pid,
    cage: Option<Cage>,
    terminal: Option<Terminal>,
    lent: bool,
}

impl Job {
    /// Starts the command, in the terminal's foreground if the front is there alone.
    pub(super) fn start(
        command: &[OsString],
        environment: &[(&str, Option<OsString>)],
        original: Original,
        terminal: Option<Terminal>,
    ) -> io::Result<Self> {
        let lent = terminal.as_ref().is_some_and(Terminal::is_free);
        let lender = terminal.as_ref().filter(|_| lent).map(Terminal::try_clone).transpose()?;
        let program = command.first().map_or(OsStr::new(""), OsString::as_os_str);
        let mut child = Command::new(program);
        for (name, value) in environment {
            match value {
                Some(value) => child.env(name, value),
                None => child.env_remove(name),
            };
        }
        child.args(&command[1..]).process_group(0);
        let cage = Cage::build(Pid::this());
        let door = cage.as_ref().and_then(|cage| cage.door().ok());
        let spawned = in_child(&mut child, Pid::this(), door, lender, original).spawn();
        match spawned {
            Ok(child) => {
                let pid = Pid::from_raw(child.id().cast_signed());
                Ok(Job { pid, cage, terminal, lent })
            }
            Err(error) => {
                if let Some(terminal) = terminal.filter(|_| lent) {
                    terminal.bring_home();
                }
                Err(error)
            }
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether the command had the terminal last.
    pub(super) fn had_terminal(&self) -> bool {
        self.lent
    }

    /// Whether a Ctrl-C in the terminal reaches the command or the front.
    pub(super) fn is_at_terminal(&self) -> bool {
        self.lent || self.terminal.as_ref().is_some_and(Terminal::is_home)
    }

    /// Sends a signal to the command's process group.
    pub(super) fn signal(&self, signal: Signal) {
        // The group may be gone.
        let _ = killpg(self.pid, signal);
    }

    /// The processes of the command's group that we may not signal: they have changed
    /// their user.
    pub(super) fn out_of_reach(&self) -> Vec<Survivor> {
        family::out_of_reach(self.pid)
    }

    /// Sends a signal to every process that the command has started.
    fn signal_all(&self, signal: Signal) {
        family::signal_all(self.pid, signal);
    }

    /// Kills every process that the command has started.
    pub(super) fn kill(&self) {
        family::kill_now(self.pid, self.cage.as_ref());
    }

    /// Whether there are processes that [`kill`](Self::kill) has not stopped so far.
    pub(super) fn has_survivors() -> bool {
        family::has_survivors()
    }

    /// Kills and reaps until nothing is left, or there is no point in continuing. Returns
    /// what is then still alive, if anything, as far as it is visible.
    pub(super) fn kill_patiently(&self) -> Option<Vec<Survivor>> {
        family::kill_all(self.cage.as_ref(), Spared::NOBODY)
    }

    /// Asks every process to end, and resumes those that are stopped.
    pub(super) fn terminate(&self) {
        self.signal_all(Signal::SIGTERM);
        self.signal_all(Signal::SIGCONT);
    }

    /// Asks the processes outside the command's process group to end.
    pub(super) fn terminate_others(&self) {
        family::signal_others(self.pid, Signal::SIGTERM);
        family::signal_all(self.pid, Signal::SIGCONT);
    }

    /// Resumes a stopped command.
    pub(super) fn resume(&mut self, foreground: bool) {
        if let Some(terminal) = &self.terminal {
            self.lent = foreground && terminal.lend(self.pid).is_ok();
        }
        self.signal(Signal::SIGCONT);
    }

    /// Puts the front back into the foreground. Returns whether there is a terminal.
    pub(super) fn give_terminal_back(&self) -> bool {
        if let Some(terminal) = &self.terminal {
            terminal.take_back(self.pid);
        }
        self.terminal.is_some()
    }
}

/// Prepares the child before it becomes the command.
#[expect(unsafe_code, reason = "std offers no safe way to run code between fork and exec")]
fn in_child(
    command: &mut Command,
    holder: Pid,
    door: Option<File>,
    lender: Option<Terminal>,
    original: Original,
) -> &mut Command {
    let prepare = move || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The holder may have died before the death signal was set.
        if getppid() != holder {
            return Err(Errno::SRCH.into());
        }
        if let Some(mut door) = door.as_ref() {
            // If this fails, we can still kill it like any other process.
            let _ = door.write(b"0");
        }
        if let Some(terminal) = &lender {
            // Do this before the command reads: only the foreground may read.
            let _ = terminal.lend(Pid::this());
        }
        Ok(original.restore_all()?)
    };
    // SAFETY: between fork and exec, only async-signal-safe calls are allowed.
    // The closure makes system calls, takes no lock and allocates nothing.
    unsafe { command.pre_exec(prepare) }
}

/// Watches all processes that the command has started.
pub(super) struct Children {
    news: tokio::signal::unix::Signal,
    /// There was news that nobody has looked at yet.
    is_due: bool,
    job: Pid,
}

impl Children {
    /// Starts to listen. Must happen before the command starts, or news may be missed.
    pub(super) fn listen() -> io::Result<tokio::signal::unix::Signal> {
        signal(SignalKind::child())
    }

    pub(super) fn of(job: Pid, news: tokio::signal::unix::Signal) -> Self {
        Children { news, is_due: false, job }
    }

    /// Waits until something happens to any of them. If an order from the front has
    /// arrived by then, it is handled first. Cancel-safe.
    pub(super) async fn changed(&mut self) -> Vec<Event> {
        loop {
            if !self.is_due {
                self.news.recv().await;
                self.is_due = true;
            }
            tokio::task::yield_now().await;
            self.is_due = false;
            let events = self.look();
            if !events.is_empty() {
                return events;
            }
        }
    }

    /// Reaps exited children for a moment: others may be exiting as fast as we reap them,
    /// and the lock needs attention. Returns what happened to the command itself.
    pub(super) fn look(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let since = Instant::now();
        while since.elapsed() < BURY {
            let (pid, status) = match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some(change)) => change,
                Ok(None) => return events,
                Err(Errno::INTR) => continue,
                Err(_) => {
                    events.push(Event::AllGone);
                    return events;
                }
            };
            if pid.as_raw_nonzero().get() != self.job.as_raw() {
                continue;
            }
            if let Some(code) = status.exit_status() {
                events.push(Event::Ended(Exit::Code(u8::try_from(code).unwrap_or(u8::MAX))));
            } else if let Some(number) = status.terminating_signal() {
                events.push(Event::Ended(Exit::Signal(number)));
            } else if let Some(number) = status.stopping_signal() {
                let wants = [Signal::SIGTTIN as i32, Signal::SIGTTOU as i32];
                events.push(Event::Stopped { wants_terminal: wants.contains(&number) });
            }
        }
        self.is_due = true;
        events
    }
}
