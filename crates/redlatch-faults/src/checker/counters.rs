//! Counters that every holder reads and writes back one higher: an update is
//! lost if somebody wrote over it without having seen it.

use std::collections::{HashMap, HashSet};

use super::attempts::{Attempt, Outcome};
use crate::history::{Place, Track, What};

/// What became of the writes to one kind of counter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Writes that were acknowledged.
    pub(crate) applied: u64,
    /// Writes that were refused as late.
    pub(crate) stale: u64,
    /// Writes that were acknowledged, and whose effect is gone.
    pub(crate) lost: u64,
}

/// Counters start at nothing. Two facts tell of a lost update, and each alone
/// may miss it (a write without an outcome may have been applied or not), so
/// the greater counts: a value that two acknowledged writes both wrote, and an
/// end below the number of acknowledged writes.
pub(crate) fn count(place: Place, attempts: &[Attempt<'_>], tracks: &[Track]) -> Counters {
    let ends = ends(place, tracks);
    let mut applied: HashMap<&str, Vec<u64>> = HashMap::new();
    let mut counters = Counters::default();
    for attempt in attempts {
        for write in attempt.writes.iter().filter(|write| write.place == place) {
            match write.outcome {
                Outcome::Applied => applied.entry(attempt.resource).or_default().push(write.value),
                Outcome::Stale => counters.stale += 1,
                Outcome::Unknown => {}
            }
        }
    }
    for (resource, values) in applied {
        let distinct = values.iter().collect::<HashSet<_>>().len();
        let twice = values.len() - distinct;
        let values = u64::try_from(values.len()).expect("fits");
        let missing = ends.get(resource).map_or(0, |end| values.saturating_sub(*end));
        counters.applied += values;
        counters.lost += missing.max(u64::try_from(twice).expect("fits"));
    }
    counters
}

fn ends(wanted: Place, tracks: &[Track]) -> HashMap<&str, u64> {
    let events = tracks.iter().flat_map(|track| &track.events);
    events
        .filter_map(|event| match &event.what {
            What::Final { place, resource, value } if *place == wanted => {
                Some((resource.as_str(), *value))
            }
            _ => None,
        })
        .collect()
}
