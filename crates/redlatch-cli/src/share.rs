//! Lock files that several users share.
//!
//! In:  directories and files. Out: which file all users of the machine share, why a
//! directory is not for all, and what keeps a user from using a file.
//!
//! A directory that its group may write to shares what is in it: root makes one for the
//! locks of the machine, `install -d -m 2770 -g GROUP /var/lib/redlatch`. Members of the
//! group use the file in it; anyone else is refused. Silently locking somewhere else
//! instead would exclude nobody.

use nix::{sys::stat, unistd::Gid};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::{
    fs::{self, DirBuilder, Metadata, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Where root may create a directory for all users.
pub(crate) const PLACE: &str = "/var/lib/redlatch";
/// The name of the file.
pub(crate) const FILE: &str = "locks.db";

const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;
const SET_GROUP: u32 = 0o2000;

/// Whose locks the default file keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shared {
    /// There is no directory for all: each user has a file.
    No,
    /// The file for all.
    Yes(PathBuf),
    /// There is a directory for all, but this user may not use it.
    Denied { dir: PathBuf, group: String },
}

/// In place of a directory: there is none for all users.
pub(crate) const OFF: &str = "off";

/// Looks at a directory that root may have created for all users. Fails with the reason if it
/// is not suitable.
pub(crate) fn look(dir: &Path) -> Result<Shared, String> {
    if dir.as_os_str().is_empty() {
        return Err("it is empty".into());
    }
    if dir.is_relative() {
        let is_off = dir.as_os_str().eq_ignore_ascii_case(OFF);
        let off = if is_off { ", and `off` is written in lower case" } else { "" };
        return Err(format!("its path is not absolute{off}"));
    }
    let found = fs::metadata(dir).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if dir.is_symlink() => "it is a link that leads nowhere".into(),
        io::ErrorKind::NotFound => "there is no such directory".into(),
        _ => error.to_string(),
    })?;
    if !found.is_dir() {
        return Err("it is not a directory".into());
    }
    let lacks = match (found.uid(), found.mode() & GROUP_WRITES) {
        (0, 0) => Some("its group may not write there"),
        (0, _) => None,
        _ => Some("it must belong to root"),
    };
    if let Some(lacks) = lacks {
        let whose = whose(dir).unwrap_or_default();
        return Err(format!("{lacks} ({whose})"));
    }
    if may(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok() {
        return Ok(Shared::Yes(dir.join(FILE)));
    }
    Ok(Shared::Denied { dir: dir.into(), group: group(found.gid()) })
}

/// Looks at a directory that somebody named for all users. If everybody can write
/// there, anybody could create the file before the others, and keep them out.
pub(crate) fn look_at_named(dir: &Path) -> Result<Shared, String> {
    if is_for_everybody(dir) {
        return Err(format!("everybody can write there ({})", whose(dir).unwrap_or_default()));
    }
    look(dir)
}

/// Whether it is a directory like `/tmp`, which nobody should turn into one for a group.
pub(crate) fn is_for_everybody(dir: &Path) -> bool {
    fs::metadata(dir).is_ok_and(|found| found.is_dir() && found.mode() & ALL_WRITE != 0)
}

/// Whether root has made no directory for all users there: it is missing, or it holds root's
/// own locks. Anything else is, or was, for others: locking elsewhere would not exclude those
/// who use it, or used it before it was damaged.
pub(crate) fn is_for_nobody_else(dir: &Path) -> bool {
    let is_roots = |found: Metadata| {
        found.is_dir() && (found.uid(), found.gid()) == (0, 0) && found.mode() & SET_GROUP == 0
    };
    match fs::symlink_metadata(dir) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(_) => fs::metadata(dir).is_ok_and(is_roots),
    }
}

/// Creates the directory of a default file, for its owner alone. If that fails, the
/// node reports why.
pub(crate) fn make_dir(file: &Path) {
    if let Some(dir) = file.parent() {
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    }
}

/// Creates a file that does not exist yet, if its directory shares its contents: for the
/// group, whatever the umask. Otherwise, the node that opens it creates it for its owner
/// alone, or says that it was deleted while it was in use (its log still exists in that
/// case). Call it only while this process has one thread, because the umask belongs to the
/// process.
pub(crate) fn make(path: &Path) {
    let [_, log, _] = files(path);
    if sharing(path).is_none() || log.exists() {
        return;
    }
    let umask = stat::umask(stat::Mode::empty());
    // If it cannot be created, the node that opens it says why.
    let _ = OpenOptions::new().write(true).create_new(true).mode(0o660).open(path);
    stat::umask(umask);
}

/// Returns the directory of a file, if it shares its contents.
fn sharing(path: &Path) -> Option<Metadata> {
    let wanted = GROUP_WRITES | SET_GROUP;
    fs::metadata(path.parent()?).ok().filter(|dir| dir.mode() & wanted == wanted)
}

/// A database, and the two files that SQLite keeps next to it.
fn files(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    })
}

/// Returns the owner of a file in a shared directory that its group may not use, and how to
/// share it. The file was created by someone who used the directory before it was shared.
pub(crate) fn withheld(path: &Path) -> Option<(String, String)> {
    let (dir, file) = (fs::metadata(path.parent()?).ok()?, fs::metadata(path).ok()?);
    let is_shared = file.gid() == dir.gid() && file.mode() & 0o060 == 0o060;
    (!is_shared).then_some((whose(path)?, to_share(path, &group(dir.gid()))?))
}

/// The commands that let a group use a file.
fn to_share(path: &Path, group: &str) -> Option<String> {
    let (dir, file) = (path.parent()?.display(), path.display());
    Some(format!("chgrp {group} {dir} {file}*; chmod 2770 {dir}; chmod 660 {file}*"))
}

/// Separates the owner of a file from the commands that share it.
pub(crate) const TO_SHARE: &str = "; to share it with a group: ";

/// What keeps this user from using a file, if it is a matter of permissions.
pub(crate) fn obstacle(path: &Path) -> Option<String> {
    let path = path.canonicalize().unwrap_or_else(|_| path.into());
    if let Some(dir) = closed(&path) {
        return Some(format!("{}; only they can enter it", whose(dir)?));
    }
    let dir = path.ancestors().skip(1).find(|dir| dir.exists())?;
    let is_denied = |file: &PathBuf| match may(file, Access::WRITE_OK | Access::READ_OK) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Some((file.clone(), error)),
        _ => None,
    };
    let denied = files(&path).iter().find_map(is_denied);
    let of_dir = may(dir, Access::WRITE_OK);
    let is_read_only = |error: &io::Error| error.kind() == io::ErrorKind::ReadOnlyFilesystem;
    if of_dir.as_ref().is_err_and(is_read_only)
        || denied.as_ref().is_some_and(|(_, error)| is_read_only(error))
    {
        let dir = dir.display();
        return Some(format!(
            "{dir} is on a read-only file system: mount it writable, or name a file elsewhere"
        ));
    }
    if is_for_everybody(dir) {
        return None; // the node gives a better reason
    }
    if let Some((file, _)) = denied {
        let group = sharing(&path).map_or("GROUP".into(), |dir| group(dir.gid()));
        let commands = to_share(&path, &group)?;
        return Some(format!("{}{TO_SHARE}{commands}", whose(&file)?));
    }
    of_dir.err()?;
    let made = if path.parent() == Some(dir) {
        "SQLite makes two files there"
    } else {
        "the directory of the file would be made there"
    };
    Some(format!("{}; {made}, and this user may not", whose(dir)?))
}

/// What keeps this user from reading a file, and who owns that.
pub(crate) fn withholder(path: &Path) -> Option<String> {
    let path = path.canonicalize().unwrap_or_else(|_| path.into());
    whose(closed(&path).unwrap_or(&path))
}

/// The first directory above a file that this user may not enter.
fn closed(path: &Path) -> Option<&Path> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    above.into_iter().find(|dir| dir.exists() && may(dir, Access::EXEC_OK).is_err())
}

/// `DIR belongs to ada, group staff, mode 0700`.
pub(crate) fn whose(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    let owner = nix::unistd::User::from_uid(found.uid().into()).ok().flatten();
    let owner = owner.map_or_else(|| found.uid().to_string(), |user| user.name);
    let (group, mode) = (group(found.gid()), found.mode() & 0o7777);
    Some(format!("{} belongs to {owner}, group {group}, mode {mode:04o}", path.display()))
}

fn group(gid: u32) -> String {
    let found = nix::unistd::Group::from_gid(Gid::from_raw(gid)).ok().flatten();
    found.map_or_else(|| gid.to_string(), |group| group.name)
}

/// Whether this user may do that.
pub(crate) fn may(path: &Path, access: Access) -> io::Result<()> {
    Ok(accessat(CWD, path, access, AtFlags::EACCESS)?)
}
