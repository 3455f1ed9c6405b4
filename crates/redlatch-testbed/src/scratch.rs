//! Directories that vanish with their owner.
//!
//! A process that was killed can't tidy up. The name of a directory holds the
//! id of its process, and the next process sweeps away what the dead left.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that is removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes a new, empty directory.
    pub(crate) fn new() -> io::Result<Self> {
        static SWEPT: LazyLock<()> = LazyLock::new(sweep);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        LazyLock::force(&SWEPT);
        // Short, because the path of a unix socket must fit into 107 bytes.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = root().join(format!("{}-{number}", process::id()));
        // What is there is from an earlier process with the same id.
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(&path)?,
        }
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Where this user's testbeds keep their files.
pub(crate) fn root() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    std::env::temp_dir().join(format!("redlatch-testbed-{user}"))
}

fn sweep() {
    let Ok(entries) = fs::read_dir(root()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.split_once('-'))
            .and_then(|(pid, _)| pid.parse().ok());
        if owner.is_some_and(is_dead) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_dead(pid: i32) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(pid) else {
        return false;
    };
    rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_vanishes_with_its_owner() {
        let scratch = Scratch::new().expect("directory");
        let path = scratch.path().to_owned();
        fs::write(path.join("file"), "text").expect("file");

        drop(scratch);

        assert!(!path.exists());
    }

    #[test]
    fn what_a_dead_process_left_is_swept_away() {
        let mut child = process::Command::new("true").spawn().expect("process");
        let dead = child.id();
        child.wait().expect("end");
        let left = root().join(format!("{dead}-0"));
        fs::create_dir_all(&left).expect("directory");

        sweep();

        assert!(!left.exists());
    }
}
