//! The limit for the stack (`ulimit -s`), which the first thread cannot do without.
//!
//! The stacks of other threads have a fixed size, whatever the limit.

use rustix::process::{Resource, getrlimit};
use std::thread;

/// The least that is enough, in KiB. We need far less, and how much depends on the build.
const LEAST: u64 = 512;

/// As large as the kernel usually lets it be, in bytes.
const ENOUGH: usize = 8 << 20;

/// The limit in KiB, if it is too low: the kernel would kill us at some point.
pub(crate) fn too_small() -> Option<u64> {
    let limit = getrlimit(Resource::Stack).current? / 1024;
    (limit < LEAST).then_some(limit)
}

/// Runs this on a stack that is large enough. `None` if there can be no thread.
pub(crate) fn with_enough<T: Send + 'static>(task: fn() -> T) -> Option<T> {
    let thread = thread::Builder::new().stack_size(ENOUGH).spawn(task).ok()?;
    thread.join().ok()
}

pub(crate) fn words(limit: u64) -> String {
    format!(
        "the stack is limited to {limit} KiB, and {LEAST} are needed; raise the limit \
         (ulimit -s {LEAST}), and lower it again for the command alone, if it must be: \
         redlatch run NAME -- sh -c 'ulimit -s {limit}; exec COMMAND'"
    )
}
