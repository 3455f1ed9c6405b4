//! The nodes and their locks as they are now: one model for `top`, `web` and the exporter.
//!
//! In:  what the nodes report at each look. Out: snapshots, each compared with the
//! previous one.
//!
//! Promise: nothing changes on the nodes. A lock is called free only if a majority
//! could have said otherwise.

mod changes;
mod lock;
mod losses;
mod node;
mod sight;
mod snapshot;
mod units;

pub(crate) use changes::{Change, Kind};
pub(crate) use lock::{Lock, State};
pub(crate) use node::{Node, Stands};
pub(crate) use snapshot::{Snapshot, number};

use crate::{failure::Failure, settings::Settings};
use redlatch::observer::Observer;
use sight::Looker;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Looks at the nodes, and remembers the last look.
pub(crate) struct Live {
    looker: Looker,
    /// After this long without a look, start over instead of comparing.
    gap: Duration,
    last: Option<Arc<Snapshot>>,
}

impl Live {
    pub(crate) fn new(settings: &Settings, gap: Duration) -> Result<Self, Failure> {
        Ok(Live { looker: Looker::new(settings)?, gap, last: None })
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.looker.observer
    }

    /// The options that another command needs to find the same nodes.
    pub(crate) fn typed(&self) -> &str {
        &self.looker.typed
    }

    /// The command that checks the same nodes.
    pub(crate) fn doctor(&self) -> &str {
        &self.looker.doctor
    }

    /// Asks the nodes.
    pub(crate) async fn look(&mut self) -> Arc<Snapshot> {
        let sight = self.looker.look().await;
        let last = self.last.take().filter(|last| sight.at.duration_since(last.at) < self.gap);
        let snapshot = Arc::new(Snapshot::new(sight, last.as_deref()));
        self.last = Some(Arc::clone(&snapshot));
        snapshot
    }

    /// The last snapshot if it is new enough; otherwise asks the nodes.
    pub(crate) async fn at_most(&mut self, age: Duration, now: Instant) -> Arc<Snapshot> {
        match &self.last {
            Some(last) if now.saturating_duration_since(last.at) < age => Arc::clone(last),
            _ => self.look().await,
        }
    }
}
