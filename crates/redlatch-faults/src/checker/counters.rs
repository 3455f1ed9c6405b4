//! Counters that every holder reads and writes back one higher. An update is lost if
//! someone overwrites it without having seen it.

use super::attempts::{Attempt, Outcome};
use crate::history::{Counter, Track, What};
use std::collections::{HashMap, HashSet};

/// The outcomes of the writes to one kind of counter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) applied: u64,
    /// Writes that were refused as late.
    pub(crate) stale: u64,
    /// Acknowledged writes whose effect is gone.
    pub(crate) lost: u64,
}

/// Counts the writes. Counters start at zero. Two facts reveal a lost update: two
/// acknowledged writes of one value, and a final value below the number of
/// acknowledged writes. Each may miss some (a write without an outcome may have
/// been applied or not), so the greater one counts.
pub(crate) fn count(counter: Counter, attempts: &[Attempt<'_>], tracks: &[Track]) -> Counters {
    let ends = ends(counter, tracks);
    let mut applied: HashMap<&str, Vec<u64>> = HashMap::new();
    let mut counters = Counters::default();
    for attempt in attempts {
        for write in attempt.writes.iter().filter(|write| write.counter == counter) {
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

fn ends(wanted: Counter, tracks: &[Track]) -> HashMap<&str, u64> {
    let events = tracks.iter().flat_map(|track| &track.events);
    events
        .filter_map(|event| match &event.what {
            What::Final { counter, resource, value } if *counter == wanted => {
                Some((resource.as_str(), *value))
            }
            _ => None,
        })
        .collect()
}
