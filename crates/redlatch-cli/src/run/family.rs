//! The descendants of this process: everything a command has started, including
//! processes that left its process group or lost their parent.
//!
//! Needs: this process is a child subreaper, so that orphans become its children.

use super::{boot_time::BootTime, cage::Cage};
use crate::say::Survivor;
use nix::{
    sys::{
        signal::{Signal, kill, killpg},
        wait::{Id, WaitPidFlag},
    },
    unistd::{Pid, Uid, User},
};
use rustix::{
    io::Errno,
    process::{
        PidfdFlags, WaitId, WaitIdOptions, WaitOptions, pidfd_open, pidfd_send_signal, wait, waitid,
    },
};
use std::{
    collections::{HashMap, HashSet},
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// How long to wait for killed processes to exit: the kernel may be busy.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long to reap before looking again: children may be ending as fast as we reap them.
pub(super) const BURY: Duration = Duration::from_millis(50);

/// How long to kill the known processes at once, before looking at all processes: one
/// may be replacing itself while we look.
const QUICK: Duration = Duration::from_millis(20);

/// How many looks in a row must find nothing.
const LOOKS: usize = 5;

/// Processes that are not killed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spared<'a> {
    /// These processes, but not their descendants.
    pub(super) alone: &'a [Pid],
    /// These processes and all their descendants.
    pub(super) with_all: &'a [Pid],
}

impl Spared<'_> {
    pub(super) const NOBODY: Self = Spared { alone: &[], with_all: &[] };
}

/// A descendant of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Relative {
    pid: Pid,
    parent: Pid,
    group: Pid,
    session: Pid,
}

impl Relative {
    /// Reads a process; `None` if it is dead.
    fn look(pid: Pid) -> Option<Self> {
        let (relative, lives) = Relative::look_even_dead(pid)?;
        lives.then_some(relative)
    }

    /// Reads a process, even one that is dead but not reaped, and whether it is alive.
    fn look_even_dead(pid: Pid) -> Option<(Self, bool)> {
        let dir = format!("/proc/{pid}");
        let stat = Stat::parse(&fs::read_to_string(format!("{dir}/stat")).ok()?)?;
        let Stat { parent, group, session, .. } = stat;
        // There may be thousands of dead processes: read nothing else about them.
        let lives = !stat.is_zombie || stat.threads > 1 && has_other_threads(Path::new(&dir));
        Some((Relative { pid, parent, group, session }, lives))
    }

    /// Sends a signal to this process, never to one that has reused its id.
    fn send(self, signal: Signal) -> Result<(), Errno> {
        let plain =
            || kill(self.pid, signal).map_err(|error| Errno::from_raw_os_error(error as i32));
        let raw = rustix::process::Pid::from_raw(self.pid.as_raw());
        let named = rustix::process::Signal::from_named_raw(signal as i32);
        let (Some(raw), Some(named)) = (raw, named) else { return plain() };
        match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(process) if Relative::look(self.pid) == Some(self) => {
                pidfd_send_signal(process, named)
            }
            // It has changed: the next look will show how.
            Ok(_) | Err(Errno::SRCH) => Ok(()),
            Err(_) => plain(),
        }
    }

    /// Describes it for messages; `None` if it is dead by now.
    fn describe(self) -> Option<Survivor> {
        let dir = format!("/proc/{}", self.pid);
        let name = fs::read_to_string(format!("{dir}/comm")).unwrap_or_default();
        let status = fs::read_to_string(format!("{dir}/status")).unwrap_or_default();
        Relative::look(self.pid)?;
        let uid = effective_user_in(&status);
        let known = uid.and_then(|uid| User::from_uid(Uid::from_raw(uid)).ok().flatten());
        let user = known.map(|user| user.name).or_else(|| Some(uid?.to_string()));
        Some(Survivor {
            pid: self.pid.as_raw(),
            name: name.trim_end().into(),
            user: user.unwrap_or_else(|| "unknown".into()),
        })
    }
}

/// The second number after `Uid:`.
fn effective_user_in(status: &str) -> Option<u32> {
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    uids.split_whitespace().nth(1)?.parse().ok()
}

/// Whether a process that looks like a zombie has other threads: only its first thread
/// has ended.
fn has_other_threads(process: &Path) -> bool {
    let Ok(threads) = fs::read_dir(process.join("task")) else { return false };
    threads.flatten().any(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        Stat::parse(&stat).is_some_and(|stat| !stat.is_zombie)
    })
}

/// The living descendants of a process, found in time proportional to their number.
/// Some may be missing while others are exiting.
fn nearly_below(ancestor: Pid) -> Vec<Relative> {
    let mut found = Vec::new();
    visit_below(ancestor, Spared::NOBODY, |relative, lives| {
        found.extend(lives.then_some(relative));
    });
    found
}

/// Visits the descendants of a process one by one, except those that are spared, each with
/// whether it is alive.
fn visit_below(ancestor: Pid, spared: Spared<'_>, mut visit: impl FnMut(Relative, bool)) {
    // Not every kernel lists children.
    if !Path::new("/proc/thread-self/children").exists() {
        let members = Family::below(ancestor, spared).members;
        return members.into_iter().for_each(|member| visit(member, true));
    }
    let mut unvisited = vec![ancestor];
    while let Some(pid) = unvisited.pop() {
        let mut children = children_of(pid);
        children.retain(|child| !spared.with_all.contains(child));
        unvisited.extend(&children);
        children.retain(|child| !spared.alone.contains(child));
        // The youngest first: if a process replaces itself, the older ones are dead.
        for (relative, lives) in children.into_iter().rev().filter_map(Relative::look_even_dead) {
            visit(relative, lives);
        }
    }
}

/// The children of all threads of a process; none if it is gone.
fn children_of(pid: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| thread.path().join("children"));
    let listed = lists.map(|list| fs::read_to_string(list).unwrap_or_default());
    let listed: Vec<String> = listed.collect();
    let pids = listed.iter().flat_map(|list| list.split_whitespace());
    pids.filter_map(|pid| pid.parse().ok().map(Pid::from_raw)).collect()
}

/// All living processes.
fn living() -> impl Iterator<Item = Relative> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Relative::look(Pid::from_raw(pid))
    })
}

/// Whether any processes besides this one and its ancestors are in its process group:
/// the rest of a pipeline.
pub(super) fn has_neighbours(pid: Pid) -> bool {
    let mut others: HashMap<Pid, Relative> = living().map(|other| (other.pid, other)).collect();
    let Some(this) = others.remove(&pid) else { return false };
    let mut parent = this.parent;
    while let Some(ancestor) = others.remove(&parent) {
        parent = ancestor.parent;
    }
    others.values().any(|other| other.group == this.group)
}

/// The living descendants of a process.
#[derive(Debug, PartialEq, Eq)]
struct Family {
    members: Vec<Relative>,
    /// The process groups that contain no other processes.
    groups: Vec<Pid>,
}

impl Family {
    fn below(ancestor: Pid, spared: Spared<'_>) -> Self {
        Family::among(living(), ancestor, spared)
    }

    fn among(all: impl Iterator<Item = Relative>, ancestor: Pid, spared: Spared<'_>) -> Self {
        let mut children: HashMap<Pid, Vec<Relative>> = HashMap::new();
        for relative in all {
            children.entry(relative.parent).or_default().push(relative);
        }
        let (mut members, mut others) = (Vec::new(), Vec::new());
        let mut unvisited = vec![ancestor];
        while let Some(pid) = unvisited.pop() {
            for relative in children.remove(&pid).unwrap_or_default() {
                if spared.with_all.contains(&relative.pid) {
                    others.push(relative);
                    continue;
                }
                unvisited.push(relative.pid);
                let is_spared = spared.alone.contains(&relative.pid);
                if is_spared { &mut others } else { &mut members }.push(relative);
            }
        }
        others.extend(children.into_values().flatten());
        let others: HashSet<Pid> = others.iter().map(|other| other.group).collect();
        let mut groups: Vec<Pid> = members.iter().map(|member| member.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups.retain(|group| !others.contains(group));
        Family { members, groups }
    }

    /// Kills its groups, then each member. Returns whether we are allowed to kill none
    /// of them.
    ///
    /// A process that forks and exits again and again has a different id whenever we
    /// look. Its group stays the same, and no fork escapes when a group is killed.
    fn kill(&self) -> bool {
        for group in &self.groups {
            let _ = killpg(*group, Signal::SIGKILL);
        }
        let killed = self.members.iter().map(|member| member.send(Signal::SIGKILL));
        let refused = killed.filter(|killed| *killed == Err(Errno::PERM));
        refused.count() == self.members.len() && !self.members.is_empty()
    }
}

/// What `PID (NAME) STATE PARENT GROUP SESSION …` says. The name may contain anything,
/// including parentheses.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    is_zombie: bool,
    /// Stopped by a signal or by a debugger.
    is_stopped: bool,
    parent: Pid,
    group: Pid,
    session: Pid,
    /// How many threads it has, including the first one, even if that has ended.
    threads: u32,
}

impl Stat {
    fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?;
        let (is_zombie, is_stopped) = (matches!(state, "Z" | "X"), matches!(state, "T" | "t"));
        let mut pid = || fields.next()?.parse().ok().map(Pid::from_raw);
        let (parent, group, session) = (pid()?, pid()?, pid()?);
        let threads = fields.nth(13).and_then(|field| field.parse().ok()).unwrap_or(u32::MAX);
        Some(Stat { is_zombie, is_stopped, parent, group, session, threads })
    }
}

/// Whether a process is stopped, as by `SIGSTOP`. A process that merely gets no CPU time is
/// not.
pub(super) fn is_stopped(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    Stat::parse(&stat).is_some_and(|stat| stat.is_stopped)
}

/// Kills what can be killed at once.
pub(super) fn kill_now(group: Pid, cage: Option<&Cage>) {
    let _ = killpg(group, Signal::SIGKILL);
    kill_quickly(Pid::this(), cage, Spared::NOBODY);
}

/// Kills a process group, if its leader is a child of one of these processes: its id is then
/// the group's and no other's. This avoids looking at all processes, of which there may be
/// thousands.
pub(super) fn kill_group(leader: Pid, parents: &[Pid]) {
    let found = Relative::look_even_dead(leader);
    if found.is_some_and(|(found, _)| found.group == leader && parents.contains(&found.parent)) {
        let _ = killpg(leader, Signal::SIGKILL);
    }
}

/// Whether a process exists and is not dead.
pub(super) fn is_alive(pid: Pid) -> bool {
    Relative::look(pid).is_some()
}

/// Sends a signal to a process group, and to every descendant that is not in it.
pub(super) fn signal_all(group: Pid, signal: Signal) {
    // Ignore processes that have ended; the caller looks for survivors later.
    let _ = killpg(group, signal);
    signal_others(group, signal);
}

/// Sends a signal to every descendant that is not in the group. Descendants that the
/// kernel does not list at that moment are reached later, by the kill, which looks at all
/// processes.
pub(super) fn signal_others(group: Pid, signal: Signal) {
    let others = nearly_below(Pid::this()).into_iter();
    for relative in others.filter(|relative| relative.group != group) {
        let _ = relative.send(signal);
    }
}

/// The processes of this group that we may not signal.
pub(super) fn out_of_reach(group: Pid) -> Vec<Survivor> {
    let of_group = nearly_below(Pid::this()).into_iter();
    let of_group = of_group.filter(|relative| relative.group == group);
    let refuses = |relative: &Relative| kill(relative.pid, None) == Err(nix::errno::Errno::EPERM);
    of_group.filter(refuses).filter_map(Relative::describe).collect()
}

/// The descendants that are still alive, as far as `/proc` shows them.
pub(super) fn survivors() -> Vec<Survivor> {
    survivors_but(Spared::NOBODY)
}

/// The same, without these.
pub(super) fn survivors_but(spared: Spared<'_>) -> Vec<Survivor> {
    let relatives = Family::below(Pid::this(), spared).members;
    relatives.into_iter().filter_map(Relative::describe).collect()
}

/// Whether a descendant is alive, even one that `/proc` does not show: it is our child, or
/// will be when its parent has ended.
pub(super) fn has_survivors() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !survivors().is_empty() || matches!(waitid(WaitId::All, options), Ok(None))
}

/// Whether `/proc` shows processes at all.
pub(super) fn can_look() -> bool {
    Relative::look(Pid::this()).is_some()
}

/// Kills and reaps every descendant, again and again until none is left that we can kill:
/// one may have been starting another. Returns the survivors, if there are any; the list
/// is empty if `/proc` does not show them.
pub(super) fn kill_all(cage: Option<&Cage>, spared: Spared<'_>) -> Option<Vec<Survivor>> {
    let since = Instant::now();
    loop {
        // Reap first: looking at thousands of dead processes takes longer than reaping
        // them.
        bury(spared);
        kill_quickly(Pid::this(), cage, spared);
        let left = Family::below(Pid::this(), spared);
        let refuse = left.kill();
        let is_alone = !spared.with_all.is_empty() && left.members.is_empty() && can_look();
        if bury(spared) || is_alone {
            return None;
        }
        if refuse && cage.is_none() || since.elapsed() > PATIENCE {
            return Some(survivors_but(spared));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills at once the known processes below a process: looking at all processes takes a
/// while if there are thousands, and a lease may end meanwhile. Returns whether any was
/// still alive.
fn kill_quickly(ancestor: Pid, cage: Option<&Cage>, spared: Spared<'_>) -> bool {
    if let Some(cage) = cage {
        cage.kill();
    }
    let home = Relative::look(ancestor).map(|ancestor| ancestor.session);
    let since = Instant::now();
    while kill_known(ancestor, home, spared) {
        if since.elapsed() >= QUICK {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

/// Returns whether any was alive.
fn kill_known(ancestor: Pid, home: Option<Pid>, spared: Spared<'_>) -> bool {
    let mut groups = HashSet::new();
    let mut is_any_alive = false;
    visit_below(ancestor, spared, |relative, lives| {
        // A process that began a new session shares it only with its descendants. Dead
        // processes count: if a process replaces itself faster than we look, they show the
        // group.
        let is_away = home.is_some_and(|home| relative.session != home);
        if is_away && groups.insert(relative.group) {
            let _ = killpg(relative.group, Signal::SIGKILL);
        }
        if lives {
            is_any_alive = true;
            let _ = relative.send(Signal::SIGKILL);
        }
    });
    is_any_alive
}

/// Kills everything below a process except these, until several looks find nothing there
/// (a process may just be changing its parent) or only processes that we may not kill.
/// Reaps nothing. Returns since when nothing has been found.
pub(super) fn kill_below(
    ancestor: Pid,
    cage: Option<&Cage>,
    spared: Spared<'_>,
) -> Option<BootTime> {
    kill_seen(ancestor, cage, spared, || ())
}

/// The same below this process, whose dead children are reaped: they would pile up, and each
/// of them costs time in every look.
pub(super) fn kill_and_bury(cage: Option<&Cage>, spared: Spared<'_>) -> Option<BootTime> {
    kill_seen(Pid::this(), cage, spared, || {
        bury(spared);
    })
}

fn kill_seen(
    ancestor: Pid,
    cage: Option<&Cage>,
    spared: Spared<'_>,
    before: impl Fn(),
) -> Option<BootTime> {
    let since = Instant::now();
    let (mut seen_none, mut gone_at) = (0, None);
    while seen_none < LOOKS {
        if since.elapsed() >= PATIENCE {
            return None;
        }
        before();
        // Some do not die at once, no matter what we do.
        if kill_quickly(ancestor, cage, spared) && since.elapsed() < QUICK * 10 {
            continue;
        }
        let left = Family::below(ancestor, spared);
        if left.kill() && cage.is_none() {
            return None;
        }
        if left.members.is_empty() {
            gone_at.get_or_insert_with(BootTime::now);
            seen_none += 1;
        } else {
            (seen_none, gone_at) = (0, None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    gone_at
}

/// Kills a child that leads a process group, and everything below it. Stops it first:
/// otherwise processes that it has started in other groups would lose their parent and not
/// be found.
pub(super) fn kill_tree(leader: Pid) {
    let _ = killpg(leader, Signal::SIGSTOP);
    kill_below(leader, None, Spared::NOBODY);
    let _ = killpg(leader, Signal::SIGKILL);
}

/// Reaps exited children for a moment, up to one that is spared with its descendants, whose
/// parent waits for it. Returns whether no child is left.
fn bury(spared: Spared<'_>) -> bool {
    let since = Instant::now();
    let is_awaited = |dead: Pid| spared.with_all.contains(&dead);
    while since.elapsed() < BURY {
        if !spared.with_all.is_empty() && next_dead().is_some_and(is_awaited) {
            return false;
        }
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Err(Errno::CHILD) => return true,
            _ => return false,
        }
    }
    false
}

/// Returns the child that would be reaped next.
fn next_dead() -> Option<Pid> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    nix::sys::wait::waitid(Id::All, flags).ok()?.pid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_whatever_the_name_of_the_process() {
        let found = |is_zombie, parent, group| {
            let [parent, group, session] = [parent, group, 7].map(Pid::from_raw);
            Some(Stat { is_zombie, is_stopped: false, parent, group, session, threads: 2 })
        };
        let parse =
            |start: &str| Stat::parse(&format!("{start} 0 -1 1 2 3 4 5 6 7 8 9 20 0 2 0 9"));
        assert!(parse("7 (a) T 3 5 7").unwrap().is_stopped);
        assert_eq!(parse("7 (a) S 3 5 7"), found(false, 3, 5));
        assert_eq!(parse("7 (a) S 1) S 42 7 7"), found(false, 42, 7));
        assert_eq!(parse("7 (a) Z 3 7 7"), found(true, 3, 7));
        assert_eq!(Stat::parse(""), None);
    }

    /// 1 is the ancestor, 9 an unrelated process.
    #[test]
    fn only_groups_that_are_all_ours_are_killed_as_groups() {
        let of = |pid, parent, group| {
            let [pid, parent, group, session] = [pid, parent, group, 1].map(Pid::from_raw);
            Relative { pid, parent, group, session }
        };
        let all = [of(1, 0, 1), of(2, 1, 2), of(3, 2, 2), of(4, 3, 4), of(5, 2, 9), of(9, 0, 9)];
        let family = |alone: &[Pid]| {
            Family::among(all.into_iter(), Pid::from_raw(1), Spared { alone, with_all: &[] })
        };
        let groups = |some: &[i32]| some.iter().copied().map(Pid::from_raw).collect::<Vec<_>>();

        assert_eq!(family(&[]).members.len(), 4);
        assert_eq!(family(&[]).groups, groups(&[2, 4]));
        assert_eq!(family(&[Pid::from_raw(3)]).members.len(), 3);
        assert_eq!(family(&[Pid::from_raw(3)]).groups, groups(&[4]), "2 has one that is spared");
        let hook = Spared { alone: &[], with_all: &[Pid::from_raw(3)] };
        let others = Family::among(all.into_iter(), Pid::from_raw(1), hook).members;
        assert_eq!(others, [all[1], all[4]], "4 is below one that is spared");
    }

    #[test]
    fn a_grandchild_is_found_quickly_and_by_looking_at_all_processes() {
        let script = "setsid sleep 100 & echo $!; wait";
        let mut shell = std::process::Command::new("sh");
        let mut shell =
            shell.args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut said = std::io::BufReader::new(shell.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        let grandchild = Pid::from_raw(line.trim().parse().unwrap());

        for found in [nearly_below(Pid::this()), Family::below(Pid::this(), Spared::NOBODY).members]
        {
            assert!(found.iter().any(|relative| relative.pid == grandchild), "{found:?}");
        }
        let child = Pid::from_raw(shell.id().try_into().unwrap());
        kill_below(child, None, Spared::NOBODY);
        assert!(Relative::look(grandchild).is_none());
        shell.wait().unwrap();
    }

    #[test]
    fn a_process_that_has_died_since_it_was_seen_is_not_named() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        let seen = Relative::look(pid).unwrap();
        assert_eq!(seen.describe().unwrap().pid, pid.as_raw());

        child.kill().unwrap();
        child.wait().unwrap();

        assert!(seen.describe().is_none());
    }

    #[test]
    fn the_user_is_the_one_whose_rights_a_process_has() {
        assert_eq!(effective_user_in("Name:\tx\nUid:\t1000\t0\t0\t0\n"), Some(0));
        assert_eq!(effective_user_in("nothing"), None);
    }
}
