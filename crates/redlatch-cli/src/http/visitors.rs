//! Who is connected, and who has to make room.
//!
//! Promise: a question that has been asked is answered. If there are too many visitors,
//! those that have only begun to ask, or do not read the answer, make room for others: the
//! earliest goes first.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};
use tokio::task::{AbortHandle, JoinSet};

/// The visitor keeps us waiting.
const IDLE: u8 = 0;
/// The visitor waits for us.
const BUSY: u8 = 1;
/// The visitor has been sent away.
const GONE: u8 = 2;

/// Connections, the oldest first.
pub(super) struct Visitors {
    tasks: JoinSet<()>,
    seats: VecDeque<(AbortHandle, Stage)>,
    most: usize,
}

/// How far a visit has got.
#[derive(Clone, Default)]
pub(super) struct Stage(Arc<AtomicU8>);

impl Stage {
    /// The visitor has asked. Returns `false` if it had to make room.
    pub(super) fn begin(&self) -> bool {
        self.changes(BUSY)
    }

    /// The answer is ready.
    pub(super) fn end(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == IDLE
    }

    fn changes(&self, to: u8) -> bool {
        self.0.compare_exchange(IDLE, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Visitors {
    pub(super) fn new(most: usize) -> Self {
        Visitors { tasks: JoinSet::new(), seats: VecDeque::new(), most }
    }

    /// Whether one more can be let in.
    pub(super) fn has_room(&self) -> bool {
        self.seats.len() < self.most || self.seats.iter().any(|(_, stage)| stage.is_idle())
    }

    /// Lets one more in, and sends another away if there is no room.
    pub(super) fn add<T>(&mut self, visit: impl FnOnce(Stage) -> T)
    where
        T: Future<Output = ()> + Send + 'static,
    {
        if self.seats.len() >= self.most {
            let idle = self.seats.iter().position(|(_, stage)| stage.changes(GONE));
            if let Some((visit, _)) = idle.and_then(|at| self.seats.remove(at)) {
                visit.abort();
            }
        }
        let stage = Stage::default();
        let task = self.tasks.spawn(visit(stage.clone()));
        self.seats.push_back((task, stage));
    }

    /// Waits until one has left.
    pub(super) async fn leave(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
        self.seats.retain(|(task, _)| !task.is_finished());
    }
}
