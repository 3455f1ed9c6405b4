//! The processes below this one: everything a command has started, also what
//! has left its process group or its parent.
//!
//! Needs: this process is a child subreaper, so that orphans come to it.

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use rustix::{
    io::Errno,
    process::{WaitOptions, wait},
};
use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};

/// How long to wait for the dead: the kernel may be busy with them.
const PATIENCE: Duration = Duration::from_secs(5);

/// A process below this one, and its process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Relative {
    pid: Pid,
    group: Pid,
}

fn relatives() -> Vec<Relative> {
    let mut children: HashMap<Pid, Vec<Relative>> = HashMap::new();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some((parent, group)) = parent_and_group_in(&stat) {
            let relative = Relative { pid: Pid::from_raw(pid), group };
            children.entry(parent).or_default().push(relative);
        }
    }
    let mut found = Vec::new();
    let mut unvisited = vec![Pid::this()];
    while let Some(pid) = unvisited.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        unvisited.extend(below.iter().map(|relative| relative.pid));
        found.extend(below);
    }
    found
}

/// From `PID (NAME) STATE PARENT GROUP …`; none for one that is dead already.
/// The name may hold anything, also parentheses.
fn parent_and_group_in(stat: &str) -> Option<(Pid, Pid)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let mut pid = || fields.next()?.parse().ok().map(Pid::from_raw);
    Some((pid()?, pid()?))
}

/// Sends a signal to a process group, and to every process below this one that
/// is not in it.
pub(super) fn signal_all(group: Pid, signal: Signal) {
    // Who has ended since does not mind.
    let _ = killpg(group, signal);
    for relative in relatives().into_iter().filter(|relative| relative.group != group) {
        let _ = kill(relative.pid, signal);
    }
}

/// Kills and buries every process below this one, again and again until none is
/// left: one may have been starting another.
pub(super) fn kill_all() {
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        for relative in relatives() {
            let _ = kill(relative.pid, Signal::SIGKILL);
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Err(Errno::CHILD) => return,
                _ => break,
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_whatever_the_name_of_the_process() {
        let found = |parent, group| Some((Pid::from_raw(parent), Pid::from_raw(group)));
        assert_eq!(parent_and_group_in("7 (a) S 3 5 7"), found(3, 5));
        assert_eq!(parent_and_group_in("7 (a) S 1) S 42 7 7"), found(42, 7));
        assert_eq!(parent_and_group_in("7 (a) Z 3 7 7"), None);
        assert_eq!(parent_and_group_in(""), None);
    }
}
