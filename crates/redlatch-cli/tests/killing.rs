//! Processes that are hard to kill, or cannot be: fault 54.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use nix::{
    sys::ptrace,
    unistd::{Gid, Pid, Uid, chown, geteuid},
};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use support::{
    Ended, PATIENCE, Sandbox, child_of, compile, copy_command, dies, eventually, is_alive,
    json_lines, redlatch, send, start,
};

/// A user without rights.
const NOBODY: u32 = 65534;

#[test]
fn fault_54_a_process_whose_first_thread_has_ended_is_killed() {
    let sandbox = Sandbox::embedded();
    compile(&sandbox, "headless", "-pthread");
    let args = ["run", "x", "--grace", "300ms", "--max-hold", "1s", "--", "./headless"];
    let running = start(sandbox.redlatch(args));
    let pid = sandbox.read_pid("pid");
    assert!(is_alive(pid));

    let ended = running.end().exits_with(124);

    assert!(!is_alive(pid));
    assert!(ended.stderr.contains("were killed"), "{}", ended.stderr);
}

/// A place for a user without rights, with the command and a program that
/// becomes root. None where that cannot be tried.
fn unprivileged() -> Option<Sandbox> {
    if !geteuid().is_root() {
        eprintln!("SKIPPED: only root can make a program that becomes root");
        return None;
    }
    let sandbox = Sandbox::embedded();
    let program = compile(&sandbox, "as_root", "-pthread");
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    copy_command(&sandbox);
    let nobody = (Some(Uid::from_raw(NOBODY)), Some(Gid::from_raw(NOBODY)));
    chown(sandbox.dir(), nobody.0, nobody.1).unwrap();
    fs::set_permissions(sandbox.dir(), Permissions::from_mode(0o755)).unwrap();
    Some(sandbox)
}

/// Runs the program that becomes root, for as long as `--max-hold` lets it, in a
/// control group if there is one: how it ended, and the program's process.
fn outlived(sandbox: &Sandbox, group: Option<&Path>) -> (Ended, u32) {
    let join = group
        .map_or(String::new(), |group| format!("echo $$ > {}/cgroup.procs && ", group.display()));
    let script = format!(
        "{join}exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \
         ./command run x --grace 300ms --max-hold 1s --json -- sh -c 'exec ./as_root > /dev/null 2>&1'"
    );
    let running = start(sandbox.shell(&script));
    let pid = sandbox.read_pid("pid");
    (running.end(), pid)
}

#[test]
fn fault_54_a_process_that_became_another_user_is_named_if_it_cannot_be_stopped() {
    let Some(sandbox) = unprivileged() else { return };

    let (ended, pid) = outlived(&sandbox, None);

    assert!(is_alive(pid), "then it was stopped after all");
    send("KILL", pid);
    let ended = ended.exits_with(123);
    let named = format!(r#""processes":[{{"pid":{pid},"name":"as_root","user":"root"}}]"#);
    assert!(ended.stderr.contains(&named), "{}", ended.stderr);
    assert!(!ended.stderr.contains(r#""event":"killed""#), "{}", ended.stderr);
    dies(pid);
}

#[test]
fn a_process_of_another_user_that_outlives_a_signal_is_named() {
    let Some(sandbox) = unprivileged() else { return };
    let script = format!(
        "exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \
         ./command run x --grace 300ms --json -- sh -c './as_root > /dev/null 2>&1 & wait'"
    );
    let running = start(sandbox.shell(&script));
    let pid = sandbox.read_pid("pid");

    running.signal("TERM");

    let ended = running.end();
    assert!(is_alive(pid), "then it was stopped after all");
    send("KILL", pid);
    let ended = ended.exits_with(123);
    assert!(ended.stderr.contains(r#""event":"survived""#), "{}", ended.stderr);
    dies(pid);
}

#[test]
fn a_signal_that_cannot_be_forwarded_is_reported() {
    let Some(sandbox) = unprivileged() else { return };
    let script = format!(
        "exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \
         ./command run x --quiet -- ./as_root 2> words"
    );
    let running = start(sandbox.shell(&script));
    let pid = sandbox.read_pid("pid");

    running.signal("TERM");

    let words = sandbox.read("words");
    assert!(is_alive(pid), "then it was stopped after all");
    send("KILL", pid);
    dies(pid);
    running.end();
    let told = format!("SIGTERM could not be sent to process {pid} (as_root, user root)");
    assert!(words.contains(&told), "{words}");
}

/// A control group that belongs to a user without rights, as systemd makes them.
struct Delegated(PathBuf);

impl Delegated {
    fn new() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
        let parent = Path::new(mount.split(' ').nth(4)?);
        let dir = parent.join(format!("redlatch-test-{}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        for name in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
            let nobody = (Some(Uid::from_raw(NOBODY)), Some(Gid::from_raw(NOBODY)));
            chown(&dir.join(name), nobody.0, nobody.1).unwrap();
        }
        Some(Delegated(dir))
    }

    fn below(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect()
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        for dir in self.below() {
            let _ = fs::remove_dir(dir);
        }
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn fault_54_a_process_that_became_another_user_is_killed_where_a_control_group_can_be_had() {
    let Some(sandbox) = unprivileged() else { return };
    let Some(group) = Delegated::new() else {
        eprintln!("SKIPPED: no cgroup2 is mounted here that can be written to");
        return;
    };

    let (ended, pid) = outlived(&sandbox, Some(&group.0));

    let ended = ended.exits_with(124);
    assert!(!is_alive(pid));
    assert!(ended.stderr.contains(r#""event":"killed""#), "{}", ended.stderr);
    assert_eq!(group.below(), [""; 0].map(PathBuf::from));
}

#[test]
fn what_a_command_leaves_behind_on_purpose_leaves_its_control_group_too() {
    let Some(sandbox) = unprivileged() else { return };
    let Some(group) = Delegated::new() else {
        eprintln!("SKIPPED: no cgroup2 is mounted here that can be written to");
        return;
    };
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \
         ./command run x -- sh -c 'cat /proc/self/cgroup; sleep 100 > /dev/null 2>&1 & echo $! > daemon'",
        group.0.display()
    );

    let ended = start(sandbox.shell(&script)).end().exits_with(0);

    assert!(ended.stdout.contains("/redlatch-test-"), "{}", ended.stdout);
    assert!(ended.stdout.contains("/redlatch-run-"), "{}", ended.stdout);
    let daemon = sandbox.read_pid("daemon");
    assert!(is_alive(daemon));
    assert_eq!(group.below(), [""; 0].map(PathBuf::from));
    send("KILL", daemon);
    dies(daemon);
}

/// A command with a background process and one in a session of its own; the processes
/// of the wrapper.
fn family(sandbox: &Sandbox) -> (support::Running, u32, [u32; 2]) {
    family_with(sandbox, "2s")
}

fn family_with(sandbox: &Sandbox, ttl: &str) -> (support::Running, u32, [u32; 2]) {
    family_of(sandbox, &["--ttl", ttl])
}

fn family_of(sandbox: &Sandbox, options: &[&str]) -> (support::Running, u32, [u32; 2]) {
    let script =
        "setsid -f sh -c 'echo $$ > away; exec sleep 100'; sleep 100 & echo $! > beside; wait";
    let args = [&["run", "x"], options, &["--", "sh", "-c", script]].concat();
    let running = start(sandbox.redlatch(args));
    let kin = ["away", "beside"].map(|name| sandbox.read_pid(name));
    let holder = child_of(running.pid());
    (running, holder, kin)
}

#[test]
fn what_a_command_has_started_dies_with_the_holder_while_the_front_is_stopped() {
    let sandbox = Sandbox::embedded();
    let (running, holder, kin) = family(&sandbox);

    running.signal("STOP");
    send("KILL", holder);
    kin.into_iter().for_each(dies);
    // The next one waits until the lease has ended.
    let next = start(sandbox.redlatch(["run", "x", "--wait", "1m", "--", "true"])).end();
    next.exits_with(0);
    running.signal("CONT");

    let ended = running.end().exits_with(123);
    let told = ["was stopped, for ", "the lease is over; nothing of the command is left"];
    for words in told {
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

fn watchdog_of(running: &support::Running) -> u32 {
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.pid()));
    children.unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn what_a_command_has_started_dies_with_its_lease_while_front_and_holder_are_stopped() {
    let sandbox = Sandbox::embedded();
    let (running, holder, kin) = family(&sandbox);

    running.signal("STOP");
    send("STOP", holder);

    kin.into_iter().for_each(dies);
    running.signal("CONT");
    let ended = running.end().exits_with(123);
    assert!(ended.stderr.contains("because redlatch was stopped"), "{}", ended.stderr);
}

/// What the holder said while the front was stopped counts from when it said it.
#[test]
fn a_front_that_was_stopped_does_not_count_a_lease_from_when_it_hears_of_it() {
    let sandbox = Sandbox::embedded();
    let (running, holder, kin) = family_with(&sandbox, "10s");
    send("STOP", watchdog_of(&running));
    running.signal("STOP");
    // Long enough to renew and to report: it does so ten times per TTL.
    thread::sleep(Duration::from_secs(5));
    send("STOP", holder);
    let next = start(sandbox.redlatch(["run", "x", "--wait", "1m", "--", "true"])).end();
    next.exits_with(0);

    let began = Instant::now();
    running.signal("CONT");

    kin.into_iter().for_each(dies);
    let lived = began.elapsed();
    running.end().exits_with(123);
    assert!(lived < Duration::from_secs(5), "{lived:?}: as long as another lease");
}

/// The watchdog is stopped, too: nothing helps, but nothing false is reported.
#[test]
fn what_outlived_the_lease_because_all_were_stopped_is_named() {
    let sandbox = Sandbox::embedded();
    let (running, holder, kin) = family(&sandbox);

    send("STOP", watchdog_of(&running));
    running.signal("STOP");
    send("KILL", holder);
    let next = start(sandbox.redlatch(["run", "x", "--wait", "1m", "--", "true"])).end();
    next.exits_with(0);
    assert!(kin.into_iter().all(is_alive), "then they were killed after all");
    running.signal("CONT");

    let ended = running.end().exits_with(123);
    kin.into_iter().for_each(dies);
    for pid in kin {
        let words = format!("process {pid} (sleep, ");
        assert!(ended.stderr.contains(&words), "{}", ended.stderr);
    }
    assert!(ended.stderr.contains("killed only now"), "{}", ended.stderr);
}

#[test]
fn the_watchdog_ends_with_the_wrapper() {
    let sandbox = Sandbox::embedded();
    for (signal, code) in [("TERM", 143), ("KILL", 137)] {
        let running =
            start(sandbox.redlatch(["run", "x", "--", "sh", "-c", "echo up > up; exec sleep 100"]));
        sandbox.read("up");
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.pid()));
        let all: Vec<u32> =
            children.unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(all.len(), 2, "the holder and the watchdog");

        running.signal(signal);

        let ended = running.end();
        assert!(ended.status.code().is_none_or(|ended| ended == code), "{ended:?}");
        all.into_iter().for_each(dies);
        fs::remove_file(sandbox.path("up")).unwrap();
    }
}

#[test]
fn what_cannot_be_seen_is_not_said_to_be_killed() {
    // The embedded node needs /proc itself.
    let (_server, sandbox) = Sandbox::with_servers(1);
    let command = "setsid sleep 60 > /dev/null 2>&1 & echo $! > apart; wait";
    let script = format!(
        "mount -t tmpfs none /proc || {{ echo NO MOUNT; exit 0; }}
         exec redlatch run x --ttl 2s --grace 200ms --max-hold 500ms -- sh -c '{command}'"
    );
    fs::write(sandbox.path("script"), script).unwrap();
    let running = start(sandbox.shell("exec unshare -Urm sh script || echo NO MOUNT"));

    let ended = running.end();

    if ended.stdout.starts_with("NO MOUNT") {
        eprintln!("SKIPPED: no file system can be mounted here: {}", ended.stderr);
        return;
    }
    let apart = sandbox.read_pid("apart");
    let outlived = is_alive(apart);
    if outlived {
        send("KILL", apart);
    }
    assert!(outlived, "nobody could see it: {ended:?}");
    let ended = ended.exits_with(123);
    assert!(
        ended.stderr.contains("processes that redlatch cannot see in /proc"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("was killed"), "{}", ended.stderr);
}

#[test]
fn a_command_is_killed_in_a_stopped_holders_stead_also_where_nothing_can_be_seen() {
    let (_server, sandbox) = Sandbox::with_servers(1);
    let script = "mount -t tmpfs none /proc || { echo NO MOUNT; exit 0; }
         exec redlatch run x --ttl 2s -- sh -c 'echo $$ > pid; exec sleep 600'";
    fs::write(sandbox.path("script"), script).unwrap();
    let running = start(sandbox.shell("exec unshare -Urm sh script || echo NO MOUNT > pid"));
    if sandbox.read("pid").starts_with("NO MOUNT") {
        eprintln!("SKIPPED: no file system can be mounted here: {:?}", running.end());
        return;
    }
    let command = sandbox.read_pid("pid");

    send("STOP", child_of(running.pid()));

    let ended = running.end().exits_with(123);
    assert!(!is_alive(command), "{ended:?}");
}

/// A tracer keeps the holder from dying, as a busy machine may for a while.
#[test]
fn what_a_command_has_started_is_killed_before_a_stopped_holder_has_died() {
    let (_server, sandbox) = Sandbox::with_servers(1);
    let script = "setsid sh -c 'echo $$ > pid; exec sleep 600' & exec sleep 600";
    let running = sandbox.run("x --ttl 2s", script);
    let elsewhere = sandbox.read_pid("pid");
    let holder = child_of(running.pid());
    send("KILL", watchdog_of(&running));

    send("STOP", holder);
    let holder = Pid::from_raw(holder.try_into().unwrap());
    ptrace::seize(holder, ptrace::Options::PTRACE_O_TRACEEXIT).unwrap();

    dies(elsewhere);
    eventually(PATIENCE, || ptrace::detach(holder, None).is_ok());
    running.end().exits_with(123);
}

/// The dead pile up meanwhile, since nobody reaps them.
#[test]
fn a_process_that_replaces_itself_is_killed_in_a_stopped_holders_stead() {
    let (_server, sandbox) = Sandbox::with_servers(1);
    compile(&sandbox, "chain", "-O1");
    let chains = ["a", "b", "c"].map(|name| sandbox.path(name));
    let running = sandbox.run("x --ttl 2s", "./chain a; ./chain b; ./chain c; exec sleep 600");
    eventually(PATIENCE, || chains.iter().all(|file| file.exists()));

    send("STOP", child_of(running.pid()));
    let next = sandbox.run("x --wait 1m", "rm a b c; echo > next");
    sandbox.read("next");

    next.end().exits_with(0);
    running.end().exits_with(123);
    assert!(!chains.iter().any(|file| file.exists()), "it works while the next one does");
}

/// Also if each of them begins a session of its own: no group is known then, and a machine
/// that is busy with others may be too late. It says so then.
#[test]
fn a_process_that_replaces_itself_in_new_sessions_is_killed_in_a_stopped_holders_stead() {
    let (_server, sandbox) = Sandbox::with_servers(1);
    compile(&sandbox, "relay", "-O1");
    let relays = ["a", "b"].map(|name| sandbox.path(name));
    let script = "./relay a 5000 1500; ./relay b 5000 1500; exec sleep 600";
    let running = sandbox.run("x --ttl 6s", script);
    eventually(PATIENCE, || relays.iter().all(|file| file.exists()));

    send("STOP", child_of(running.pid()));
    let next = sandbox.run("x --wait 1m", "rm a b; echo > next");
    sandbox.read("next");

    next.end().exits_with(0);
    let ended = running.end().exits_with(123);
    let works_on = relays.iter().any(|file| file.exists());
    let says_so = ended.stderr.contains("it may have kept working for up to");
    assert!(!works_on || says_so, "one works with the next one: {ended:?}");
}

/// Nobody kills in time, but whoever is continued first does, and says that it was too late.
#[test]
fn a_command_that_outlived_its_lease_because_all_were_stopped_is_reported_in_any_order() {
    for order in ["front", "holder front", "watchdog holder front", "watchdog front"] {
        let sandbox = Sandbox::embedded();
        let script = "setsid -f sh -c 'echo $$ > away; exec sleep 100'; echo $$ > it; sleep 100";
        let running = sandbox.run("x --ttl 2s --json --log held", script);
        let kin = ["away", "it"].map(|name| sandbox.read_pid(name));
        let (front, holder) = (running.pid(), child_of(running.pid()));
        let watchdog = watchdog_of(&running);
        for process in [watchdog, front, holder] {
            send("STOP", process);
        }
        let next =
            start(sandbox.redlatch(["run", "x", "--wait", "1m", "--log", "off", "--", "true"]));
        next.end().exits_with(0);
        assert!(kin.into_iter().all(is_alive), "then they were killed after all");

        for who in order.split(' ') {
            let pid = match who {
                "front" => front,
                "holder" => holder,
                _ => watchdog,
            };
            send("CONT", pid);
            match who {
                "watchdog" => kin.into_iter().for_each(dies),
                "holder" => dies(holder),
                _ => {}
            }
        }

        let ended = running.end().exits_with(123);
        kin.into_iter().for_each(dies);
        let told = json_lines(&ended.stderr);
        let killed = told.iter().find(|event| event["event"] == "killed");
        let killed = killed.unwrap_or_else(|| panic!("{order}: {ended:?}"));
        assert_eq!(killed["how"], "late", "{order}: {killed}");
        assert!(killed["late_ms"].as_u64() > Some(0), "{order}: {killed}");
        assert!(told.iter().any(|event| event["event"] == "lost"), "{order}: {ended:?}");
        let log = redlatch(&sandbox, &["log", "--log", "held"]).stdout;
        assert!(log.contains("sh lost its lock after "), "{order}: {log}");
        assert!(log.contains("it may have kept working for up to "), "{order}: {log}");
    }
}

/// The loss was seen in time, and what comes next on waking is the end of the grace period.
#[test]
fn a_command_that_outlived_max_hold_because_all_were_stopped_in_its_grace_period_is_reported() {
    let sandbox = Sandbox::embedded();
    let script =
        "exec 2> /dev/null; trap 'echo > told' TERM; echo $$ > it; while :; do sleep 0.1; done";
    let options = "x --ttl 9s --max-hold 2s --grace 3s --json --log held";
    let running = sandbox.run(options, script);
    let command = sandbox.read_pid("it");
    let (front, holder) = (running.pid(), child_of(running.pid()));
    let watchdog = watchdog_of(&running);
    sandbox.read("told");
    for process in [watchdog, front, holder] {
        send("STOP", process);
    }
    let next = start(sandbox.redlatch(["run", "x", "--wait", "1m", "--log", "off", "--", "true"]));
    next.end().exits_with(0);
    assert!(is_alive(command), "then it was killed after all");

    send("CONT", holder);
    dies(holder);
    // It kills the watchdog, too.
    send("CONT", front);

    let ended = running.end().exits_with(123);
    dies(command);
    let told = json_lines(&ended.stderr);
    let killed = told.iter().find(|event| event["event"] == "killed");
    let killed = killed.unwrap_or_else(|| panic!("{ended:?}"));
    assert_eq!(killed["how"], "late", "{killed}");
    assert!(killed["late_ms"].as_u64() > Some(0), "{killed}");
    let log = redlatch(&sandbox, &["log", "--log", "held"]).stdout;
    assert!(log.contains("sh lost its lock"), "{log}");
    assert!(log.contains("it may have kept working for up to "), "{log}");
}

/// The watchdog kills the command in time; the process that is continued first says so.
#[test]
fn the_time_for_which_redlatch_was_stopped_is_no_time_for_which_the_command_ran() {
    for order in ["front", "holder front"] {
        let sandbox = Sandbox::embedded();
        let (running, holder, kin) =
            family_of(&sandbox, &["--ttl", "2s", "--json", "--log", "held", "--metrics-dir", "."]);
        let began = Instant::now();
        running.signal("STOP");
        send("STOP", holder);
        kin.into_iter().for_each(dies);
        let next = ["run", "x", "--wait", "1m", "--log", "off", "--", "true"];
        start(sandbox.redlatch(next)).end().exits_with(0);
        let over = began.elapsed();
        // A record that counts this time, too, fails the test.
        thread::sleep(Duration::from_secs(3));

        if order == "holder front" {
            send("CONT", holder);
            dies(holder);
        }
        running.signal("CONT");

        let ended = running.end().exits_with(123);
        let told = json_lines(&ended.stderr);
        let event = |name: &str| told.iter().find(|event| event["event"] == name);
        let killed = event("killed").unwrap_or_else(|| panic!("{order}: {ended:?}"));
        assert!(killed["how"] == "at-once" || killed["late_ms"].is_u64(), "{order}: {killed}");
        let reason = event("lost").unwrap()["reason"].to_string();
        assert!(reason.contains("redlatch was stopped"), "{order}: {reason}");
        assert!(reason.contains(", for "), "{order}: {reason}");
        let log = redlatch(&sandbox, &["log", "--log", "held", "--json"]).stdout;
        let record = json_lines(&log).pop().unwrap();
        for time in ["lost_ms", "ran_ms", "held_ms"] {
            let time = Duration::from_millis(record[time].as_u64().unwrap());
            assert!(time < over + Duration::from_secs(2), "{order}: {over:?}, {record}");
        }
    }
}
