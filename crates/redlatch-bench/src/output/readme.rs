//! The README's tables.

use super::report::Report;
use crate::{
    field::Shape,
    parts::{handover, uncontended},
    worker::Runtime,
};
use anyhow::Context as _;
use redlatch_testbed::Flavour;
use std::fmt::Write as _;

const BEGIN: &str = "<!-- begin bench -->\n";
const END: &str = "<!-- end bench -->";

/// Names of the contenders, in the figures and in the README.
const CONTENDERS: [(&str, &str); 11] = [
    ("floor", "bare event loop"),
    ("redlatch, plain", "**redlatch**, plain Redlock"),
    ("redlatch", "**redlatch**, default settings"),
    ("redis, by hand", "the `redis` crate, by hand"),
    ("rslock", "rslock (Rust)"),
    ("node redlock", "redlock (Node)"),
    ("redis-semaphore", "redis-semaphore (Node)"),
    ("redlock-py", "redlock-py (Python)"),
    ("aioredlock", "aioredlock (Python)"),
    ("pottery", "pottery (Python)"),
    ("redis-py", "`Lock` of redis-py (Python)"),
];

/// The page with these figures in place of the old ones.
pub(super) fn filled(page: &str, report: &Report) -> anyhow::Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("README.md: where do figures go?")?;
    let (_, after) = rest.split_once(END).context("README.md: where do figures end?")?;
    Ok(format!("{before}{BEGIN}{}\n{}{END}{after}", contenders(report), others(report)?))
}

/// One row for each contender.
fn contenders(report: &Report) -> String {
    let mut text = "\
| | 1 caller: p50 × floor | 256 callers: locks/s × floor | a thread per core: locks/s × floor \
| 256 callers, 1 server: locks/s × floor | client CPU per lock, µs | hand-over, ms |
|---|---|---|---|---|---|---|
"
    .to_owned();
    for (name, label) in CONTENDERS {
        let cells = [
            uncontended_cell(report, name, 1, 5, Runtime::Current, "x floor"),
            uncontended_cell(report, name, 256, 5, Runtime::Current, "x floor"),
            uncontended_cell(report, name, 256, 5, Runtime::Multi, "x floor"),
            uncontended_cell(report, name, 256, 1, Runtime::Current, "x floor"),
            uncontended_cell(report, name, 256, 5, Runtime::Current, "cpu µs"),
            report.text(&handover::title(Shape::new(2, 1), 5), name, "p50 ms"),
        ];
        if cells.iter().any(|cell| cell != "–") {
            let _ = writeln!(text, "| {label} | {} |", cells.join(" | "));
        }
    }
    text
}

/// From the table of its language.
fn uncontended_cell(
    report: &Report,
    name: &str,
    callers: usize,
    nodes: usize,
    runtime: Runtime,
    column: &str,
) -> String {
    let server = Flavour::Redis7;
    let mut places = vec![uncontended::place(nodes, server, runtime)];
    if runtime == Runtime::Current {
        places.push(uncontended::languages_place(nodes, server));
    }
    let titles = places.iter().map(|place| uncontended::title(callers, place));
    let mut cells = titles.map(|title| report.text(&title, name, column));
    cells.find(|cell| cell != "–").unwrap_or("–".to_owned())
}

/// The figures of redlatch with default settings, and of the peers that have them.
fn others(report: &Report) -> anyhow::Result<String> {
    let mut text = "| | redlatch | rslock |\n|---|---|---|\n".to_owned();
    let mut row = |what: &str, table: &str, suffix: &str, column: &str| {
        let [ours, theirs] = ["redlatch", "rslock"]
            .map(|name| report.text(table, &format!("{name}{suffix}"), column));
        let _ = writeln!(text, "| {what} | {ours} | {theirs} |");
    };
    let faulty = "faulty: 1 caller, one of 5 nodes";
    row("one of 5 servers refused: p99 × healthy", faulty, ": refused", "p99 x healthy");
    row("one of 5 servers frozen: p99 × healthy", faulty, ": frozen", "p99 x healthy");
    row("one of 5 servers slow by 100 ms: p99 × healthy", faulty, ": slow", "p99 x healthy");
    row(
        "from the start of a process to its first lock, ms",
        "start: to the first lock, 5 nodes",
        "",
        "ms",
    );
    let held = "held: 10000 locks, 5 nodes, ttl 10s";
    row("memory of the client per held lock, bytes", held, "", "bytes per lock");
    row("renewing 10,000 locks of 10 s: client, % of a core", held, "", "client, % of a core");
    row("the same: five servers together, % of a core", held, "", "servers, % of a core");
    let keys = "growth: other keys, 256 callers, 5 nodes";
    row(
        "a million other keys on the servers: time per lock × without",
        keys,
        ": 1000000 keys",
        "x time per lock",
    );
    let stranger = "stranger: PING beside 256 callers, 5 nodes";
    row(
        "a stranger's `PING` beside 256 callers: p99 × beside a bare event loop",
        stranger,
        "",
        "p99 x floor",
    );
    let (cores, redis) = (report.setup("cores")?, report.setup("redis")?);
    let few = if report.setup("short")? == "true" { " A short run, of few rounds." } else { "" };
    let rounds = "Medians and p10–p90 of all rounds";
    let _ = writeln!(text, "\n{rounds}, on {cores} cores, Redis {redis}.{few}");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() -> anyhow::Result<()> {
        let report =
            Report::parse(r#"{ "setup": { "cores": 2, "redis": "7.0.15", "short": false } }"#)?;
        let page = format!("a\n{BEGIN}old\n{END}\nb\n");

        let filled = filled(&page, &report)?;

        assert!(filled.starts_with(&format!("a\n{BEGIN}|")), "{filled}");
        assert!(filled.ends_with(&format!("Redis 7.0.15.\n{END}\nb\n")), "{filled}");
        assert!(!filled.contains("old"));
        assert!(super::filled("no marks", &report).is_err());
        Ok(())
    }
}
