//! Metrics: a file for hosts whose jobs come and go, and an exporter for the nodes.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::Servers;
use std::{fs, os::unix::fs::PermissionsExt};
use support::{
    PATIENCE, Sandbox, eventually, kill_all, redlatch,
    scraping::{ask, exporter, scrape},
    start,
};

/// What is written for `node_exporter`, without the user.
fn written(sandbox: &Sandbox) -> String {
    let found = fs::read_dir(sandbox.dir()).unwrap().flatten().map(|entry| entry.path());
    let file = found.into_iter().find(|path| path.extension().is_some_and(|end| end == "prom"));
    let text = fs::read_to_string(file.expect("no metrics were written")).unwrap();
    let user = regex_lite::Regex::new(r#",user="[^"]*""#).unwrap();
    user.replace_all(&text, "").into_owned()
}

/// The value of a sample, if it is there.
fn value(text: &str, sample: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

#[test]
fn runs_are_counted_by_what_came_of_them() {
    let sandbox = Sandbox::embedded();
    let run = |args: &[&str]| {
        redlatch(&sandbox, &[&["run", "x", "--metrics-dir", "."][..], args].concat())
    };
    run(&["--", "true"]).exits_with(0);
    run(&["--", "true"]).exits_with(0);
    run(&["--", "false"]).exits_with(1);
    run(&["--max-hold", "100ms", "--", "sleep", "100"]).exits_with(124);
    let succeeded =
        value(&written(&sandbox), "redlatch_last_success_timestamp_seconds{name=\"x\"}");
    redlatch(&sandbox, &["acquire", "x"]).exits_with(0);
    run(&["-E", "0", "--", "true"]).exits_with(0);
    let skipped = value(&written(&sandbox), "redlatch_skipped_since_timestamp_seconds{name=\"x\"}");
    run(&["--", "true"]).exits_with(121);

    let text = written(&sandbox);

    for (outcome, count) in
        [("succeeded", 2.0), ("command-failed", 1.0), ("max-hold", 1.0), ("held", 2.0)]
    {
        let sample = format!("redlatch_attempts_total{{name=\"x\",outcome=\"{outcome}\"}}");
        assert_eq!(value(&text, &sample), Some(count), "{text}");
    }
    let of = |metric: &str| value(&text, &format!("redlatch_{metric}{{name=\"x\"}}")).unwrap();
    assert_eq!((of("wait_seconds_count"), of("hold_seconds_count")), (6.0, 4.0));
    assert!(of("hold_seconds_sum") >= 0.1, "{text}");
    assert_eq!(Some(of("last_success_timestamp_seconds")), succeeded);
    // Since the first of the attempts in a row.
    assert_eq!(Some(of("skipped_since_timestamp_seconds")), skipped);
    assert!(skipped.unwrap() > succeeded.unwrap());
}

#[test]
fn writers_take_turns_and_wait_for_no_one_for_long() {
    let sandbox = Sandbox::embedded();
    let run = |name: &str| {
        let script = format!("umask 077; exec redlatch run {name} -v --metrics-dir . -- true");
        start(sandbox.shell(&script)).end().exits_with(0)
    };
    let counted = |name: &str| {
        let sample = format!("redlatch_attempts_total{{name=\"{name}\",outcome=\"succeeded\"}}");
        value(&written(&sandbox), &sample)
    };
    run("x");
    let file = |end: &str| {
        let files = fs::read_dir(sandbox.dir()).unwrap().flatten().map(|file| file.path());
        files.into_iter().find(|path| path.to_str().unwrap().ends_with(end)).unwrap()
    };
    let lock = fs::File::open(file(".lock")).unwrap();
    lock.lock().unwrap();

    let blocked = run("y");
    drop(lock);

    assert!(
        blocked.stderr.contains("no metrics are written to .: others are writing"),
        "{blocked:?}"
    );
    assert_eq!((counted("x"), counted("y")), (Some(1.0), None));
    let mode = file(".prom").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "others can read it, whatever the umask");
    let next = run("y");
    let missed = next.stderr.contains("no metrics");
    assert_eq!(counted("y"), (!missed).then_some(1.0), "{next:?}");
}

#[test]
fn what_is_not_written_is_named_be_it_the_log_the_metrics_or_both() {
    let sandbox = Sandbox::embedded();
    fs::create_dir(sandbox.path("hangs")).unwrap();
    let run = |more: &[&str]| redlatch(&sandbox, &[&["run", "x"], more, &["--", "true"]].concat());
    run(&["--metrics-dir", "hangs"]).exits_with(0);
    let files = fs::read_dir(sandbox.path("hangs")).unwrap().flatten().map(|file| file.path());
    let file = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "prom"));
    let file = file.unwrap();
    fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();

    let slow = run(&["--metrics-dir", "hangs"]).exits_with(0).stderr;
    let both = run(&["--metrics-dir", "/proc/none", "--log", "/dev/full"]).exits_with(0).stderr;

    assert!(slow.contains("no metrics are written to hangs: it takes too long"), "{slow}");
    assert!(!slow.contains("not in the log"), "{slow}");
    assert!(both.contains("this attempt is not in the log: /dev/full"), "{both}");
    assert!(both.contains("no metrics are written to /proc/none: "), "{both}");
}

#[test]
fn a_run_that_was_killed_with_all_it_is_is_counted_by_the_next() {
    let sandbox = Sandbox::embedded();
    let run = |name: &str, command: &[&str]| {
        let args = ["run", name, "--ttl", "2s", "--wait", "1m", "--metrics-dir", ".", "--"];
        start(sandbox.redlatch([&args[..], command].concat()))
    };
    let killed = |name: &str| {
        let sample = format!("redlatch_attempts_total{{name=\"{name}\",outcome=\"killed\"}}");
        value(&written(&sandbox), &sample)
    };
    // A name, and the same name as a label.
    let odd = ("x,outcome=\"\\", "x,outcome=\\\"\\\\");
    let hang = |name: &str, label: &str| {
        let running = run(name, &["sleep", "100"]);
        let begun = format!("redlatch_last_attempt_timestamp_seconds{{name=\"{label}\"}}");
        let is_prom = |file: &fs::DirEntry| file.path().extension().is_some_and(|it| it == "prom");
        let dir = || fs::read_dir(sandbox.dir()).unwrap().flatten();
        eventually(PATIENCE, || dir().any(|file| is_prom(&file)));
        eventually(PATIENCE, || value(&written(&sandbox), &begun).is_some());
        running
    };
    let (x, y) = (hang(odd.0, odd.1), hang("y", "y"));
    run("z", &["true"]).end().exits_with(0);
    assert_eq!([killed(odd.1), killed("y")], [None; 2], "they run");

    kill_all(&x);
    kill_all(&y);
    drop((x, y));
    run("y", &["sleep", "1.5"]).end().exits_with(0);
    run("z", &["true"]).end().exits_with(0);

    let text = written(&sandbox);
    assert_eq!([killed(odd.1), killed("y")], [Some(1.0); 2], "{text}");
    let succeeded = "redlatch_attempts_total{name=\"y\",outcome=\"succeeded\"}";
    assert_eq!(value(&text, succeeded), Some(1.0), "{text}");
}

#[test]
fn a_run_that_was_killed_after_its_command_has_succeeded() {
    let sandbox = Sandbox::embedded();
    let run = |name: &str, options: &[&str], command: &[&str]| {
        let args = [&["run", name, "--metrics-dir", "."], options, &["--"], command];
        start(sandbox.redlatch(args.concat()))
    };
    // Long enough to be noted as running before.
    let kept = run("x", &["--at-least", "10m"], &["sleep", "1.5"]);
    eventually(PATIENCE, || {
        redlatch(&sandbox, &["log", "x"]).stdout.contains("; its lock is kept (--at-least)")
    });
    // The record comes first.
    eventually(PATIENCE, || written(&sandbox).contains("succeeded"));

    kill_all(&kept);
    drop(kept);
    run("y", &[], &["true"]).end().exits_with(0);

    let text = written(&sandbox);
    let of_x: Vec<_> =
        text.lines().filter(|line| line.contains("attempts_total{name=\"x\"")).collect();
    assert_eq!(of_x, ["redlatch_attempts_total{name=\"x\",outcome=\"succeeded\"} 1"], "{text}");
}

#[test]
fn a_run_whose_beginning_is_written_after_its_end_is_counted_once() {
    let sandbox = Sandbox::embedded();
    redlatch(&sandbox, &["run", "y", "--metrics-dir", ".", "--", "true"]).exits_with(0);
    let files = || fs::read_dir(sandbox.dir()).unwrap().flatten().map(|file| file.path());
    let lock = files().find(|path| path.extension().is_some_and(|end| end == "lock")).unwrap();
    let lock = fs::File::open(lock).unwrap();
    // Both are on record before they are counted: then both wait for this lock.
    lock.lock().unwrap();
    let script = "until [ -e go ]; do sleep 0.01; done";
    let job = sandbox.run("x --metrics-dir .", script);
    let log = |words: &str| {
        eventually(PATIENCE, || redlatch(&sandbox, &["log", "x"]).stdout.contains(words));
    };
    log("sh is running");
    fs::write(sandbox.path("go"), "").unwrap();
    log("sh ran for");
    drop(lock);

    job.end().exits_with(0);
    redlatch(&sandbox, &["run", "y", "--metrics-dir", ".", "--", "true"]).exits_with(0);

    let text = written(&sandbox);
    assert!(!text.contains("killed") && !text.contains("unfinished"), "{text}");
}

#[test]
fn a_job_that_waits_is_not_taken_for_one_that_runs() {
    let sandbox = Sandbox::embedded();
    let _holder = sandbox.hold("x");
    let run = ["run", "x", "--metrics-dir", "."];
    redlatch(&sandbox, &[&run[..], &["--", "true"]].concat()).exits_with(121);
    let skipped = || {
        value(&written(&sandbox), "redlatch_skipped_since_timestamp_seconds{name=\"x\"}").unwrap()
    };
    let since = skipped();
    assert!(since > 0.0);

    let waiter = start(sandbox.redlatch([&run[..], &["--wait", "1m", "--", "true"]].concat()));
    eventually(PATIENCE, || {
        redlatch(&sandbox, &["log", "x"]).stdout.contains("has been waiting for the lock")
    });
    redlatch(&sandbox, &[&run[..], &["--", "true"]].concat()).exits_with(121);

    assert!((skipped() - since).abs() < f64::EPSILON, "{} {since}", skipped());
    drop(waiter);
}

#[test]
fn metrics_that_cannot_be_written_harm_no_job() {
    let sandbox = Sandbox::embedded();
    let run = |more: &[&str]| {
        redlatch(&sandbox, &[&["run", "x", "--metrics-dir", "/proc/none"], more].concat())
    };

    let quiet = run(&["--quiet", "--", "true"]).exits_with(0);
    let told = run(&["--", "true"]).exits_with(0);

    assert_eq!(quiet.stderr, "");
    assert!(told.stderr.contains("no metrics are written to /proc/none: "), "{told:?}");
}

#[test]
fn the_exporter_reports_locks_and_nodes_and_changes_nothing() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::on(&servers);
    let (running, port) = exporter(&sandbox);
    let empty = scrape(port);
    let before = servers.keys_everywhere();
    redlatch(&sandbox, &["acquire", "x", "--owner", "ada"]).exits_with(0);
    eventually(PATIENCE, || value(&scrape(port), "redlatch_locks_held") == Some(1.0));
    eventually(PATIENCE, || value(&scrape(port), "redlatch_oldest_lock_seconds") > Some(0.0));
    let waiter = start(sandbox.redlatch(["run", "x", "--wait", "1m", "--", "true"]));
    eventually(PATIENCE, || value(&scrape(port), "redlatch_waiters") == Some(1.0));
    drop(waiter);
    servers[2].kill();

    let text = scrape(port);

    assert!(empty.starts_with("HTTP/1.1 200 OK\r\n"), "{empty}");
    assert_eq!(value(&empty, "redlatch_locks_held"), Some(0.0), "{empty}");
    assert_eq!(value(&empty, "redlatch_nodes{standing=\"admitted\"}"), Some(3.0));
    assert_eq!(before, [[""; 0]; 3]);
    assert_eq!(value(&text, "redlatch_nodes{standing=\"down\"}"), Some(1.0), "{text}");
    assert_eq!(value(&text, "redlatch_majority"), Some(1.0));
    let down = format!("redlatch_node_standing{{node=\"{}\",standing=\"down\"}}", servers[2].url());
    assert_eq!(value(&text, &down), Some(1.0), "{text}");
    let clock = format!("redlatch_node_clock_offset_seconds{{node=\"{}\"}}", servers[0].url());
    assert!(value(&text, &clock).unwrap().abs() < 60.0);
    running.signal("TERM");
    running.end().exits_with(0);
}

#[test]
fn what_the_exporter_cannot_know_without_a_majority_it_does_not_say() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::on(&servers).with_times("10m", "1s");
    start(sandbox.redlatch(["admit", "--all", "--yes"])).end().exits_with(0);
    redlatch(&sandbox, &["acquire", "x", "--ttl", "10m"]).exits_with(0);
    let (_running, port) = exporter(&sandbox);
    let of_locks = ["locks_held", "locks_unclear", "oldest_lock_seconds", "waiters"]
        .map(|metric| format!("redlatch_{metric}"));
    let oldest = |text: &str| value(text, "redlatch_oldest_lock_seconds");
    eventually(PATIENCE, || oldest(&scrape(port)) > Some(0.0));
    let before = scrape(port);
    assert!(of_locks.iter().all(|sample| value(&before, sample).is_some()), "{before}");

    servers.freeze(&[1, 2]);
    let during = scrape(port);
    servers.thaw(&[1, 2]);

    assert_eq!(value(&during, "redlatch_majority"), Some(0.0), "{during}");
    assert_eq!(value(&during, "redlatch_nodes_listed"), Some(1.0), "{during}");
    for sample in &of_locks {
        assert_eq!(value(&during, sample), None, "{during}");
    }
    eventually(PATIENCE, || value(&scrape(port), "redlatch_locks_held") == Some(1.0));
    assert!(oldest(&scrape(port)) > oldest(&before), "it is the same lock");
}

#[test]
fn the_exporter_answers_no_name_that_is_not_its_own() {
    let sandbox = Sandbox::embedded();
    let (_running, port) = exporter(&sandbox);
    for (question, status) in [
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
        ("GET /metrics HTTP/1.1\r\n\r\n", "400"),
        ("DELETE /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("GET /else HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
    ] {
        let answer = ask(port, question);

        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{question}: {answer}");
        assert!(!answer.contains("redlatch_"), "{answer}");
    }
    let taken = format!("127.0.0.1:{port}");
    redlatch(&sandbox, &["exporter", "--listen", &taken]).exits_with(125);
}
