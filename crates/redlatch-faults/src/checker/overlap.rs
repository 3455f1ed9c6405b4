//! Exclusion: two guards for one resource never both say "held" at the same time.

use super::attempts::Attempt;
use crate::history::Nanos;
use std::{collections::BTreeMap, fmt};

/// Two callers that both believed they held one lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Overlap {
    pub(crate) resource: String,
    pub(crate) first: String,
    pub(crate) second: String,
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
}

/// Every belief that began during another belief, paired with the one of those that
/// lasted longest.
pub(crate) fn find(attempts: &[Attempt<'_>]) -> Vec<Overlap> {
    let mut beliefs: BTreeMap<&str, Vec<(Nanos, Nanos, &Attempt<'_>)>> = BTreeMap::new();
    for attempt in attempts {
        if let Some((from, until)) = attempt.belief() {
            beliefs.entry(attempt.resource).or_default().push((from, until, attempt));
        }
    }
    beliefs.into_iter().flat_map(|(resource, beliefs)| of_one(resource, beliefs)).collect()
}

fn of_one(resource: &str, mut beliefs: Vec<(Nanos, Nanos, &Attempt<'_>)>) -> Vec<Overlap> {
    beliefs.sort_by_key(|&(from, until, _)| (from, until));
    let mut longest: Option<(Nanos, &Attempt<'_>)> = None;
    let mut overlaps = Vec::new();
    for (from, until, attempt) in beliefs {
        if let Some((end, other)) = longest
            && from < end
        {
            overlaps.push(Overlap {
                resource: resource.to_owned(),
                first: other.name(),
                second: attempt.name(),
                from,
                until: end.min(until),
            });
        }
        if longest.is_none_or(|(end, _)| end < until) {
            longest = Some((until, attempt));
        }
    }
    overlaps
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, first, second, from, until } = self;
        let micros = (until - from) / 1_000;
        write!(f, "{resource}: {first} and {second} both held it from {from} for {micros} µs")
    }
}
