//! A small disk that can be filled, and is unmounted when it is dropped.

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
}

impl Disk {
    /// Mounts it there; needs the permission to mount.
    pub(crate) fn mount(path: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&path)?;
        mount("tmpfs", &path, "tmpfs", MountFlags::empty(), Some(c"size=16m"))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fills it to the last byte.
    pub(crate) fn fill(&self) {
        if let Ok(mut file) = File::create(self.ballast()) {
            while file.write_all(&[b'x'; 1 << 12]).is_ok() {}
            while file.write_all(b"x").is_ok() {}
        }
    }

    pub(crate) fn clear(&self) {
        let _ = fs::remove_file(self.ballast());
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}
