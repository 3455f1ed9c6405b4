//! A file that refuses stale writes.
//!
//! In:  a token and the new content. Out: the file replaced, or who was faster.
//!
//! Promise: check and write are one step among all processes of the machine,
//! and whoever reads the file finds the old content or the new. A crash at any
//! point leaves a fence that is at least the token of the content: it is raised,
//! on disk, before the content is.
//! Needs: a file system whose `flock` and `rename` work: a local one.

mod place;
mod replace;

use super::WriteError;
use crate::FencingToken;
use place::Place;
use replace::Keep;
use std::{
    io,
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
/// The file keeps its owner, group and permissions, and the two files beside it
/// get its owner. Who may not keep them is refused: a file is written by its
/// owner and by root. Extended attributes and access control lists are lost.
///
/// The file of the lock is private to the owner (mode 600), because whoever can
/// open it can keep all writers out. The fence is readable like any new file. Do
/// not delete either: the tokens seen are forgotten with the one, and two
/// writers get past each other without the other.
///
/// A symbolic link stays one; what it points to is replaced, or made if it is
/// not there yet, and has one fence under all its names. A *hard* link is
/// another file, with a fence of its own: a write replaces one name only.
///
/// Calls block, on the lock and on the disk: from async code make them in
/// `spawn_blocking`.
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

/// What the operating system refused. A write replaces the whole file, so
/// repeating it with the same token does no harm.
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
        let place = Place::of(&self.path).map_err(WriteError::Store)?;
        let _locked = place.raise(token)?;
        let keep = place.existing().and_then(|file| Keep::all_of(&place.file, file));
        let replaced =
            keep.and_then(|keep| replace::replace(&place.file, &place.staging, content, &keep));
        replaced.map_err(WriteError::Store)
    }

    /// Has smaller tokens refused from now on, also after a crash. Do this
    /// before you read.
    pub fn seal(&self, token: FencingToken) -> Result<(), WriteError<FileError>> {
        Place::of(&self.path).map_err(WriteError::Store)?.raise(token).map(drop)
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError { what, path, source }
}
