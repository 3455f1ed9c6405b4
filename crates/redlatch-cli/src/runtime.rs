//! The async runtime.

use std::{io, os::unix::net::UnixStream};
use tokio::runtime::{Builder, Runtime};

/// How many pairs of descriptors a runtime with signal handling needs, plus one.
const PAIRS: usize = 4;

/// Builds a runtime on this thread. tokio panics if it cannot get the descriptors
/// for signals, so we check first that there are enough.
pub(crate) fn new() -> io::Result<Runtime> {
    let pairs = (0..PAIRS).map(|_| UnixStream::pair()).collect::<io::Result<Vec<_>>>();
    pairs.map_err(|error| {
        let words = format!("too few file descriptors: {error}; raise the limit (ulimit -n)");
        io::Error::new(error.kind(), words)
    })?;
    Builder::new_current_thread().enable_all().build()
}
