//! The watchdog: a third process, which does nothing unless the holder is killed or
//! stopped.
//!
//! In:  what the holder tells the front. Out: when nothing of the command was left, if it
//! killed it.
//!
//! Promise: if the holder dies while a command runs, or does not report in time that the
//! lease is still held, everything that the command has started is killed, even if the
//! front is stopped at that time and cannot do it.
//!
//! Like the holder, it is a child of the front, but in a separate process group, so
//! that a signal to one of them, or to a group, does not reach it. It cannot help if
//! the front is dead, too: what the command has started is then no longer below
//! anything we know.

use super::{
    board::Board,
    boot_time::BootTime,
    cage::Cage,
    family::{self, Spared},
    front::split,
    wire::{LENGTH, News},
};
use crate::background::{let_go, nothing};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, getppid},
};
use std::{
    io::Read,
    os::{
        fd::{AsFd as _, RawFd},
        unix::net::UnixStream,
    },
    process,
    time::Duration,
};

/// A time that never comes: the command was killed, and still needs attention.
const NEVER: BootTime = BootTime(u64::MAX);

/// The front's handle to the watchdog.
pub(super) struct Watchdog {
    pid: Pid,
}

impl Watchdog {
    /// Starts it. The front has `grace` to act first. `ours` is everything that the watchdog
    /// must not keep open, because someone waits for it to be closed. If no process can be
    /// created, there is no watchdog.
    pub(super) fn start<T>(
        holder: Pid,
        (line, board): (UnixStream, &Board),
        grace: Duration,
        given: &[RawFd],
        ours: T,
    ) -> (Option<Self>, T) {
        let front = Pid::this();
        match split() {
            Ok(ForkResult::Child) => {
                drop(ours);
                let _ = nothing().and_then(|nothing| let_go(given.to_vec(), &nothing));
                watch(line, board, grace, front, holder);
                process::exit(0);
            }
            Ok(ForkResult::Parent { child }) => (Some(Watchdog { pid: child }), ours),
            Err(_) => (None, ours),
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Ends it: nothing of the command is left.
    pub(super) fn dismiss(self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        while waitpid(self.pid, None) == Err(Errno::EINTR) {}
    }
}

fn watch(mut line: UnixStream, board: &Board, grace: Duration, front: Pid, holder: Pid) {
    let (mut good_until, mut command, mut at_work) = (None, None, None);
    let mut bytes = [0; LENGTH];
    loop {
        if !hears(&line, good_until, at_work) {
            // The front may be killing just now, too, which does no harm.
            if let Some(leader) = command {
                family::kill_group(leader, &[holder, front]);
            }
            let cage = Cage::left_by(holder);
            let gone_at = family::kill_below(holder, cage.as_ref(), Spared::NOBODY);
            // Nothing is below a holder that is dead.
            if let Some(at) = gone_at.filter(|_| family::is_alive(holder)) {
                board.gone(at);
            }
            (good_until, at_work) = (Some(NEVER), None);
            continue;
        }
        if line.read_exact(&mut bytes).is_err() {
            break;
        }
        match News::from_bytes(bytes) {
            Ok(News::GoodUntil(time)) => (good_until, at_work) = (Some(time.after(grace)), None),
            Ok(News::AtWork(time)) => {
                (good_until, at_work) = (Some(time.after(grace)), Some(holder));
            }
            Ok(News::Started(group)) => command = i32::try_from(group).ok().map(Pid::from_raw),
            Ok(News::NothingToGuard | News::Ran { .. }) => good_until = None,
            _ => {}
        }
    }
    if good_until.is_some() && getppid() == front {
        let spared: Vec<Pid> = board.hook().into_iter().chain([Pid::this()]).collect();
        let spared = Spared { alone: &[], with_all: &spared };
        let gone_at = family::kill_below(front, Cage::left_by(holder).as_ref(), spared);
        if let Some(at) = gone_at.filter(|_| getppid() == front && family::can_look()) {
            board.gone(at);
        }
    }
}

/// Waits for the holder's next message or its end. Returns `false` if neither comes in
/// time, or if the holder is stopped while it is `at_work`.
fn hears(line: &UnixStream, until: Option<BootTime>, at_work: Option<Pid>) -> bool {
    loop {
        let timeout = wait_for(until.map(BootTime::left), at_work.is_some());
        let mut ready = [PollFd::new(line.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, timeout) {
            Ok(0) if until.is_some_and(|until| until.left().is_zero()) => return false,
            Ok(0) if at_work.is_some_and(family::is_stopped) => return false,
            Ok(0) | Err(Errno::EINTR) => {}
            // Reading will show what is wrong.
            _ => return true,
        }
    }
}

/// How often to check whether a holder that kills the command has been stopped: the lease
/// may be over before the time it asked for.
const LOOK: Duration = Duration::from_millis(20);

/// How long to wait for a holder that has this much time left.
pub(super) fn wait_for(left: Option<Duration>, is_at_work: bool) -> PollTimeout {
    let left = left.map(|left| if is_at_work { left.min(LOOK) } else { left });
    left.map_or(PollTimeout::NONE, |left| match left {
        Duration::ZERO => PollTimeout::ZERO,
        // Round up, or we would spend the last millisecond in a busy loop.
        left => PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_holder_that_is_stopped_while_it_kills_has_no_more_time() {
        let (line, _holder) = UnixStream::pair().unwrap();
        let mut holder = Command::new("sleep").arg("100").spawn().unwrap();
        let pid = Pid::from_raw(holder.id().cast_signed());
        kill(pid, Signal::SIGSTOP).unwrap();

        let heard = hears(&line, Some(NEVER), Some(pid));

        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(!heard);
    }
}
