//! The paths of a file and of the files next to it, and access to its fence.

use super::{
    super::accept,
    FileError, failed,
    replace::{Keep, replace, sync_directory_of},
};
use crate::FencingToken;
use rustix::fs::OFlags;
use std::{
    fs, io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
};

/// The most links to follow: as many as the kernel follows.
const LINKS: u32 = 40;
/// Anyone who can open the lock file can block all writers.
const PRIVATE: u32 = 0o600;

/// The paths of one file, with links resolved: two names of one file must share
/// one fence.
pub(super) struct Paths {
    pub(super) file: PathBuf,
    pub(super) staging: PathBuf,
    fence: PathBuf,
    lock: PathBuf,
}

impl Paths {
    pub(super) fn of(path: &Path) -> Result<Self, FileError> {
        let file = resolve(path)?;
        let beside = |suffix: &str| {
            let mut name = file.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        };
        Ok(Self {
            fence: beside(".fence"),
            lock: beside(".fence.lock"),
            staging: beside(".fence.new"),
            file,
        })
    }

    /// Metadata of the file now, if it exists.
    pub(super) fn existing(&self) -> Result<Option<fs::Metadata>, FileError> {
        match fs::symlink_metadata(&self.file) {
            Ok(metadata) => Ok(Some(metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("look at", &self.file)(error)),
        }
    }

    /// Raises the fence to the token, on disk. No other writer can move it
    /// until the returned lock is dropped.
    pub(super) fn raise(&self, token: FencingToken) -> Result<fs::File, FileError> {
        let keep = Keep::owner_of(self.existing()?);
        let locked = self.lock(&keep)?;
        let greatest = self.greatest()?;
        accept(greatest, token)?;
        if greatest == Some(token) {
            // Its writer may have crashed before the rename reached the disk.
            sync_directory_of(&self.fence)?;
        } else {
            replace(&self.fence, &self.staging, format!("{token}\n"), &keep)?;
        }
        Ok(locked)
    }

    fn lock(&self, keep: &Keep) -> Result<fs::File, FileError> {
        let file = match writable().open(&self.lock) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.make_lock(keep)?,
            opened => opened.map_err(failed("open", &self.lock))?,
        };
        let metadata = file.metadata().map_err(failed("look at", &self.lock))?;
        if metadata.permissions().mode() & 0o777 & !PRIVATE != 0 {
            file.set_permissions(fs::Permissions::from_mode(PRIVATE))
                .map_err(failed("make private", &self.lock))?;
        }
        file.lock().map_err(failed("lock", &self.lock))?;
        Ok(file)
    }

    /// Creates the lock file, owned by the owner of the file it protects: if
    /// only we could open it, that owner would be locked out.
    fn make_lock(&self, keep: &Keep) -> Result<fs::File, FileError> {
        let made = match writable().create_new(true).open(&self.lock) {
            // Another process created it first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return writable().open(&self.lock).map_err(failed("open", &self.lock));
            }
            made => made.map_err(failed("open", &self.lock))?,
        };
        let given = made.metadata().and_then(|metadata| match keep.other_owner_than(&metadata) {
            Some((user, group)) => fchown(&made, Some(user), Some(group)),
            None => Ok(()),
        });
        if let Err(error) = given {
            let _ = fs::remove_file(&self.lock);
            return Err(failed("keep the owner of", &self.file)(error));
        }
        Ok(made)
    }

    fn greatest(&self) -> Result<Option<FencingToken>, FileError> {
        let bytes = match fs::read(&self.fence) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &self.fence)(error)),
        };
        let text = String::from_utf8_lossy(&bytes);
        // Without its newline the number may be a truncated one.
        let token = text.strip_suffix('\n').and_then(|digits| digits.parse().ok());
        let damaged = || FileError::Damaged { path: self.fence.clone(), found: text.into() };
        token.ok_or_else(damaged).map(Some)
    }
}

fn writable() -> fs::OpenOptions {
    let mut options = fs::File::options();
    // Do not follow a planted link to some other file.
    options.append(true).mode(PRIVATE).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Resolves all links, even if the file itself does not exist yet.
fn resolve(path: &Path) -> Result<PathBuf, FileError> {
    let mut at = path.to_owned();
    for _ in 0..LINKS {
        let Some(name) = at.file_name() else {
            return Err(failed("write to", path)(io::ErrorKind::IsADirectory.into()));
        };
        let directory = directory_of(&at);
        let directory =
            fs::canonicalize(directory).map_err(failed("find the directory", directory))?;
        let file = directory.join(name);
        match fs::read_link(&file) {
            Ok(target) => at = directory.join(target),
            Err(error) => match error.kind() {
                // Not a link, or missing.
                io::ErrorKind::InvalidInput | io::ErrorKind::NotFound => return Ok(file),
                _ => return Err(failed("look at", &file)(error)),
            },
        }
    }
    Err(failed("find", path)(io::Error::other("too many symbolic links, or a loop of them")))
}

pub(super) fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    parent.unwrap_or(Path::new("."))
}
