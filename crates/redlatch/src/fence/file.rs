//! A file that refuses stale writes.
//!
//! In:  a token and the new content. Out: the file replaced, or who was faster.
//!
//! Promise: check and write are one step among all processes of the machine,
//! and whoever reads the file finds the old content or the new. A crash at any
//! point leaves a fence that is at least the token of the content: it is raised,
//! on disk, before the content is.
//! Needs: a file system whose `flock` and `rename` work: a local one.

use super::{WriteError, admit, parse};
use crate::FencingToken;
use std::{
    ffi::OsStr,
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// A file that refuses stale writes. Every write replaces all of it; readers
/// need nothing but [`std::fs::read`].
///
/// The greatest token is kept beside it, in digits: for `report.json` in
/// `report.json.fence`. Writers queue for a lock of the operating system on
/// `report.json.fence.lock`, which the kernel frees when a process ends. A
/// process that is *paused* right in the middle of a write keeps the others
/// waiting: nothing goes wrong, but nothing goes on either until it wakes up or
/// is killed.
///
/// The file keeps its permissions. A symbolic link stays one; what it points to
/// is replaced. Calls block, on the lock and on the disk: from async code make
/// them in `spawn_blocking`.
///
/// ```
/// use redlatch::{FencingToken, fence::{File, WriteError}};
///
/// # let dir = std::env::temp_dir().join(format!("redlatch-fence-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// # let path = dir.join("report.json");
/// # let [late, token] = [17, 18].map(|number| FencingToken::new(number).unwrap());
/// let report = File::new(&path);
///
/// report.write(token, r#"{"total": 70}"#)?;
/// let refused = report.write(late, "{}").unwrap_err();
///
/// assert_eq!(refused.to_string(), "stale: 17 was beaten by 18");
/// assert_eq!(std::fs::read_to_string(&path)?, r#"{"total": 70}"#);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    path: PathBuf,
}

/// What the operating system refused. With the same token, try again as often
/// as you like.
#[derive(Debug, thiserror::Error)]
#[error("could not {what} {}: {source}", path.display())]
#[non_exhaustive]
pub struct FileError {
    /// What was being done.
    pub what: &'static str,
    /// To which file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl File {
    /// The file at that path. It need not exist, its directory must.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Replaces the content if the token is admitted. What was written is on
    /// disk when this returns.
    pub fn write(
        &self,
        token: FencingToken,
        content: impl AsRef<[u8]>,
    ) -> Result<(), WriteError<FileError>> {
        let place = Place::of(&self.path);
        let _locked = place.raise(token)?;
        // The permissions of a file that is not there yet are the default's.
        let permissions = fs::metadata(&place.file).map(|metadata| metadata.permissions()).ok();
        replace(&place.file, &place.staging, content.as_ref(), permissions)
            .map_err(WriteError::Store)
    }

    /// Has smaller tokens refused from now on, also after a crash. Do this
    /// before you read.
    pub fn seal(&self, token: FencingToken) -> Result<(), WriteError<FileError>> {
        Place::of(&self.path).raise(token).map(drop)
    }
}

/// The paths of one file, with links resolved: two names of one file must not
/// have two fences.
struct Place {
    file: PathBuf,
    fence: PathBuf,
    lock: PathBuf,
    staging: PathBuf,
}

impl Place {
    fn of(path: &Path) -> Self {
        let file = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let beside = |suffix: &str| {
            let mut name = file.file_name().unwrap_or_else(|| OsStr::new("")).to_owned();
            name.push(suffix);
            file.with_file_name(name)
        };
        Self {
            fence: beside(".fence"),
            lock: beside(".fence.lock"),
            staging: beside(".fence.new"),
            file,
        }
    }

    /// Raises the fence to the token, on disk. Until the lock is dropped it
    /// stays there.
    fn raise(&self, token: FencingToken) -> Result<fs::File, WriteError<FileError>> {
        let locked = self.lock().map_err(WriteError::Store)?;
        let greatest = self.greatest()?;
        admit(greatest, token)?;
        let raised = if greatest == Some(token) {
            // Who wrote it may have crashed before it was on disk.
            sync_directory_of(&self.fence)
        } else {
            replace(&self.fence, &self.staging, format!("{token}\n").as_bytes(), None)
        };
        raised.map_err(WriteError::Store)?;
        Ok(locked)
    }

    fn lock(&self) -> Result<fs::File, FileError> {
        let file = fs::File::options().create(true).append(true).open(&self.lock);
        let file = file.map_err(failed("open", &self.lock))?;
        file.lock().map_err(failed("lock", &self.lock))?;
        Ok(file)
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

/// Puts the content in the place of a file, in one step, and on disk.
fn replace(
    path: &Path,
    staging: &Path,
    content: &[u8],
    permissions: Option<fs::Permissions>,
) -> Result<(), FileError> {
    // What is there was left by a writer that crashed: we hold the lock.
    match fs::remove_file(staging) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove", staging)(error));
        }
        _ => {}
    }
    let mut options = fs::File::options();
    options.write(true).create_new(true);
    if permissions.is_some() {
        // Nobody reads it before it has the permissions it should have.
        options.mode(0o600);
    }
    let mut file = options.open(staging).map_err(failed("create", staging))?;
    file.write_all(content).map_err(failed("write", staging))?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions).map_err(failed("set the permissions of", staging))?;
    }
    file.sync_all().map_err(failed("sync", staging))?;
    fs::rename(staging, path).map_err(failed("replace", path))?;
    sync_directory_of(path)
}

/// A rename is on disk when its directory is.
fn sync_directory_of(path: &Path) -> Result<(), FileError> {
    let directory = path.parent().filter(|parent| *parent != Path::new(""));
    let directory = directory.unwrap_or(Path::new("."));
    fs::File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(failed("sync", directory))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |source| FileError { what, path: path.to_owned(), source }
}
