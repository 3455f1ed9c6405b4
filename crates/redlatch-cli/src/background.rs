//! Tasks that answer first and clean up in the background.
//!
//! In:  a task that may leave something to undo on the nodes.
//! Out: its exit status, as soon as there is one.
//!
//! A script with `lock=$(redlatch acquire …)` continues when stdout is closed *and*
//! the process has exited. So the task runs in a child, the *worker*. The process
//! that the caller started, the *front*, forwards signals and exits as soon as the
//! worker sends it the exit status. The worker closes every descriptor it inherited
//! and stays until nothing is left to undo.
//!
//! Promise: a signal at any time, or the death of the front, leaves nothing locked. The
//! worker exits by itself, no later than when all of its keys must have expired.

use crate::{
    exit::Exit,
    failure::Failure,
    fork::fork,
    run::signals::{Original, survive_limits, unless_ignored},
    runtime,
    say::{Event, Say},
    settings::Settings,
    trace::Trace,
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, close, dup2_stderr, dup2_stdin, dup2_stdout, setsid},
};
use redlatch::Locks;
use std::{
    fs::{self, File},
    future::poll_fn,
    io::{self, Read},
    os::{
        fd::{AsFd, RawFd},
        unix::net::UnixStream,
    },
    pin::pin,
    process,
    task::Poll,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    signal::unix::{self as tokio_signal, SignalKind},
};

/// The signals that end the task.
const ENDING: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM];
/// How long after the end of the longest possible lease the worker gives up.
const LAST: Duration = Duration::from_secs(5);

/// What a task leaves behind.
pub(crate) struct Work {
    /// The worker stays in the background until nothing of these locks is left on the
    /// nodes.
    pub(crate) rest: Option<Locks>,
    pub(crate) trace: Trace,
}

/// Runs the task and returns its exit status.
pub(crate) fn answer_first(
    settings: Settings,
    say: Say,
    trace: Trace,
    task: impl AsyncFnOnce(Settings, Say, &mut Work) -> Result<Exit, Failure>,
) -> Exit {
    let given = given_descriptors();
    let trace = trace.on(&settings);
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
                let begun = Work { rest: None, trace };
                let exit = work(settings, say, task, begun, theirs, original, given)
                    .unwrap_or_else(|error| {
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
    /// Forwards signals until the worker sends its exit status.
    fn wait(mut self, say: Say) -> Exit {
        loop {
            let mut ready = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.line.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut ready, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                // Without poll, all we can do is wait for the worker.
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
                // If the worker is gone, its end of the socket closes, and we notice there.
                let _ = kill(self.worker, signal);
            }
        }
    }

    fn told(&mut self, say: Say) -> Exit {
        let mut code = [0];
        if self.line.read_exact(&mut code).is_ok() {
            return Exit::Code(code[0]);
        }
        if let Ok(WaitStatus::Exited(_, code)) = waitpid(self.worker, None) {
            // The worker has printed the reason.
            return Exit::Code(u8::try_from(code).unwrap_or(u8::MAX));
        }
        let words = "the process that did the work was killed; \
                     what it locked is free after its TTL";
        say.say(&Event::failed(words, Exit::Failed));
        Exit::Failed
    }
}

/// Runs the worker.
fn work(
    settings: Settings,
    say: Say,
    task: impl AsyncFnOnce(Settings, Say, &mut Work) -> Result<Exit, Failure>,
    mut begun: Work,
    line: UnixStream,
    original: Original,
    given: Vec<RawFd>,
) -> io::Result<Exit> {
    // Before anything is locked: there may be no descriptor left afterwards.
    let nothing = nothing()?;
    // Ctrl-C must reach us through the front only.
    setsid()?;
    line.set_nonblocking(true)?;
    let max_ttl = settings.max_ttl();
    let typed = settings.typed().to_owned();
    let runtime = runtime::new()?;
    let exit = runtime.block_on(async {
        let mut line = tokio::net::UnixStream::from_std(line)?;
        let mut signals = Signals::listen(ENDING)?;
        original.restore()?;
        survive_limits()?;
        let result = {
            let task = pin!(task(settings, say, &mut begun));
            tokio::select! {
                biased;
                signal = signals.next() => Err(signal),
                // The front never sends anything, so this means it is dead.
                _ = line.read_u8() => Ok(Ok(Exit::Failed)),
                result = task => Ok(result),
            }
        };
        say.end_progress();
        let result = result.unwrap_or_else(|signal| {
            let exit = Exit::Signal(signal as i32);
            let is_waiting = begun.trace.is_waiting();
            let failure = || Failure::new(exit, begun.trace.interrupted(signal));
            if is_waiting { Err(failure()) } else { Ok(exit) }
        });
        let exit = result.unwrap_or_else(|failure| {
            let failure = failure.with_options(&typed);
            say.say(&failure.event());
            begun.trace.failed(&failure);
            failure.exit
        });
        begun.trace.write_end(exit, say);
        let_go(given, &nothing)?;
        let _ = line.write_u8(exit.code()).await;
        drop(line);
        if let Some(locks) = begun.rest {
            tokio::select! {
                () = undo(&locks, max_ttl) => {}
                _ = signals.next() => {}
            }
            locks.hang_up();
        }
        Ok(exit)
    });
    // Dropping the runtime would wait for silent nodes.
    std::mem::forget(runtime);
    exit
}

/// Waits until nothing is left to undo, or every key must have expired.
pub(crate) async fn undo(locks: &Locks, max_ttl: Duration) {
    let _ = tokio::time::timeout(max_ttl + LAST, locks.settled()).await;
}

/// The descriptors we inherited, except for the three standard streams. Another
/// program may be waiting for one of them to be closed, or for a lock on it.
pub(crate) fn given_descriptors() -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let open: Vec<RawFd> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // One of them was the directory we just read, which is closed by now.
    open.into_iter()
        .filter(|fd| *fd > 2 && fs::exists(format!("/proc/self/fd/{fd}")).unwrap_or(false))
        .collect()
}

/// What the standard streams point at when nobody listens any more.
pub(crate) fn nothing() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}

/// Closes them, and points the three standard streams at `nothing`.
pub(crate) fn let_go(given: Vec<RawFd>, nothing: &File) -> io::Result<()> {
    dup2_stdin(nothing)?;
    dup2_stdout(nothing)?;
    dup2_stderr(nothing)?;
    for fd in given {
        let _ = close(fd);
    }
    Ok(())
}

/// Listens for the signals that end the task.
pub(crate) struct Signals(Vec<(Signal, tokio_signal::Signal)>);

impl Signals {
    /// For the process that the caller started: those that the caller ignores stay ignored.
    pub(crate) fn unless_ignored() -> io::Result<Self> {
        Signals::listen(&unless_ignored(&ENDING))
    }

    fn listen(signals: impl IntoIterator<Item = Signal>) -> io::Result<Self> {
        let on = |signal| {
            let listener = tokio_signal::signal(SignalKind::from_raw(signal as i32))?;
            Ok((signal, listener))
        };
        signals.into_iter().map(on).collect::<io::Result<_>>().map(Signals)
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            let told = self.0.iter_mut().find_map(|(signal, listener)| {
                listener.poll_recv(context).is_ready().then_some(*signal)
            });
            told.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
