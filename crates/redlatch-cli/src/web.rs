//! `redlatch web`: the live view as a web page.
//!
//! In:  requests from browsers. Out: one page with everything it needs, snapshots and,
//! for users with the password, forced releases.
//!
//! Promise: the nodes are asked once, however many browsers look. Nothing changes on the
//! nodes without the password, and nothing that they say is interpreted as markup.

mod release;

use crate::{
    cli::WebArgs,
    exit::Exit,
    exporter::listen,
    failure::Failure,
    http::{Answer, Method, Question, not_allowed, serve},
    live::{Live, Lock, Snapshot},
    look::status_json,
    percent,
    say::{Event, Say, millis},
    settings::Settings,
};
use redlatch::observer::Observer;
use release::Releases;
use serde::Serialize;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

/// After this long without a viewer, start over.
const GAP: Duration = Duration::from_secs(60);
/// The most single locks whose answers are remembered.
const DETAILS: usize = 64;
/// How many locks a page shows; others can be found by the filter.
const MOST: usize = 500;
const JSON: &str = "application/json";
const CSP: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; \
                   style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
                   form-action 'none'; frame-ancestors 'none'\r\n\
                   Referrer-Policy: no-referrer\r\n\
                   Cross-Origin-Opener-Policy: same-origin\r\n\
                   Cross-Origin-Resource-Policy: same-origin\r\n";

pub(crate) async fn web(args: WebArgs, settings: Settings, say: Say) -> Result<Exit, Failure> {
    let releases = match &args.allow_release_with {
        Some(_) if !args.listen.ip().is_loopback() => {
            let words = "--allow-release-with needs an address of this machine, like 127.0.0.1: the \
                         password would cross the network for all to read; put a proxy with TLS in front";
            return Err(Failure::new(Exit::Failed, words));
        }
        Some(path) => Some(Releases::new(path, &args, say)?),
        None => None,
    };
    let live = Live::new(&settings, GAP.max(args.every.saturating_mul(3)))?;
    let site = Arc::new(Site {
        observer: live.observer().clone(),
        live: Mutex::new(live),
        details: Mutex::new(Vec::new()),
        every: args.every,
        max_ttl: settings.max_ttl(),
        releases,
    });
    let listener = listen(args.listen).await?;
    let address = listener.local_addr()?;
    say.say(&Event::Listening { address: format!("http://{address}/") });
    let answer = move |question: Question| {
        let site = Arc::clone(&site);
        async move { site.answer(&question).await.headers(CSP) }
    };
    Ok(serve(listener, args.host, answer).await?)
}

/// What browsers can ask for.
struct Site {
    observer: Observer,
    live: Mutex<Live>,
    /// What the nodes said about single locks, and when.
    details: Mutex<Vec<(Vec<u8>, Instant, String)>>,
    every: Duration,
    max_ttl: Duration,
    releases: Option<Releases>,
}

impl Site {
    async fn answer(&self, question: &Question) -> Answer {
        match (question.method, &*question.path) {
            (Method::Get, "/") => {
                Answer::new("text/html; charset=utf-8", include_str!("web/page.html"))
            }
            (Method::Get, "/page.css") => {
                Answer::new("text/css; charset=utf-8", include_str!("web/page.css"))
            }
            (Method::Get, "/page.js") => {
                Answer::new("text/javascript; charset=utf-8", include_str!("web/page.js"))
            }
            (Method::Get, "/icon.svg") => {
                Answer::new("image/svg+xml", include_str!("web/icon.svg"))
            }
            (Method::Get, "/snapshot") => self.snapshot(&question.query).await,
            (Method::Get, "/lock") => self.lock(&question.query).await,
            (Method::Post, "/release") => match &self.releases {
                Some(releases) => releases.answer(question, &self.observer).await,
                None => Answer::text(
                    "403 Forbidden",
                    "this page is read-only; start it with --allow-release-with to release locks",
                ),
            },
            (Method::Get, "/release") | (Method::Post, _) => not_allowed(),
            _ => Answer::text("404 Not Found", "there is no such page"),
        }
    }

    /// The current snapshot, filtered by `filter=TEXT`.
    async fn snapshot(&self, query: &str) -> Answer {
        let Some(filter) = parameter(query, "filter") else {
            return Answer::text("400 Bad Request", "the filter cannot be read");
        };
        let snapshot = self.live.lock().await.at_most(self.every, Instant::now()).await;
        let filter = String::from_utf8_lossy(&filter);
        let locks: Vec<&Lock> =
            snapshot.locks.iter().filter(|lock| lock.contains(&filter)).collect();
        let shown = Shown {
            every_ms: millis(self.every),
            may_release: self.releases.is_some(),
            total: snapshot.locks.len(),
            matching: locks.len(),
            locks: &locks[..locks.len().min(MOST)],
            snapshot: &snapshot,
        };
        Answer::new(JSON, serde_json::to_string(&shown).unwrap_or_default())
    }

    /// What each node says about one lock: `id=ID`.
    async fn lock(&self, query: &str) -> Answer {
        let Some(name) = parameter(query, "id").filter(|name| !name.is_empty()) else {
            return Answer::text("400 Bad Request", "which lock?");
        };
        let mut details = self.details.lock().await;
        details.retain(|(_, at, _)| at.elapsed() < self.every);
        if let Some((.., told)) = details.iter().find(|(known, ..)| *known == name) {
            return Answer::new(JSON, told.clone());
        }
        match self.observer.status(&name).await {
            Ok(status) => {
                let told = status_json(&name, &status, &self.observer, self.max_ttl).to_string();
                if details.len() >= DETAILS {
                    details.clear();
                }
                details.push((name, Instant::now(), told.clone()));
                Answer::new(JSON, told)
            }
            Err(error) => Answer::text("400 Bad Request", &error.to_string()),
        }
    }
}

/// A snapshot, with fields that only a page needs.
#[derive(Serialize)]
struct Shown<'a> {
    every_ms: u64,
    may_release: bool,
    /// How many locks there are, and how many of them match the filter.
    total: usize,
    matching: usize,
    locks: &'a [&'a Lock],
    #[serde(flatten)]
    snapshot: &'a Snapshot,
}

/// A parameter of a query, empty if it is missing; `None` if it cannot be decoded.
fn parameter(query: &str, name: &str) -> Option<Vec<u8>> {
    let mut values = query.split('&').filter_map(|pair| {
        let (known, value) = pair.split_once('=')?;
        (known == name).then_some(value)
    });
    percent::decode(values.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_exactly() {
        assert_eq!(parameter("id=a%00b&x=1", "id"), Some(b"a\0b".to_vec()));
        assert_eq!(parameter("x=1", "id"), Some(Vec::new()));
        assert_eq!(parameter("id=%4", "id"), None);
    }
}
