//! Spans and metrics are those that `redlatch::telemetry` documents: no more, no less,
//! and with every value of every label, on real servers.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use redlatch::{LockError, Locks, Lost, RestartGuard, telemetry};
use redlatch_testbed::{ServerOptions, Servers};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Debug, Write as _},
    future::IntoFuture as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use support::{Fleet, LIMIT, MS, NAME, SEC, in_time, patient, soon};
use tokio::task::JoinSet;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// A password that must be nowhere.
const SECRET: &str = "s3cr3t";
/// What the test of the spans locks.
const SPANNED: &str = "spans:42";

/// A documented table: its rows, cell by cell.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let docs = include_str!("../src/telemetry.rs");
    let section = docs.split(&format!("//! # {heading}\n")).nth(1).unwrap();
    let section = section.split("//! # ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("//! | `"));
    rows.map(|row| row.split(" | ").map(|cell| cell.trim_matches(['`', ' '])).collect()).collect()
}

/// The words in backquotes.
fn words(text: &str) -> BTreeSet<String> {
    let odd = |(at, word): (usize, &str)| (at % 2 == 1).then(|| word.to_owned());
    format!("`{}`", text.trim_matches('`')).split('`').enumerate().filter_map(odd).collect()
}

/// The type of each metric, and the values of each label; of `node`, none.
type Shape = BTreeMap<String, (String, BTreeMap<String, BTreeSet<String>>)>;

fn documented_metrics() -> Shape {
    let shape = |row: Vec<&str>| {
        let [name, kind, labels] = row[..3] else { panic!("{row:?}") };
        // Each label with its values; a label without values ends with a comma.
        let mut values = BTreeMap::new();
        let mut rest = labels.trim_matches('|').trim();
        if let Some(more) = rest.strip_prefix("node").filter(|_| !rest.starts_with("nodes")) {
            values.insert("node".to_owned(), BTreeSet::new());
            rest = more.trim_start_matches(['`', ',', ' ']);
        }
        if let Some((label, listed)) = rest.split_once("`: ") {
            values.insert(label.trim_matches('`').to_owned(), words(listed));
        }
        (name.to_owned(), (kind.to_owned(), values))
    };
    table("Metrics").into_iter().map(shape).collect()
}

/// What a scrape shows.
fn seen_metrics(text: &str, nodes: &BTreeSet<String>) -> Shape {
    let mut shape = Shape::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE redlatch_client_")) {
        let (name, kind) = line.split_once(' ').unwrap();
        // The recorder has no buckets, so it shows histograms as summaries.
        let kind = kind.replace("summary", "histogram");
        shape.insert(format!("redlatch_client_{name}"), (kind, BTreeMap::new()));
    }
    for line in text.lines().filter(|line| line.starts_with("redlatch_client_")) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let name = name.trim_end_matches("_sum").trim_end_matches("_count");
        let (_, known) = shape.get_mut(name).unwrap_or_else(|| panic!("{line}"));
        for label in labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty()) {
            let (label, value) = label.split_once("=\"").unwrap();
            let value = value.trim_end_matches('"').to_owned();
            let values = known.entry(label.to_owned()).or_default();
            match label {
                "quantile" => drop(known.remove(label)),
                "node" => assert!(nodes.contains(&value), "{line}"),
                _ => drop(values.insert(value)),
            }
        }
    }
    shape
}

fn value<'a>(text: &'a str, series: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {series} in\n{text}"))
}

/// Waits until a series has this value.
async fn reaches(prometheus: &PrometheusHandle, series: &str, wanted: &str) {
    let is_so = || {
        let text = prometheus.render();
        text.lines().any(|line| line == format!("{series} {wanted}"))
    };
    soon(series, is_so).await;
}

#[tokio::test]
async fn the_metrics_are_those_that_are_documented() {
    let prometheus = PrometheusBuilder::new().install_recorder().unwrap();
    telemetry::describe();
    let options = ServerOptions::default().user("ada", SECRET, "+@all ~* &*");
    let servers = Servers::start_with(3, &options).unwrap();
    let urls: Vec<_> = servers.iter().map(|server| server.url_as("ada", SECRET)).collect();
    let locks = patient().nodes(urls.clone()).connect().await.unwrap();
    let mut nodes: BTreeSet<String> = servers.urls().into_iter().collect();

    // Two at once, an extension, a release.
    let guard = locks.lock(NAME).await.unwrap();
    let token = String::from_utf8(guard.lock_token().to_vec()).unwrap();
    assert!(matches!(locks.try_lock(NAME).await, Ok(None)));
    let waiting = locks.lock(NAME).wait(LIMIT);
    assert!(tokio::time::timeout(50 * MS, waiting.into_future()).await.is_err());
    guard.extend().await.unwrap();
    guard.release().await.unwrap();
    let late = locks.lock(NAME).min_validity(29_698 * MS).await;
    assert!(matches!(late, Err(LockError::TooSlow { .. })), "{late:?}");

    let text = prometheus.render();
    for (series, count) in [
        ("redlatch_client_wait_seconds_count{outcome=\"granted\"}", "1"),
        ("redlatch_client_wait_seconds_count{outcome=\"held\"}", "1"),
        ("redlatch_client_wait_seconds_count{outcome=\"cancelled\"}", "1"),
        ("redlatch_client_attempts_total{outcome=\"granted\"}", "1"),
        ("redlatch_client_attempts_total{outcome=\"held\"}", "2"),
        ("redlatch_client_attempts_total{outcome=\"too-slow\"}", "1"),
        ("redlatch_client_renewals_total{outcome=\"ok\"}", "1"),
        ("redlatch_client_hold_seconds_count", "1"),
    ] {
        assert_eq!(value(&text, series), count, "{series} in\n{text}");
    }

    lose(&locks, &servers).await;
    nodes.extend(quarantine(&prometheus).await);
    stop(&urls).await;
    break_nodes(&locks, &servers, &prometheus).await;
    drop(locks);
    for server in &servers {
        let out =
            format!("redlatch_client_node_not_voting{{node=\"{}\",why=\"down\"}}", server.url());
        reaches(&prometheus, &out, "0").await; // no client is left
    }

    let text = prometheus.render();
    assert_eq!(seen_metrics(&text, &nodes), documented_metrics(), "{text}");
    for secret in [SECRET, NAME, &*token] {
        assert!(!text.contains(secret), "{secret} in\n{text}");
    }
    for metric in documented_metrics().keys() {
        assert!(text.contains(&format!("# HELP {metric} ")), "{metric}");
    }
}

/// Loses locks in all ways but one.
async fn lose(locks: &Locks, servers: &Servers) {
    let guard = locks.lock("gone").renew_every(300 * MS).await.unwrap();
    servers.iter().for_each(|server| drop(server.run(&["DEL", "gone"])));
    assert!(matches!(in_time(guard.lost()).await, Lost::Gone { .. }));
    let short = locks.lock("short").ttl(SEC).node_timeout(200 * MS).no_renewal();
    let guard = short.await.unwrap();
    assert!(matches!(in_time(guard.lost()).await, Lost::Expired { .. }));
    let capped = locks.lock("capped").ttl(3 * SEC).node_timeout(500 * MS).max_hold(SEC);
    let guard = capped.await.unwrap();
    assert!(matches!(in_time(guard.lost()).await, Lost::MaxHold));
}

/// New servers, which may not vote yet. Returns their names.
async fn quarantine(prometheus: &PrometheusHandle) -> Vec<String> {
    let fleet = Fleet::of(3);
    let locks = fleet.builder().restart_guard(RestartGuard::On).connect().await.unwrap();
    let refused = locks.try_lock(NAME).await;
    assert!(matches!(refused, Err(LockError::Quarantined { .. })), "{refused:?}");
    let urls = fleet.servers.urls();
    for url in &urls {
        let out =
            format!("redlatch_client_node_not_voting{{node=\"{url}\",why=\"quarantined\"}} 1");
        // A node that was first found silent is seen to be quarantined when it is asked again.
        let asked = async {
            while !prometheus.render().lines().any(|line| line == out) {
                let _ = locks.try_lock(NAME).await;
                tokio::time::sleep(50 * MS).await;
            }
        };
        tokio::time::timeout(4 * LIMIT, asked).await.unwrap_or_else(|_| panic!("{out}"));
    }
    urls
}

/// A runtime that shuts down, with a lock.
async fn stop(urls: &[String]) {
    let nodes = urls.to_vec();
    let shut_down = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let locks = runtime.block_on(patient().nodes(nodes).connect()).unwrap();
        let guard = runtime.block_on(locks.lock("left").into_future()).unwrap();
        runtime.shutdown_timeout(LIMIT);
        (locks, guard)
    });
    let (locks, guard) = shut_down.join().unwrap();
    assert!(matches!(guard.lost().await, Lost::Stopped));
    assert!(matches!(locks.lock(NAME).await, Err(LockError::Stopped)));
}

/// Nodes that do not answer, then nodes that are gone.
async fn break_nodes(locks: &Locks, servers: &Servers, prometheus: &PrometheusHandle) {
    let renewed = locks.lock("renewed").ttl(3 * SEC).node_timeout(500 * MS);
    let guard = renewed.await.unwrap();
    servers.freeze(&[0, 1, 2]);
    assert!(matches!(in_time(guard.lost()).await, Lost::Expired { votes: Some(_) }));
    let mut crowd = JoinSet::new();
    for name in 0..100 {
        let patience = if name < 16 { 3 * SEC } else { 50 * MS };
        let request = locks.lock(format!("crowd:{name}")).node_timeout(patience);
        crowd.spawn(request.into_future());
    }
    crowd.join_all().await;
    servers.thaw(&[0, 1, 2]);
    in_time(locks.settled()).await;
    servers.kill(&[1, 2]);
    // Short, so that the client soon has nothing left to undo where it cannot.
    let attempt = || locks.try_lock(NAME).ttl(3 * SEC).node_timeout(500 * MS);
    let down = attempt().await;
    assert!(matches!(down, Err(LockError::NoMajority { .. })), "{down:?}");
    let out =
        format!("redlatch_client_node_not_voting{{node=\"{}\",why=\"down\"}}", servers[1].url());
    let deadline = std::time::Instant::now() + LIMIT;
    // A node that flaps is reported at most every few seconds.
    while value(&prometheus.render(), &out) == "0" {
        assert!(std::time::Instant::now() < deadline, "{}", prometheus.render());
        let _ = attempt().await;
    }
}

/// Everything that spans say, by the span's name.
#[derive(Clone, Default)]
struct Spans {
    /// Name, level and fields of each.
    all: Arc<Mutex<Vec<Seen>>>,
    ids: Arc<AtomicU64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    name: &'static str,
    level: String,
    fields: BTreeMap<&'static str, String>,
    has_parent: bool,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        write!(text, "{value:?}").unwrap();
        self.fields.insert(field.name(), text.trim_matches('"').to_owned());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redlatch") || metadata.name() == "caller"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let metadata = span.metadata();
        let level = metadata.level().to_string().to_lowercase();
        let (name, fields) = (metadata.name(), BTreeMap::new());
        let mut seen = Seen { name, level, fields, has_parent: span.is_contextual() };
        span.record(&mut seen);
        self.all.lock().unwrap().push(seen);
        Id::from_u64(self.ids.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let at = usize::try_from(id.into_u64() - 1).unwrap();
        values.record(&mut self.all.lock().unwrap()[at]);
    }

    fn event(&self, _: &Event<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Spans {
    /// The first span with this name and this value.
    fn find(&self, name: &str, field: &str, value: &str) -> Option<Seen> {
        let is_it = |seen: &Seen| {
            seen.name == name && seen.fields.get(field).is_some_and(|seen| seen == value)
        };
        self.ours().into_iter().find(is_it)
    }

    /// Those of this test's locks.
    fn ours(&self) -> Vec<Seen> {
        let all = self.all.lock().unwrap();
        let is_ours = |seen: &&Seen| {
            let resources = seen.fields.get("resources");
            resources.is_none_or(|resources| resources.starts_with("spans:"))
        };
        all.iter().filter(is_ours).cloned().collect()
    }

    async fn has(&self, name: &str, field: &str, value: &str) -> Seen {
        soon(&format!("{name} {field}={value}"), || self.find(name, field, value).is_some()).await;
        self.find(name, field, value).unwrap()
    }
}

#[test]
fn the_spans_are_those_that_are_documented() {
    // On all threads: the keeper may be the first to see a loss.
    let spans = Spans::default();
    tracing::subscriber::set_global_default(spans.clone()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let token = runtime.block_on(async {
        let (fleet, locks) = Fleet::with_locks(3).await;
        let guard = locks.lock(SPANNED).await.unwrap();
        let token = String::from_utf8(guard.lock_token().to_vec()).unwrap();
        let number = guard.fencing_token().unwrap().to_string();
        let acquired = spans.has("acquire", "outcome", "granted").await;
        assert_eq!(acquired.fields["resources"], SPANNED);
        assert_eq!(acquired.fields["fencing_token"], number);
        assert!(matches!(locks.try_lock(SPANNED).await, Ok(None)));
        spans.has("acquire", "outcome", "held").await;
        guard.extend().await.unwrap();
        let renewed = spans.has("renew", "outcome", "ok").await;
        assert_eq!(renewed.fields["fencing_token"], number);
        assert_eq!(renewed.level, "debug");
        assert!(acquired.has_parent && !renewed.has_parent);
        guard.release().await.unwrap();
        spans.has("release", "outcome", "released").await;
        drop(locks.lock(SPANNED).await.unwrap());
        spans.has("release", "outcome", "background").await;

        let lost = locks.lock("spans:lost").ttl(3 * SEC).node_timeout(500 * MS).await.unwrap();
        fleet.servers.freeze(&[0, 1, 2]);
        let failed = spans.has("renew", "outcome", "failed").await;
        assert_eq!(failed.level, "warn");
        in_time(lost.lost()).await;
        fleet.servers.thaw(&[0, 1, 2]);
        let gone = locks.lock("spans:gone").renew_every(300 * MS).wait(LIMIT).await.unwrap();
        fleet.remove_everywhere("spans:gone");
        in_time(gone.lost()).await;
        let gone = spans.has("lost", "cause", "gone").await;
        assert!(gone.fields["votes"].contains("no longer ours"), "{gone:?}");
        token
    });

    let mut seen: BTreeMap<&str, (BTreeSet<String>, BTreeSet<String>)> = BTreeMap::new();
    for span in spans.ours() {
        let (levels, fields) = seen.entry(span.name).or_default();
        levels.insert(span.level.clone());
        fields.extend(span.fields.keys().map(|field| (*field).to_owned()));
        assert!(!format!("{span:?}").contains(&token), "{span:?}");
    }
    let documented = table("Spans").into_iter().map(|row| {
        let levels = row[1].split(", or ").map(str::to_owned).collect();
        (row[0], (levels, words(row[2])))
    });
    assert_eq!(seen, documented.collect());
}
