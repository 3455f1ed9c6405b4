//! A clock of its own for a server or a worker, by way of libfaketime.
//!
//! Only the wall clock is faked. The monotonic clock stays, or the server's
//! event loop would go mad.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const NAME: &str = "libfaketime.so.1";

/// Where libfaketime is on this machine: `REDLATCH_FAKETIME`, or where the
/// distributions put it.
#[must_use]
pub fn faketime_library() -> Option<PathBuf> {
    if let Some(named) = env::var_os("REDLATCH_FAKETIME") {
        return Some(PathBuf::from(named)).filter(|path| path.is_file());
    }
    let below_lib =
        fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    ["/usr/lib", "/usr/local/lib", "/usr/lib64"]
        .into_iter()
        .map(PathBuf::from)
        .chain(below_lib)
        .map(|lib| lib.join("faketime").join(NAME))
        .find(|path| path.is_file())
}

/// Removes what libfaketime keeps in shared memory for a process, which it does
/// not do itself when the process is killed.
pub(crate) fn sweep(pid: u32) {
    for left in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
        let _ = fs::remove_file(Path::new("/dev/shm").join(left));
    }
}

/// A wall clock for processes, moved by writing into a file.
#[derive(Debug, Clone)]
pub struct FakeClock {
    library: PathBuf,
    file: PathBuf,
}

impl FakeClock {
    /// One that shows the time, with its file in that directory.
    pub fn new(library: PathBuf, dir: &Path) -> io::Result<Self> {
        let clock = Self { library, file: dir.join("clock") };
        clock.ahead(Duration::ZERO)?;
        Ok(clock)
    }

    /// Sets it ahead of the time.
    pub fn ahead(&self, by: Duration) -> io::Result<()> {
        self.write(&format!("+{}", by.as_secs_f64()))
    }

    /// Sets it behind the time.
    pub fn behind(&self, by: Duration) -> io::Result<()> {
        self.write(&format!("-{}", by.as_secs_f64()))
    }

    /// Has a program that is to be started go by it.
    pub fn preload(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            // The name changed between versions of the library.
            .env("DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    /// Renamed into place: nobody must ever read half a number.
    fn write(&self, offset: &str) -> io::Result<()> {
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{offset}\n"))?;
        fs::rename(next, &self.file)
    }
}
