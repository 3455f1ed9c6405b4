//! Progress: whether locks were granted during faults, and how soon after.

use super::attempts::Attempt;
use crate::history::{Nanos, Track, What};
use std::time::Duration;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recovery {
    pub(crate) faults: usize,
    /// Locks granted during a fault.
    pub(crate) during: usize,
    /// The longest time from the end of a fault to the next grant.
    pub(crate) slowest: Option<Duration>,
    /// Faults after which nothing was granted.
    pub(crate) without: usize,
}

/// Measures it. A fault without a recorded end lasts forever.
pub(crate) fn measure(attempts: &[Attempt<'_>], tracks: &[Track]) -> Recovery {
    let mut grants: Vec<Nanos> =
        attempts.iter().filter_map(|attempt| Some(attempt.grant?.at)).collect();
    grants.sort_unstable();
    let first_after = |time: Nanos| grants.partition_point(|&grant| grant < time);
    let mut recovery = Recovery::default();
    for (begin, end) in spans(tracks) {
        recovery.faults += 1;
        recovery.during += first_after(end) - first_after(begin);
        match grants.get(first_after(end)) {
            Some(grant) => {
                let took = Duration::from_nanos(grant - end);
                recovery.slowest = recovery.slowest.max(Some(took));
            }
            None => recovery.without += 1,
        }
    }
    recovery
}

/// When each fault began and ended; they do not nest.
fn spans(tracks: &[Track]) -> Vec<(Nanos, Nanos)> {
    let mut spans = Vec::new();
    for track in tracks {
        let mut open: Option<Nanos> = None;
        for event in &track.events {
            match event.what {
                What::Begin(_) => open = Some(event.at),
                What::End(_) => spans.extend(open.take().map(|begin| (begin, event.at))),
                _ => {}
            }
        }
        spans.extend(open.map(|begin| (begin, Nanos::MAX)));
    }
    spans
}
