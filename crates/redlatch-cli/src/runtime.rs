//! The async runtime.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use tokio::runtime::{Builder, Runtime};

/// How many descriptors a runtime with signal handling needs, plus two.
const DESCRIPTORS: usize = 8;

/// Builds a runtime on this thread. tokio panics if it cannot get the descriptors
/// for signals, so we check first that there are enough.
pub(crate) fn new() -> io::Result<Runtime> {
    // Sockets would take twice as long.
    let one = || eventfd(0, EventfdFlags::CLOEXEC);
    let some = (0..DESCRIPTORS).map(|_| one()).collect::<Result<Vec<_>, _>>();
    some.map_err(|error| {
        let error = io::Error::from(error);
        let words = format!("too few file descriptors: {error}; raise the limit (ulimit -n)");
        io::Error::new(error.kind(), words)
    })?;
    Builder::new_current_thread().enable_all().build()
}
