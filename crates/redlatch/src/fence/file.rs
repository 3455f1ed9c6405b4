//! A file that refuses stale writes.
//!
//! In:  a token and the new content. Out: the file replaced, or the token that beat it.
//!
//! Promise: check and write are one step for all processes on the machine, and
//! readers see either the old content or the new. After a crash at any point
//! the fence is at least the token of the content, because the fence is raised
//! on disk first.
//! Needs: a file system on which `flock` and `rename` work, that is, a local
//! one.

mod paths;
mod replace;

use super::Stale;
use crate::FencingToken;
use paths::Paths;
use replace::Keep;
use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// A file that refuses stale writes. Every write replaces the whole file;
/// readers just use [`std::fs::read`].
///
/// The greatest token is stored next to it, in decimal: for `report.json`, in
/// `report.json.fence`. Writers queue for an OS lock on
/// `report.json.fence.lock`, which the kernel releases when the process exits.
/// A process *paused* in the middle of a write blocks the others until it wakes
/// up or is killed; nothing else goes wrong.
///
/// The file keeps its owner, group and permissions, and the two files next to it get
/// the same owner. A write by a process that cannot preserve them fails, so only the
/// owner and root can write. Extended attributes and access control lists are lost.
///
/// The lock file is private to its owner (mode 600), because anyone who can
/// open it can block all writers. The fence is as readable as any new file.
/// Delete neither: without the fence the tokens seen are forgotten, and without
/// the lock file two writers can get past each other.
///
/// A symbolic link stays a link; its target is replaced, or created if missing, and has
/// one fence under all its names. A *hard* link counts as a separate file with a
/// separate fence: a write replaces only one name.
///
/// Calls block on the lock and on the disk. From async code, use
/// `spawn_blocking`.
///
/// ```
/// use redlatch::{FencingToken, fence::File};
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

/// Why a fenced write is not known to be applied.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A greater token came first: nothing was written. Stop.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The fence holds something that is not a token. Nothing was written, and
    /// nothing will be until an operator restores a token at least as great as
    /// any ever granted.
    #[error(
        "the fence {} is damaged: it holds {found:?}, which is not a fencing token; \
         nothing was written: put back a token at least as great as any granted",
        path.display()
    )]
    Damaged {
        /// Path of the fence.
        path: PathBuf,
        /// What it holds.
        found: Box<str>,
    },
    /// The operating system reported an error. A write replaces the whole file,
    /// so it is safe to repeat with the same token.
    #[error("could not {what} {}: {error}", path.display())]
    Io {
        /// The action that failed.
        what: &'static str,
        /// The file it was applied to.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
}

/// As `Display`: an error that `main` returns is printed by its `Debug`.
impl fmt::Debug for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FileError {
    /// Returns the token that beat the write, if that is why it failed.
    #[must_use]
    pub fn stale(&self) -> Option<Stale> {
        match self {
            Self::Stale(stale) => Some(*stale),
            Self::Damaged { .. } | Self::Io { .. } => None,
        }
    }
}

impl File {
    /// Refers to the file at `path`. The file need not exist; its directory must.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Replaces the content if the token is accepted. The new content is on
    /// disk when this returns.
    ///
    /// # Errors
    ///
    /// [`FileError::Stale`] if a greater token came first.
    pub fn write(&self, token: FencingToken, content: impl AsRef<[u8]>) -> Result<(), FileError> {
        let paths = Paths::of(&self.path)?;
        let _locked = paths.raise(token)?;
        let keep = Keep::all_of(&paths.file, paths.existing()?)?;
        replace::replace(&paths.file, &paths.staging, content, &keep)
    }

    /// Refuses smaller tokens from now on, even after a crash. Call it before you read.
    ///
    /// # Errors
    ///
    /// [`FileError::Stale`] if a greater token came first.
    pub fn seal(&self, token: FencingToken) -> Result<(), FileError> {
        Paths::of(&self.path)?.raise(token).map(drop)
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |error| FileError::Io { what, path, error }
}
