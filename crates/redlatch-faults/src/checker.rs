//! Reads a history and finds what must not have happened.
//!
//! In:  the tracks of all callers and of the harness.
//! Out: [`Findings`]: figures, and every breach with who and when.
//!
//! Promise: what it reports did happen. A guard counts as held only from when its
//! caller had it to the last moment at which `is_held` is known to have said yes; a
//! token is out of order only if its lock was requested after the other grant had
//! arrived. It may miss a breach of a few microseconds, but never invents one.
//! Pure: no clock, no servers; `redlatch-faults check DIR` runs it on any files.

mod attempts;
mod counters;
mod overlap;
mod recovery;
mod tokens;

use self::attempts::Attempt;
use crate::history::{Counter, Track, What};
use std::time::Duration;

pub(crate) use self::counters::Counters;
pub(crate) use self::overlap::Overlap;
pub(crate) use self::recovery::Recovery;
pub(crate) use self::tokens::TokenFault;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Findings {
    pub(crate) tries: usize,
    pub(crate) acquisitions: usize,
    /// Guards lost before they were released.
    pub(crate) losses: usize,
    /// Pairs of callers that both believed they held one lock.
    pub(crate) overlaps: Vec<Overlap>,
    /// Fencing tokens granted twice or out of order.
    pub(crate) token_faults: Vec<TokenFault>,
    pub(crate) fenced: Counters,
    pub(crate) unfenced: Counters,
    /// Keys still on a node at the end.
    pub(crate) left: Vec<String>,
    /// How soon locks were granted again after each fault.
    pub(crate) recovery: Recovery,
    /// Why attempts failed, and how often.
    pub(crate) refusals: Vec<(String, usize)>,
}

pub(crate) fn check(tracks: &[Track]) -> Findings {
    let attempts = attempts::of(tracks);
    Findings {
        tries: attempts.len(),
        acquisitions: attempts.iter().filter(|attempt| attempt.grant.is_some()).count(),
        losses: attempts.iter().filter(|attempt| attempt.lost).count(),
        overlaps: overlap::find(&attempts),
        token_faults: tokens::find(&attempts),
        fenced: counters::count(Counter::Fenced, &attempts, tracks),
        unfenced: counters::count(Counter::Unfenced, &attempts, tracks),
        left: left(tracks),
        recovery: recovery::measure(&attempts, tracks),
        refusals: refusals(&attempts),
    }
}

impl Findings {
    /// The longest time from the end of a fault to the next grant.
    pub(crate) fn slowest_recovery(&self) -> Option<Duration> {
        self.recovery.slowest
    }

    /// The first few breaches of each kind, in words.
    pub(crate) fn breaches(&self) -> Vec<String> {
        const SHOWN: usize = 5;
        let overlaps = self.overlaps.iter().take(SHOWN).map(ToString::to_string);
        let tokens = self.token_faults.iter().take(SHOWN).map(ToString::to_string);
        let left = self.left.iter().take(SHOWN).map(|key| format!("left behind: {key}"));
        overlaps.chain(tokens).chain(left).collect()
    }
}

fn left(tracks: &[Track]) -> Vec<String> {
    let events = tracks.iter().flat_map(|track| &track.events);
    events
        .filter_map(|event| match &event.what {
            What::Left { node, key } => Some(format!("{key} on {node}")),
            _ => None,
        })
        .collect()
}

/// The first word of a refusal is its kind.
fn refusals(attempts: &[Attempt<'_>]) -> Vec<(String, usize)> {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for why in attempts.iter().filter_map(|attempt| attempt.refused) {
        *counts.entry(why.split(' ').next().unwrap_or_default()).or_default() += 1;
    }
    counts.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect()
}

#[cfg(test)]
mod tests;
