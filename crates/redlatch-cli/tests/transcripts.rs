//! Every subcommand and every exit status, as sessions that a reader can read.
//!
//! A file of `tests/transcripts` holds commands and what comes of them:
//!
//! ```text
//! # Words for the reader. `nodes: 3` starts servers A, B and C; `guard: on`
//! # turns the restart guard on, `guard: short` with a window of 3 s.
//! # `programs: a b` are examples of the library that can be typed as well.
//! $ what is typed
//! > what it prints on stdout
//! ! what it prints on stderr
//! ? its exit status, unless 0
//! % kill C, or freeze C, or thaw C, or restart C, which forgets all it had
//! ```
//!
//! What differs from run to run stands in capitals: HOST, PID, TIME, …
//! `REDLATCH_BLESS=1 cargo test` writes down what comes out now.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::{Server, ServerOptions, Servers};
use regex_lite::{Captures, Regex};
use std::{fmt::Write, fs, path::Path, process::Command};
use support::{Ended, Sandbox};

fn session(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/transcripts/{name}.txt"));
    let expected = fs::read_to_string(&path).unwrap();
    let session = Session::of(&expected);

    let mut seen = String::new();
    for line in expected.lines() {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("$", command) => session.run(command, &mut seen),
            ("%", order) => session.order(order, &mut seen),
            ("#" | "", _) => writeln!(seen, "{line}").unwrap(),
            // What came of a command the last time.
            _ => {}
        }
    }

    if std::env::var_os("REDLATCH_BLESS").is_some() {
        fs::write(&path, seen).unwrap();
    } else {
        assert!(seen == expected, "{}", difference(&expected, &seen));
    }
}

struct Session {
    sandbox: Sandbox,
    servers: Option<Servers>,
}

impl Session {
    fn of(text: &str) -> Self {
        let wanted =
            |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        if let Some(programs) = wanted("# programs") {
            build(programs.split(' '));
        }
        let mut options = ServerOptions::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("# server: ")) {
            options = options.config(line);
        }
        let Some(count) = wanted("# nodes") else {
            return Session { sandbox: Sandbox::embedded(), servers: None };
        };
        let servers = Servers::start_with(count.parse().unwrap(), &options).unwrap();
        let sandbox = match wanted("# guard") {
            None => Sandbox::on(&servers),
            Some("on") => Sandbox::guarded_long(&servers),
            Some("short") => Sandbox::guarded(&servers),
            Some(other) => panic!("`{other}` is not known"),
        };
        Session { sandbox, servers: Some(servers) }
    }

    fn named(&self) -> impl Iterator<Item = (char, &Server)> {
        ('A'..).zip(self.servers.iter().flatten())
    }

    fn run(&self, command: &str, seen: &mut String) {
        let mut shell = self.sandbox.shell(command);
        for (name, server) in self.named() {
            shell.env(name.to_string(), server.url());
        }
        let Ended { status, stdout, stderr } = Ended::of(&shell.output().unwrap());
        writeln!(seen, "$ {command}").unwrap();
        for line in self.settle(&stdout).lines() {
            writeln!(seen, "> {line}").unwrap();
        }
        for line in self.settle(&stderr).lines() {
            writeln!(seen, "! {line}").unwrap();
        }
        match status.code() {
            Some(0) => {}
            Some(code) => writeln!(seen, "? {code}").unwrap(),
            None => writeln!(seen, "? {status}").unwrap(),
        }
    }

    fn order(&self, order: &str, seen: &mut String) {
        let (what, which) = order.split_once(' ').unwrap();
        let (_, server) = self.named().find(|(name, _)| which == name.to_string()).unwrap();
        match what {
            "kill" => server.kill(),
            "freeze" => server.freeze(),
            "thaw" => server.thaw(),
            "restart" => server.restart_empty(),
            _ => panic!("`{what}` is not known"),
        }
        writeln!(seen, "% {order}").unwrap();
    }

    /// What differs from run to run, in capitals.
    fn settle(&self, text: &str) -> String {
        let mut text = text.replace(&*self.sandbox.dir().to_string_lossy(), "DIR");
        for (name, server) in self.named() {
            text = text.replace(&format!("redis://127.0.0.1:{}", server.port()), &name.to_string());
            text =
                text.replace(&format!("localhost:{}", server.port()), &format!("localhost:{name}"));
            text = text.replace(&format!("…@127.0.0.1:{}", server.port()), &format!("…@{name}"));
        }
        let is_table = text.starts_with("NAME  ");
        let is_snapshot = text.starts_with("redlatch  ");
        let mut settled = |pattern: &str, replacement: &str| {
            let pattern = Regex::new(pattern).unwrap();
            let replace = |found: &Captures| {
                let first = found.get(1).map_or("", |first| first.as_str());
                replacement.replace("$1", first)
            };
            text = pattern.replace_all(&text, replace).into_owned();
        };
        settled(r"rl1:\d+:\d+:\d+:[0-9a-f]{40}@[^:\s]+:[^\s\x22]+", "HANDLE");
        settled(r"[0-9a-f]{40}@", "TOKEN@");
        settled(&format!(r"{}/\d+", hostname()), "HOST/PID");
        settled(&format!(r#"("host"):"{}""#, hostname()), r#"$1:"HOST""#);
        settled(&format!(r"(host) {}", hostname()), "$1 HOST");
        settled(r#"("user"):"[^"]+""#, r#"$1:"USER""#);
        settled(r"(user) [^,\s]+,", "$1 USER,");
        settled(r"(pid) \d+", "$1 PID");
        settled(r#"("\w+_ms"):[0-9.]+"#, "$1:N");
        settled(r#"("clock_ahead_s"):-?[0-9.e-]+"#, "$1:N");
        // Which nodes were waited for differs.
        settled(r#""votes":"[^"]+""#, r#""votes":"VOTES""#);
        settled(r#"("pid"|"fencing_token"):\d+"#, "$1:N");
        settled(r"(fencing token) \d+", "$1 N");
        settled(r"(fencing token) Some\(FencingToken\(\d+\)\)", "$1 N");
        settled(r"\d+( )?s to go", "TIME to go");
        settled(r"(up for) \d+[a-z]+( \d+[a-z]+)*", "$1 TIME");
        settled(r"(for another|within|answers in|after|ran for) [0-9.]+(ms|µs|ns|s|m)", "$1 TIME");
        settled(r"\x22[0-9a-f]{16}\x22", "\"GRANT\"");
        settled(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+Z)?", "WHEN");
        settled(r"(process) \d+", "$1 PID");
        settled(r"\([0-9.]+(ms|µs|ns|s)\)", "(TIME)");
        settled(r"  [0-9.]+m?s  +(\d+  +\d of)", "  TIME  $1");
        if is_table {
            // The columns are as wide as what they hold.
            settled(r" {2,}", "  ");
            settled(&format!("  {}  ", user()), "  USER  ");
            settled(r"(of \d)  \d+\n", "$1  N\n");
        }
        if is_snapshot {
            settled(r" {2,}", "  ");
            settled(r"\d\d:\d\d:\d\d", "WHEN");
            settled(r"[+-]?[0-9.]+m?s\b", "TIME");
        }
        settled(r"(redis|valkey|SQLite|redlatch) \d[0-9.]+", "$1 VERSION");
        // Agreements are sorted by address, and ports differ.
        let list = Regex::new(r"\b[A-Z](, [A-Z]\b)+").unwrap();
        let sorted = |found: &Captures| {
            let mut names: Vec<_> = found[0].split(", ").collect();
            names.sort_unstable();
            names.join(", ")
        };
        list.replace_all(&text, sorted).into_owned()
    }
}

/// Builds examples of the library, with the features that all tests have.
fn build<'a>(programs: impl Iterator<Item = &'a str>) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    // What Cargo tells a test about its package would have build scripts run again.
    let told = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    std::env::vars().filter(|(name, _)| told(name)).for_each(|(name, _)| {
        cargo.env_remove(name);
    });
    cargo.args(["build", "--quiet", "--workspace", "--all-features", "--locked"]);
    cargo.args(programs.flat_map(|program| ["--example", program]));
    assert!(cargo.status().unwrap().success(), "{cargo:?}");
}

fn user() -> String {
    let id = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(id.stdout).unwrap().trim().into()
}

fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    name.trim().replace('.', r"\.")
}

fn difference(expected: &str, seen: &str) -> String {
    let mut text = String::from("the session went another way (REDLATCH_BLESS=1 accepts it):\n");
    let (mut expected, mut seen) = (expected.lines(), seen.lines());
    loop {
        match (expected.next(), seen.next()) {
            (None, None) => return text,
            (a, b) if a == b => writeln!(text, "   {}", a.unwrap_or_default()).unwrap(),
            (a, b) => {
                writeln!(text, "-  {}\n+  {}", a.unwrap_or_default(), b.unwrap_or_default())
                    .unwrap();
            }
        }
    }
}

macro_rules! sessions {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            session(stringify!($name));
        })*

        #[test]
        fn every_file_is_a_session() {
            let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
            let name = |file: std::io::Result<fs::DirEntry>| file.unwrap().file_name();
            let files = fs::read_dir(dir).unwrap().map(name);
            let mut files: Vec<_> = files.map(|name| name.into_string().unwrap()).collect();
            files.sort();
            let mut known: Vec<_> = [$(stringify!($name)),*].map(|name| format!("{name}.txt")).into();
            known.sort();
            assert_eq!(files, known);
        }
    };
}

sessions! {
    run
    run_on_servers
    step_by_step
    looking
    doctor_finds_nothing
    doctor_on_servers
    doctor_on_eviction
    doctor_and_permissions
    bad_input
    config_file
    help
    admit
    quarantine
    which_nodes
    new_servers
    night
    live
}
