//! A real Prometheus scrapes what hosts and the exporter say; the alerts that are shipped
//! fire in it, and every query of the dashboard has an answer.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::{FakeClock, Prometheus, Servers, faketime_library};
use regex_lite::Regex;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    time::Duration,
};
use support::{
    PATIENCE, Running, Sandbox, eventually,
    scraping::{ask, exporter},
    start, wait_until,
};

fn docs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file).canonicalize().unwrap()
}

/// What jobs of the sandbox have left behind so far.
fn written(sandbox: &Sandbox) -> String {
    written_in(sandbox.dir())
}

fn written_in(dir: &Path) -> String {
    let files = fs::read_dir(dir).into_iter().flatten().flatten().map(|file| file.path());
    let is_it = |path: &PathBuf| path.extension().is_some_and(|end| end == "prom");
    files.filter(is_it).filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// Serves the file that jobs of the sandbox leave behind, as `node_exporter` does.
fn serve_textfile(sandbox: &Sandbox) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let dir = sandbox.dir().to_owned();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let text = written_in(&dir);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4";
            let _ = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        }
    });
    port
}

/// Prometheus with the alerts, which scrapes the exporter, if there is one, and the hosts
/// often.
fn prometheus(exporter: Option<u16>, hosts: &[u16]) -> Prometheus {
    let rules = docs("prometheus/redlatch.rules.yml");
    let targets = |ports: &[u16]| {
        ports.iter().map(|port| format!("'127.0.0.1:{port}'")).collect::<Vec<_>>().join(", ")
    };
    let (exporter, hosts) = (targets(exporter.as_slice()), targets(hosts));
    let config = format!(
        "global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}}\n\
         rule_files: [{}]\n\
         scrape_configs:\n\
         - job_name: redlatch\n  static_configs: [{{targets: [{exporter}]}}]\n\
         - job_name: node\n  static_configs: [{{targets: [{hosts}]}}]\n",
        rules.display()
    );
    Prometheus::start(&config).unwrap()
}

/// A question to Prometheus' API.
fn api(prometheus: &Prometheus, path: &str) -> Value {
    let question = format!("GET /api/v1/{path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    let answer = ask(prometheus.port(), &question);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or(Value::Null)
}

/// The values that a query returns, those that are numbers.
fn query(prometheus: &Prometheus, expr: &str) -> Vec<f64> {
    let escaped: Vec<_> = expr.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let escaped = escaped.concat();
    let answer = api(prometheus, &format!("query?query={escaped}"));
    assert_eq!(answer["status"], "success", "{expr}: {answer}");
    let series = answer["data"]["result"].as_array().unwrap();
    let values = series.iter().map(|series| series["value"][1].as_str().unwrap());
    values.map(|value| value.parse().unwrap()).filter(|value: &f64| value.is_finite()).collect()
}

#[track_caller]
fn answers(prometheus: &Prometheus, expr: &str) {
    let has_data = || !query(prometheus, expr).is_empty();
    assert!(wait_until(PATIENCE, has_data), "no data for {expr}");
}

/// Waits until an alert is in one of these states.
#[track_caller]
fn alerts(prometheus: &Prometheus, name: &str, label: (&str, &str), states: &[&str]) {
    let is_it = |alert: &Value| {
        let labels = &alert["labels"];
        labels["alertname"] == name
            && (label.0.is_empty() || labels[label.0] == label.1)
            && states.iter().any(|state| alert["state"] == *state)
    };
    let there =
        || api(prometheus, "alerts")["data"]["alerts"].as_array().unwrap().iter().any(is_it);
    assert!(wait_until(PATIENCE, there), "{name}: {}", api(prometheus, "alerts"));
}

/// Jobs of one host: `sync` succeeds, `index` loses its lock, `backup` is skipped.
struct Host {
    sandbox: Sandbox,
    _holder: Running,
}

impl Host {
    /// `backup` is held for all of the test, and was skipped for the first time by a
    /// process whose clock is 70 minutes behind.
    fn on(servers: &Servers) -> Self {
        let sandbox = Sandbox::on(servers);
        let clock = FakeClock::new(faketime_library().unwrap(), sandbox.dir()).unwrap();
        clock.behind(Duration::from_secs(70 * 60)).unwrap();
        let holder = sandbox.hold("backup --log off");
        let mut skipped = sandbox.redlatch(["run", "backup", "--metrics-dir", ".", "--", "true"]);
        clock.preload(&mut skipped);
        start(skipped).end().exits_with(121);
        Host { sandbox, _holder: holder }
    }

    fn run(&self, name: &str, code: i32, command: &[&str]) {
        let args = [&["run", name, "--metrics-dir", ".", "--"], command].concat();
        start(self.sandbox.redlatch(args)).end().exits_with(code);
    }

    fn lose(&self) {
        let up = self.sandbox.path("index.up");
        let _ = fs::remove_file(&up);
        let script = [
            "run",
            "index",
            "--metrics-dir",
            ".",
            "--",
            "sh",
            "-c",
            "echo up > index.up; sleep 100",
        ];
        let running = start(self.sandbox.redlatch(script));
        self.sandbox.read("index.up");
        let force = ["release", "--force", "index", "--yes", "--log", "off"];
        start(self.sandbox.redlatch(force)).end().exits_with(0);
        running.signal("TERM");
        running.end().exits_with(123);
    }

    fn try_all(&self) {
        self.run("backup", 121, &["true"]);
        self.run("sync", 0, &["sleep", "0.1"]);
        self.lose();
    }
}

#[test]
fn prometheus_scrapes_all_of_it_the_alerts_fire_and_the_dashboard_shows_data() {
    let servers = Servers::start(3).unwrap();
    let host = Host::on(&servers);
    host.try_all();
    let _waiter =
        start(host.sandbox.redlatch(["run", "backup", "--wait", "forever", "--", "true"]));
    let (running, exporter_port) = exporter(&host.sandbox);
    let prometheus = prometheus(Some(exporter_port), &[serve_textfile(&host.sandbox)]);
    answers(&prometheus, "redlatch_locks_held");
    answers(&prometheus, "redlatch_attempts_total");
    host.try_all(); // while it is watching, so that counters grow

    for (title, expr) in dashboard() {
        eprintln!("{title}: {expr}");
        answers(&prometheus, &expr);
    }
    for (metric, label) in variables() {
        let values = api(&prometheus, &format!("label/{label}/values?match%5B%5D={metric}"));
        assert!(!values["data"].as_array().unwrap().is_empty(), "{metric}, {label}: {values}");
    }
    eventually(PATIENCE, || query(&prometheus, "redlatch_locks_held") == [1.0]);
    eventually(PATIENCE, || query(&prometheus, "redlatch_waiters") == [1.0]);

    alerts(&prometheus, "RedlatchJobSkipped", ("name", "backup"), &["firing"]);
    alerts(&prometheus, "RedlatchLockLost", ("name", "index"), &["firing"]);
    servers.kill(&[1, 2]);
    // These fire only if it stays like this for minutes.
    let begun = ["pending", "firing"];
    alerts(&prometheus, "RedlatchNodeMissing", ("node", &servers[1].url()), &begun);
    alerts(&prometheus, "RedlatchNoMajority", ("", ""), &begun);
    let rules = api(&prometheus, "rules").to_string();
    assert!(
        !rules.contains("\"health\":\"err\"") && rules.contains("RedlatchClockOffset"),
        "{rules}"
    );
    for metric in metrics_in(&fs::read_to_string(docs("prometheus/redlatch.rules.yml")).unwrap()) {
        answers(&prometheus, &metric);
    }
    drop(running);
    alerts(&prometheus, "RedlatchExporterGone", ("", ""), &begun);
}

/// Waits until all rules have been evaluated from here on: one evaluation may be under way.
#[track_caller]
fn evaluated(prometheus: &Prometheus) {
    let last = || api(prometheus, "rules")["data"]["groups"][0]["lastEvaluation"].clone();
    for _ in 0..2 {
        let before = last();
        eventually(PATIENCE, || last() != before);
    }
}

/// One attempt 70 minutes ago, by the clock of its host.
fn long_ago(host: &Sandbox, name: &str, code: i32) {
    let clock = FakeClock::new(faketime_library().unwrap(), host.dir()).unwrap();
    clock.behind(Duration::from_secs(70 * 60)).unwrap();
    let mut attempt = host.redlatch(["run", name, "--metrics-dir", ".", "--", "true"]);
    clock.preload(&mut attempt);
    start(attempt).end().exits_with(code);
}

#[test]
fn a_job_that_one_host_runs_and_another_skips_is_no_alert_but_one_that_all_skip_is() {
    let servers = Servers::start(3).unwrap();
    let hosts = [Sandbox::on(&servers), Sandbox::on(&servers)];
    let elsewhere = Sandbox::on(&servers);
    let _stuck = elsewhere.hold("backup --log off");
    for host in &hosts {
        long_ago(host, "backup", 121);
    }
    long_ago(&hosts[0], "nightly", 0);
    let handle = start(elsewhere.redlatch(["acquire", "nightly"])).end().exits_with(0).stdout;
    long_ago(&hosts[1], "nightly", 121);
    start(elsewhere.redlatch(["release", handle.trim()])).end().exits_with(0);

    let ports = hosts.each_ref().map(serve_textfile);
    let prometheus = prometheus(None, &ports);

    answers(&prometheus, "count(redlatch_skipped_since_timestamp_seconds) == 4");
    evaluated(&prometheus);
    alerts(&prometheus, "RedlatchJobSkipped", ("name", "backup"), &["firing"]);
    let fired = api(&prometheus, "alerts")["data"]["alerts"].clone();
    assert_eq!(fired.as_array().unwrap().len(), 1, "{fired}");
}

#[test]
fn a_job_that_runs_for_long_and_is_tried_meanwhile_is_no_alert_but_one_that_died_is() {
    let servers = Servers::start(3).unwrap();
    let (host, elsewhere) = (Sandbox::on(&servers), Sandbox::on(&servers));
    let begin = |name: &str| {
        let args = format!("{name} --metrics-dir .");
        let job = host.run(&args, &format!("echo up > {name}.up; sleep 100"));
        host.read(&format!("{name}.up"));
        eventually(PATIENCE, || written(&host).contains(&format!("name=\"{name}\"")));
        job
    };
    let _runs = begin("reindex");
    let died = begin("import");
    died.signal("KILL");
    drop(died);
    eventually(PATIENCE, || host.is_free("import"));
    let _stuck = elsewhere.hold("import --log off");

    long_ago(&host, "reindex", 121);
    long_ago(&host, "import", 121);

    let prometheus = prometheus(None, &[serve_textfile(&host)]);
    answers(&prometheus, "count(redlatch_skipped_since_timestamp_seconds) == 2");
    evaluated(&prometheus);
    alerts(&prometheus, "RedlatchJobSkipped", ("name", "import"), &["firing"]);
    let fired = api(&prometheus, "alerts")["data"]["alerts"].clone();
    assert_eq!(fired.as_array().unwrap().len(), 1, "{fired}");
}

/// Clocks that are ahead are as bad as those that are behind.
#[test]
fn a_clock_that_is_off_is_an_alert_that_says_to_which_side() {
    let host = Sandbox::embedded();
    let metric = "redlatch_node_clock_offset_seconds";
    let text =
        format!("{metric}{{node=\"a\"}} -6\n{metric}{{node=\"b\"}} 7\n{metric}{{node=\"c\"}} 1\n");
    fs::write(host.path("redlatch-test.prom"), text).unwrap();

    let prometheus = prometheus(None, &[serve_textfile(&host)]);
    answers(&prometheus, &format!("count({metric}) == 3"));
    evaluated(&prometheus);

    for (node, words) in [("a", "-6 s"), ("b", "+7 s")] {
        alerts(&prometheus, "RedlatchClockOffset", ("node", node), &["pending"]);
        let pending = api(&prometheus, "alerts")["data"]["alerts"].clone();
        let of_node = |alert: &&Value| alert["labels"]["node"] == node;
        let alert = pending.as_array().unwrap().iter().find(of_node).unwrap();
        let said = alert["annotations"]["summary"].as_str().unwrap();
        assert_eq!(
            said,
            format!("The clock of {node} is off by {words} (+ is ahead of the exporter's)")
        );
    }
    let pending = api(&prometheus, "alerts")["data"]["alerts"].clone();
    assert_eq!(pending.as_array().unwrap().len(), 2, "{pending}");
}

/// Every query of the dashboard, with the panel's title, for all instances and jobs.
fn dashboard() -> Vec<(String, String)> {
    let text = fs::read_to_string(docs("grafana/redlatch.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    for panel in
        dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row")
    {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            let expr = target["expr"].as_str().unwrap();
            let expr = expr.replace("$instance", ".*").replace("$name", ".*");
            assert!(!expr.contains('$'), "a variable that is not known: {expr}");
            queries.push((panel["title"].as_str().unwrap().to_owned(), expr));
        }
    }
    queries
}

/// The metric and the label that each variable of the dashboard lists.
fn variables() -> Vec<(String, String)> {
    let text = fs::read_to_string(docs("grafana/redlatch.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let listed = dashboard["templating"]["list"].as_array().unwrap().iter();
    let pattern = Regex::new(r"^label_values\((\w+), (\w+)\)$").unwrap();
    listed
        .filter(|variable| variable["type"] == "query")
        .map(|variable| {
            let found = pattern.captures(variable["definition"].as_str().unwrap()).unwrap();
            (found[1].to_owned(), found[2].to_owned())
        })
        .collect()
}

fn metrics_in(text: &str) -> BTreeSet<String> {
    let exprs = text.lines().filter(|line| !line.contains("alert") && !line.contains("name:"));
    let exprs: Vec<_> = exprs.collect();
    let metric = Regex::new(r"\bredlatch_\w+").unwrap();
    metric.find_iter(&exprs.join("\n")).map(|found| found.as_str().to_owned()).collect()
}

#[test]
fn the_dashboard_shows_every_metric_of_the_guide() {
    let guide = fs::read_to_string(docs("cli.md")).unwrap();
    let rows = guide.lines().filter(|line| line.starts_with("| `redlatch_"));
    let told = rows.map(|row| row.split(" | ").next().unwrap()).collect::<Vec<_>>().join("\n");
    let name = |metric: &str| metric.trim_end_matches("_sum").trim_end_matches("_count").to_owned();
    let shown: String = dashboard().into_iter().map(|(_, expr)| expr + "\n").collect();
    let shown: BTreeSet<String> = metrics_in(&shown).iter().map(|metric| name(metric)).collect();

    assert_eq!(shown, metrics_in(&told));
}
