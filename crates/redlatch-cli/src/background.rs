//! Work that answers first and cleans up behind the caller's back.
//!
//! In:  a task that may leave something to undo on the nodes.
//! Out: its exit status, as soon as there is one.
//!
//! A script that says `lock=$(redlatch acquire …)` goes on when stdout is closed
//! *and* the process has ended. So the task runs in a child, the *worker*. The
//! process that the caller started, the *front*, passes signals on and ends as
//! soon as the worker has told it how. The worker lets go of everything the
//! caller gave it and stays until nothing is left to undo.
//!
//! Promise: a signal at any time, or the death of the front, leaves nothing
//! locked. The worker ends by itself, when no key of its can be left at the
//! latest.

use crate::{
    exit::Exit,
    failure::Failure,
    fork::fork,
    run::signals::{Original, unless_ignored},
    say::{Event, Say},
    settings::Settings,
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{Signal, kill},
        signalfd::{SfdFlags, SignalFd},
    },
    unistd::{ForkResult, Pid, close, dup2_stderr, dup2_stdin, dup2_stdout, setsid},
};
use redlatch::Locks;
use std::{
    fs::{self, File},
    io::{self, Read},
    os::{
        fd::{AsFd, RawFd},
        unix::net::UnixStream,
    },
    pin::pin,
    process,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    signal::unix::{self as tokio_signal, SignalKind},
};

/// What ends the task.
const ENDING: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM];
/// How long after the longest lease the worker gives up.
const LAST: Duration = Duration::from_secs(5);

/// Runs the task and returns how to end. What it leaves in the slot is waited
/// for in the background, until nothing of it is left on the nodes.
pub(crate) fn answer_first(
    settings: Settings,
    say: Say,
    task: impl AsyncFnOnce(Settings, Say, &mut Option<Locks>) -> Result<Exit, Failure>,
) -> Exit {
    let given = given_descriptors();
    let split = || -> io::Result<(Front, Original)> {
        let heard = unless_ignored(&ENDING);
        let original = Original::before(&heard)?;
        let signals = SignalFd::with_flags(&heard, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let (ours, theirs) = UnixStream::pair()?;
        match fork()? {
            ForkResult::Parent { child } => {
                Ok((Front { worker: child, line: ours, signals }, original))
            }
            ForkResult::Child => {
                drop((ours, signals));
                let exit =
                    work(settings, say, task, theirs, original, given).unwrap_or_else(|error| {
                        say.say(&Event::failed(error, Exit::Failed));
                        Exit::Failed
                    });
                process::exit(exit.code().into());
            }
        }
    };
    match split() {
        Ok((front, _)) => front.wait(say),
        Err(error) => {
            say.say(&Event::failed(format!("no process can be started: {error}"), Exit::Failed));
            Exit::Failed
        }
    }
}

/// The process that the caller started.
struct Front {
    worker: Pid,
    line: UnixStream,
    signals: SignalFd,
}

impl Front {
    /// How the worker says to end.
    fn wait(mut self, say: Say) -> Exit {
        loop {
            let mut ready = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.line.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut ready, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                // Then waiting is all that is left to do.
                Err(_) => return self.told(say),
            }
            let [signals, line] = ready.map(|fd| fd.any().unwrap_or(true));
            if signals {
                self.forward();
            }
            if line {
                return self.told(say);
            }
        }
    }

    fn forward(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            let number = i32::try_from(info.ssi_signo).unwrap_or(0);
            if let Ok(signal) = Signal::try_from(number) {
                // One that is gone is noticed when its end of the line closes.
                let _ = kill(self.worker, signal);
            }
        }
    }

    fn told(&mut self, say: Say) -> Exit {
        let mut code = [0];
        if self.line.read_exact(&mut code).is_ok() {
            return Exit::Code(code[0]);
        }
        let words = "the process that did the work was killed; \
                     what it locked is free after its TTL";
        say.say(&Event::failed(words, Exit::Failed));
        Exit::Failed
    }
}

/// The worker.
fn work(
    settings: Settings,
    say: Say,
    task: impl AsyncFnOnce(Settings, Say, &mut Option<Locks>) -> Result<Exit, Failure>,
    line: UnixStream,
    original: Original,
    given: Vec<RawFd>,
) -> io::Result<Exit> {
    // Ctrl-C comes by way of the front alone.
    setsid()?;
    line.set_nonblocking(true)?;
    let max_ttl = settings.max_ttl();
    let are_typed = settings.are_typed();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exit = runtime.block_on(async {
        let mut line = tokio::net::UnixStream::from_std(line)?;
        let mut signals = Signals::listen()?;
        original.restore()?;
        let mut rest = None;
        let result = {
            let task = pin!(task(settings, say, &mut rest));
            tokio::select! {
                biased;
                number = signals.next() => Ok(Exit::Signal(number)),
                // Nothing is ever sent this way: the front is dead.
                _ = line.read_u8() => Ok(Exit::Failed),
                result = task => result,
            }
        };
        say.end_progress();
        let exit = result.unwrap_or_else(|failure| {
            let failure = failure.for_nodes(are_typed);
            say.say(&Event::failed(&failure.message, failure.exit));
            failure.exit
        });
        let_go(given)?;
        let _ = line.write_u8(exit.code()).await;
        drop(line);
        if let Some(locks) = rest {
            tokio::select! {
                () = undo(&locks, max_ttl) => {}
                _ = signals.next() => {}
            }
        }
        Ok(exit)
    });
    // Dropping the runtime would wait for nodes that are mute.
    std::mem::forget(runtime);
    exit
}

/// Waits until nothing is left to undo, or no key can be left.
pub(crate) async fn undo(locks: &Locks, max_ttl: Duration) {
    let _ = tokio::time::timeout(max_ttl + LAST, locks.settled()).await;
}

/// The descriptors that the caller gave us, but for the three streams. Another
/// program may wait for one of them to be closed, or for a lock on it.
pub(crate) fn given_descriptors() -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let open: Vec<RawFd> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The directory that was just read is closed by now.
    open.into_iter()
        .filter(|fd| *fd > 2 && fs::exists(format!("/proc/self/fd/{fd}")).unwrap_or(false))
        .collect()
}

/// Closes all of them, and the three streams.
pub(crate) fn let_go(given: Vec<RawFd>) -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&nothing)?;
    for fd in given {
        let _ = close(fd);
    }
    Ok(())
}

/// Signals that end the task.
struct Signals([tokio_signal::Signal; 3]);

impl Signals {
    fn listen() -> io::Result<Self> {
        let on = |signal: Signal| tokio_signal::signal(SignalKind::from_raw(signal as i32));
        let [hup, int, term] = ENDING.map(on);
        Ok(Signals([hup?, int?, term?]))
    }

    /// The number of the next one.
    async fn next(&mut self) -> i32 {
        let [hup, int, term] = &mut self.0;
        tokio::select! {
            _ = hup.recv() => Signal::SIGHUP as i32,
            _ = int.recv() => Signal::SIGINT as i32,
            _ = term.recv() => Signal::SIGTERM as i32,
        }
    }
}
