//! Output on stdout, and whether the caller gave us one at all.
//!
//! Before `main`, the standard library opens `/dev/null` in place of a closed
//! stream: writes then succeed, and the data is lost. So we check before it does.

use rustix::{
    fd::BorrowedFd,
    io::{Errno, fcntl_getfd},
};
use std::{
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Fails if the caller closed stdout, so that all output would be lost.
pub(crate) fn is_open() -> io::Result<()> {
    if IS_CLOSED.load(Ordering::Relaxed) {
        return Err(io::Error::other("stdout is closed"));
    }
    Ok(())
}

/// Writes this to stdout. The error says so: of a full disk alone, nobody would know which.
pub(crate) fn print(text: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text).and_then(|()| stdout.flush()).map_err(|error| {
        io::Error::new(error.kind(), format!("could not write to stdout: {error}"))
    })
}

#[used]
#[expect(unsafe_code, reason = "nothing else runs before the standard library's own start")]
// SAFETY: the section is a list of such functions, which the loader calls.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// One system call and one store: nothing that needs the standard library to be set up.
extern "C" fn look() {
    #[expect(unsafe_code, reason = "stdout may be closed, so nobody owns it yet")]
    // SAFETY: no descriptor is opened or closed while it is borrowed.
    let stdout = unsafe { BorrowedFd::borrow_raw(1) };
    IS_CLOSED.store(fcntl_getfd(stdout) == Err(Errno::BADF), Ordering::Relaxed);
}
