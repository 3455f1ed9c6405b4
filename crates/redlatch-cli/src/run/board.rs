//! Facts that front, holder and watchdog share, so that each has them even if the process that
//! recorded them is stopped: when nothing of the command was left, and which process is a hook
//! and not part of the command.
//!
//! If no descriptor is left, there is no board, and the time is unknown.

use super::boot_time::BootTime;
use nix::unistd::Pid;
use rustix::fs::{MemfdFlags, memfd_create};
use std::{fs::File, os::unix::fs::FileExt, time::Duration};

/// Front, holder and watchdog share it.
#[derive(Debug)]
pub(super) struct Board(Option<File>);

impl Board {
    pub(super) fn new() -> Self {
        Board(memfd_create("redlatch", MemfdFlags::CLOEXEC).ok().map(File::from))
    }

    /// Records that nothing of the command was left at this time. The first record
    /// counts.
    pub(super) fn gone(&self, at: BootTime) {
        if let Some(file) = self.0.as_ref().filter(|_| self.gone_at().is_none()) {
            let _ = file.write_all_at(&at.0.to_le_bytes(), 0);
        }
    }

    /// Returns how long ago the command was gone, or zero if no process has recorded that.
    pub(super) fn gone_for(&self) -> Duration {
        self.gone_at().map_or(Duration::ZERO, |at| BootTime::now().since(at))
    }

    pub(super) fn gone_at(&self) -> Option<BootTime> {
        self.read(0).filter(|at| *at > 0).map(BootTime)
    }

    /// Records that this process is a hook. While a command runs, there is at most one: the
    /// hook for a lost lock.
    pub(super) fn has_hook(&self, pid: Pid) {
        if let Some(file) = &self.0 {
            let _ = file.write_all_at(&i64::from(pid.as_raw()).to_le_bytes(), 8);
        }
    }

    pub(super) fn hook(&self) -> Option<Pid> {
        let pid = i32::try_from(self.read(8)?).ok()?;
        Some(Pid::from_raw(pid))
    }

    fn read(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.0.as_ref()?.read_exact_at(&mut bytes, at).ok()?;
        Some(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_counts() {
        let board = Board::new();
        assert_eq!(board.gone_at(), None);

        board.gone(BootTime(3));
        board.gone(BootTime(7));

        assert_eq!(board.gone_at(), Some(BootTime(3)));
        assert_eq!(Board(None).gone_at(), None);
    }

    #[test]
    fn a_hook_says_nothing_about_the_command() {
        let board = Board::new();
        assert_eq!(board.hook(), None);

        board.has_hook(Pid::from_raw(7));

        assert_eq!((board.hook(), board.gone_at()), (Some(Pid::from_raw(7)), None));
    }
}
