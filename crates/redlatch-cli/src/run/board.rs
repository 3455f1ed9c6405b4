//! When nothing of the command was left, as the process that killed it saw it: whoever is
//! stopped meanwhile reads it there.
//!
//! Without a descriptor to spare, there is none, and nobody knows.

use super::boot_time::BootTime;
use rustix::fs::{MemfdFlags, memfd_create};
use std::{fs::File, os::unix::fs::FileExt, time::Duration};

/// Front, holder and watchdog share it.
#[derive(Debug)]
pub(super) struct Board(Option<File>);

impl Board {
    pub(super) fn new() -> Self {
        Board(memfd_create("redlatch", MemfdFlags::CLOEXEC).ok().map(File::from))
    }

    /// Nothing of the command was left then. The first word counts.
    pub(super) fn gone(&self, at: BootTime) {
        if let Some(file) = self.0.as_ref().filter(|_| self.gone_at().is_none()) {
            let _ = file.write_all_at(&at.0.to_le_bytes(), 0);
        }
    }

    /// For how long nothing of the command was left, as far as anybody has said.
    pub(super) fn gone_for(&self) -> Duration {
        self.gone_at().map_or(Duration::ZERO, |at| BootTime::now().since(at))
    }

    pub(super) fn gone_at(&self) -> Option<BootTime> {
        let mut bytes = [0; 8];
        self.0.as_ref()?.read_exact_at(&mut bytes, 0).ok()?;
        Some(BootTime(u64::from_le_bytes(bytes)))
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
}
