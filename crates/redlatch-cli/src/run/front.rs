//! The front: the process that the caller started.
//!
//! In:  signals, and news from the holder.
//! Out: orders to the holder, and the exit status.
//!
//! Promise: if the holder dies, or does not tell in time that the lease goes
//! on, every process of the command is killed.

use super::{
    Plan,
    cage::Cage,
    family, holder,
    signals::{self, Original},
    terminal::Terminal,
    wire::{LENGTH, News, Order},
};
use crate::{
    background::given_descriptors,
    exit::Exit,
    fork::fork,
    say::{Event, Say},
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{SigSet, Signal, kill, killpg},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, getpgrp, setpgid},
};
use std::{
    io::{self, Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    process,
    time::{Duration, Instant},
};

/// Starts the holder, watches it and returns how it ended.
pub(super) fn run(plan: &Plan) -> Exit {
    let say = plan.say;
    let given = given_descriptors();
    let started = signals::block().and_then(|original| {
        signals::expect_children()?;
        prctl::set_child_subreaper(true)?;
        Ok(original)
    });
    let split = started.map_err(io::Error::from).and_then(|original| {
        let (ours, theirs) = UnixStream::pair()?;
        let listened = signals::listened();
        let signals =
            SignalFd::with_flags(&listened, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        match split()? {
            ForkResult::Child => {
                drop((ours, signals));
                let exit = holder::run(plan, theirs, original, given);
                process::exit(exit.code().into());
            }
            ForkResult::Parent { child } => {
                Ok(Front { holder: child, line: ours, signals, original, good_until: None, say })
            }
        }
    });
    match split {
        Ok(front) => front.watch(),
        Err(error) => {
            say.say(&Event::failed(format!("no process can be started: {error}"), Exit::Failed));
            Exit::Failed
        }
    }
}

/// Becomes two processes, the second in a process group of its own.
fn split() -> nix::Result<ForkResult> {
    let result = fork()?;
    match result {
        ForkResult::Child => setpgid(Pid::from_raw(0), Pid::from_raw(0))?,
        // Whoever is first; it may even have ended.
        ForkResult::Parent { child } => setpgid(child, child).unwrap_or_default(),
    }
    Ok(result)
}

struct Front {
    holder: Pid,
    line: UnixStream,
    signals: SignalFd,
    original: Original,
    /// Until when the command may run without another word from the holder.
    good_until: Option<Instant>,
    say: Say,
}

impl Front {
    fn watch(mut self) -> Exit {
        let mut interrupted = None;
        let exit = loop {
            match self.wait() {
                Ok(Some(News::GoodFor(time))) => self.good_until = Instant::now().checked_add(time),
                Ok(Some(News::NothingToGuard)) => self.good_until = None,
                Ok(Some(News::Stop { wants_terminal })) => self.stop(wants_terminal),
                Ok(Some(News::Interrupted { lent })) => interrupted = Some(lent),
                Ok(Some(News::CleansUp { code })) => break Exit::Code(code),
                Ok(None) => {
                    break match self.bury() {
                        WaitStatus::Exited(_, code) => {
                            Exit::Code(u8::try_from(code).unwrap_or(u8::MAX))
                        }
                        _ => self.clear_up(false),
                    };
                }
                Err(Hangs) => {
                    // It may be stopped, and so may be the command.
                    let _ = kill(self.holder, Signal::SIGKILL);
                    self.bury();
                    break self.clear_up(true);
                }
            }
        };
        if let Some(lent) = interrupted {
            self.die_of_interrupt(lent);
        }
        exit
    }

    /// News from the holder; none when it is gone. Forwards signals meanwhile.
    fn wait(&mut self) -> Result<Option<News>, Hangs> {
        loop {
            let left = self.good_until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(Hangs);
            }
            // Rounded up, or the last millisecond would be spent in a busy loop.
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX)
            });
            let mut ready = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.line.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut ready, timeout) {
                Ok(0) | Err(Errno::EINTR) => continue,
                // Without poll nothing can be watched any more.
                Err(_) => return Err(Hangs),
                Ok(_) => {}
            }
            let [signals, line] = ready.map(|fd| fd.any().unwrap_or(true));
            if signals {
                self.forward();
            }
            if line {
                let mut bytes = [0; LENGTH];
                return Ok(match self.line.read_exact(&mut bytes) {
                    Ok(()) => News::from_bytes(bytes).ok(),
                    Err(_) => None,
                });
            }
        }
    }

    fn forward(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            let number = i32::try_from(info.ssi_signo).unwrap_or(0);
            if let Ok(signal) = Signal::try_from(number) {
                self.order(Order::Signal(signal));
            }
        }
    }

    fn order(&mut self, order: Order) {
        // A holder that is gone is noticed when its end of the line closes.
        let _ = self.line.write_all(&order.to_bytes());
    }

    /// Stops with everybody in our process group, as from Ctrl-Z, until the
    /// caller continues us. A command that stopped for want of the terminal can
    /// have it instead, if the caller has put us into the foreground meanwhile.
    fn stop(&mut self, wants_terminal: bool) {
        // While stopped there is nothing to guard: the holder guards, and the
        // command stands still.
        self.good_until = None;
        let is_home = || Terminal::open(getpgrp()).is_some_and(|terminal| terminal.is_home());
        if !(wants_terminal && is_home()) {
            let stopping = SigSet::from(Signal::SIGTSTP);
            let _ = killpg(getpgrp(), Signal::SIGTSTP);
            let _ = stopping.thread_unblock(); // here we stop
            let _ = stopping.thread_block();
        }
        self.order(Order::Continue { foreground: is_home() });
    }

    fn bury(&self) -> WaitStatus {
        loop {
            match waitpid(self.holder, None) {
                Ok(status) => return status,
                Err(Errno::EINTR) => {}
                Err(_) => return WaitStatus::StillAlive,
            }
        }
    }

    /// The holder is gone without having ended the command.
    fn clear_up(&self, hung: bool) -> Exit {
        let processes = family::kill_all(Cage::left_by(self.holder).as_ref());
        if let Some(terminal) = Terminal::open(getpgrp()) {
            terminal.bring_home();
        }
        let (words, fate, exit) = if hung {
            (
                "the lock could not be renewed, because redlatch was stopped",
                "; the command was killed",
                Exit::Lost,
            )
        } else {
            ("the process that held the lock was killed", ", and the command with it", Exit::Failed)
        };
        if processes.is_empty() {
            self.say.say(&Event::failed(format!("{words}{fate}"), exit));
            return exit;
        }
        self.say.say(&Event::failed(words, Exit::Lost));
        self.say.say(&Event::Survived { processes });
        Exit::Lost
    }

    /// Ends as by Ctrl-C, so that a shell's loop or script around us ends, too.
    fn die_of_interrupt(&self, lent: bool) {
        if self.original.restore().is_ok() {
            let target = if lent { Pid::from_raw(0) } else { Pid::this() };
            let _ = kill(target, Signal::SIGINT);
        }
    }
}

/// The holder has not said in time that the lease goes on.
struct Hangs;
