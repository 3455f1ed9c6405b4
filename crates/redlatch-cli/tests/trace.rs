//! Every attempt leaves a trace, and the trace harms no job.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use nix::{
    sys::{prctl, signal::Signal, stat::Mode},
    unistd::mkfifo,
};
use redlatch_testbed::Servers;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    os::unix::{fs::PermissionsExt, net::UnixDatagram},
    path::Path,
    process::Command,
};
use support::{
    PATIENCE, Sandbox, child_of, dies, eventually, json_lines, json_of, kill_all, redlatch, send,
    start, with_descendants,
};

/// All lines of a log and of its predecessor; every one of them is JSON.
#[track_caller]
fn lines(path: &Path) -> Vec<Value> {
    let before = path.with_extension("jsonl.1");
    let text = [before.as_path(), path].map(|path| fs::read_to_string(path).unwrap_or_default());
    json_lines(&text.concat())
}

fn traced(sandbox: &Sandbox) -> Vec<Value> {
    lines(&sandbox.path("redlatch/runs.jsonl"))
}

#[test]
fn every_attempt_leaves_a_line_with_all_that_is_known() {
    let sandbox = Sandbox::embedded();
    redlatch(&sandbox, &["run", "a", "b", "--wait", "2s", "--", "sh", "-c", "exit 7"]);
    let handle = redlatch(&sandbox, &["acquire", "a", "--owner", "ada"]).stdout;
    redlatch(&sandbox, &["run", "a", "-E", "0", "--", "true"]).exits_with(0);
    redlatch(&sandbox, &["extend", handle.trim()]).exits_with(0);
    redlatch(&sandbox, &["release", handle.trim()]).exits_with(0);
    redlatch(&sandbox, &["release", handle.trim()]).exits_with(123);

    let lines = traced(&sandbox);

    let short: Vec<_> = lines
        .iter()
        .map(|line| format!("{} {} {}", line["task"], line["outcome"], line["exit"]))
        .collect();
    let expected = [
        r#""run" "granted" 7"#,
        r#""acquire" "granted" 0"#,
        r#""run" "held" 0"#,
        r#""extend" "granted" 0"#,
        r#""release" "granted" 0"#,
        r#""release" "lost" 123"#,
    ];
    assert_eq!(short, expected);
    let run = &lines[0];
    assert_eq!(run["names"], serde_json::json!(["a", "b"]));
    assert_eq!((&run["command"], &run["ended"]), (&"sh".into(), &"exited".into()));
    assert_eq!((&run["wait_ms"], &run["votes"]), (&2000.into(), &"granted 1".into()));
    for known in ["time", "host", "user", "pid", "waited_ms", "fencing_token", "held_ms", "nodes"] {
        assert!(!run[known].is_null(), "{known} is missing: {run}");
    }
    assert!(lines[2]["why"].as_str().unwrap().contains("held by ada"), "{}", lines[2]);
    assert!(lines.iter().all(|line| !line.to_string().contains(handle.split(':').nth(4).unwrap())));
}

#[test]
fn every_attempt_is_on_record_with_its_nodes_and_how_long_it_would_have_waited() {
    let sandbox = Sandbox::embedded();
    fs::write(sandbox.path("redlatch.toml"), "wait = \"2s\"").unwrap();
    let handle = redlatch(&sandbox, &["acquire", "x", "--wait", "3s"]).stdout;
    redlatch(&sandbox, &["extend", handle.trim()]).exits_with(0);
    redlatch(&sandbox, &["release", handle.trim()]).exits_with(0);
    redlatch(&sandbox, &["acquire", "x"]).exits_with(0);
    redlatch(&sandbox, &["release", "--force", "x", "--yes"]).exits_with(0);

    let lines = traced(&sandbox);

    let waits: Vec<_> = lines.iter().map(|line| line["wait_ms"].as_u64()).collect();
    assert_eq!(waits, [3000, 0, 0, 2000, 0].map(Some));
    let node = format!("file:{}", sandbox.path("redlatch/locks.db").display());
    assert!(lines.iter().all(|line| line["nodes"] == serde_json::json!([node])), "{lines:?}");
}

#[test]
fn a_job_that_fails_for_its_settings_leaves_a_trace_too() {
    let sandbox = Sandbox::embedded();
    let mut command = sandbox.redlatch(["run", "x", "--", "true"]);
    start({
        command.env("REDLATCH_NODES", "");
        command
    })
    .end()
    .exits_with(125);
    fs::write(sandbox.path("redlatch.toml"), "ttl = \"redis://:Secret@a\"").unwrap();
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(125);
    fs::remove_file(sandbox.path("redlatch.toml")).unwrap();

    let told = redlatch(&sandbox, &["log", "x", "--since", "1h"]).exits_with(0).stdout;

    assert!(told.contains("not run: REDLATCH_NODES names no node"), "{told}");
    assert!(told.contains("is not a duration") && !told.contains("Secret"), "{told}");
}

/// There is no name to put on record.
#[test]
fn admit_without_nodes_leaves_no_record() {
    let sandbox = Sandbox::embedded();

    let refused = redlatch(&sandbox, &["admit", "--log", "log"]).exits_with(125).stderr;

    assert!(refused.contains("which nodes?"), "{refused}");
    assert!(!sandbox.path("log").exists());
}

#[test]
fn the_log_is_private_whatever_the_umask() {
    let sandbox = Sandbox::embedded();
    let script = "umask 0; XDG_STATE_HOME=$PWD/state redlatch run x -- true";

    start(sandbox.shell(script)).end().exits_with(0);

    let mode = |name: &str| sandbox.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("state/redlatch/runs.jsonl"), 0o600);
    assert_eq!([mode("state"), mode("state/redlatch")], [0o700, 0o700]);
}

#[test]
fn many_at_once_lose_no_line_and_tear_none_apart() {
    const JOBS: u64 = 24;
    let sandbox = Sandbox::embedded();
    let log = sandbox.path("log.jsonl");
    // About two thirds of all lines fit: the log is rotated once, in the middle.
    let one = redlatch(&sandbox, &["run", "job10", "--log", log.to_str().unwrap(), "--", "true"]);
    one.exits_with(0);
    let size = fs::metadata(&log).unwrap().len() * JOBS * 2 / 3;
    fs::remove_file(&log).unwrap();
    let jobs = (10..10 + JOBS).map(|job| {
        let name = format!("job{job}");
        let mut command = sandbox.redlatch(["run", &name, "-v", "--wait", "20s", "--", "true"]);
        command.env("REDLATCH_LOG", &log).env("REDLATCH_LOG_SIZE", format!("{size}B"));
        start(command)
    });

    let jobs: Vec<_> = jobs.collect();
    let mut missed = 0;
    for job in jobs {
        // On a busy machine, one may take too long, and says so.
        missed += u64::from(job.end().exits_with(0).stderr.contains("is not in the log"));
    }

    let names: BTreeSet<_> = lines(&log).iter().map(|line| line["names"].to_string()).collect();
    assert!(names.len() as u64 >= JOBS - missed, "{names:?}");
    assert!(sandbox.path("log.jsonl.1").exists(), "it was never rotated");
}

#[test]
fn a_size_of_the_log_without_a_unit_is_refused_and_costs_no_record() {
    let sandbox = Sandbox::embedded();
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(0);
    fs::write(sandbox.path("sized.toml"), "log_size = \"5\"\n").unwrap();
    let before = traced(&sandbox);

    let typed = redlatch(&sandbox, &["run", "x", "--log-size", "5", "--", "true"]);
    let configured = redlatch(&sandbox, &["run", "x", "--config", "sized.toml", "--", "true"]);
    let mut command = sandbox.redlatch(["run", "x", "--", "true"]);
    command.env("REDLATCH_LOG_SIZE", "5");

    for ended in [typed, configured, start(command).end()] {
        let told = ended.exits_with(125).stderr;
        assert!(told.contains("`5` is not a size; write it like 500K, 5MB or 1GiB"), "{told}");
    }
    assert_eq!(traced(&sandbox)[..before.len()], before);
}

#[test]
fn a_job_that_a_small_stack_keeps_from_running_is_on_record() {
    let sandbox = Sandbox::embedded();
    for task in ["run x --metrics-dir . -- true", "acquire x", "release --force x", "admit --all"] {
        let ended = start(sandbox.shell(&format!("ulimit -s 100; exec redlatch {task}"))).end();
        let said = ended.exits_with(125).stderr;
        assert!(said.contains("the stack is limited to 100 KiB"), "{task}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }

    let told = redlatch(&sandbox, &["log"]).exits_with(0).stdout;

    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 4, "{told}");
    assert!(lines[0].contains("  x  not run: the stack is limited to 100 KiB"), "{told}");
    assert!(lines.iter().all(|line| line.ends_with("; exit 125")), "{told}");
    assert!(metrics(&sandbox).contains(r#"="failed""#), "{}", metrics(&sandbox));
}

#[test]
fn a_mistake_in_the_config_file_is_on_record_in_the_log_that_the_file_names() {
    let rest = "log = \"mine.jsonl\"\nlog_command = false\nmetrics_dir = \".\"\n";
    for (mistake, words) in [
        ("ttl = \"5\"\n", ":1: `5` is not a duration"),
        ("tll = \"5s\"\n", ":1: unknown field `tll`"),
        ("owner = ada\n", ":1: "),
        ("log_size = \"5\"\n", ":1: `5` is not a size"),
    ] {
        let sandbox = Sandbox::embedded();
        fs::write(sandbox.path("redlatch.toml"), format!("{mistake}{rest}")).unwrap();

        redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(125);

        let lines = lines(&sandbox.path("mine.jsonl"));
        assert_eq!(lines.len(), 1, "{mistake}");
        let why = lines[0]["why"].as_str().unwrap();
        assert!(why.contains(&format!("redlatch.toml{words}")), "{why}");
        assert!(lines[0]["command"].is_null(), "{mistake}");
        assert!(metrics(&sandbox).contains(r#"="failed""#), "{mistake}");
        assert!(traced(&sandbox).is_empty(), "{mistake}");
    }
}

/// Nobody can tell whether it was meant to hide the command.
#[test]
fn a_mistake_about_the_command_in_the_log_hides_it() {
    let sandbox = Sandbox::embedded();
    fs::write(sandbox.path("redlatch.toml"), "log_command = 0\nlog = \"mine.jsonl\"\n").unwrap();

    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(125);

    let lines = lines(&sandbox.path("mine.jsonl"));
    assert_eq!((lines.len(), &lines[0]["command"]), (1, &Value::Null), "{lines:?}");
}

#[test]
fn the_log_stays_below_its_size() {
    let sandbox = Sandbox::embedded();
    for _ in 0..12 {
        redlatch(&sandbox, &["run", "x", "--log-size", "1K", "--", "true"]).exits_with(0);
    }

    for name in ["redlatch/runs.jsonl", "redlatch/runs.jsonl.1"] {
        let size = sandbox.path(name).metadata().unwrap().len();
        assert!((1..=1000).contains(&size), "{name}: {size}");
    }
    let told = redlatch(&sandbox, &["log"]).exits_with(0).stdout;
    assert_eq!(told.lines().count(), traced(&sandbox).len(), "both files are read");
}

#[test]
fn a_log_that_cannot_be_written_harms_no_job_and_is_reported_once() {
    let sandbox = Sandbox::embedded();
    mkfifo(&sandbox.path("pipe"), Mode::S_IRWXU).unwrap();
    fs::write(sandbox.path("file"), "").unwrap();
    for log in ["/dev/full", "/proc/none/log", "pipe", ".", "file/log", "none/log"] {
        let told = redlatch(&sandbox, &["run", "x", "--log", log, "--", "echo", "done"]);
        assert_eq!(told.stdout, "done\n", "{log}");
        assert_eq!(told.stderr.matches("is not in the log").count(), 1, "{log}: {}", told.stderr);
        told.exits_with(0);

        let quiet = redlatch(&sandbox, &["run", "x", "--quiet", "--log", log, "--", "true"]);

        assert_eq!(quiet.exits_with(0).stderr, "", "{log}");
    }
    assert!(!sandbox.path("none").exists(), "a directory that nobody asked for");
    redlatch(&sandbox, &["run", "x", "-v", "--log", "off", "--", "true"]).exits_with(0);
    assert!(traced(&sandbox).is_empty());
}

#[test]
fn a_quiet_job_that_is_not_in_the_log_is_in_syslog_with_the_reason() {
    let sandbox = Sandbox::embedded();
    let socket = UnixDatagram::bind(sandbox.path("syslog")).unwrap();
    let mut command = sandbox.redlatch(["run", "x", "--quiet", "--log", "/dev/full", "--", "true"]);
    command.env("REDLATCH_SYSLOG", sandbox.path("syslog"));

    start(command).end().exits_with(0);

    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).unwrap();
    let told = String::from_utf8_lossy(&buffer[..length]).into_owned();
    assert!(told.contains("x: true ran for"), "{told}");
    assert!(told.contains("is not in the log: /dev/full cannot be written"), "{told}");
}

#[test]
fn doctor_says_whether_the_log_can_be_written() {
    let sandbox = Sandbox::embedded();
    redlatch(&sandbox, &["doctor"]).exits_with(0);
    fs::write(sandbox.path("file"), "").unwrap();
    for log in ["none/log", "file/log", ".", "/proc/none/log"] {
        let mut command = sandbox.redlatch(["doctor"]);
        command.env("REDLATCH_LOG", log);

        let found = start(command).end().exits_with(1).stdout;

        assert!(found.contains(&format!("{log}, cannot be written: ")), "{log}: {found}");
    }
    let unread = redlatch(&sandbox, &["log", "--log", "none/log"]).exits_with(125);
    assert!(unread.stderr.contains("the directory none does not exist"), "{unread:?}");
}

#[test]
fn doctor_says_whether_metrics_can_be_written() {
    let sandbox = Sandbox::embedded();
    fs::create_dir(sandbox.path("metrics")).unwrap();
    fs::write(sandbox.path("file"), "").unwrap();
    let doctor = |dir: &str| {
        let mut command = sandbox.redlatch(["doctor"]);
        command.env("REDLATCH_METRICS_DIR", dir);
        start(command).end()
    };

    let good = doctor("metrics").exits_with(0).stdout;

    assert!(!good.contains("metrics"), "{good}");
    assert_eq!(fs::read_dir(sandbox.path("metrics")).unwrap().count(), 0, "it only looks");
    for (dir, why) in [("none", "No such file"), ("file", "it is not a directory")] {
        let found = doctor(dir).exits_with(1).stdout;
        let words = format!("warning  no metrics can be written to {dir}: {why}");
        assert!(found.contains(&words), "{found}");
        assert!(found.contains("--metrics-dir DIR, REDLATCH_METRICS_DIR"), "{found}");
    }
}

#[test]
fn vouching_for_a_node_and_taking_a_lock_away_are_on_record() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    let url = servers[0].url();
    redlatch(&sandbox, &["admit", &url]).exits_with(0);
    redlatch(&sandbox, &["admit", "--all", "--yes"]).exits_with(0);
    redlatch(&sandbox, &["admit", "--wait"]).exits_with(0);
    redlatch(&sandbox, &["acquire", "x", "--owner", "ada", "--log", "off"]).exits_with(0);
    servers[0].run(&["FLUSHALL"]);
    redlatch(&sandbox, &["admit", &url]).exits_with(125);
    redlatch(&sandbox, &["admit", &url, "--yes"]).exits_with(0);
    redlatch(&sandbox, &["release", "--force", "x", "--yes"]).exits_with(0);
    let replace = ["admit", "--replace", &servers[1].url(), "--timeout", "1ms", "--yes"];
    let mut other = sandbox.redlatch(replace);
    other.env("REDLATCH_SKEW", "31s");
    start(other).end().exits_with(122);

    let told = redlatch(&sandbox, &["log"]).exits_with(0).stdout;

    let lines: Vec<&str> = told.lines().collect();
    let user = traced(&sandbox)[0]["user"].as_str().unwrap().to_owned();
    let expected = [
        format!("  {url}  admit: {user} vouched for it"),
        format!("  {}  admit: {user} vouched for them, with --yes", servers.urls().join(", ")),
        format!("  {url}  admit by {user}: not admitted: "),
        format!("  {url}  admit: {user} vouched for it, with --yes"),
        format!("  x  release --force by {user}: x was held by ada"),
        format!(
            "  {0}  admit --replace: {user} took it from its clients, with --yes; the node does not \
             vote; {0}: quarantined for another ",
            servers[1].url()
        ),
    ];
    assert_eq!(lines.len(), expected.len(), "{told}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(&expected), "{expected:?} is not in {line:?}");
    }
    let of_node = redlatch(&sandbox, &["log", &url, "--json"]).stdout;
    assert_eq!(of_node.lines().count(), 4, "{of_node}");
}

#[test]
fn a_takeover_that_is_not_done_is_not_on_record_as_done() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    redlatch(&sandbox, &["admit", "--all", "--yes", "--log", "off"]).exits_with(0);
    let log = |options: &[&str]| {
        redlatch(&sandbox, &[&["log", "--last", "1"], options].concat()).exits_with(0).stdout
    };
    let url = servers[0].url();
    let user = Command::new("id").arg("-un").output().unwrap().stdout;
    let user = String::from_utf8(user).unwrap().trim().to_owned();
    let both = |words: &str, outcome: &str| {
        eventually(PATIENCE, || log(&[]).contains(words));
        let (told, json) = (log(&[]), json_of(&log(&["--json"])));
        assert!(told.contains(&format!("  admit --replace: {user} ")), "{told}");
        assert!(told.contains("with --yes and --all-stopped"), "{told}");
        assert!(!told.contains(" took "), "{told}");
        assert_eq!(json["outcome"], outcome, "{json}");
        json
    };
    let taking = || {
        // It waits for a minute until the node votes.
        let script = format!(
            "exec redlatch admit --replace --all-stopped --yes {url} {} 2> told",
            servers[1].url()
        );
        let mut command = sandbox.shell(&script);
        command.env("REDLATCH_SKEW", "31s");
        let taking = start(command);
        eventually(PATIENCE, || {
            fs::read_to_string(sandbox.path("told")).is_ok_and(|told| told.contains("waiting for "))
        });
        both(" is taking them from their clients", "waiting");
        assert_eq!(log(&["--failed"]), "", "it has not failed");
        taking
    };

    let killed = taking();
    killed.signal("KILL");
    killed.end();
    both(" began to take them from their clients, and its end is not on record: ", "killed");

    fs::remove_file(sandbox.path("redlatch/runs.jsonl")).unwrap();
    fs::remove_file(sandbox.path("told")).unwrap();
    let told = taking();
    told.signal("TERM");
    told.end().exits_with(143);
    let words = format!(
        " began to take them from their clients: with --yes and --all-stopped; SIGTERM ended it; \
         taken so far: {url}"
    );
    assert_eq!(both(&words, "interrupted")["exit"], 143);
}

#[test]
fn vouching_that_admits_not_all_nodes_is_on_record_with_the_reason() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    servers.kill(&[0]);
    redlatch(&sandbox, &["admit", "--all", "--yes"]).exits_with(122);
    let replace = ["admit", "--replace", "--all-stopped", &servers[0].url(), "--yes"];
    redlatch(&sandbox, &replace).exits_with(122);

    let told = redlatch(&sandbox, &["log"]).exits_with(0).stdout;

    let user = traced(&sandbox)[0]["user"].as_str().unwrap().to_owned();
    let down = servers[0].url();
    let lines: Vec<&str> = told.lines().collect();
    let vouched = format!("  admit by {user}: 1 of 3 nodes does not vote; {down}: down: ");
    assert!(lines[0].contains(&vouched), "{told}");
    assert!(lines[0].ends_with("; with --yes; exit 122"), "{told}");
    let taken = format!("  admit --replace by {user}: not taken: ");
    assert!(lines[1].contains(&taken) && lines[1].contains(": down: "), "{told}");
    for ended in traced(&sandbox).iter().filter(|line| !line["exit"].is_null()) {
        assert_eq!(ended["outcome"], "no-majority", "{ended}");
    }
}

#[test]
fn the_command_is_left_out_if_asked_for_and_passwords_are_always() {
    let sandbox = Sandbox::embedded();
    redlatch(&sandbox, &["run", "x", "--no-log-command", "--", "true"]).exits_with(0);
    fs::write(sandbox.path("redlatch.toml"), "log_command = false").unwrap();
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(0);
    fs::remove_file(sandbox.path("redlatch.toml")).unwrap();
    let node = "redis://:Secret@127.0.0.1:1";
    redlatch(&sandbox, &["run", "x", "--node", node, "--", "echo", "Secret"]).exits_with(122);
    redlatch(&sandbox, &["run", "x", "--", "redis://:Secret@a/"]).exits_with(127);

    let lines = traced(&sandbox);

    assert_eq!([&lines[0]["command"], &lines[1]["command"]], [&Value::Null; 2]);
    assert_eq!(lines[2]["command"], "echo");
    assert!(!lines.iter().any(|line| line.to_string().contains("Secret")), "{lines:?}");
}

#[test]
fn syslog_gets_a_line_for_each_attempt_and_never_keeps_a_job_waiting() {
    let sandbox = Sandbox::embedded();
    let socket = UnixDatagram::bind(sandbox.path("syslog")).unwrap();
    let run = |args: &[&str]| {
        let mut command = sandbox.redlatch(["run", "x"].iter().chain(args));
        command.env("REDLATCH_SYSLOG", sandbox.path("syslog"));
        start(command).end()
    };

    run(&["--", "true"]).exits_with(0);
    run(&["--max-hold", "100ms", "--", "sleep", "100"]).exits_with(124);

    let mut buffer = [0; 4096];
    let mut next = || {
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let (done, full) = (next(), next());
    assert!(done.starts_with("<78>") && done.contains("x: true ran for"), "{done}");
    assert!(done.contains(" redlatch["), "{done}");
    assert!(full.starts_with("<75>") && full.contains("--max-hold is reached"), "{full}");
    // Nobody reads: the socket fills up, and jobs go on.
    let ours = UnixDatagram::unbound().unwrap();
    ours.set_nonblocking(true).unwrap();
    while ours.send_to(b"x", sandbox.path("syslog")).is_ok() {}
    run(&["--", "true"]).exits_with(0);
    run(&["--syslog", "off", "--", "true"]).exits_with(0);
}

/// A command that runs until the test ends, and its `redlatch run`.
fn running(sandbox: &Sandbox) -> support::Running {
    let running =
        start(sandbox.redlatch(["run", "x", "--", "sh", "-c", "echo $$ > up; exec sleep 100"]));
    sandbox.read_pid("up");
    running
}

#[test]
fn a_killed_process_is_explained() {
    let sandbox = Sandbox::embedded();
    let log = |words: &str| {
        let mut told = String::new();
        eventually(PATIENCE, || {
            told = redlatch(&sandbox, &["log", "x", "--last", "1"]).stdout;
            told.contains(words)
        });
        told
    };

    let front = running(&sandbox);
    send("KILL", front.pid());
    let told = log("redlatch was killed");
    assert!(told.contains("sh was killed after"), "{told}");
    // The process that noticed does not know the signal.
    assert!(told.contains("and the command with it; fencing token "), "{told}");

    let _ = fs::remove_file(sandbox.path("up"));
    let front = running(&sandbox);
    send("KILL", child_of(front.pid()));
    front.end().exits_with(125);
    assert!(log("sh was killed").contains("the process that held the lock was killed"));
    // Only the process that is left could write it.
    let last = traced(&sandbox).pop().unwrap();
    assert!(last["fencing_token"].is_u64(), "{last}");
}

#[test]
fn a_run_without_an_end_is_reported_as_running_or_as_killed() {
    let sandbox = Sandbox::embedded();
    let front = running(&sandbox);
    eventually(PATIENCE, || !traced(&sandbox).is_empty());
    let told = redlatch(&sandbox, &["log", "x"]).exits_with(0).stdout;
    assert!(told.contains("sh is running"), "{told}");
    assert_eq!(redlatch(&sandbox, &["log", "x", "--failed"]).exits_with(0).stdout, "");

    let holder = child_of(front.pid());
    send("STOP", holder);
    send("KILL", front.pid());
    send("KILL", holder);
    dies(holder);
    drop(front);

    let told = redlatch(&sandbox, &["log", "x", "--failed"]).exits_with(0).stdout;
    assert!(told.contains("its end is not on record"), "{told}");
}

#[test]
fn a_waiting_job_is_reported_as_waiting_and_one_killed_while_waiting_as_killed() {
    for task in [&["run", "x", "--wait", "1m", "--", "echo"][..], &["acquire", "x", "--wait", "1m"]]
    {
        let sandbox = Sandbox::embedded();
        let _holder = sandbox.hold("x --log off --owner ada");
        let log = |args: &[&str]| redlatch(&sandbox, &[&["log", "x"], args].concat()).exits_with(0);
        let waiter = start(sandbox.redlatch(task));

        eventually(PATIENCE, || {
            log(&[]).stdout.contains(" has been waiting for the lock since 20")
        });
        let told = json_of(&log(&["--json"]).stdout);
        assert_eq!((&told["outcome"], &told["exit"]), (&"waiting".into(), &Value::Null));
        assert_eq!(told["why"], "x is held by ada");
        assert!(log(&[]).stdout.ends_with(": x is held by ada\n"), "{}", log(&[]).stdout);
        assert_eq!(log(&["--failed"]).stdout, "", "it has not failed");

        kill_all(&waiter);
        let words = "redlatch was killed while it waited";
        // Nobody has reaped it yet: a zombie waits for nothing.
        eventually(PATIENCE, || log(&["--failed"]).stdout.contains(words));
        drop(waiter);
        let told = log(&["--failed"]).stdout;
        assert!(told.contains(words), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains("; it waited because x is held by ada"), "{told}");
    }
}

/// A `run` whose command is done, and which keeps the lock for `--at-least`.
fn lingering(sandbox: &Sandbox) -> support::Running {
    let run = ["run", "x", "--at-least", "10m", "--metrics-dir", ".", "--", "true"];
    let run = start(sandbox.redlatch(run));
    let mut told = String::new();
    eventually(PATIENCE, || {
        told = redlatch(sandbox, &["log", "x"]).stdout;
        told.contains("x  true ran for ") && told.contains("; its lock is kept (--at-least)")
    });
    run
}

/// The last attempt, in words and as JSON, once the words are on record.
fn last(sandbox: &Sandbox, words: &str) -> (String, Value) {
    let log = ["log", "x", "--last", "1"];
    eventually(PATIENCE, || redlatch(sandbox, &log).stdout.contains(words));
    let json = redlatch(sandbox, &[&log[..], &["--json"]].concat()).stdout;
    (redlatch(sandbox, &log).stdout, json_of(&json))
}

/// What `--metrics-dir .` has written.
fn metrics(sandbox: &Sandbox) -> String {
    let mut files = fs::read_dir(sandbox.dir()).unwrap().map(|file| file.unwrap().path());
    let written = files.find(|path| path.extension().is_some_and(|end| end == "prom"));
    fs::read_to_string(written.unwrap()).unwrap()
}

#[test]
fn a_run_that_is_killed_while_it_keeps_the_lock_has_run_its_command() {
    for (victim, why, exit) in [
        ("front", "; redlatch was killed, which cut --at-least short", None),
        (
            "holder",
            "; the process that held the lock was killed after the command had ended",
            Some(125),
        ),
        ("nobody", "; SIGTERM cut --at-least short", Some(0)),
    ] {
        let sandbox = Sandbox::embedded();
        let front = lingering(&sandbox);
        match victim {
            "front" => send("KILL", front.pid()),
            "holder" => send("KILL", child_of(front.pid())),
            _ => send("TERM", front.pid()),
        }

        let (told, json) = last(&sandbox, why);

        assert!(told.contains("x  true ran for "), "{told}");
        assert!(told.contains("; kept its lock for "), "{told}");
        assert!(told.contains(" (--at-least); "), "{told}");
        assert_eq!((&json["ended"], &json["command_exit"]), (&"exited".into(), &0.into()));
        assert_eq!(json["exit"].as_u64(), exit, "{told}");
        eventually(PATIENCE, || metrics(&sandbox).contains(r#"="succeeded""#));
    }
}

/// Whether a renewal shows that it is gone, or only the release.
#[test]
fn a_lock_that_is_lost_after_its_command_was_not_lost_by_the_command() {
    for (options, is_cut_short) in [(&["--ttl", "600ms"][..], false), (&["--ttl", "1h"], true)] {
        let sandbox = Sandbox::embedded();
        let keep = ["run", "x", "--max-ttl", "1h", "--at-least", "10m"];
        let run = start(sandbox.redlatch([&keep, options, &["--", "true"]].concat()));
        eventually(PATIENCE, || {
            redlatch(&sandbox, &["log", "x"]).stdout.contains("; its lock is kept (--at-least)")
        });

        redlatch(&sandbox, &["release", "--force", "x", "--yes", "--log", "off"]).exits_with(0);
        if is_cut_short {
            run.signal("TERM");
        }
        let said = run.end().exits_with(123).stderr;

        let (told, json) = last(&sandbox, "; its lock was lost after ");
        assert!(told.contains("  x  true ran for "), "{told}");
        assert!(told.contains(" at the latest: "), "{told}");
        assert!(told.contains("the lock was lost before the end of --at-least: "), "{told}");
        assert!(!told.contains("true lost its lock"), "{told}");
        assert!(said.contains("the command is done, but the lock was lost before"), "{said}");
        let ms = |field: &str| json[field].as_u64().unwrap();
        assert_eq!((ms("held_ms"), &json["ended"]), (ms("lost_ms"), &"lost".into()), "{json}");
        assert!(ms("ran_ms") <= ms("lost_ms"), "{json}");
    }
}

/// The caller sees 134, 142 or 137; whoever writes the record sees only that it is dead.
#[test]
fn the_log_states_no_exit_status_that_nobody_has_seen() {
    for signal in ["ABRT", "ALRM", "KILL"] {
        let sandbox = Sandbox::embedded();
        let running = sandbox.hold("x");
        running.signal(signal);

        let (told, json) = last(&sandbox, "redlatch was killed, and the command with it");

        assert!(json["exit"].is_null(), "{json}");
        assert_eq!((&json["ended"], &json["was_killed"]), (&"killed".into(), &true.into()));
        assert!(!told.contains("exit "), "{told}");
        assert!(json["process"].is_null(), "its end is known: {json}");
    }
}

/// The caller sees 137; the holder wakes up when the lease is over, and the command is dead.
#[test]
fn a_holder_that_was_stopped_when_redlatch_was_killed_states_no_exit_status_either() {
    // In a container, too, the next parent is of the same session. Otherwise, the kernel would
    // continue a group of processes that nobody can continue any more.
    prctl::set_child_subreaper(true).unwrap();
    let sandbox = Sandbox::embedded();
    // Long enough to kill the first process before it sees that the second one is stopped.
    let front = sandbox.hold("x --ttl 6s");
    let holder = child_of(front.pid());
    eventually(PATIENCE, || redlatch(&sandbox, &["log", "x"]).stdout.contains("is running"));

    send("STOP", holder);
    front.signal("KILL");
    dies(front.pid());
    drop(front);
    eventually(PATIENCE, || sandbox.is_free("x"));
    let open = redlatch(&sandbox, &["log", "x"]).stdout;
    send("CONT", holder);

    assert!(open.contains("its end is not on record"), "{open}");
    assert!(open.contains("what is left of it is stopped"), "{open}");
    // Whichever it sees first.
    let is_over = |told: &str| {
        ["sh lost its lock after ", "sh was killed after "].iter().any(|how| told.contains(how))
    };
    eventually(PATIENCE, || is_over(&redlatch(&sandbox, &["log", "x"]).stdout));
    let (told, json) = last(&sandbox, "redlatch was killed");
    assert!(told.contains("; fencing token ") && !told.contains("exit "), "{told}");
    assert_eq!((&json["exit"], &json["was_killed"]), (&Value::Null, &true.into()), "{json}");
}

#[test]
fn a_run_that_is_killed_with_all_it_is_while_it_keeps_the_lock_is_on_record() {
    let sandbox = Sandbox::embedded();
    let front = lingering(&sandbox);
    kill_all(&front);
    drop(front);

    let told = redlatch(&sandbox, &["log", "x", "--failed"]).exits_with(0).stdout;

    assert!(told.contains("x  true ran for "), "{told}");
    assert!(told.contains("; redlatch was killed before it released the lock, or "), "{told}");
}

#[test]
fn a_lost_lock_is_reported_with_the_time_of_the_loss() {
    let sandbox = Sandbox::embedded();
    let script = "redlatch release --force x --yes --quiet --log off; \
                  until [ -e lost ]; do sleep 0.01; done";
    let options = "x --ttl 600ms --on-lost warn --on-lost-run >lost";

    sandbox.run(options, script).end().exits_with(123);

    let (told, json) = last(&sandbox, "sh lost its lock after ");
    assert!(told.contains(", and ran for "), "{told}");
    let (lost, ran) = (json["lost_ms"].as_u64().unwrap(), json["ran_ms"].as_u64().unwrap());
    assert!(lost <= ran, "{json}");
}

#[test]
fn the_signal_that_ended_a_command_or_a_wait_is_reported() {
    let sandbox = Sandbox::embedded();
    redlatch(&sandbox, &["run", "x", "--", "sh", "-c", "kill -TERM $$"]).exits_with(143);
    let (told, _) = last(&sandbox, "exit 143");
    assert!(told.contains("sh was ended by SIGTERM; it ran for "), "{told}");

    let _holder = sandbox.hold("x --log off");
    let waiter = start(sandbox.redlatch(["run", "x", "--wait", "10m", "--", "true"]));
    eventually(PATIENCE, || {
        redlatch(&sandbox, &["log", "x"]).stdout.contains(" has been waiting ")
    });
    send("KILL", waiter.pid());

    let (told, _) = last(&sandbox, "redlatch was killed while it waited, after ");
    assert!(!told.contains("exit"), "{told}");
}

#[test]
fn a_wait_for_nodes_names_the_nodes() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    servers.kill(&[0, 1]);
    let waiter = start(sandbox.redlatch(["run", "x", "--wait", "1m", "--", "true"]));

    let waits = || redlatch(&sandbox, &["log", "x"]).stdout;
    eventually(PATIENCE, || waits().contains(" has been waiting for the lock since 20"));
    assert!(waits().contains(" of 3 nodes do not answer: "), "{}", waits());

    servers[0].restart();
    waiter.end().exits_with(0);
    let told = waits();
    assert!(told.contains("true ran for ") && !told.contains("do not answer"), "{told}");
}

#[test]
fn a_wait_that_has_ended_is_one_attempt() {
    let sandbox = Sandbox::embedded();
    let holder = sandbox.run("x --log off", "echo > up; while [ ! -e go ]; do sleep 0.01; done");
    eventually(PATIENCE, || sandbox.path("up").exists());
    let waiter = start(sandbox.redlatch(["run", "x", "--wait", "1m", "--", "true"]));
    eventually(PATIENCE, || !traced(&sandbox).is_empty());

    fs::write(sandbox.path("go"), "").unwrap();
    holder.end().exits_with(0);
    waiter.end().exits_with(0);

    let told = redlatch(&sandbox, &["log", "x"]).exits_with(0).stdout;
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("true ran for"), "{told}");
}

#[test]
fn another_process_with_the_same_id_is_not_taken_for_the_one_that_waited() {
    let sandbox = Sandbox::embedded();
    let _holder = sandbox.hold("x --log off");
    let waiter = start(sandbox.redlatch(["run", "x", "--wait", "1m", "--", "true"]));
    eventually(PATIENCE, || !traced(&sandbox).is_empty());
    let line = &traced(&sandbox)[0];
    let known = line["process"].as_str().unwrap();
    let (place, ticks) = known.rsplit_once('/').unwrap();
    let later = format!("{place}/{}", ticks.parse::<u64>().unwrap() - 1);
    let other_boot = known.replacen(|c: char| c.is_ascii_hexdigit(), "x", 1);

    for other in [later, other_boot] {
        let text = line.to_string().replace(known, &other);
        fs::write(sandbox.path("log"), text + "\n").unwrap();
        let told = redlatch(&sandbox, &["log", "x", "--log", "log"]).exits_with(0).stdout;
        assert!(told.contains("redlatch was killed while it waited"), "{told}");
    }
    drop(waiter);
}

#[test]
fn a_process_of_another_container_is_reported_neither_as_running_nor_as_killed() {
    let sandbox = Sandbox::embedded();
    // Process ids of its own, as in a container.
    let contained = |script: &str| {
        let mut command = sandbox.command("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]);
        command
    };
    if !start(contained("true")).end().status.success() {
        eprintln!("SKIPPED: this user may not make a process namespace");
        return;
    }
    let holder = sandbox.hold("x --log holder");
    let waiter = start(contained("redlatch run x --log waiter --wait 1m -- true; :"));
    let log = |file: &str| ["log", "--log", file].map(str::to_owned);
    let seen = |file: &str| start(sandbox.redlatch(log(file))).end().exits_with(0).stdout;
    eventually(PATIENCE, || !seen("waiter").is_empty() && !seen("holder").is_empty());

    let outside = seen("waiter");
    let inside = start(contained("redlatch log --log holder; :")).end().exits_with(0).stdout;

    let unknown =
        "cannot be told from here: it was started in another container, or on another machine";
    assert!(outside.contains("true has been waiting for the lock since 20"), "{outside}");
    assert!(outside.contains(unknown) && !outside.contains("killed"), "{outside}");
    assert!(
        inside.contains(&format!("sh was started; whether it still runs {unknown}")),
        "{inside}"
    );
    assert!(seen("holder").contains("sh is running"), "{}", seen("holder"));
    let json = start(sandbox.redlatch(["log", "--log", "waiter", "--json"])).end().stdout;
    assert!(json.contains(r#""outcome":"waiting""#), "{json}");
    drop((waiter, holder));
}

#[test]
fn a_job_that_was_never_started_is_reported_as_such() {
    let sandbox = Sandbox::embedded();
    let none = redlatch(&sandbox, &["log"]).exits_with(0);
    assert!(none.stderr.contains("has no record yet"), "{none:?}");
    redlatch(&sandbox, &["run", "other", "--", "true"]).exits_with(0);

    let ended = redlatch(&sandbox, &["log", "backup", "--since", "8h"]).exits_with(0);

    assert_eq!(ended.stdout, "");
    assert!(ended.stderr.contains("has no attempt on backup since"), "{ended:?}");
    let words = "redlatch was not started, or has only just started";
    assert!(ended.stderr.contains(words), "{ended:?}");
    assert!(ended.stderr.contains("or the record could not be written"), "{ended:?}");
    redlatch(&sandbox, &["log", "--since", "nonsense"]).exits_with(125);
    redlatch(&sandbox, &["log", "--log", "off"]).exits_with(125);
}

#[test]
fn a_name_that_is_far_too_long_is_cut_in_the_log_and_in_metrics() {
    let sandbox = Sandbox::embedded();
    let name = "ü".repeat(30_000);

    redlatch(&sandbox, &["run", &name, "--metrics-dir", ".", "--", "true"]).exits_with(125);

    let told = traced(&sandbox)[0]["names"][0].as_str().unwrap().to_owned();
    assert!(told == "ü".repeat(512) + "…", "{} bytes", told.len());
    let metrics = metrics(&sandbox);
    assert!(metrics.contains(&told) && !metrics.contains(&"ü".repeat(513)));
}

#[test]
fn a_log_over_the_limit_for_files_is_not_written_and_kills_nobody() {
    let (_servers, sandbox) = Sandbox::with_servers(1);
    fs::write(sandbox.path("log"), "\n".repeat(8192)).unwrap();
    fs::create_dir(sandbox.path("metrics")).unwrap();

    // In units of 512 or 1024 bytes.
    let limited = |task: &str| start(sandbox.shell(&format!("ulimit -f 8; {task}"))).end();
    let job = "run x --ttl 10s --log log -- sh -c 'sleep 0.1; echo done; ulimit -f; kill -XFSZ $$'";
    let ran = limited(&format!("redlatch {job}")).exits_with(128 + Signal::SIGXFSZ as i32);
    let acquired = limited("redlatch acquire x --log log").exits_with(0);
    let forced = limited("redlatch release --force x --yes --log log").exits_with(0);
    let measured = "ulimit -f 0; redlatch run y --log off --metrics-dir metrics -- echo done 2>&1";
    let measured = limited(&format!("({measured}) | cat")).exits_with(0).stdout;

    assert!(ran.stdout.starts_with("done\n"), "{ran:?}");
    assert!(ran.stderr.contains("is not in the log"), "{ran:?}");
    assert!(acquired.stderr.contains("is not in the log"), "{acquired:?}");
    assert!(forced.stderr.contains("is not in the log"), "{forced:?}");
    assert!(measured.contains("done\n") && measured.contains("no metrics"), "{measured}");
    assert!(!sandbox.path("metrics/.redlatch-root.new").exists());
}

#[test]
fn a_log_that_is_no_file_is_refused_at_once_unless_it_is_open_already() {
    let sandbox = Sandbox::embedded();
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(0);
    mkfifo(&sandbox.path("pipe"), Mode::from_bits_truncate(0o600)).unwrap();

    let pipe = redlatch(&sandbox, &["log", "--log", "pipe"]).exits_with(125).stderr;
    let device = redlatch(&sandbox, &["log", "--log", "/dev/null"]).exits_with(125).stderr;
    let in_memory = format!("/dev/shm/redlatch-test-{}", std::process::id());
    mkfifo(&*in_memory, Mode::from_bits_truncate(0o600)).unwrap();
    let mut memory = start(sandbox.redlatch(["log", "--log", &in_memory]));
    let has_ended = support::wait_until(PATIENCE / 2, || memory.has_ended());
    fs::remove_file(&in_memory).unwrap();
    assert!(has_ended, "it waits for a writer");
    let piped = sandbox.shell("cat redlatch/runs.jsonl | redlatch log --log /dev/stdin");
    let piped = start(piped).end().exits_with(0).stdout;

    let refused = |what: &str| format!("cannot be read: it is {what}, and keeps no records");
    assert!(pipe.contains(&refused("a pipe")), "{pipe}");
    let memory = memory.end().exits_with(125).stderr;
    assert!(memory.contains(&refused("a pipe")), "{memory}");
    assert!(device.contains(&refused("a device")), "{device}");
    assert!(piped.contains("true ran for "), "{piped}");
}

#[test]
fn a_release_whose_outcome_is_not_known_is_on_record_as_that() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let handle = redlatch(&sandbox, &["acquire", "x"]).exits_with(0).stdout;
    servers.kill(&[0, 1]);

    redlatch(&sandbox, &["release", handle.trim()]).exits_with(122);

    let told = redlatch(&sandbox, &["log", "x", "--last", "1"]).exits_with(0).stdout;
    let words = "  release: it is not known whether the lock is released: ";
    assert!(told.contains(words) && told.contains("; exit 122"), "{told}");
    assert!(!told.contains("not released"), "{told}");
}

#[test]
fn lines_of_the_log_that_cannot_be_read_are_counted() {
    let sandbox = Sandbox::embedded();
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(0);
    let path = sandbox.path("redlatch/runs.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    assert_eq!(redlatch(&sandbox, &["log"]).exits_with(0).stderr, "");
    fs::write(&path, format!("{}\n{whole}nonsense\n", &whole[..50])).unwrap();

    for args in [&["log"][..], &["log", "--json"]] {
        let told = redlatch(&sandbox, args).exits_with(0);
        assert_eq!(told.stdout.lines().count(), 1, "{told:?}");
        assert!(told.stderr.contains(": 2 lines cannot be read"), "{told:?}");
    }
}

#[test]
fn the_time_for_which_redlatch_was_stopped_does_not_count_as_time_with_the_lock() {
    let sandbox = Sandbox::embedded();
    let script = "echo up > up; exec sleep 100";
    let front = sandbox.run("x --ttl 1s --on-lost warn --on-lost-run >lost", script);
    sandbox.read("up");
    let all = with_descendants(front.pid());
    for pid in &all {
        send("STOP", *pid);
    }
    // Well after the end of the lease.
    std::thread::sleep(std::time::Duration::from_secs(4));
    for pid in all.iter().rev() {
        send("CONT", *pid);
    }
    eventually(PATIENCE, || sandbox.path("lost").exists());
    front.signal("TERM");

    front.end().exits_with(123);

    let (_, json) = last(&sandbox, "lost its lock after ");
    let (lost, ran) = (json["lost_ms"].as_u64().unwrap(), json["ran_ms"].as_u64().unwrap());
    assert!(ran >= 4000, "{json}");
    assert!(lost <= ran - 2500, "{json}");
}

#[test]
fn time_without_the_lock_is_no_time_for_which_it_was_held() {
    let force = "redlatch release --force x --yes --quiet --log off; ";
    for (options, take_away, exit) in
        [("--ttl 600ms", force, 123), ("--ttl 600ms --max-hold 1s", "", 124)]
    {
        let sandbox = Sandbox::embedded();
        // Ends well after the loss, whenever that is.
        let script = format!("{take_away}sleep 5");
        let options = format!("x --on-lost warn --metrics-dir . {options}");

        sandbox.run(&options, &script).end().exits_with(exit);

        let (told, json) = last(&sandbox, "sh lost its lock after ");
        assert!(told.contains(", and ran for 5."), "{told}");
        assert!(!told.contains("was stopped"), "{told}");
        assert!(told.contains("the command kept running without the lock"), "{told}");
        let ms = |field: &str| json[field].as_u64().unwrap();
        assert!(ms("ran_ms") >= 5000 && ms("held_ms") < 4000, "{json}");
        assert_eq!(ms("held_ms"), ms("lost_ms"));
        let written = metrics(&sandbox);
        let held = written.lines().find_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            series.starts_with("redlatch_hold_seconds_sum{").then(|| value.parse::<f64>().unwrap())
        });
        assert!(held.unwrap() < 4.0, "{written}");
    }
}
