//! The directory that holds the sockets of a database's clients.
//!
//! It gets the database's owner, group and permissions, as `SQLite`'s own files do. It is
//! not used if others may have put it there or can write to it.
//!
//! Sockets are reached through the open directory (`/proc/self/fd/…`): that way a path of
//! any length is short enough, and nobody can swap the directory meanwhile.

use super::super::trust;
use rustix::{
    fs::{AtFlags, Dir, Gid, Mode, OFlags, Stat, Uid},
    io::Errno,
};
use std::{
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{fs::MetadataExt, net::UnixDatagram},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A younger socket may be about to be opened.
const YOUNG: Duration = Duration::from_secs(60);

/// An open directory that only users of the database can write to.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    opened: OwnedFd,
    /// The owner, group and permissions of the database.
    owner: Uid,
    group: Gid,
    mode: u32,
}

impl Directory {
    /// Opens the directory of this database.
    pub(super) fn open(database: &Path) -> io::Result<Self> {
        let path = trust::beside(database, "-wake");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, flags, Mode::empty())?;
        let (stat, like) = (rustix::fs::fstat(&opened)?, fs::metadata(database)?);
        let mode = like.mode() & 0o666;
        // Users other than those of the database may write there.
        let too_open = stat.st_mode & 0o022 & !mode != 0;
        if too_open || !trust::is_ours(&path, stat.st_uid) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (owner, group) = (Uid::from_raw(like.uid()), Gid::from_raw(like.gid()));
        Ok(Directory { path, opened, owner, group, mode })
    }

    /// Opens the directory of this database, and creates it if missing.
    pub(super) fn make(database: &Path) -> io::Result<Self> {
        match rustix::fs::mkdir(trust::beside(database, "-wake"), Mode::RWXU) {
            Err(Errno::EXIST) => Self::open(database),
            Err(error) => Err(error.into()),
            Ok(()) => {
                let new = Self::open(database)?;
                // Only root can set the owner; setting the group is worth a try.
                for owner in [Some(new.owner), None] {
                    let _ = rustix::fs::fchown(&new.opened, owner, Some(new.group));
                }
                // Users who may read files may also search the directory.
                let mode = new.mode | (new.mode & 0o444) >> 2;
                rustix::fs::fchmod(&new.opened, Mode::from_raw_mode(mode))?;
                Ok(new)
            }
        }
    }

    /// Creates the socket of a client.
    pub(super) fn bind(&self, client: u64) -> io::Result<UnixDatagram> {
        let name = name(client);
        let socket = UnixDatagram::bind(self.at(&name))?;
        for owner in [Some(self.owner), None] {
            let follow = AtFlags::SYMLINK_NOFOLLOW;
            let _ = rustix::fs::chownat(&self.opened, &name, owner, Some(self.group), follow);
        }
        // Until this is done, the directory keeps strangers out.
        let mode = Mode::from_raw_mode(self.mode);
        rustix::fs::chmodat(&self.opened, &name, mode, AtFlags::empty())?;
        Ok(socket)
    }

    /// Opens the way to a client that is alive. Removes what a dead client left behind.
    pub(super) fn connect(&self, client: u64) -> Option<UnixDatagram> {
        let name = name(client);
        let socket = UnixDatagram::unbound().ok()?;
        match socket.connect(self.at(&name)) {
            Ok(()) => socket.set_nonblocking(true).ok().map(|()| socket),
            Err(error) => {
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    self.remove(&name);
                }
                None
            }
        }
    }

    /// Removes the sockets of clients that were killed.
    pub(super) fn sweep(&self) {
        let Ok(entries) = Dir::read_from(&self.opened) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(client) = client(&name) else { continue };
            let old = rustix::fs::statat(&self.opened, &name, AtFlags::SYMLINK_NOFOLLOW);
            if old.is_ok_and(|stat| age(&stat) > YOUNG) {
                self.connect(client);
            }
        }
    }

    /// Removes the socket of a client, and the directory if it was the last.
    pub(super) fn unbind(&self, client: u64) {
        self.remove(&name(client));
        let _ = fs::remove_dir(&self.path);
    }

    fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.opened, name, AtFlags::empty());
    }

    fn at(&self, name: &str) -> String {
        format!("/proc/self/fd/{}/{name}", self.opened.as_raw_fd())
    }
}

fn name(client: u64) -> String {
    format!("{client:012x}.sock")
}

fn client(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_suffix(".sock")?, 16).ok()
}

fn age(stat: &Stat) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0)))
}
