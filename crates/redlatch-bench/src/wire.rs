//! What the bench and its workers say to each other: one line of JSON each way.
//!
//! Every time is the system's monotonic clock, in nanoseconds. All processes of a
//! machine share it, so the turns of several workers make one history.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};

/// What a worker prints once it is connected.
pub(crate) const READY: &str = "ready";

/// One slice of work: callers that take one lock, or each its own, in a closed loop.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) key: String,
    /// Each caller has a lock of its own, named `key:number`.
    pub(crate) own: bool,
    /// If not 0, callers ask all at once, this often, and not in a closed loop.
    pub(crate) every_us: u64,
    /// How many callers this worker has.
    pub(crate) tasks: usize,
    /// The number of this worker's first caller.
    pub(crate) first: usize,
    /// How many callers there are in all workers.
    pub(crate) callers: usize,
    pub(crate) hold_us: u64,
    /// How long one request waits for the lock.
    pub(crate) wait_ms: u64,
    pub(crate) begin_ns: u64,
    /// Nobody asks after this time. Callers that are waiting by then keep waiting.
    pub(crate) end_ns: u64,
    /// A file that gets one byte with each grant. If there is one, callers take
    /// strict turns: each asks when it is the next one.
    pub(crate) baton: Option<PathBuf>,
    /// Some callers lose patience or change their minds.
    pub(crate) crowd: bool,
}

/// What came of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The turns of each caller, in order.
    pub(crate) callers: Vec<Vec<Turn>>,
    /// Requests that failed though they were to wait, before the end of the slice.
    pub(crate) gave_up: u64,
    /// The last failure.
    #[serde(default)]
    pub(crate) why: String,
    /// Requests of a crowd that were to end without a lock, and did.
    #[serde(default)]
    pub(crate) left: u64,
    /// Processor time of the worker.
    #[serde(default)]
    pub(crate) cpu_ns: u64,
}

impl Order {
    /// The lock of this caller.
    pub(crate) fn key_of(&self, caller: usize) -> String {
        if self.own { format!("{}:{caller}", self.key) } else { self.key.clone() }
    }
}

impl Record {
    pub(crate) fn add(&mut self, other: Self) {
        self.callers.extend(other.callers);
        self.gave_up += other.gave_up;
        self.left += other.left;
        self.cpu_ns += other.cpu_ns;
        if !other.why.is_empty() {
            self.why = other.why;
        }
    }
}

/// One lock, from the wish for it to its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 5]", into = "[u64; 5]")]
pub(crate) struct Turn {
    pub(crate) asked: u64,
    pub(crate) granted: u64,
    /// When release was called.
    pub(crate) releasing: u64,
    pub(crate) released: u64,
    /// The fencing token, 0 if there is none.
    pub(crate) token: u64,
}

impl From<[u64; 5]> for Turn {
    fn from([asked, granted, releasing, released, token]: [u64; 5]) -> Self {
        Self { asked, granted, releasing, released, token }
    }
}

impl From<Turn> for [u64; 5] {
    fn from(turn: Turn) -> Self {
        [turn.asked, turn.granted, turn.releasing, turn.released, turn.token]
    }
}

/// The time now.
pub(crate) fn now_ns() -> u64 {
    let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
    nanoseconds(now)
}

/// Processor time of this process so far, in nanoseconds.
pub(crate) fn processor_ns() -> u64 {
    let spent = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    nanoseconds(spent)
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
