//! Output on stdout, and whether the caller gave us one at all.

use crate::inherited::Inherited;
use std::io::{self, Write};

/// Fails if the caller closed stdout, so that all output would be lost.
pub(crate) fn is_open() -> io::Result<()> {
    if Inherited::get().lacks(1) {
        return Err(io::Error::other("stdout is closed"));
    }
    Ok(())
}

/// Writes this to stdout. The error names stdout: from "disk full" alone, nobody would know
/// which disk.
pub(crate) fn print(text: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text).and_then(|()| stdout.flush()).map_err(|error| {
        io::Error::new(error.kind(), format!("could not write to stdout: {error}"))
    })
}
