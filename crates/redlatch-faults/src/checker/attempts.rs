//! The events of every attempt, gathered.

use std::collections::HashMap;

use crate::history::{Nanos, Place, Track, What};

/// One attempt of one caller.
#[derive(Debug, Clone)]
pub(crate) struct Attempt<'a> {
    pub(crate) who: &'a str,
    pub(crate) number: u64,
    pub(crate) resource: &'a str,
    pub(crate) tried: Nanos,
    pub(crate) grant: Option<Grant>,
    /// When it last provably believed to hold the lock.
    pub(crate) held: Option<Nanos>,
    pub(crate) lost: bool,
    pub(crate) refused: Option<&'a str>,
    pub(crate) writes: Vec<Write>,
}

/// When a grant had come, with which token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) at: Nanos,
    pub(crate) token: u64,
}

/// One write of a counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub(crate) place: Place,
    pub(crate) value: u64,
    pub(crate) outcome: Outcome,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Applied,
    Stale,
    /// Nobody lived to tell.
    Unknown,
}

/// All attempts of all callers.
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
            What::Write { place, value } => {
                let (place, value) = (*place, *value);
                self.writes.push(Write { place, value, outcome: Outcome::Unknown });
            }
            What::Applied(place) => self.settle(*place, Outcome::Applied),
            What::Stale(place) => self.settle(*place, Outcome::Stale),
            _ => {}
        }
    }

    /// The latest write of a place has an outcome now.
    fn settle(&mut self, place: Place, outcome: Outcome) {
        if let Some(write) = self.writes.iter_mut().rfind(|write| write.place == place) {
            write.outcome = outcome;
        }
    }

    /// When it had the lock and believed so, if for any time at all.
    pub(crate) fn belief(&self) -> Option<(Nanos, Nanos)> {
        let (from, until) = (self.grant?.at, self.held?);
        (from < until).then_some((from, until))
    }

    pub(crate) fn name(&self) -> String {
        format!("{} #{}", self.who, self.number)
    }
}
