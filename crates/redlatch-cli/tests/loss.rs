//! A command never runs on without its lock: real processes, real servers.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::{Server, Servers};
use std::{
    fs::{self, File},
    thread::JoinHandle,
    time::{Duration, Instant},
};
use support::{
    PATIENCE, Running, Sandbox, child_of, compile, dies, eventually, is_alive, send, start,
};

/// A command that does not want to die: it ignores SIGTERM, and so do a child
/// in its group, one in a session of its own, and an orphan.
const STUBBORN: &str = "
    trap '' TERM HUP INT
    sleep 1000 & echo $! > child
    setsid sleep 1000 & echo $! > apart
    (setsid sh -c 'echo $$ > orphan; exec sleep 1000' &)
    echo $$ > command
    while :; do sleep 0.1; done";

const FAMILY: [&str; 4] = ["command", "child", "apart", "orphan"];

fn stubborn(sandbox: &Sandbox, options: &[&str]) -> (Running, [u32; 4]) {
    let command = ["--", "sh", "-c", STUBBORN];
    let running = start(sandbox.redlatch(["run", "x"].iter().chain(options).chain(&command)));
    let family = FAMILY.map(|name| sandbox.read_pid(name));
    for pid in family {
        assert!(is_alive(pid));
    }
    (running, family)
}

#[test]
fn everything_dies_with_the_wrapper_and_the_lock_is_free() {
    let sandbox = Sandbox::embedded();
    let (running, family) = stubborn(&sandbox, &[]);

    running.signal("KILL");

    family.into_iter().for_each(dies);
    eventually(PATIENCE, || sandbox.is_free("x"));
}

#[test]
fn everything_dies_with_the_process_that_holds_the_lock() {
    let sandbox = Sandbox::embedded();
    let (running, family) = stubborn(&sandbox, &[]);

    send("KILL", child_of(running.pid()));

    let ended = running.end().exits_with(125);
    assert!(ended.stderr.contains("was killed"), "{}", ended.stderr);
    assert!(!family.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn the_command_dies_even_if_both_that_look_after_it_are_killed_at_once() {
    let sandbox = Sandbox::embedded();
    let script = "echo $$ > command; exec sleep 1000";
    let running = sandbox.run("x", script);
    let command = sandbox.read_pid("command");
    let holder = child_of(running.pid());

    send("KILL", holder);
    send("KILL", running.pid());

    dies(command);
}

#[test]
fn everything_dies_before_the_lease_ends_if_the_process_that_holds_the_lock_hangs() {
    let sandbox = Sandbox::embedded();
    let (running, family) = stubborn(&sandbox, &["--ttl", "10s"]);

    let began = Instant::now();
    send("STOP", child_of(running.pid()));
    let alive = last_alive(family);

    let ended = running.end().exits_with(123);
    let lived = alive.join().unwrap().saturating_duration_since(began);
    assert!(lived < Duration::from_secs(10), "{lived:?}");
    assert!(ended.stderr.contains("because redlatch was stopped"), "{}", ended.stderr);
}

/// What is on record.
fn logged(sandbox: &Sandbox) -> String {
    let log = sandbox.redlatch(["log", &long_names()[0]]).output().unwrap().stdout;
    String::from_utf8_lossy(&log).into()
}

/// Names that make a line long.
fn long_names() -> [String; 3] {
    ["x", "y", "z"].map(|name| name.repeat(900))
}

/// A wrapper that takes the lock and then hangs, before it starts the command: whatever it
/// says in a long line, as that it has the lock, it says only once the file `mute` is gone.
fn speechless(sandbox: &Sandbox, servers: &Servers) -> Running {
    fs::write(sandbox.path("mute"), "").unwrap();
    let stderr = File::create(sandbox.path("said")).unwrap();
    let script = "echo up > up; exec sleep 1000";
    let [x, y, z] = long_names();
    let mut command =
        sandbox.redlatch(["run", &x, &y, &z, "--ttl", "2s", "--verbose", "--", "sh", "-c", script]);
    command.env("LD_PRELOAD", compile(sandbox, "hangs", "-fPIC -shared"));
    let running = Running::of(command.stderr(stderr).spawn().unwrap());
    eventually(PATIENCE, || servers.keys_everywhere().iter().all(|keys| !keys.is_empty()));
    running
}

/// Lets it say what it wants to say.
fn unmute(sandbox: &Sandbox) {
    fs::remove_file(sandbox.path("mute")).unwrap();
}

#[test]
fn a_wrapper_that_hangs_with_the_lock_before_the_command_starts_is_killed() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let running = speechless(&sandbox, &servers);
    let holder = child_of(running.pid());

    dies(holder);

    unmute(&sandbox);
    running.end().exits_with(123);
    let log = logged(&sandbox);
    assert!(log.contains("redlatch hung, or got no processor time"), "{log}");
    assert!(!log.contains("the command was killed"), "it was never started: {log}");
    assert!(!sandbox.path("up").exists(), "the command was started");
}

/// When one of the processes was last seen alive; it ends when none is.
fn last_alive(family: [u32; 4]) -> JoinHandle<Instant> {
    std::thread::spawn(move || {
        let mut last = Instant::now();
        loop {
            let now = Instant::now();
            if !family.iter().any(|pid| is_alive(*pid)) {
                return last;
            }
            last = now;
            std::thread::sleep(Duration::from_millis(5));
        }
    })
}

#[test]
fn a_wrapper_that_was_stopped_past_its_lease_does_not_start_the_command() {
    // Where the machine is busy, it may be stopped before it knows of its keys.
    let stopped = (0..20).any(|_| stopped_past_its_lease());
    assert!(stopped, "it never had the lock when it was stopped");
}

/// Whether it had the lock.
fn stopped_past_its_lease() -> bool {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let running = speechless(&sandbox, &servers);
    let holder = child_of(running.pid());

    running.signal("STOP");
    send("STOP", holder);
    eventually(PATIENCE, || servers.keys_everywhere().iter().all(Vec::is_empty));
    unmute(&sandbox);
    send("CONT", holder);
    dies(holder);
    running.signal("CONT");

    let ended = running.end();
    assert!(!sandbox.path("up").exists(), "the command was started");
    if ended.status.code() == Some(122) {
        return false;
    }
    ended.exits_with(123);
    let log = logged(&sandbox);
    assert!(log.contains("was lost before the command could start"), "{log}");
    true
}

#[test]
fn everything_is_dead_before_the_lease_ends_when_all_servers_freeze() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let (running, family) = stubborn(&sandbox, &["--ttl", "10s", "--json"]);

    servers.freeze(&[0, 1, 2]);
    let began = Instant::now();
    let alive = last_alive(family);

    let ended = running.end().exits_with(123);
    // The last renewal was before the freeze, so the lease has ended 10 s later.
    let lived = alive.join().unwrap().saturating_duration_since(began);
    assert!(lived < Duration::from_secs(10), "{lived:?}");
    assert!(ended.stderr.contains(r#""event":"lost""#), "{}", ended.stderr);
    for url in servers.urls() {
        assert!(ended.stderr.contains(&format!("{url}: no answer within")), "{}", ended.stderr);
    }
    assert!(ended.stderr.contains(r#""how":"too-late""#), "{}", ended.stderr);
    // The keys are still there: nobody else can have had it meanwhile.
    servers.thaw(&[0, 1, 2]);
}

#[test]
fn a_command_that_obeys_ends_by_itself() {
    let sandbox = Sandbox::embedded();
    let script = "trap 'echo bye; exit 0' TERM; echo up > up; while :; do sleep 0.01; done";
    let running = sandbox.run("x --max-hold 500ms", script);

    let ended = running.end().exits_with(124);

    assert_eq!(ended.stdout, "bye\n");
    assert!(ended.stderr.contains("--max-hold is reached"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("killed"), "{}", ended.stderr);
    assert!(sandbox.is_free("x"));
}

#[test]
fn max_hold_ends_a_command_that_does_not_obey() {
    let sandbox = Sandbox::embedded();
    let (running, family) = stubborn(&sandbox, &["--max-hold", "1s", "--grace", "300ms"]);

    running.end().exits_with(124);

    assert!(!family.iter().any(|pid| is_alive(*pid)));
    assert!(sandbox.is_free("x"));
}

#[test]
fn a_lock_taken_away_by_force_ends_the_command() {
    let (_servers, sandbox) = Sandbox::with_servers(3);
    let (running, family) = stubborn(&sandbox, &["--ttl", "2s", "--grace", "200ms"]);

    start(sandbox.redlatch(["release", "--force", "x", "--yes"])).end().exits_with(0);

    let ended = running.end().exits_with(123);
    assert!(ended.stderr.contains("the lock is lost"), "{}", ended.stderr);
    assert!(!family.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn a_lock_taken_away_that_no_renewal_noticed_is_a_lost_one_all_the_same() {
    let (_servers, sandbox) = Sandbox::with_servers(3);
    // Renewed after 10 s at the earliest; the command ends as soon as it is signalled.
    let script = "echo up > up; while ! [ -e go ]; do sleep 0.01; done";
    let running = sandbox.run("x --ttl 30s", script);
    sandbox.read("up");

    start(sandbox.redlatch(["release", "--force", "x", "--yes"])).end().exits_with(0);
    fs::write(sandbox.path("go"), "").unwrap();

    let ended = running.end().exits_with(123);
    assert!(ended.stderr.contains("was released by force"), "{}", ended.stderr);
}

#[test]
fn a_lock_that_cannot_be_released_yet_is_said_and_released_in_the_background() {
    let text =
        ["not known whether the lock is released: redis", "; if it is not, it ends within 2m"];
    let json = [r#""most_ms":120000"#, r#""reason":"redis"#];
    for (option, words) in [(None, text), (Some("--json"), json)] {
        let servers = Servers::start_with(3, &Server::options().appendonly()).unwrap();
        let sandbox = Sandbox::on(&servers);
        let script = "echo up > up; while ! [ -e go ]; do sleep 0.01; done; exit 3";
        let command = ["--", "sh", "-c", script];
        let args = ["run", "x", "--max-ttl", "2m", "--ttl", "2m", "--wait", "1m"];
        let args = args.into_iter().chain(option).chain(command);
        let running = start(sandbox.redlatch(args));
        sandbox.read("up");
        let holder = child_of(running.pid());

        servers.kill(&[0, 1, 2]);
        fs::write(sandbox.path("go"), "").unwrap();

        let ended = running.end().exits_with(3);
        assert!(words.iter().all(|words| ended.stderr.contains(words)), "{}", ended.stderr);
        servers.restart(&[0, 1, 2]);
        eventually(PATIENCE, || servers.keys_everywhere() == [[""; 0]; 3]);
        dies(holder);
    }
}

#[test]
fn what_cleans_up_after_a_signal_does_so_under_the_lock() {
    let sandbox = Sandbox::embedded();
    // The command itself ends at once; one of its children cleans up when signalled.
    let step = "trap 'sleep 1.5; echo clean > clean; exit 0' TERM; echo up > up; \
                while :; do sleep 0.01; done";
    let script = format!("sh -c \"{step}\" > /dev/null 2>&1 & wait");
    let running = sandbox.run("x --ttl 2s", &script);
    sandbox.read("up");

    running.signal("TERM");

    let ended = running.end().exits_with(143);
    assert!(sandbox.path("clean").exists(), "the lock was released before");
    assert!(!ended.stderr.contains("killed"), "{}", ended.stderr);
    assert!(sandbox.is_free("x"));
}

#[test]
fn what_does_not_obey_a_signal_is_dead_before_the_lock_is_released() {
    let sandbox = Sandbox::embedded();
    let script = "
        (trap '' TERM; sh -c 'echo $$ > child; exec sleep 20' > /dev/null 2>&1) &
        (trap '' TERM; exec setsid sh -c 'echo $$ > apart; exec sleep 20' > /dev/null 2>&1) &
        wait";
    let args = ["run", "x", "--grace", "300ms", "--", "sh", "-c", script];
    let running = start(sandbox.redlatch(args));
    let family = ["child", "apart"].map(|name| sandbox.read_pid(name));

    running.signal("TERM");

    let ended = running.end().exits_with(143);
    assert!(!family.iter().any(|pid| is_alive(*pid)));
    assert!(ended.stderr.contains("and were killed"), "{}", ended.stderr);
}

#[test]
fn what_a_command_that_crashes_has_started_is_gone_before_the_lock_is_released() {
    for (signal, code) in [("SEGV", 139), ("KILL", 137), ("ABRT", 134)] {
        let sandbox = Sandbox::embedded();
        let step = "trap 'echo clean > clean; exit 0' TERM; echo up > up; \
                    while :; do sleep 0.01; done";
        let script = format!(
            "ulimit -c 0
            sh -c \"{step}\" > /dev/null 2>&1 &
            (trap '' TERM; exec setsid sh -c 'echo $$ > apart; exec sleep 20' > /dev/null 2>&1) &
            until [ -s up ] && [ -s apart ]; do sleep 0.01; done
            kill -{signal} $$"
        );
        let args = ["run", "x", "--grace", "1s", "--", "sh", "-c", &script];

        let ended = start(sandbox.redlatch(args)).end().exits_with(code);

        assert!(!is_alive(sandbox.read_pid("apart")), "{signal}");
        assert!(sandbox.path("clean").exists(), "{signal}: nobody asked it to end");
        assert!(ended.stderr.contains("and were killed"), "{}", ended.stderr);
    }
}

#[test]
fn what_a_command_that_catches_a_signal_has_started_is_gone_before_the_lock_is_released() {
    let sandbox = Sandbox::embedded();
    let script = "
        trap 'exit 3' TERM
        (trap '' TERM; exec setsid sh -c 'echo $$ > apart; exec sleep 20' > /dev/null 2>&1) &
        until [ -s apart ]; do sleep 0.01; done
        echo up > up
        while :; do sleep 0.01; done";
    let running = sandbox.run("x --grace 1s", script);
    sandbox.read("up");

    running.signal("TERM");

    running.end().exits_with(3);
    assert!(!is_alive(sandbox.read_pid("apart")));
}

#[test]
fn a_warning_lets_the_command_run_on_but_not_as_if_nothing_were() {
    let (servers, sandbox) = Sandbox::with_servers(1);
    let script = "echo up > up; sleep 3; echo done";
    let args = ["run", "x", "--ttl", "1s", "--on-lost", "warn", "--", "sh", "-c", script];
    let running = start(sandbox.redlatch(args));
    sandbox.read("up");

    servers.kill(&[0]);

    let ended = running.end().exits_with(123);
    assert_eq!(ended.stdout, "done\n");
    assert!(ended.stderr.contains("the lock is lost"), "{}", ended.stderr);
}

#[test]
fn a_long_command_keeps_its_lock_over_many_ttls() {
    let (_servers, sandbox) = Sandbox::with_servers(3);
    let args = ["run", "x", "--ttl", "1s", "--", "sh", "-c", "echo up > up; sleep 5"];
    let running = start(sandbox.redlatch(args));
    sandbox.read("up");

    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(700));
        start(sandbox.redlatch(["run", "x", "--", "true"])).end().exits_with(121);
    }

    running.end().exits_with(0);
}
