//! The local log: one JSON object per line, in a file that never grows beyond its size.
//!
//! In:  records. Out: lines, in the file or in its single predecessor, `FILE.1`.
//!
//! Promise: many processes can write at once, and a line is never split. Writing waits
//! for nothing, neither for another writer nor for the reader of a pipe.
//! Needs: a local file system. NFS does not append atomically.

use super::record::Record;
use crate::{secrets::shown_path, settings::own_dir, writable};
use rustix::fs::{FlockOperation, flock};
use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{self, Write},
    os::{
        fd::AsFd,
        unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

/// A longer line is not written: a write of at most this length is never split.
const LONGEST_LINE: usize = 64 * 1024;

/// The log, and how large it may grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFile {
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    /// Whether it is at the default place, so that its directory may be created.
    pub(crate) is_usual: bool,
}

impl LogFile {
    /// Appends a record.
    pub(crate) fn append(&self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        if line.len() > LONGEST_LINE {
            return Err(io::Error::other("the names are too long for the log"));
        }
        let mut file = self.open()?;
        if is_full(&file.metadata()?, line.len(), self.size) && self.rotate(&file, line.len())? {
            file = self.open()?;
        }
        // One write: `O_APPEND` makes it one piece.
        file.write_all(&line)
    }

    /// Reads the predecessor, then the log itself. Skips and counts lines that are not
    /// records: a full disk cut them off, or a later version wrote them.
    pub(crate) fn read(&self) -> io::Result<(Vec<Record>, usize)> {
        let (mut records, mut unread) = (Vec::new(), 0);
        for path in [self.predecessor(), self.path.clone()] {
            let text = match read_file(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                match parse(line) {
                    Some(record) => records.push(record),
                    None => unread += 1,
                }
            }
        }
        Ok((records, unread))
    }

    fn open(&self) -> io::Result<File> {
        let open = || {
            let mut options = OpenOptions::new();
            // Without a reader, a pipe must not keep us waiting.
            let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            options.append(true).create(true).mode(0o600).custom_flags(flags).open(&self.path)
        };
        match (open(), self.path.parent()) {
            (Err(error), Some(dir)) if error.kind() == io::ErrorKind::NotFound => {
                self.expect_dir()?;
                DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
                open()
            }
            (opened, _) => opened,
        }
    }

    /// Fails if the log was named and its directory does not exist: that is probably a
    /// typo.
    pub(crate) fn expect_dir(&self) -> io::Result<()> {
        match self.dir() {
            // A directory that we may not enter is reported differently.
            Some(dir) if !self.is_usual && !dir.try_exists()? => {
                let words = format!("the directory {} does not exist", shown_path(dir));
                Err(io::Error::new(io::ErrorKind::NotFound, words))
            }
            _ => Ok(()),
        }
    }

    fn dir(&self) -> Option<&Path> {
        self.path.parent().map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir })
    }

    /// Checks whether a record could be written, without writing one.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.expect_dir()?;
        let place = match self.path.symlink_metadata() {
            Ok(_) => Some(&*self.path),
            // It will be created, as will directories that are missing.
            Err(_) => self.dir().into_iter().flat_map(Path::ancestors).find(|dir| dir.exists()),
        };
        let Some(place) = place else { return Ok(()) };
        if self.path.is_dir() || (place != self.path && !place.is_dir()) {
            return Err(io::Error::other(format!("{} is in the way", shown_path(place))));
        }
        writable::check(place)
    }

    /// Turns the file into the predecessor, unless another process is doing so or has
    /// done so. Returns whether there is a new file to write to.
    fn rotate(&self, file: &File, more: usize) -> io::Result<bool> {
        if flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive).is_err() {
            // Another process rotates it: our line may still go to the old file.
            return Ok(false);
        }
        let is_current = fs::metadata(&self.path).is_ok_and(|current| {
            file.metadata()
                .is_ok_and(|ours| (ours.dev(), ours.ino()) == (current.dev(), current.ino()))
        });
        if is_current && is_full(&file.metadata()?, more, self.size) {
            fs::rename(&self.path, self.predecessor())?;
        }
        Ok(true)
    }

    pub(crate) fn predecessor(&self) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(".1");
        name.into()
    }
}

/// Reads a file. A pipe could keep us waiting for its writer, and some devices never end:
/// we read them only if they are already open, as `/dev/stdin` is.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let kind = fs::metadata(path)?.file_type();
    let open = ["/dev/stdin", "/dev/fd", "/proc"];
    let is_open = open.iter().any(|place| path.starts_with(place));
    let what = if kind.is_fifo() && !is_open {
        "a pipe"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device"
    } else {
        return fs::read(path);
    };
    Err(io::Error::other(format!("it is {what}, and keeps no records; name a file")))
}

/// Reads a line. If a full disk cut off the one before, both are in one line.
fn parse(line: &[u8]) -> Option<Record> {
    let start = br#"{"time":"#;
    let last = || line.windows(start.len()).rposition(|part| part == start);
    let whole = serde_json::from_slice(line).ok();
    whole.or_else(|| serde_json::from_slice(&line[last()?..]).ok())
}

/// Whether another line would make the file too long. Pipes and devices never are.
fn is_full(found: &Metadata, more: usize, size: u64) -> bool {
    found.is_file() && found.len() > 0 && found.len() + more as u64 > size
}

/// The default place: the user's state directory; for root, where logs are kept: a
/// full `/var/log` must not stop the locks in `/var/lib`.
pub(crate) fn usual_place(
    is_root: bool,
    state: Option<&Path>,
    home: Option<&Path>,
) -> Option<PathBuf> {
    own_dir("/var/log/redlatch", is_root, state, home).map(|dir| dir.join("runs.jsonl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_in_the_state_directory_or_where_logs_are() {
        let path = |is_root, state: Option<&str>, home: Option<&str>| {
            let place = usual_place(is_root, state.map(Path::new), home.map(Path::new));
            place.map(|path| path.display().to_string())
        };

        let ada = Some("/home/ada");
        assert_eq!(path(false, None, ada).unwrap(), "/home/ada/.local/state/redlatch/runs.jsonl");
        assert_eq!(path(false, Some("/s"), ada).unwrap(), "/s/redlatch/runs.jsonl");
        assert_eq!(path(true, None, Some("/root")).unwrap(), "/var/log/redlatch/runs.jsonl");
        assert_eq!(path(true, Some("/s"), None).unwrap(), "/s/redlatch/runs.jsonl");
        assert_eq!(path(false, Some("relative"), None), None);
    }

    #[test]
    fn a_line_that_a_full_disk_cut_off_costs_no_other() {
        let line = r#"{"time":"2026-11-17T01:00:00.000Z","task":"run","names":["x"],"host":"h",
            "user":"u","pid":1,"wait_ms":0,"waited_ms":0,"outcome":"held"}"#;

        let whole = parse(line.as_bytes()).unwrap();

        let after_torn = format!("{}{line}", &line[..70]);
        assert_eq!(parse(after_torn.as_bytes()), Some(whole));
        assert_eq!(parse(&line.as_bytes()[..70]), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn whoever_comes_too_late_to_rotate_leaves_the_new_log_alone() {
        let scratch = redlatch_testbed::Scratch::new().unwrap();
        let log = LogFile { path: scratch.file("log"), size: 3, is_usual: true };
        fs::write(&log.path, "old").unwrap();
        let (first, second) = (log.open().unwrap(), log.open().unwrap());

        assert!(log.rotate(&first, 1).unwrap());
        drop(first);
        fs::write(&log.path, "new").unwrap();
        assert!(log.rotate(&second, 1).unwrap());

        assert_eq!(fs::read_to_string(&log.path).unwrap(), "new");
        assert_eq!(fs::read_to_string(log.predecessor()).unwrap(), "old");
    }
}
