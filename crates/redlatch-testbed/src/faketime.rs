//! A separate clock for a server or a worker, with libfaketime.
//!
//! Only the wall clock is faked. A faked monotonic clock would break the
//! server's event loop.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const NAME: &str = "libfaketime.so.1";

/// Returns the path of libfaketime: `REDLATCH_FAKETIME`, or where distributions
/// install it.
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

/// A wall clock for processes, set by writing to a file.
#[derive(Debug, Clone)]
pub struct FakeClock {
    library: PathBuf,
    file: PathBuf,
}

impl FakeClock {
    /// Creates a clock that shows the real time, with its file in `dir`.
    pub fn new(library: PathBuf, dir: &Path) -> io::Result<Self> {
        let clock = Self { library, file: dir.join("clock") };
        clock.ahead(Duration::ZERO)?;
        Ok(clock)
    }

    pub fn ahead(&self, by: Duration) -> io::Result<()> {
        self.write(&format!("+{}", by.as_secs_f64()))
    }

    pub fn behind(&self, by: Duration) -> io::Result<()> {
        self.write(&format!("-{}", by.as_secs_f64()))
    }

    /// Makes a program that is about to be started use this clock.
    pub fn preload(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            // The name differs between versions of the library.
            .env("DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    /// Renamed into place, so that nobody ever reads half a number.
    fn write(&self, offset: &str) -> io::Result<()> {
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{offset}\n"))?;
        fs::rename(next, &self.file)
    }
}
