//! Whether a user may use a place, found out without using it, as `doctor` does
//! beforehand.
//!
//! In:  paths. Out: why not, in words.

use crate::share::{may, whose};
use rustix::fs::Access;
use std::{io, path::Path};

/// Whether this user can write to a file, or make files in a directory.
pub(crate) fn check(place: &Path) -> io::Result<()> {
    let access = if place.is_dir() { Access::WRITE_OK | Access::EXEC_OK } else { Access::WRITE_OK };
    if let Err(error) = may(place, access) {
        return Err(with_owner(error, place));
    }
    let disk = rustix::fs::statvfs(place)?;
    // Pipes and devices are on no disk.
    let has_room = disk.f_blocks == 0 || disk.f_bavail > 0;
    if has_room { Ok(()) } else { Err(io::Error::other("the disk is full")) }
}

/// The same error; if access is denied, it says who owns the place.
fn with_owner(error: io::Error, place: &Path) -> io::Error {
    match whose(place).filter(|_| error.kind() == io::ErrorKind::PermissionDenied) {
        Some(whose) => io::Error::new(error.kind(), format!("{error}; {whose}")),
        None => error,
    }
}
