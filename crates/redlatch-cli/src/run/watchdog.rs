//! The watchdog: a third process, which does nothing unless the holder is killed.
//!
//! In:  what the holder tells the front. Out: nothing.
//!
//! Promise: if the holder dies while a command runs, everything that the command has
//! started is killed, even if the front is stopped at that time and cannot do it.
//!
//! It is a child of the front like the holder, in a process group of its own, so that
//! a signal to one of them, or to a group, does not reach it. It cannot help if the
//! front is dead, too: what the command has started is then no longer below anything we
//! know.

use super::{
    cage::Cage,
    family,
    front::split,
    wire::{LENGTH, News},
};
use crate::background::{let_go, nothing};
use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, getppid},
};
use std::{
    io::Read,
    os::{fd::RawFd, unix::net::UnixStream},
    process,
};

/// The watchdog, in the front's hand.
pub(super) struct Watchdog {
    pid: Pid,
}

impl Watchdog {
    /// Starts it. `ours` is all that it must not keep open: someone waits for its end.
    /// Without a process to spare, there is none.
    pub(super) fn start<T>(
        holder: Pid,
        line: UnixStream,
        given: &[RawFd],
        ours: T,
    ) -> (Option<Self>, T) {
        let front = Pid::this();
        match split() {
            Ok(ForkResult::Child) => {
                drop(ours);
                let _ = nothing().and_then(|nothing| let_go(given.to_vec(), &nothing));
                watch(line, front, holder);
                process::exit(0);
            }
            Ok(ForkResult::Parent { child }) => (Some(Watchdog { pid: child }), ours),
            Err(_) => (None, ours),
        }
    }

    /// Ends it: the front looks after the rest.
    pub(super) fn dismiss(self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        while waitpid(self.pid, None) == Err(Errno::EINTR) {}
    }
}

fn watch(mut line: UnixStream, front: Pid, holder: Pid) {
    let mut has_command = false;
    let mut bytes = [0; LENGTH];
    while line.read_exact(&mut bytes).is_ok() {
        match News::from_bytes(bytes) {
            Ok(News::GoodFor(_)) => has_command = true,
            Ok(News::NothingToGuard | News::Ran { .. }) => has_command = false,
            _ => {}
        }
    }
    if has_command && getppid() == front {
        family::kill_below(front, Cage::left_by(holder).as_ref());
    }
}
