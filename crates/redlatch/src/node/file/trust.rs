//! Checks that no other user could have planted the files of a database.
//!
//! In a world-writable directory, another user could replace the database, or
//! plant one, or its write-ahead log, before us. Members of a group are trusted.

use super::opening::unfit;
use redlatch_core::Fault;
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// World-writable: anyone may create files there.
const FOR_ALL: u32 = 0o002;
/// But only their owner may remove or replace them.
const STICKY: u32 = 0o1000;

/// Fails if others could have planted, or could replace, one of the database's
/// files. Called before opening it, and again afterwards.
pub(super) fn check(path: &Path) -> Result<(), Fault> {
    // SQLite looks for its files next to a link's target.
    let real = path.canonicalize().unwrap_or_else(|_| path.into());
    let Some(mode) = real.parent().and_then(|parent| fs::metadata(parent).ok()) else {
        return Ok(()); // opening it will report this
    };
    let us = rustix::process::geteuid().as_raw();
    for file in ["", "-wal", "-shm"].map(|suffix| beside(&real, suffix)) {
        let owner = match fs::symlink_metadata(&file) {
            Ok(found) => Some(found.uid()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => continue, // opening it will report this
        };
        if let Some(reason) = distrust(mode.mode(), owner, us) {
            return Err(unfit(&file, reason));
        }
    }
    Ok(())
}

/// Why a file of that owner, in a directory of that mode, cannot be trusted.
fn distrust(directory: u32, owner: Option<u32>, us: u32) -> Option<&'static str> {
    if directory & FOR_ALL == 0 {
        return None;
    }
    if directory & STICKY == 0 {
        return Some(
            "is in a directory where everybody can replace it: name a file in a directory of \
             your own, or take the others' right to write there away",
        );
    }
    (owner? != us && owner? != 0).then_some(
        "belongs to another user, who may have put it there: name a file in a directory where \
         not everybody can write",
    )
}

/// Returns whether only users of the database can have put a file with this owner next to
/// it, or can replace it.
pub(super) fn is_ours(path: &Path, owner: u32) -> bool {
    let us = rustix::process::geteuid().as_raw();
    let parent = path.parent().and_then(|parent| fs::metadata(parent).ok());
    parent.is_some_and(|parent| distrust(parent.mode(), Some(owner), us).is_none())
}

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_directory_for_all_only_our_files_and_those_of_root_are_trusted() {
        const US: u32 = 1000;
        let trusted = |directory, owner| distrust(directory, owner, US).is_none();

        assert!(trusted(0o755, Some(7)) && trusted(0o770, Some(7)), "not for all");
        assert!(trusted(0o1777, None) && trusted(0o1777, Some(US)) && trusted(0o1777, Some(0)));
        assert!(!trusted(0o1777, Some(7)), "planted");
        assert!(!trusted(0o777, None) && !trusted(0o777, Some(US)), "may be replaced");
    }
}
