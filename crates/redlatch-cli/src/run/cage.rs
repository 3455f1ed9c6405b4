//! A separate control group for the command, where we may create one.
//!
//! The kernel kills everything in it at once, including processes that have changed
//! their user and that we may no longer signal. Root needs none: it may signal every
//! process. Other users get one if they may divide their own group, as under `systemd
//! --user`, and otherwise do without.

use nix::unistd::{Pid, geteuid};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// How its name starts; the holder's process id follows.
const NAME: &str = "redlatch-run-";
/// How many times to try to move processes out: they may be starting others.
const MOVES: usize = 10;

/// The control group; dropping it removes the group.
#[derive(Debug)]
pub(super) struct Cage {
    dir: PathBuf,
}

impl Cage {
    /// Creates one for this holder's command.
    pub(super) fn build(holder: Pid) -> Option<Self> {
        if geteuid().is_root() {
            return None;
        }
        let dir = place(holder)?;
        fs::create_dir(&dir).ok()?;
        let cage = Cage { dir };
        // Without `cgroup.kill`, it would be no better than a process group.
        cage.dir.join("cgroup.kill").exists().then_some(cage)
    }

    /// The control group that a dead holder left behind.
    pub(super) fn left_by(holder: Pid) -> Option<Self> {
        let dir = place(holder)?;
        dir.is_dir().then_some(Cage { dir })
    }

    /// The file to which a process writes `0` to enter, with everything it starts.
    pub(super) fn door(&self) -> io::Result<File> {
        self.open("cgroup.procs")
    }

    /// Kills every process in it.
    pub(super) fn kill(&self) {
        // The caller looks for survivors in any case.
        let _ = self.open("cgroup.kill").and_then(|mut kill| kill.write_all(b"1"));
    }

    fn open(&self, name: &str) -> io::Result<File> {
        File::options().write(true).open(self.dir.join(name))
    }
}

impl Drop for Cage {
    /// Moves out what the command left behind on purpose.
    fn drop(&mut self) {
        for _ in 0..MOVES {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            let inside = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
            let Some(outside) = self.dir.parent().map(|dir| dir.join("cgroup.procs")) else {
                return;
            };
            for pid in inside.lines() {
                let _ = fs::write(&outside, pid);
            }
        }
    }
}

/// The directory of this holder's group: below our own group.
fn place(holder: Pid) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    Some(own_group(&mounts, &groups)?.join(format!("{NAME}{holder}")))
}

/// The directory of our own group: `0::PATH` below the mount of `cgroup2`.
fn own_group(mounts: &str, groups: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    let mut fields = mount.split(' ').skip(3);
    let (root, mounted) = (fields.next()?, fields.next()?);
    let below = Path::new(path).strip_prefix(root).ok()?;
    Some(Path::new(mounted).join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_group_is_found_below_the_mount() {
        let at = |root: &str, path: &str| {
            let mounts = format!(
                "1 2 0:3 / /proc rw - proc proc rw\n4 5 0:6 {root} /cg rw - cgroup2 x rw\n"
            );
            own_group(&mounts, &format!("1:cpu:/x\n0::{path}\n"))
        };
        assert_eq!(at("/", "/user/app"), Some("/cg/user/app".into()));
        assert_eq!(at("/user", "/user/app"), Some("/cg/app".into()));
        assert_eq!(at("/other", "/user/app"), None);
        assert_eq!(own_group("", "0::/"), None);
    }
}
