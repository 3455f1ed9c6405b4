//! Which signals we handle, and the caller's signal mask.

use crate::inherited::Inherited;
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use std::fs;

/// The signals that are forwarded to the command.
const FORWARDED: [Signal; 9] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    // A caller that suspends us without a terminal, as batch systems do, resumes us, not the
    // command.
    Signal::SIGCONT,
];

/// Blocks, in the front and in the holder, the signals that are forwarded and those
/// that would stop a process in the background of a terminal.
pub(super) fn block() -> nix::Result<Original> {
    let mut blocked: SigSet = FORWARDED.into_iter().collect();
    blocked.add(Signal::SIGTTOU);
    blocked.add(Signal::SIGTTIN);
    let original = Original::before(&blocked)?;
    survive_limits()?;
    Ok(original)
}

/// If file sizes are limited (`ulimit -f`), lets writes to the log or the metrics fail
/// instead of killing us.
pub(crate) fn survive_limits() -> nix::Result<()> {
    SigSet::from(Signal::SIGXFSZ).thread_block()
}

/// Keeps exited children as zombies until we reap them, even if the caller ignores
/// `SIGCHLD`.
#[expect(unsafe_code, reason = "what a signal does cannot be set safely")]
pub(super) fn expect_children() -> nix::Result<()> {
    // SAFETY: the default action runs none of our code.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map(drop)
}

/// What we inherited and pass on to the command: the signal mask, and what the runtime
/// hides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Original(SigSet, Inherited);

impl Original {
    /// Blocks signals, and remembers the mask from before.
    pub(crate) fn before(blocked: &SigSet) -> nix::Result<Self> {
        let original = SigSet::thread_get_mask()?;
        blocked.thread_block()?;
        Ok(Original(original, Inherited::get()))
    }

    /// Restores only the mask.
    pub(crate) fn restore(self) -> nix::Result<()> {
        self.0.thread_set_mask()
    }

    /// Restores all of it, between `fork` and `exec`.
    pub(super) fn restore_all(self) -> nix::Result<()> {
        self.1.restore()?;
        self.restore()
    }
}

/// The signals that the front listens to.
pub(super) fn listened() -> SigSet {
    unless_ignored(&FORWARDED)
}

/// These signals, without those that the caller ignores (`nohup`, a background job of
/// a script): they stay ignored.
pub(crate) fn unless_ignored(signals: &[Signal]) -> SigSet {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored_in(&status);
    signals.iter().copied().filter(|signal| !contains(ignored, *signal)).collect()
}

/// The mask after `SigIgn:`.
fn ignored_in(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn contains(mask: u64, signal: Signal) -> bool {
    mask >> (signal as i32 - 1) & 1 == 1
}

/// Whether this signal ends a wait.
pub(super) fn ends_waiting(signal: Signal) -> bool {
    !matches!(signal, Signal::SIGWINCH | Signal::SIGTSTP | Signal::SIGCONT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let ignored = ignored_in("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t00\n");

        assert!(contains(ignored, Signal::SIGHUP));
        assert!(contains(ignored, Signal::SIGPIPE));
        assert!(!contains(ignored, Signal::SIGINT));
        assert_eq!(ignored_in("nothing"), 0);
    }

    #[test]
    fn a_window_that_changes_its_size_does_not_end_waiting() {
        assert!(!ends_waiting(Signal::SIGWINCH) && !ends_waiting(Signal::SIGCONT));
        assert!(ends_waiting(Signal::SIGTERM) && ends_waiting(Signal::SIGUSR1));
    }
}
