//! What all events of this process have in common: one process is one attempt.
//!
//! In:  the names, the grant, the votes. Out: the fields that every JSON line has.

use crate::event::Event;
use serde::Serialize;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime},
};

static FACTS: Mutex<Facts> = Mutex::new(Facts {
    names: Vec::new(),
    began: None,
    waited_ms: None,
    fencing_token: None,
    votes: None,
});

struct Facts {
    names: Vec<String>,
    began: Option<Instant>,
    /// How long it took to get the lock.
    waited_ms: Option<u64>,
    fencing_token: Option<u64>,
    votes: Option<String>,
}

/// One JSON line, with the same fields first for every event.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    time: String,
    event: &'static str,
    names: Vec<String>,
    fencing_token: Option<u64>,
    waited_ms: Option<u64>,
    votes: Option<String>,
    #[serde(flatten)]
    more: &'a Event,
}

/// The attempt begins, on these locks.
pub(crate) fn begin(names: &[String]) {
    let mut facts = known();
    facts.names = names.to_vec();
    facts.began = Some(Instant::now());
}

/// The lock was taken.
pub(crate) fn granted(waited_ms: u64, fencing_token: Option<u64>) {
    let mut facts = known();
    facts.waited_ms = Some(waited_ms);
    facts.fencing_token = fencing_token;
}

/// The nodes voted.
pub(crate) fn voted(votes: Option<String>) {
    let mut facts = known();
    facts.votes = votes.or(facts.votes.take());
}

pub(crate) fn names() -> Vec<String> {
    known().names.clone()
}

pub(crate) fn line(event: &Event) -> Line<'_> {
    let facts = known();
    let so_far = || Some(crate::say::millis(facts.began?.elapsed()));
    Line {
        time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        event: event.name(),
        names: facts.names.clone(),
        fencing_token: facts.fencing_token,
        waited_ms: facts.waited_ms.or_else(so_far),
        votes: facts.votes.clone(),
        more: event,
    }
}

fn known() -> MutexGuard<'static, Facts> {
    // A thread that panicked left consistent values behind.
    FACTS.lock().unwrap_or_else(PoisonError::into_inner)
}
