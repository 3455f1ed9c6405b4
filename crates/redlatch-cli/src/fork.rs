//! `fork`.

use nix::unistd::{self, ForkResult};

/// Forks. Call it only while this process has one thread.
#[expect(unsafe_code, reason = "there is no safe way to fork")]
pub(crate) fn fork() -> nix::Result<ForkResult> {
    // SAFETY: this process has one thread, so the child may run any code.
    unsafe { unistd::fork() }
}
