//! Replaces a file atomically and durably.

use super::{FileError, failed, paths::directory_of};
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, fchown},
    path::Path,
};

/// What the new file inherits from the old one.
#[derive(Debug, Default)]
pub(super) struct Keep {
    /// User and group.
    owner: Option<(u32, u32)>,
    permissions: Option<fs::Permissions>,
}

impl Keep {
    pub(super) fn owner_of(file: Option<fs::Metadata>) -> Self {
        Self { owner: file.map(|file| (file.uid(), file.gid())), permissions: None }
    }

    /// Fails for devices and directories: those are not ours to replace.
    pub(super) fn all_of(path: &Path, file: Option<fs::Metadata>) -> Result<Self, FileError> {
        if file.as_ref().is_some_and(|file| !file.is_file()) {
            return Err(failed("replace", path)(io::Error::other("it is not a regular file")));
        }
        let permissions = file.as_ref().map(fs::Metadata::permissions);
        Ok(Self { permissions, ..Self::owner_of(file) })
    }

    /// The owner to set on `file`, if it has a different one.
    pub(super) fn other_owner_than(&self, file: &fs::Metadata) -> Option<(u32, u32)> {
        self.owner.filter(|owner| *owner != (file.uid(), file.gid()))
    }
}

/// Replaces the file, and leaves nothing behind on failure.
pub(super) fn replace(
    path: &Path,
    staging: &Path,
    content: impl AsRef<[u8]>,
    keep: &Keep,
) -> Result<(), FileError> {
    // We hold the lock, so any leftover is from a writer that crashed.
    match fs::remove_file(staging) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove", staging)(error));
        }
        _ => {}
    }
    let mut options = fs::File::options();
    options.write(true).create_new(true);
    if keep.permissions.is_some() {
        // Nobody may read it before it has its final permissions.
        options.mode(0o600);
    }
    let file = options.open(staging).map_err(failed("create", staging))?;
    let replaced = fill(file, path, staging, content.as_ref(), keep)
        .and_then(|()| fs::rename(staging, path).map_err(failed("replace", path)));
    if let Err(error) = replaced {
        let _ = fs::remove_file(staging);
        return Err(error);
    }
    sync_directory_of(path)
}

fn fill(
    mut file: fs::File,
    path: &Path,
    staging: &Path,
    content: &[u8],
    keep: &Keep,
) -> Result<(), FileError> {
    file.write_all(content).map_err(failed("write", staging))?;
    let metadata = file.metadata().map_err(failed("look at", staging))?;
    if let Some((user, group)) = keep.other_owner_than(&metadata) {
        fchown(&file, Some(user), Some(group)).map_err(failed("keep the owner of", path))?;
    }
    if let Some(permissions) = keep.permissions.clone() {
        file.set_permissions(permissions).map_err(failed("set the permissions of", staging))?;
    }
    file.sync_all().map_err(failed("sync", staging))
}

/// Syncs the directory: only then is a rename on disk.
pub(super) fn sync_directory_of(path: &Path) -> Result<(), FileError> {
    let directory = directory_of(path);
    fs::File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(failed("sync", directory))
}
