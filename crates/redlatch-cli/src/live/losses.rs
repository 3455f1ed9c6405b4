//! How many locks were lost, and since when we have been looking.

use super::{
    changes::{Change, Kind},
    units::in_utc,
};
use crate::doctor::Finding;
use serde::Serialize;
use std::time::{Duration, SystemTime};

/// How long a lock that has been gone since an outage is reported as a finding.
const REPORTED: Duration = Duration::from_secs(10 * 60);
/// How many of them a finding names.
const NAMED: usize = 5;

/// Locks that were lost, as far as looks could tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Losses {
    /// The first look. Nobody counted what was lost before it.
    #[serde(serialize_with = "in_utc")]
    pub(crate) since: SystemTime,
    pub(crate) lost: usize,
    /// Gone during an outage: nobody could see whether they were released or lost.
    pub(crate) unseen: usize,
}

impl Losses {
    pub(super) fn since(since: SystemTime) -> Self {
        Losses { since, lost: 0, unseen: 0 }
    }

    pub(super) fn and(mut self, happened: &[Change]) -> Self {
        let count = |kind| happened.iter().filter(|change| change.kind == kind).count();
        self.lost += count(Kind::Lost);
        self.unseen += count(Kind::Unseen);
        self
    }

    /// `1`, or `0 to 2` if some may have been lost.
    pub(crate) fn count(&self) -> String {
        match self.unseen {
            0 => self.lost.to_string(),
            unseen => format!("{} to {}", self.lost, self.lost + unseen),
        }
    }

    pub(crate) fn is_any(&self) -> bool {
        self.lost + self.unseen > 0
    }
}

/// Locks that an outage swallowed a short while ago.
pub(super) fn swallowed(changes: &[Change], now: SystemTime) -> Option<Finding> {
    let is_recent = |change: &&Change| {
        let age = now.duration_since(change.time).unwrap_or_default();
        change.kind == Kind::Unseen && age < REPORTED
    };
    let names: Vec<&str> = changes.iter().filter(is_recent).map(|change| &*change.name).collect();
    let more = match names.len().checked_sub(NAMED + 1) {
        None => String::new(),
        Some(more) => format!(" and {} more", more + 1),
    };
    let first = names[..names.len().min(NAMED)].join(", ");
    let words =
        format!("gone during the outage, nobody could see whether released or lost: {first}{more}");
    (!names.is_empty()).then(|| {
        Finding::warning(words)
            .fix("on the host of its holder, `redlatch log NAME` shows what happened to it")
    })
}
