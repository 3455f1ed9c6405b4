//! Metrics: a file for hosts whose jobs come and go, and an exporter for the nodes.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::Servers;
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};
use support::{Ended, PATIENCE, Running, Sandbox, eventually, start};

fn redlatch(sandbox: &Sandbox, args: &[&str]) -> Ended {
    start(sandbox.redlatch(args)).end()
}

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
        let script = format!("umask 022; exec redlatch run {name} -v --metrics-dir . -- true");
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

    assert!(blocked.stderr.contains("no metrics are written: others are writing"), "{blocked:?}");
    assert_eq!((counted("x"), counted("y")), (Some(1.0), None));
    let mode = file(".prom").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "others can read it");
    let next = run("y");
    let missed = next.stderr.contains("no metrics");
    assert_eq!(counted("y"), (!missed).then_some(1.0), "{next:?}");
}

#[test]
fn metrics_that_cannot_be_written_harm_no_job() {
    let sandbox = Sandbox::embedded();
    let run = |more: &[&str]| {
        redlatch(&sandbox, &[&["run", "x", "--metrics-dir", "/proc/none"], more].concat())
    };

    let quiet = run(&["--", "true"]).exits_with(0);
    let told = run(&["-v", "--", "true"]).exits_with(0);

    assert_eq!(quiet.stderr, "");
    assert!(told.stderr.contains("no metrics are written"), "{told:?}");
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// An exporter, and its port.
fn exporter(sandbox: &Sandbox) -> (Running, u16) {
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let running = start(sandbox.redlatch(["exporter", "--every", "0s", "--listen", &listen]));
    eventually(PATIENCE, || TcpStream::connect(&listen).is_ok());
    (running, port)
}

fn ask(port: u16, question: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(question.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn scrape(port: u16) -> String {
    ask(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

#[test]
fn the_exporter_tells_locks_and_nodes_and_changes_nothing() {
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

/// The rules that are shipped.
fn rules() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/prometheus/redlatch.rules.yml"))
}

/// Serves what is written for `node_exporter`, as it would.
fn serve_file(text: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer);
            let length = text.len();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4";
            let _ = write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{text}");
        }
    });
    port
}

/// A question to Prometheus' API.
fn query(port: u16, path: &str) -> Value {
    let question = format!("GET /api/v1/{path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    let answer = ask(port, &question);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or(Value::Null)
}

#[test]
fn prometheus_scrapes_both_and_the_alert_for_a_skipped_job_fires() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no Prometheus here (apt-get install prometheus)");
        return;
    }
    let sandbox = Sandbox::embedded();
    redlatch(&sandbox, &["acquire", "backup"]).exits_with(0);
    redlatch(&sandbox, &["run", "backup", "--metrics-dir", ".", "--", "true"]).exits_with(121);
    // The file of a job that was skipped for the first time more than an hour ago.
    let text = written(&sandbox);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let long_ago = now.as_secs_f64() - 3700.0;
    let since = "redlatch_skipped_since_timestamp_seconds{name=\"backup\"}";
    let at = value(&text, since).unwrap();
    let text = text.replace(&format!("{since} {at}"), &format!("{since} {long_ago}"));
    assert_eq!(value(&text, since), Some(long_ago), "{text}");
    let (_exporter, exporter_port) = exporter(&sandbox);
    let (host_port, port) = (serve_file(text), free_port());
    let config = format!(
        "global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}}\n\
         rule_files: [{}]\n\
         scrape_configs:\n\
         - job_name: redlatch\n  static_configs: [{{targets: ['127.0.0.1:{exporter_port}']}}]\n\
         - job_name: node\n  static_configs: [{{targets: ['127.0.0.1:{host_port}']}}]\n",
        rules().display()
    );
    fs::write(sandbox.path("prometheus.yml"), config).unwrap();
    let mut command = Command::new("prometheus");
    command
        .current_dir(sandbox.dir())
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let _prometheus =
        Running::of(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    eventually(PATIENCE, || TcpStream::connect(("127.0.0.1", port)).is_ok());

    eventually(PATIENCE, || {
        let held = query(port, "query?query=redlatch_locks_held");
        held["data"]["result"][0]["value"][1] == "1"
    });
    eventually(PATIENCE, || {
        let alerts = query(port, "alerts");
        let alerts = alerts["data"]["alerts"].as_array().cloned().unwrap_or_default();
        alerts.iter().any(|alert| {
            let labels = &alert["labels"];
            alert["state"] == "firing"
                && labels["alertname"] == "RedlatchJobSkipped"
                && labels["name"] == "backup"
        })
    });
}
