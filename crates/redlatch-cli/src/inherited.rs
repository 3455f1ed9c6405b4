//! What we inherited from the caller and the Rust runtime hides before `main`: it ignores
//! `SIGPIPE`, and opens `/dev/null` in place of standard streams that are closed, so that
//! writes succeed and the data is lost.

use nix::{
    libc,
    sys::signal::{SigHandler, Signal, signal},
    unistd::close,
};
use std::sync::atomic::{AtomicU8, Ordering};

/// One bit for each standard stream that was closed, and one for `SIGPIPE`.
static SEEN: AtomicU8 = AtomicU8::new(0);
const IGNORES_PIPE: u8 = 1 << 3;

/// What a command that we start inherits, as it would without us.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inherited(u8);

impl Inherited {
    pub(crate) fn get() -> Self {
        Inherited(SEEN.load(Ordering::Relaxed))
    }

    /// Whether this standard stream was closed.
    pub(crate) fn lacks(self, stream: u8) -> bool {
        self.0 & 1 << stream != 0
    }

    /// Closes what was closed, and ignores what was ignored. Call it between `fork` and
    /// `exec`: `std` has reset `SIGPIPE` by then.
    #[expect(unsafe_code, reason = "what a signal does cannot be set safely")]
    pub(crate) fn restore(self) -> nix::Result<()> {
        for stream in (0..3).filter(|stream| self.lacks(*stream)) {
            close(i32::from(stream))?;
        }
        if self.0 & IGNORES_PIPE != 0 {
            // SAFETY: this runs none of our code.
            unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn) }?;
        }
        Ok(())
    }
}

#[expect(unsafe_code, reason = "only code that runs before the runtime can see this")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[expect(unsafe_code, reason = "nix asks for no signal's action without setting it")]
extern "C" fn look() {
    let mut seen = 0;
    for stream in 0..3 {
        // SAFETY: it takes only numbers.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            seen |= 1 << stream;
        }
    }
    // SAFETY: all bytes of it may be zero; the kernel fills it in.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action, it only writes the present one.
    let asked = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) };
    if asked == 0 && action.sa_sigaction == libc::SIG_IGN {
        seen |= IGNORES_PIPE;
    }
    SEEN.store(seen, Ordering::Relaxed);
}
