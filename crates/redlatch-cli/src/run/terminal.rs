//! The terminal, and which process group has it.

use super::family;
use nix::{
    errno::Errno,
    sys::signal::killpg,
    unistd::{Pid, getpgid, tcgetpgrp, tcsetpgrp},
};
use rustix::fs::{FileType, fstat};
use std::{
    fs::{File, OpenOptions},
    io,
};

/// The controlling terminal, if there is one.
///
/// Needs: `SIGTTOU` is blocked; otherwise, setting the foreground group from the
/// background would stop this process.
#[derive(Debug)]
pub(super) struct Terminal {
    tty: File,
    front: Pid,
    /// The process group of the front, which is the one that the caller knows.
    home: Pid,
}

impl Terminal {
    pub(super) fn open(front: Pid) -> Option<Self> {
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let home = getpgid(Some(front)).ok()?;
        Some(Terminal { tty, front, home })
    }

    /// Whether the front is in the foreground, so that the command may be, too.
    pub(super) fn is_home(&self) -> bool {
        tcgetpgrp(&self.tty) == Ok(self.home)
    }

    /// Whether the command should have the terminal before it asks for it: nothing else
    /// that the caller started with us may want to read from it. Only the controlling
    /// terminal reports its foreground group, so stdin must be that terminal.
    pub(super) fn is_free(&self) -> bool {
        let stdout = fstat(io::stdout()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        tcgetpgrp(io::stdin()) == Ok(self.home)
            // The next one in the pipeline may not have been started yet.
            && stdout != Ok(FileType::Fifo)
            && !family::has_neighbours(self.front)
    }

    /// Puts a process group into the foreground.
    pub(super) fn lend(&self, group: Pid) -> io::Result<()> {
        Ok(tcsetpgrp(&self.tty, group)?)
    }

    /// Puts the front back into the foreground, if `group` is there now.
    pub(super) fn take_back(&self, group: Pid) {
        if tcgetpgrp(&self.tty) == Ok(group) {
            self.bring_home();
        }
    }

    /// Puts the front back into the foreground, if nobody is left there.
    pub(super) fn take_back_from_the_dead(&self) {
        let group = tcgetpgrp(&self.tty);
        if group.is_ok_and(|group| killpg(group, None) == Err(Errno::ESRCH)) {
            self.bring_home();
        }
    }

    /// Puts the front back into the foreground.
    pub(super) fn bring_home(&self) {
        // The terminal may have been hung up.
        let _ = tcsetpgrp(&self.tty, self.home);
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Terminal { tty: self.tty.try_clone()?, ..*self })
    }
}
