//! Groups the events of a history by attempt.

use crate::history::{Counter, Nanos, Track, What};
use std::collections::HashMap;

#[derive(Debug, Clone)]
pub(crate) struct Attempt<'a> {
    pub(crate) who: &'a str,
    pub(crate) number: u64,
    pub(crate) resource: &'a str,
    pub(crate) tried: Nanos,
    pub(crate) grant: Option<Grant>,
    /// When it last provably believed it held the lock.
    pub(crate) held: Option<Nanos>,
    pub(crate) lost: bool,
    pub(crate) refused: Option<&'a str>,
    pub(crate) writes: Vec<Write>,
}

/// When a grant arrived, with which token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) at: Nanos,
    pub(crate) token: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub(crate) counter: Counter,
    pub(crate) value: u64,
    pub(crate) outcome: Outcome,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Applied,
    Stale,
    /// Its writer died before it knew.
    Unknown,
}

pub(crate) fn of(tracks: &[Track]) -> Vec<Attempt<'_>> {
    tracks.iter().flat_map(of_one).collect()
}

fn of_one(track: &Track) -> Vec<Attempt<'_>> {
    let mut attempts: Vec<Attempt<'_>> = Vec::new();
    let mut by_number = HashMap::new();
    for event in &track.events {
        if let What::Try { resource } = &event.what {
            by_number.insert(event.attempt, attempts.len());
            attempts.push(Attempt::new(&track.who, event.attempt, resource, event.at));
        } else if let Some(&index) = by_number.get(&event.attempt) {
            attempts[index].add(event.at, &event.what);
        }
    }
    attempts
}

impl<'a> Attempt<'a> {
    fn new(who: &'a str, number: u64, resource: &'a str, tried: Nanos) -> Self {
        Self {
            who,
            number,
            resource,
            tried,
            grant: None,
            held: None,
            lost: false,
            refused: None,
            writes: Vec::new(),
        }
    }

    fn add(&mut self, at: Nanos, what: &'a What) {
        match what {
            What::Granted { token, .. } => self.grant = Some(Grant { at, token: *token }),
            What::Held => self.held = self.held.max(Some(at)),
            What::Lost(_) => self.lost = true,
            What::Refused(why) => self.refused = Some(why),
            What::Write { counter, value } => {
                let (counter, value) = (*counter, *value);
                self.writes.push(Write { counter, value, outcome: Outcome::Unknown });
            }
            What::Applied(counter) => self.settle(*counter, Outcome::Applied),
            What::Stale(counter) => self.settle(*counter, Outcome::Stale),
            _ => {}
        }
    }

    /// Sets the outcome of the latest write of a counter.
    fn settle(&mut self, counter: Counter, outcome: Outcome) {
        if let Some(write) = self.writes.iter_mut().rfind(|write| write.counter == counter) {
            write.outcome = outcome;
        }
    }

    /// From when to when it believed it held the lock, if for any time at all.
    pub(crate) fn belief(&self) -> Option<(Nanos, Nanos)> {
        let (from, until) = (self.grant?.at, self.held?);
        (from < until).then_some((from, until))
    }

    pub(crate) fn name(&self) -> String {
        format!("{} #{}", self.who, self.number)
    }
}
