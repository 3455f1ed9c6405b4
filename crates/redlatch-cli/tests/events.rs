//! Events for scripts, and hooks for people without a pipeline.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::{Server, Servers};
use rustix::{
    fs::{OFlags, fcntl_setfl},
    net::sockopt::set_socket_send_buffer_size,
};
use serde_json::Value;
use std::{
    fs,
    io::{self, PipeReader, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::Stdio,
};
use support::{
    Ended, PATIENCE, Running, Sandbox, child_of, dies, eventually, is_alive, json_lines, send,
    shell, start, wait_until, with_descendants,
};

#[track_caller]
fn events(ended: &Ended) -> Vec<Value> {
    json_lines(&ended.stderr)
}

#[track_caller]
fn event<'a>(events: &'a [Value], name: &str) -> &'a Value {
    let found = events.iter().find(|event| event["event"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {events:#?}"))
}

#[test]
fn all_events_are_alike() {
    let sandbox = Sandbox::embedded();
    let run = |script: &str| shell(&sandbox, &format!("redlatch run x --json {script}"));
    let endings = [
        run("-- true"),
        run("--max-hold 100ms -- sleep 100"),
        run("--ttl 600ms -- sh -c 'redlatch release --force x --yes --quiet; exec sleep 100'"),
        shell(&sandbox, "redlatch run x --quiet -- redlatch run x --json --wait 1100ms -- true"),
        shell(&sandbox, "REDLATCH_NODES= redlatch acquire x --json"),
    ];

    for ended in endings {
        for line in ended.stderr.lines() {
            let keys = ["time", "event", "names", "fencing_token", "waited_ms", "votes"];
            let places = keys.map(|key| line.find(&format!("\"{key}\":")).expect(line));
            assert!(places.is_sorted(), "{line}");
        }
        assert!(events(&ended).iter().all(|event| event["names"][0] == "x"), "{ended:?}");
    }
}

#[test]
fn what_was_killed_has_the_fields_that_the_guide_names() {
    let sandbox = Sandbox::embedded();
    let script = "redlatch run x --json --max-hold 100ms --on-lost kill -- sleep 100";
    let told = events(&shell(&sandbox, script));
    let guide = include_str!("../../../docs/cli.md");
    let row = guide.lines().find(|line| line.starts_with("| `killed`")).unwrap();

    let killed = event(&told, "killed");
    assert_eq!(killed["how"], "at-once");
    assert!(row.starts_with("| `killed` |") && row.contains("`how`"), "{row}");
    assert!(!row.contains("`processes`") && killed["processes"].is_null(), "{killed}: {row}");
}

#[test]
fn the_life_of_a_lock_is_reported_event_by_event() {
    let sandbox = Sandbox::embedded();
    // Two renewals, at a third of the TTL each.
    let script = "redlatch run x --json --ttl 600ms -- sh -c 'while [ $(grep -c renewed told) -lt 2 ]; \
                  do sleep 0.01; done' 2> told";
    shell(&sandbox, script).exits_with(0);
    let told = Ended::of(&sandbox.command("cat").arg("told").output().unwrap());
    let told = json_lines(&told.stdout);

    let mut names: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    names.dedup();
    assert_eq!(names, ["using", "taken", "started", "renewed", "released", "finished"]);
    let token = &event(&told, "taken")["fencing_token"];
    assert!(token.is_u64());
    assert!(told[1..].iter().all(|event| event["fencing_token"] == *token), "{told:#?}");
    assert_eq!(event(&told, "renewed")["votes"], "granted 1");
}

#[test]
fn a_lock_that_is_not_there_is_skipped_and_one_that_ends_is_lost_or_stopped() {
    let sandbox = Sandbox::embedded();
    let held = "redlatch run x --quiet -- redlatch run x --json -E 3 -- true";
    let skipped = shell(&sandbox, held).exits_with(3);
    let told = events(&skipped);
    assert_eq!(event(&told, "skipped")["code"], 3);
    assert_eq!(event(&told, "skipped")["votes"], "refused 1");

    let stopped = shell(&sandbox, "redlatch run x --json --max-hold 100ms -- sleep 100");
    assert!(event(&events(&stopped.exits_with(124)), "stopped")["then"]["ends"].is_object());
    let steal = "sh -c 'redlatch release --force x --yes --quiet; exec sleep 100'";
    let lost = shell(&sandbox, &format!("redlatch run x --json --ttl 600ms -- {steal}"));
    assert!(event(&events(&lost.exits_with(123)), "lost")["reason"].is_string());
}

#[test]
fn one_node_of_three_down_is_reported_at_the_start_and_while_the_command_runs() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::on(&servers);
    let script = "redlatch run x --json --ttl 900ms -- sh -c 'echo > up; until grep -q degraded told; \
                  do sleep 0.01; done' 2> told";
    let running = start(sandbox.shell(script));
    eventually(PATIENCE, || sandbox.path("up").exists());

    servers[2].kill();

    running.end().exits_with(0);
    let told = fs::read_to_string(sandbox.path("told")).unwrap();
    assert!(told.contains("2 of 3 nodes vote"), "{told}");
    assert!(told.contains(&servers[2].url()), "{told}");
    let short = shell(&sandbox, "redlatch run x -v -- true").exits_with(0);
    let words = format!("redlatch: 2 of 3 nodes vote; {}: unreachable", servers[2].url());
    assert!(short.stderr.contains(&words), "{}", short.stderr);
    let quiet = shell(&sandbox, "redlatch run x -- true").exits_with(0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn a_skipped_job_runs_its_hook_with_the_facts() {
    let sandbox = Sandbox::embedded();
    let hook = "echo to stderr; env | grep ^REDLATCH_ | sort > facts";
    let script = format!(
        "redlatch run x --owner ada --quiet -- redlatch run x y --quiet -E 9 --on-skip-run '{hook}' \
         --on-lost-run 'echo never' -- echo never"
    );

    let ended = shell(&sandbox, &script).exits_with(9);

    assert_eq!((&*ended.stdout, &*ended.stderr), ("", "to stderr\n"));
    let facts = fs::read_to_string(sandbox.path("facts")).unwrap();
    for fact in [
        "REDLATCH_EVENT=skipped\n",
        "REDLATCH_EXIT=9\n",
        "REDLATCH_REASON=x is held by ada",
        "REDLATCH_RESOURCE=x\n",
        "REDLATCH_VOTES=refused 1\n",
    ] {
        assert!(facts.contains(fact), "{fact:?} is not in {facts}");
    }
    for absent in ["LOCK_TOKEN", "FENCING_TOKEN"] {
        assert!(!facts.contains(absent), "{facts}");
    }
}

#[test]
fn a_lost_lock_runs_its_hook_beside_the_command() {
    let sandbox = Sandbox::embedded();
    // The command runs on until it sees what the hook has done.
    let command =
        "redlatch release --force x --yes --quiet; until [ -e hooked ]; do sleep 0.01; done";
    let script = format!(
        "redlatch run x --quiet --ttl 600ms --on-lost warn \
         --on-lost-run 'echo $REDLATCH_EVENT $REDLATCH_FENCING_TOKEN > hooked' -- sh -c '{command}'"
    );

    shell(&sandbox, &script).exits_with(123);

    let told = sandbox.read("hooked");
    let token = told.strip_prefix("lost ").unwrap();
    assert!(token.parse::<u64>().is_ok(), "{told}");
}

#[test]
fn max_hold_that_takes_the_lock_from_a_command_that_runs_on_runs_the_hook_for_a_lost_lock() {
    let run = |on_lost: &str| {
        let sandbox = Sandbox::embedded();
        // It runs on, past the end of its lock.
        let command = "trap : TERM; until grep -q \\\"stopped\\\" told; do sleep 0.01; done";
        let hook = "echo $REDLATCH_EVENT $REDLATCH_EXIT $REDLATCH_REASON > hooked";
        let script = format!(
            "redlatch run x --json --max-hold 100ms --on-lost {on_lost} --on-lost-run '{hook}' \
             -- sh -c '{command}' 2> told"
        );
        shell(&sandbox, &script).exits_with(124);
        fs::read_to_string(sandbox.path("hooked")).unwrap_or_default()
    };

    let told = run("warn");
    assert!(told.starts_with("lost 124 --max-hold is reached; "), "{told:?}");
    // The lock is released only when the command has ended.
    assert_eq!(run("term"), "");
}

#[test]
fn a_hook_that_fails_or_hangs_is_reported_and_holds_up_no_lock() {
    let sandbox = Sandbox::embedded();
    let steal = "sh -c 'redlatch release --force x --yes --quiet'";
    let failing = format!("redlatch run x --quiet --on-lost-run 'exit 4' -- {steal}");
    let failed = shell(&sandbox, &failing).exits_with(123);
    assert!(failed.stderr.contains("--on-lost-run failed: exit status: 4"), "{}", failed.stderr);

    let hook = "echo > hooked; until [ -e go ]; do sleep 0.01; done";
    let hanging = format!("redlatch run x --quiet --on-lost-run '{hook}' -- {steal}");
    let mut waiting = start(sandbox.shell(&hanging));
    eventually(PATIENCE, || sandbox.path("hooked").exists());
    eventually(PATIENCE, || sandbox.is_free("x"));
    assert!(!waiting.has_ended());
    fs::write(sandbox.path("go"), "").unwrap();
    waiting.end().exits_with(123);

    let endless = format!(
        "redlatch run x --quiet --hook-timeout 100ms --on-lost-run 'sleep 100 & echo $! > left; wait' -- {steal}"
    );
    let late = shell(&sandbox, &endless).exits_with(123);
    assert!(late.stderr.contains("did not end within 100ms and was killed"), "{}", late.stderr);
    if sandbox.path("left").exists() {
        dies(sandbox.read_pid("left"));
    }
}

/// A hook is not part of the command, which the front kills if the holder is dead.
#[test]
fn a_hook_outlives_a_holder_that_is_killed() {
    let sandbox = Sandbox::embedded();
    let hook = "sleep 1000 & echo $! > inner; wait; echo done > done";
    let command = "redlatch release --force x --yes --quiet; echo $$ > pid; exec sleep 100";
    let args = ["run", "x", "--ttl", "600ms", "--on-lost", "warn", "--hook-timeout", "10m"];
    let args = args.into_iter().chain(["--on-lost-run", hook, "--", "sh", "-c", command]);
    let running = start(sandbox.redlatch(args));
    let command = sandbox.read_pid("pid");
    let inner = sandbox.read_pid("inner");

    send("KILL", child_of(running.pid()));
    dies(command);
    // Nothing else is left below it.
    eventually(PATIENCE, || with_descendants(running.pid()).len() <= 3);
    assert!(is_alive(inner));
    send("TERM", inner);

    let ended = running.end().exits_with(125);
    assert_eq!(sandbox.read("done"), "done");
    assert!(!ended.stderr.contains("--on-lost-run"), "{}", ended.stderr);
}

#[test]
fn a_signal_ends_the_wait_for_a_hook() {
    let sandbox = Sandbox::embedded();
    let hook = "echo > hooked; sleep 100";
    let script = format!(
        "redlatch acquire x --quiet > handle; exec redlatch run x --quiet --hook-timeout 1h \
         --on-skip-run '{hook}' -- true"
    );
    let waiting = start(sandbox.shell(&script));
    assert!(wait_until(PATIENCE, || sandbox.path("hooked").exists()));

    waiting.signal("TERM");

    let ended = waiting.end().exits_with(121);
    assert!(ended.stderr.contains("--on-skip-run was killed"), "{}", ended.stderr);
}

#[test]
fn a_window_that_changes_its_size_kills_no_hook() {
    let sandbox = Sandbox::embedded();
    let hook = "echo > hooked; while [ ! -e go ]; do sleep 0.05; done";
    let script = format!(
        "redlatch acquire x --quiet > handle; exec redlatch run x --hook-timeout 1h \
         --on-skip-run '{hook}' -- true"
    );
    let waiting = start(sandbox.shell(&script));
    assert!(wait_until(PATIENCE, || sandbox.path("hooked").exists()));
    // Only the front and its hook are left.
    let children = format!("/proc/{0}/task/{0}/children", waiting.pid());
    let others = || fs::read_to_string(&children).unwrap().split_whitespace().count();
    assert!(wait_until(PATIENCE, || others() == 1));

    waiting.signal("WINCH");
    fs::write(sandbox.path("go"), "").unwrap();

    let ended = waiting.end().exits_with(121);
    assert!(!ended.stderr.contains("--on-skip-run"), "{}", ended.stderr);
}

/// Starts it with a stderr that is full. Returns the other end, and how much is in it.
fn start_unread(sandbox: &Sandbox, script: &str) -> (Running, PipeReader, usize) {
    let (reader, mut stderr) = io::pipe().unwrap();
    fcntl_setfl(&stderr, OFlags::NONBLOCK).unwrap();
    let mut length = 0;
    while let Ok(written) = stderr.write(b"x") {
        length += written;
    }
    fcntl_setfl(&stderr, OFlags::empty()).unwrap();
    let child = sandbox.shell(script).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
    (Running::of(child), reader, length)
}

#[test]
fn a_stderr_that_nobody_reads_holds_up_neither_the_lock_nor_the_end() {
    let sandbox = Sandbox::embedded();
    let command = "sleep 5; echo > through";
    let script = format!("exec redlatch run x --json --ttl 2s -- sh -c '{command}'");

    let (job, _unread, _) = start_unread(&sandbox, &script);

    job.end().exits_with(0);
    assert!(sandbox.path("through").exists());
    assert!(sandbox.is_free("x"));
}

#[test]
fn a_long_line_for_a_socket_that_nobody_reads_holds_up_nothing() {
    let sandbox = Sandbox::embedded();
    let (_unread, stderr) = UnixStream::pair().unwrap();
    // The smallest there is: it says that it has room, and has too little for a long line.
    set_socket_send_buffer_size(&stderr, 1).unwrap();
    let [x, y, z] = ["x", "y", "z"].map(|name| name.repeat(900));
    let mut command = sandbox.redlatch(["run", &x, &y, &z, "--verbose", "--", "true"]);

    let job = Running::of(command.stderr(OwnedFd::from(stderr)).spawn().unwrap());

    job.end().exits_with(0);
    assert!(sandbox.is_free(&x));
}

#[test]
fn a_reader_that_comes_back_is_told_what_it_missed() {
    let sandbox = Sandbox::embedded();
    let command = "echo up > up; until [ -e go ]; do sleep 0.01; done";
    let script = format!("exec redlatch run x --json -- sh -c '{command}'");
    let (job, mut reader, full) = start_unread(&sandbox, &script);
    sandbox.read("up");

    reader.read_exact(&mut vec![0; full]).unwrap();
    fs::write(sandbox.path("go"), "").unwrap();

    job.end().exits_with(0);
    let mut told = String::new();
    reader.read_to_string(&mut told).unwrap();
    let told = json_lines(&told);
    let names: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((names[0], names.last()), ("unread", Some(&"finished")));
    // Which nodes are used, and that the lock was taken; perhaps also that the command runs.
    assert!(matches!(told[0]["lines"].as_u64(), Some(2 | 3)), "{told:#?}");
}

#[test]
fn a_hook_that_fails_is_reported_with_the_token_of_the_lock() {
    let sandbox = Sandbox::embedded();
    let steal = "sh -c 'redlatch release --force x --yes --quiet'";
    let script = format!("redlatch run x --json --on-lost-run 'exit 4' -- {steal}");

    let told = events(&shell(&sandbox, &script).exits_with(123));

    let (taken, failed) = (event(&told, "taken"), event(&told, "hook-failed"));
    for fact in ["fencing_token", "waited_ms"] {
        assert!(failed[fact].is_u64() && failed[fact] == taken[fact], "{told:#?}");
    }
}

#[test]
fn every_end_of_a_run_is_reported_as_finished() {
    let sandbox = Sandbox::embedded();
    let running =
        start(sandbox.shell("exec redlatch run x --json -- sh -c 'echo > up; sleep 100'"));
    eventually(PATIENCE, || sandbox.path("up").exists());
    send("KILL", child_of(running.pid()));
    let killed = running.end();
    let missing = shell(&sandbox, "redlatch run x --json -- no-such-command");
    let wrong = shell(&sandbox, "REDLATCH_NODES= redlatch run x --json -- true");

    for (ended, code) in [(killed, 125), (missing, 127), (wrong, 125)] {
        let told = events(&ended.exits_with(code));

        let last = told.last().unwrap();
        assert_eq!(
            (&last["event"], &last["code"]),
            (&"finished".into(), &code.into()),
            "{told:#?}"
        );
    }
}

#[test]
fn a_lock_that_is_lost_because_its_holder_was_stopped_is_reported_as_lost() {
    let sandbox = Sandbox::embedded();
    let script = "exec redlatch run x --json --ttl 900ms -- sh -c 'echo > up; sleep 100'";
    let running = start(sandbox.shell(script));
    eventually(PATIENCE, || sandbox.path("up").exists());

    send("STOP", child_of(running.pid()));

    let told = events(&running.end().exits_with(123));
    let lost = event(&told, "lost");
    assert_eq!(lost["then"], "killed", "{told:#?}");
    assert!(lost["reason"].as_str().unwrap().contains("redlatch was stopped"), "{told:#?}");
    assert!(told.iter().all(|event| event["event"] != "failed"), "{told:#?}");
    assert_eq!(event(&told, "finished")["code"], 123);
}

#[test]
fn a_node_that_is_mute_while_the_lock_is_renewed_is_reported_once() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::on(&servers);
    let script = "redlatch run x --json --ttl 900ms -- sh -c 'echo > up; until grep -q degraded told; \
                  do sleep 0.01; done; n=$(grep -c renewed told); \
                  until [ $(grep -c renewed told) -gt $((n + 6)) ]; do sleep 0.01; done' 2> told";
    let running = start(sandbox.shell(script));
    eventually(PATIENCE, || sandbox.path("up").exists());

    servers.freeze(&[2]);

    running.end().exits_with(0);
    let told = fs::read_to_string(sandbox.path("told")).unwrap();
    let words = format!("2 of 3 nodes vote; {}: ", servers[2].url());
    assert_eq!(told.matches(&words).count(), 1, "{told}");
}

#[test]
fn a_call_that_is_refused_is_no_skipped_job_and_runs_no_hook() {
    let (_servers, sandbox) = Sandbox::with_servers(3);
    for (options, words) in [
        ("--ttl 2m --max-ttl 1m", "raise --max-ttl"),
        ("--ttl 1s --grace 1m", "--grace is too long"),
        ("--node file:/nowhere/x.db", "/nowhere"),
    ] {
        let script = format!("redlatch run x --json {options} --on-skip-run '>hooked' -- true");

        let ended = shell(&sandbox, &script).exits_with(125);

        let told = events(&ended);
        assert!(told.iter().all(|event| event["event"] != "skipped"), "{told:#?}");
        let failed = event(&told, "failed");
        assert!(failed["message"].as_str().unwrap().contains(words), "{told:#?}");
        assert_eq!(failed["code"], 125);
        assert!(!sandbox.path("hooked").exists(), "{options}");
    }
}

#[test]
fn nodes_that_are_no_longer_a_majority_are_not_reported_as_degraded() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::on(&servers);
    let script = "exec redlatch run x --json --ttl 3s -- sh -c 'echo > up; sleep 100' 2> told";
    let running = start(sandbox.shell(script));
    eventually(PATIENCE, || sandbox.path("up").exists());
    let has_answered = |server: &Server| server.run(&["EXISTS", "x"]).int() == Some(1);
    eventually(PATIENCE, || servers.iter().all(has_answered));

    // All at once: a look that only the first to freeze does not answer finds a majority.
    let holder = child_of(running.pid());
    send("STOP", holder);
    for server in &servers {
        server.run(&["PING"]); // what it was asked before is answered
    }
    servers.freeze(&[0, 1, 2]);
    send("CONT", holder);

    running.end().exits_with(123);
    let told = fs::read_to_string(sandbox.path("told")).unwrap();
    assert!(told.contains(r#""event":"lost""#), "{told}");
    assert!(!told.contains(r#""event":"degraded""#), "{told}");
}

#[test]
fn a_node_that_answers_with_an_error_is_not_counted_as_down() {
    let servers = Servers::start(1).unwrap();
    let sandbox = Sandbox::on(&servers);
    let hook = "echo $REDLATCH_VOTES > hooked";
    let script = format!("redlatch run x --json --on-skip-run '{hook}' -- true");

    for (is_full, votes) in [(true, "error 1"), (false, "down 1")] {
        if is_full {
            servers[0].run(&["CONFIG", "SET", "maxmemory", "1"]);
        } else {
            servers.kill(&[0]);
        }
        let told = events(&shell(&sandbox, &script).exits_with(122));

        assert_eq!(event(&told, "skipped")["votes"], votes);
        assert_eq!(sandbox.read("hooked"), votes);
        let log = shell(&sandbox, "redlatch log x --json --last 1").stdout;
        let record: Value = serde_json::from_str(log.trim()).unwrap();
        assert_eq!(record["votes"], votes);
    }
}

#[test]
fn what_a_hook_has_started_elsewhere_is_killed_with_it() {
    let sandbox = Sandbox::embedded();
    let hook = "setsid sleep 1000 > /dev/null 2>&1 & echo $! > apart; wait";
    let script = format!(
        "redlatch acquire x --quiet > handle; exec redlatch run x --hook-timeout 2s \
         --on-skip-run '{hook}' -- true"
    );

    let ended = shell(&sandbox, &script).exits_with(121);

    assert!(ended.stderr.contains("did not end within 2s and was killed"), "{}", ended.stderr);
    let apart = sandbox.read_pid("apart");
    let is_alive = is_alive(apart);
    if is_alive {
        send("KILL", apart);
    }
    assert!(!is_alive, "it is still there");
}

#[test]
fn a_signal_that_kills_redlatch_while_it_keeps_the_lock_is_not_called_by_another_name() {
    let sandbox = Sandbox::embedded();
    let running = start(sandbox.shell("exec redlatch run x --json --at-least 10m -- true 2> told"));
    let told = || fs::read_to_string(sandbox.path("told")).unwrap_or_default();
    eventually(PATIENCE, || told().contains("lingering"));
    let holder = child_of(running.pid());

    running.signal("ALRM");

    dies(holder);
    let told: Vec<Value> = told().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(event(&told, "cut-short")["signal"].is_null(), "{told:#?}");
    let log = shell(&sandbox, "redlatch log x").stdout;
    assert!(log.contains("redlatch was killed, which cut --at-least short"), "{log}");
    assert!(!log.contains("SIGKILL"), "{log}");
}
