//! Directories that are removed with their owner.
//!
//! A killed process cannot clean up. The name of a directory contains the id of
//! its process, and the next process removes what dead ones left behind.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// A directory that is removed on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub fn new() -> io::Result<Self> {
        Self::below(&root())
    }

    /// Creates one in memory if possible: a busy disk may take seconds to sync.
    pub fn in_memory() -> io::Result<Self> {
        Self::below(&memory_root())
    }

    fn below(place: &Path) -> io::Result<Self> {
        static SWEPT: LazyLock<()> = LazyLock::new(|| {
            sweep(&root());
            sweep(&memory_root());
        });
        static NEXT: AtomicU32 = AtomicU32::new(0);
        LazyLock::force(&SWEPT);
        // Short, because the path of a Unix socket must fit into 107 bytes.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = place.join(format!("{}-{number}", process::id()));
        // Anything there is from an earlier process with the same id.
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(&path)?,
        }
        Ok(Self { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in it, which need not exist.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The directory for the files of this user's testbeds.
pub(crate) fn root() -> PathBuf {
    std::env::temp_dir().join(own_name())
}

fn memory_root() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.join(own_name()) } else { root() }
}

fn own_name() -> String {
    format!("redlatch-testbed-{}", rustix::process::getuid().as_raw())
}

fn sweep(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else {
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
        for scratch in [Scratch::new(), Scratch::in_memory()] {
            let scratch = scratch.expect("directory");
            let path = scratch.path().to_owned();
            fs::write(path.join("file"), "text").expect("file");

            drop(scratch);

            assert!(!path.exists());
        }
    }

    #[test]
    fn what_a_dead_process_left_is_swept_away() {
        let mut child = process::Command::new("true").spawn().expect("process");
        let dead = child.id();
        child.wait().expect("end");
        for root in [root(), memory_root()] {
            let left = root.join(format!("{dead}-0"));
            fs::create_dir_all(&left).expect("directory");

            sweep(&root);

            assert!(!left.exists());
        }
    }
}
