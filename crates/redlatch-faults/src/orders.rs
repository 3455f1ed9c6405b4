//! What a worker process is to do, passed as JSON on its command line.

use redlatch::{Builder, Locks, RestartGuard};
use serde::{Deserialize, Serialize};
use std::{ops::Range, path::PathBuf, time::Duration};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// Its name, which is also the owner label of its locks.
    pub(crate) name: String,
    /// Where it writes its history, and where a file [`Orders::STOP`] ends it.
    pub(crate) dir: PathBuf,
    pub(crate) nodes: Vec<String>,
    /// The server with the counters, which is not a node.
    pub(crate) counters: String,
    /// The resources it locks, by number.
    pub(crate) resources: Range<usize>,
    /// How many callers it has, one thread each.
    pub(crate) callers: usize,
    /// How many locks each caller takes before it ends.
    pub(crate) acquires: Option<u64>,
    pub(crate) habits: Habits,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Habits {
    pub(crate) ttl: Duration,
    /// Whether it renews its leases.
    pub(crate) renews: bool,
    /// How long it waits for a lock.
    pub(crate) wait: Duration,
    pub(crate) node_timeout: Duration,
    /// The least and the most time between reading and writing.
    pub(crate) thinks: (Duration, Duration),
    /// Writes without checking whether the lock is still held, like any program
    /// that is paused between the check and the write.
    pub(crate) careless: bool,
    /// How it treats nodes that forgot.
    pub(crate) guard: GuardSetting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GuardSetting {
    Off,
    On,
    Strict,
}

impl Orders {
    /// All workers end once this file appears in the directory.
    pub(crate) const STOP: &'static str = "stop";

    /// The name of one resource, and of its counters.
    pub(crate) fn resource(number: usize) -> String {
        format!("stock:{number}")
    }
}

impl Habits {
    /// How far clocks may differ; the guard's window is the TTL plus this.
    pub(crate) const SKEW: Duration = Duration::from_millis(200);
    /// The TTL of leases that no fault may end, not even a busy machine that pauses
    /// for a second.
    pub(crate) const LASTING: Duration = Duration::from_secs(3);

    /// How long a node that forgot does not vote.
    pub(crate) fn window(&self) -> Duration {
        self.ttl + Self::SKEW
    }

    /// The one place where locks are configured.
    pub(crate) fn builder(&self, nodes: &[String]) -> Builder {
        Locks::builder()
            .nodes(nodes)
            .ttl(self.ttl)
            .max_ttl(self.ttl)
            .skew(Self::SKEW)
            .restart_guard(match self.guard {
                GuardSetting::Off => RestartGuard::Off,
                GuardSetting::On => RestartGuard::On,
                GuardSetting::Strict => RestartGuard::Strict,
            })
            .node_timeout(self.node_timeout)
            .wait(self.wait)
    }
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(1),
            renews: false,
            wait: Duration::from_secs(2),
            node_timeout: Duration::from_millis(200),
            thinks: (Duration::ZERO, Duration::from_millis(2)),
            careless: false,
            guard: GuardSetting::On,
        }
    }
}
