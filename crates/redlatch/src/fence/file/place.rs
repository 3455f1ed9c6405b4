//! Where a file is, what stands beside it, and the fence there.

use super::{
    super::{WriteError, admit, parse},
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

/// How many links lead to a file at most: as many as the kernel follows.
const LINKS: u32 = 40;
/// Whoever can open the lock's file can keep all writers out.
const PRIVATE: u32 = 0o600;

/// The paths of one file, with links resolved: two names of one file must not
/// have two fences.
pub(super) struct Place {
    pub(super) file: PathBuf,
    pub(super) staging: PathBuf,
    fence: PathBuf,
    lock: PathBuf,
}

impl Place {
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

    /// What is at the path now.
    pub(super) fn existing(&self) -> Result<Option<fs::Metadata>, FileError> {
        match fs::symlink_metadata(&self.file) {
            Ok(metadata) => Ok(Some(metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("look at", &self.file)(error)),
        }
    }

    /// Raises the fence to the token, on disk. Until the lock is dropped it
    /// stays there.
    pub(super) fn raise(&self, token: FencingToken) -> Result<fs::File, WriteError<FileError>> {
        let keep = Keep::owner_of(self.existing().map_err(WriteError::Store)?);
        let locked = self.lock(&keep).map_err(WriteError::Store)?;
        let greatest = self.greatest()?;
        admit(greatest, token)?;
        let raised = if greatest == Some(token) {
            // Who wrote it may have crashed before it was on disk.
            sync_directory_of(&self.fence)
        } else {
            replace(&self.fence, &self.staging, format!("{token}\n"), &keep)
        };
        raised.map_err(WriteError::Store)?;
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

    /// Makes the lock's file, with the owner of the file it is for. One that
    /// only we could open would keep that owner out.
    fn make_lock(&self, keep: &Keep) -> Result<fs::File, FileError> {
        let made = match writable().create_new(true).open(&self.lock) {
            // Another was faster.
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

    fn greatest(&self) -> Result<Option<FencingToken>, WriteError<FileError>> {
        match fs::read(&self.fence) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                // Without its end the number may be a longer one cut short.
                let digits = text.strip_suffix('\n');
                digits.map_or_else(|| Err(WriteError::damaged(&*text)), parse).map(Some)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(WriteError::Store(failed("read", &self.fence)(source))),
        }
    }
}

fn writable() -> fs::OpenOptions {
    let mut options = fs::File::options();
    // A link planted here would have us open any file.
    options.append(true).mode(PRIVATE).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// The path without links, also if there is no file at its end yet.
fn resolve(path: &Path) -> Result<PathBuf, FileError> {
    let mut at = path.to_owned();
    for _ in 0..LINKS {
        let Some(name) = at.file_name() else {
            return Err(failed("write to", path)(io::ErrorKind::IsADirectory.into()));
        };
        let directory = directory_of(&at);
        let directory = fs::canonicalize(directory).map_err(failed("find", directory))?;
        let file = directory.join(name);
        match fs::read_link(&file) {
            Ok(target) => at = directory.join(target),
            Err(error) => match error.kind() {
                // Not a link; not there.
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
