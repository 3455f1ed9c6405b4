//! One process becomes two.

use nix::unistd::{self, ForkResult};

/// Forks. Only while this process has one thread.
#[expect(unsafe_code, reason = "there is no safe way to fork")]
pub(crate) fn fork() -> nix::Result<ForkResult> {
    // SAFETY: this process has one thread, so the child may do as it likes.
    unsafe { unistd::fork() }
}
