//! What a worker process is to do: handed over as JSON on its command line.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use redlatch::{Builder, Locks, RestartGuard};
use serde::{Deserialize, Serialize};

/// What a worker process is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// Its name, and the label that its locks bear on the nodes.
    pub(crate) name: String,
    /// Where it writes its history, and where the file [`Orders::STOP`] ends it.
    pub(crate) dir: PathBuf,
    /// The nodes of the lock.
    pub(crate) nodes: Vec<String>,
    /// The server of the counters, which is no node.
    pub(crate) ledger: String,
    /// The numbers of the resources it locks, the last one not among them.
    pub(crate) resources: Range<usize>,
    /// How many callers it has, each on a thread of its own.
    pub(crate) callers: usize,
    /// How many locks each caller takes before it ends by itself.
    pub(crate) acquires: Option<u64>,
    /// How it locks.
    pub(crate) habits: Habits,
}

/// How a worker locks and works.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Habits {
    pub(crate) ttl: Duration,
    /// Extends its leases.
    pub(crate) renews: bool,
    /// How long a lock is waited for.
    pub(crate) wait: Duration,
    pub(crate) node_timeout: Duration,
    /// How long it thinks between reading and writing, at least and at most.
    pub(crate) thinks: (Duration, Duration),
    /// Writes without asking whether the lock is still held, as everyone does
    /// who was paused between the question and the write.
    pub(crate) careless: bool,
    /// How it meets nodes that forgot.
    pub(crate) guard: Guarding,
}

/// Whether a node that forgot may vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Guarding {
    Off,
    On,
    Strict,
}

impl Orders {
    /// The file whose appearance in the directory ends all workers.
    pub(crate) const STOP: &'static str = "stop";

    /// The name of one resource, and of its counters.
    pub(crate) fn resource(number: usize) -> String {
        format!("stock:{number}")
    }
}

impl Habits {
    /// How far clocks may differ; with the TTL it makes the guard's window.
    pub(crate) const SKEW: Duration = Duration::from_millis(200);
    /// The TTL of leases that no fault may end: a busy machine that halts them
    /// for a second must not, either.
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
                Guarding::Off => RestartGuard::Off,
                Guarding::On => RestartGuard::On,
                Guarding::Strict => RestartGuard::Strict,
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
            guard: Guarding::On,
        }
    }
}
