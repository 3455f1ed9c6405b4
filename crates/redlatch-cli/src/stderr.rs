//! Stderr, which others may have stopped reading.
//!
//! In:  lines. Out: the same, or how many of them were lost.
//!
//! A pipe may be full, and a terminal stopped with Ctrl-S; a process that holds a lock must
//! not wait for either. We share the file description with the caller, so we may not change
//! it: for a pipe or terminal, we open a separate one that does not block; to a socket, we
//! send without waiting.
//!
//! Promise: writing a line takes only a moment, whatever the reader does.

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::write as write_some,
};
use rustix::{
    fs::{FileType, OFlags, fstat},
    net::{SendFlags, send},
};
use std::{
    fs::File,
    io::{self, IsTerminal, Stderr},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long a line may wait for a reader that has kept up so far.
const SOON: Duration = Duration::from_millis(10);
/// How long it may wait for a reader that has not.
const NOW: Duration = Duration::from_millis(1);
/// How long the last line may wait.
const LAST: Duration = Duration::from_millis(100);
/// A pipe that has room takes this much at once, and does not mix it with other lines.
const ROOM: usize = 4096;

static LINES: Mutex<Lines> = Mutex::new(Lines { rest: Vec::new(), lost: 0 });

struct Lines {
    /// The end of a line of which only the beginning could be written.
    rest: Vec<u8>,
    lost: u64,
}

/// Writes a line, or loses it. `missed` makes the line that says how many were lost before.
pub(crate) fn write(line: &str, is_last: bool, missed: impl FnOnce(u64) -> String) {
    let mut lines = lines();
    let keeps_up = lines.lost == 0 && lines.rest.is_empty();
    let wait = match (is_last, keeps_up) {
        (true, _) => LAST,
        (false, true) => SOON,
        (false, false) => NOW,
    };
    let missed = if lines.lost > 0 { missed(lines.lost) } else { String::new() };
    if lines.put(missed + line, wait) {
        lines.lost = 0;
    } else if !line.is_empty() {
        lines.lost += 1;
    }
}

/// Writes what nobody misses.
pub(crate) fn show(text: String) {
    lines().put(text, NOW);
}

fn lines() -> MutexGuard<'static, Lines> {
    // A thread that panicked left consistent values behind.
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lines {
    /// Returns whether it was written, at least in part.
    fn put(&mut self, text: String, wait: Duration) -> bool {
        self.rest.drain(..write_now(&self.rest, wait));
        if !self.rest.is_empty() {
            return false;
        }
        let written = write_now(text.as_bytes(), wait);
        if written > 0 {
            self.rest = text.into_bytes();
            self.rest.drain(..written);
        }
        written > 0
    }
}

/// Writes what fits. Returns how much that was.
fn write_now(bytes: &[u8], wait: Duration) -> usize {
    let deadline = Instant::now() + wait;
    let stderr = io::stderr();
    let kind = kind(&stderr);
    let room = if kind == Some(FileType::RegularFile) { bytes.len() } else { ROOM };
    let ours = unblocked(&stderr);
    let stderr = ours.as_ref().map_or(stderr.as_fd(), AsFd::as_fd);
    // A description that does not block reports whether there is room.
    let may_try = || ours.is_some() || has_room(stderr, Duration::ZERO);
    let put = |piece: &[u8]| match kind {
        Some(FileType::Socket) => send_some(stderr, piece),
        _ if may_try() => write_some(stderr, piece),
        _ => Err(Errno::EAGAIN),
    };
    let mut written = 0;
    while written < bytes.len() {
        let piece = &bytes[written..bytes.len().min(written + room)];
        match put(piece) {
            Ok(more @ 1..) => written += more,
            Err(Errno::EINTR) => {}
            Ok(0) | Err(Errno::EAGAIN) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() || !has_room(stderr, left) {
                    break;
                }
            }
            // There is no reader any more, or the disk is full: that must not end the
            // command.
            Err(_) => return bytes.len(),
        }
    }
    written
}

/// Sends what a socket has room for, whichever other processes have the socket, and in
/// whatever mode.
fn send_some(stderr: BorrowedFd<'_>, bytes: &[u8]) -> nix::Result<usize> {
    let sent = send(stderr, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    sent.map_err(|error| Errno::from_raw(error.raw_os_error()))
}

fn kind(stderr: &Stderr) -> Option<FileType> {
    fstat(stderr).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

/// A separate file description for a pipe or terminal. It is closed after each line:
/// somebody may be waiting for the end of the pipe.
fn unblocked(stderr: &Stderr) -> Option<File> {
    let may_block = kind(stderr) == Some(FileType::Fifo) || stderr.is_terminal();
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let open = || {
        let mut options = File::options();
        options.write(true).custom_flags(flags.bits().cast_signed());
        // It may belong to another user.
        options.open("/proc/self/fd/2").ok()
    };
    may_block.then(open).flatten()
}

/// Waits for room.
fn has_room(stderr: BorrowedFd<'_>, wait: Duration) -> bool {
    let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO);
    loop {
        let mut ready = [PollFd::new(stderr, PollFlags::POLLOUT)];
        match poll(&mut ready, wait) {
            Err(Errno::EINTR) => {}
            polled => return polled == Ok(1),
        }
    }
}
