//! What `redlatch run` does with a command: input, output, signals, status.

mod support;

use nix::sys::signal::Signal;
use redlatch_testbed::{Direction, Proxy, Server, ServerOptions, Servers};
use std::{
    fs,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};
use support::{Ended, PATIENCE, Sandbox, dies, eventually, is_alive, start, with_input};

#[test]
fn the_command_gets_stdin_and_its_output_is_its_own() {
    let sandbox = Sandbox::embedded();

    let command = ["run", "x", "--quiet", "--", "sh", "-c", "cat; echo err >&2"];
    let ended = with_input(sandbox.redlatch(command), "in\n");

    let ended = ended.exits_with(0);
    assert_eq!((&*ended.stdout, &*ended.stderr), ("in\n", "err\n"));
}

#[test]
fn a_pipe_that_closes_early_does_no_harm() {
    let sandbox = Sandbox::embedded();

    let ended = sandbox.shell("redlatch run x -- yes | head -n 1").output().unwrap();

    assert_eq!(Ended::of(&ended).exits_with(0).stdout, "y\n");
    assert!(sandbox.is_free("x"));
}

/// `SIGPIPE` too, which the Rust runtime ignores, and `std` resets for every command.
#[test]
fn a_signal_that_the_caller_ignores_stays_ignored() {
    let sandbox = Sandbox::embedded();
    let ignored = |before: &str| {
        let script = format!("{before} redlatch run x -- grep SigIgn /proc/self/status");
        let ended = start(sandbox.shell(&script)).end().exits_with(0);
        let mask = ended.stdout.trim().strip_prefix("SigIgn:").unwrap().trim();
        let mask = u64::from_str_radix(mask, 16).unwrap();
        [Signal::SIGHUP, Signal::SIGPIPE].map(|signal| mask >> (signal as i32 - 1) & 1 == 1)
    };

    assert_eq!(ignored("trap '' HUP PIPE;"), [true, true]);
    assert_eq!(ignored("trap '' PIPE;"), [false, true]);
    assert_eq!(ignored("env --default-signal=HUP,PIPE"), [false, false]);
}

#[test]
fn a_stream_that_the_caller_has_closed_is_closed() {
    let sandbox = Sandbox::embedded();
    let run = |script: &str| {
        start(sandbox.shell(&format!("redlatch run x -- {script}"))).end().status.code()
    };

    assert_eq!(run("echo hi >&-"), Some(1));
    assert_eq!(run("sh -c '[ ! -e /proc/self/fd/0 ] && [ -e /proc/self/fd/1 ]' <&-"), Some(0));
    assert_eq!(run("sh -c '[ ! -e /proc/self/fd/2 ] && [ -e /proc/self/fd/1 ]' 2>&-"), Some(0));
    assert_eq!(run("echo hi"), Some(0));
}

#[test]
fn the_exit_status_of_the_command_is_passed_on() {
    let sandbox = Sandbox::embedded();

    for code in [0, 1, 7, 42, 121, 255] {
        let script = format!("exit {code}");
        sandbox.run("x", &script).end().exits_with(code);
    }
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("SEGV", 139), ("35", 163)] {
        let script = format!("kill -{signal} $$");
        start(sandbox.redlatch(["run", "x", "--", "bash", "-c", &script])).end().exits_with(code);
    }
}

#[test]
fn the_command_knows_its_lock() {
    let sandbox = Sandbox::embedded();
    let script =
        "echo \"$REDLATCH_RESOURCE|$REDLATCH_LOCK_TOKEN|$REDLATCH_USABLE_UNTIL\"; date +%s%3N";

    let ended = sandbox.run("a b --owner me", script);

    let ended = ended.end().exits_with(0);
    let (names, rest) = ended.stdout.split_once('|').unwrap();
    let (token, rest) = rest.split_once('|').unwrap();
    let times: Vec<i64> = rest.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(names, "a\nb");
    assert!(token.contains("@me;host="), "{token}");
    assert!((20_000..30_000).contains(&(times[0] - times[1])), "{times:?}");
}

#[test]
fn signals_are_forwarded_to_the_command_and_what_it_started() {
    for signal in ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH"] {
        let sandbox = Sandbox::embedded();
        // The grandchild writes down what came; the command ends after it.
        let trap = format!("trap 'echo {signal} > got; exit 0' {signal}; echo up > up");
        let script =
            format!("trap : {signal}; sh -c \"{trap}; while :; do sleep 0.01; done\"; exit 9");
        let running = sandbox.run("x", &script);
        sandbox.read("up");

        running.signal(signal);

        assert_eq!(sandbox.read("got"), signal);
        running.end().exits_with(9);
        assert!(sandbox.is_free("x"));
    }
}

/// As batch systems suspend jobs.
#[test]
fn a_command_that_is_suspended_without_a_terminal_is_resumed_or_ended_with_us() {
    for (signal, code) in [("CONT", 9), ("TERM", 143)] {
        let sandbox = Sandbox::embedded();
        // It starts nothing: a process waiting for a child to start cannot be stopped.
        let script = "mkfifo go; echo $$ > up; read line < go; exit 9";
        let mut apart = sandbox.command("setsid");
        apart.args(["redlatch", "run", "x", "--", "sh", "-c", script]);
        let running = start(apart);
        let command = sandbox.read_pid("up");

        running.signal("TSTP");
        eventually(PATIENCE, || is_stopped(command));
        running.signal(signal);

        if signal == "CONT" {
            fs::write(sandbox.path("go"), "\n").unwrap();
        }
        running.end().exits_with(code);
        assert!(sandbox.is_free("x"));
    }
}

fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
}

#[test]
fn a_signal_ends_waiting_at_once_and_leaves_nothing_locked() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let holder = sandbox.hold("x");
    for (signal, code) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        // What a take of several does first.
        let asked = calls(&servers[0], "exists");
        let waiting = start(sandbox.redlatch(["run", "x", "y", "--wait", "1m", "--", "true"]));
        eventually(PATIENCE, || calls(&servers[0], "exists") > asked);

        let began = Instant::now();
        waiting.signal(signal);

        waiting.end().exits_with(code);
        assert!(began.elapsed() < Duration::from_secs(60), "it waited as long as it would have");
        assert_eq!(servers.keys_everywhere(), [["x"]; 3], "y must be free");
    }

    holder.signal("TERM");
    holder.end().exits_with(143);
    assert_eq!(servers.keys_everywhere(), [[""; 0]; 3]);
}

#[test]
fn a_signal_in_the_middle_of_a_take_leaves_no_key() {
    let servers = Servers::start(3).unwrap();
    let proxies: Vec<_> = servers.iter().map(|server| Proxy::to(server).unwrap()).collect();
    let nodes: Vec<_> = proxies.iter().map(Proxy::url).collect();
    let sandbox = Sandbox::embedded();
    for proxy in &proxies {
        proxy.delay(Direction::Replies, Duration::from_millis(150));
    }
    // The command would not end by itself, should the signal come late.
    let patient = ["--node-timeout", "10s", "--wait", "1m"];
    let mut command = sandbox.redlatch(["run", "x"]);
    let waiting = start({
        command.args(patient).args(["--", "sleep", "100"]);
        command.env("REDLATCH_NODES", nodes.join(","));
        command
    });
    // The keys are there, but nobody has heard of it yet.
    eventually(PATIENCE, || servers.iter().all(|server| server.keys() == ["x"]));

    waiting.signal("TERM");

    waiting.end().exits_with(143);
    eventually(PATIENCE, || servers.iter().all(|server| server.keys().is_empty()));
}

#[test]
fn ignored_signals_stay_ignored() {
    let sandbox = Sandbox::embedded();
    let holder = sandbox.hold("x");
    let waiting = "trap '' HUP; exec redlatch run x --wait 1m -- sh -c 'kill -HUP $$; echo on'";
    let waiting = start(sandbox.shell(waiting));
    eventually(PATIENCE, || heeds(waiting.pid(), Signal::SIGTERM));

    waiting.signal("HUP");
    // Long enough to end, if it did.
    thread::sleep(Duration::from_millis(300));
    holder.signal("TERM");

    assert_eq!(waiting.end().exits_with(0).stdout, "on\n");
}

#[test]
fn the_command_finds_signals_as_the_caller_left_them() {
    let sandbox = Sandbox::embedded();
    let look = "grep -E 'Sig(Blk|Ign)' /proc/self/status";

    let without = Ended::of(&sandbox.shell(look).output().unwrap());
    let with = Ended::of(&sandbox.shell(&format!("redlatch run x -- {look}")).output().unwrap());

    assert_eq!(with.exits_with(0).stdout, without.exits_with(0).stdout);
}

#[test]
fn a_caller_that_ignores_its_children_gets_the_status_too() {
    let sandbox = Sandbox::embedded();

    let ended = sandbox
        .shell("env --ignore-signal=CHLD redlatch run x -- sh -c 'exit 7'")
        .output()
        .unwrap();

    Ended::of(&ended).exits_with(7);
}

#[test]
fn a_second_run_waits_for_the_first_or_says_who_holds_it() {
    let sandbox = Sandbox::embedded();
    let script = "echo up > up; until [ -e go ]; do sleep 0.01; done; echo 1 >> order";
    let first = sandbox.run("x --owner first", script);
    sandbox.read("up");

    let refused = start(sandbox.redlatch(["run", "x", "--", "true"])).end().exits_with(121);
    assert_eq!(refused.stderr, "redlatch: x is held by first\n");
    start(sandbox.redlatch(["run", "x", "-E", "3", "--", "true"])).end().exits_with(3);

    let second = sandbox.run("x --wait 1m", "echo 2 >> order");
    fs::write(sandbox.path("go"), "").unwrap();
    second.end().exits_with(0);
    first.end().exits_with(0);
    assert_eq!(sandbox.read("order"), "1\n2");
}

#[test]
fn several_names_are_taken_together_or_not_at_all() {
    let sandbox = Sandbox::embedded();
    let first = sandbox.hold("b");

    start(sandbox.redlatch(["run", "a", "b", "--", "true"])).end().exits_with(121);

    assert!(sandbox.is_free("a"));
    first.signal("TERM");
    first.end().exits_with(143);
    start(sandbox.redlatch(["run", "a", "b", "--", "true"])).end().exits_with(0);
}

#[test]
fn the_lock_is_kept_for_at_least_as_long_as_was_asked() {
    let sandbox = Sandbox::embedded();
    let began = Instant::now();
    let first = sandbox.run("x --at-least 1500ms", "echo up > up; exit 3");
    sandbox.read("up");

    start(sandbox.redlatch(["run", "x", "--", "true"])).end().exits_with(121);

    first.end().exits_with(3);
    assert!(began.elapsed() >= Duration::from_millis(1500));
    assert!(sandbox.is_free("x"));
}

#[test]
fn what_a_command_leaves_behind_on_purpose_lives_on() {
    let sandbox = Sandbox::embedded();
    let script = "sleep 100 > /dev/null 2>&1 & echo $! > daemon";

    sandbox.run("x", script).end().exits_with(0);

    let daemon = sandbox.read_pid("daemon");
    assert!(is_alive(daemon));
    support::send("KILL", daemon);
    dies(daemon);
}

#[test]
fn a_stderr_that_is_closed_ends_nothing() {
    let sandbox = Sandbox::embedded();
    let mut command = sandbox.redlatch(["run", "-v", "x", "--", "sh", "-c", "exit 5"]);

    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());

    assert_eq!(child.wait().unwrap().code(), Some(5));
}

/// Increments a plain file, badly: reads, waits a little, writes.
const COUNT: &str = "n=$(cat count); sleep 0.002; echo $((n + 1)) > count";

fn fifty_commands_count_to_fifty(sandbox: &Sandbox) {
    fs::write(sandbox.path("count"), "0\n").expect("a file");
    let script = format!(
        "i=0; while [ $i -lt 50 ]; do redlatch run count --wait 2m -- sh -c '{COUNT}' & i=$((i + 1)); done; wait"
    );

    let ended = Ended::of(&sandbox.shell(&script).output().expect("a shell"));

    assert_eq!(sandbox.read("count"), "50", "{ended:?}");
}

#[test]
fn fifty_commands_at_once_count_to_fifty_on_the_embedded_node() {
    fifty_commands_count_to_fifty(&Sandbox::embedded());
}

#[test]
fn fifty_commands_at_once_count_to_fifty_on_five_servers() {
    let servers = Servers::start(5).unwrap();

    fifty_commands_count_to_fifty(&Sandbox::on(&servers));

    assert_eq!(servers.keys_everywhere(), [[""; 0]; 5]);
}

#[test]
fn no_majority_has_an_exit_status_of_its_own() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    servers.kill(&[1]);
    start(sandbox.redlatch(["run", "x", "--", "true"])).end().exits_with(0);

    servers.kill(&[2]);

    let ended = start(sandbox.redlatch(["run", "x", "--", "true"])).end().exits_with(122);
    assert!(ended.stderr.contains("2 of 3 nodes do not answer"), "{}", ended.stderr);
    // Waiting also waits for servers that come back.
    let greeted = calls(&servers[0], "evalsha");
    let waiting = start(sandbox.redlatch(["run", "x", "--wait", "20s", "--", "true"]));
    eventually(PATIENCE, || calls(&servers[0], "evalsha") > greeted);
    servers.restart(&[2]);
    waiting.end().exits_with(0);
    eventually(PATIENCE, || servers[0].keys().is_empty());
}

/// How often the server has run this command, including in scripts.
fn calls(server: &Server, command: &str) -> u64 {
    let stats = server.run(&["INFO", "commandstats"]).text().unwrap_or_default();
    let line =
        stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// Whether the process deals with the signal itself: it has it held back.
fn heeds(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let held = held.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    held.is_some_and(|mask| mask & (1 << (signal as i32 - 1)) != 0)
}

#[test]
fn the_command_does_not_see_the_passwords_of_the_nodes_unless_asked_for() {
    let servers = Servers::start(1).unwrap();
    let sandbox = Sandbox::embedded();
    let config = format!("nodes = [{:?}]\npassword_env = \"PW\"\n", "redis://127.0.0.1:1");
    fs::write(sandbox.path("redlatch.toml"), config).unwrap();
    let with_password = format!("{}?password=", servers[0].url());
    let run = |options: &[&str], script: &str| {
        let mut command =
            sandbox.redlatch([&["run", "x"], options, &["--", "sh", "-c", script]].concat());
        command.env("REDLATCH_NODES", &with_password).env("PW", "hunter2");
        start(command).end().exits_with(0).stdout
    };
    let look = "echo \"$REDLATCH_NODES|$PW\"";

    assert_eq!(run(&[], look), "withheld|\n");
    assert_eq!(run(&["--pass-secrets"], look), format!("{with_password}|hunter2\n"));
    // A nested call does not look for its locks anywhere else.
    let nested = run(&[], "redlatch run y -- echo never 2>&1; echo $?");
    assert!(nested.contains("--pass-secrets") && nested.ends_with("125\n"), "{nested}");
    assert_eq!(run(&["--pass-secrets"], "redlatch run y -- echo inner"), "inner\n");
}

#[test]
fn addresses_without_passwords_are_passed_on() {
    let (servers, sandbox) = Sandbox::with_servers(1);

    let args = ["run", "x", "--", "sh", "-c", "echo $REDLATCH_NODES"];
    let ended = start(sandbox.redlatch(args)).end();

    assert_eq!(ended.exits_with(0).stdout, format!("{}\n", servers[0].url()));
}

#[test]
fn a_server_that_answers_with_an_error_is_not_called_silent() {
    let full = ServerOptions::default().config("maxmemory 1");
    let servers = Servers::start_with(1, &full).unwrap();

    let ended = start(Sandbox::on(&servers).redlatch(["run", "x", "--", "true"])).end();

    let said = ended.exits_with(122).stderr;
    assert!(said.contains("the only node answers with an error: "), "{said}");
    assert!(said.contains("refuses writes: its memory is full"), "{said}");
}
