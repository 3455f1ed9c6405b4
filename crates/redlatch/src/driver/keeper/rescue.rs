//! Looks after the leases of a blocked engine.
//!
//! In:  leases that are due, the most urgent first, and leases that were dropped.
//! Out: extended leases or signalled losses; released locks.
//!
//! One engine serves all leases of a [`Shared`], so a node has only one extra connection,
//! however many leases there are. The engine starts with the first lease and ends when none
//! has needed it for a while. It never plants a key, so that it cannot race a release, and
//! it admits no node.
//!
//! The number of extensions in progress is limited, so that a node's queue never gets so
//! long that its last answer comes too late.

use crate::driver::{
    clock::Clock,
    engine::{Ask, Engine, Handle, LeaseCell, LeaseEnd, News, Shared},
};
use redlatch_core::{Moment, extend::ExtendError, machine::Adopted};
use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::sync::Semaphore;

/// The most extensions in progress. A server carries out that many within some tens of
/// milliseconds, and even with a round trip of 100 ms this allows ten thousand a second.
const AT_ONCE: usize = 1000;
/// How long to keep the connections after the last lease that needed them: the leases of a
/// blocked engine come due one after the other.
const LINGER: Duration = Duration::from_secs(1);

/// The keeper's own engine, which stands in for a blocked one.
#[derive(Debug)]
pub(crate) struct Rescue {
    handle: Handle,
    turns: Semaphore,
}

/// Extends these leases, each with its deadline.
pub(super) fn all(mut late: Vec<(Moment, Arc<LeaseCell>)>) {
    late.sort_by_key(|(by, _)| *by);
    for (_, cell) in late {
        let rescue = Rescue::of(&cell.shared);
        tokio::spawn(async move {
            rescue.extend_in_turn(&cell).await;
            cell.end_rescue();
        });
    }
}

/// Releases these leases, which were dropped.
pub(super) fn release(dropped: &[Arc<LeaseCell>]) {
    for cell in dropped {
        let rescue = Rescue::of(&cell.shared);
        let LeaseCell { resources, token, terms, .. } = &**cell;
        super::release(&rescue.handle, resources.clone(), token.clone(), terms.clone());
    }
}

impl Rescue {
    /// Returns the rescue of `shared`; starts it if there is none. Call it on the keeper's thread.
    fn of(shared: &Shared) -> Arc<Self> {
        let mut slot = shared.rescue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = slot.upgrade() {
            return running;
        }
        tracing::warn!(
            "the engine does not run, since its runtime is blocked: its leases are looked after \
             over other connections"
        );
        let (engine, handle) = Engine::new(shared.passing());
        tokio::spawn(engine);
        let started = Arc::new(Rescue { handle, turns: Semaphore::new(AT_ONCE) });
        *slot = Arc::downgrade(&started);
        tokio::spawn(linger(started.clone()));
        started
    }

    async fn extend_in_turn(&self, cell: &LeaseCell) {
        let Ok(_turn) = self.turns.acquire().await else { return };
        // The engine may have woken up meanwhile, or the lease may have expired.
        let now = Clock::System.now();
        if cell.why().is_none()
            && let Some(patience) = cell.deadlines().rescue_patience(now)
        {
            self.extend(cell, patience).await;
        }
    }

    async fn extend(&self, cell: &LeaseCell, patience: Duration) {
        let op = self.handle.next_op();
        let deadlines = cell.deadlines();
        let adopted = Adopted {
            resources: cell.resources.clone(),
            // Use all the time until the loss is signalled: the connections have yet to
            // be made.
            terms: cell.terms.clone().with_node_timeout(patience),
            token: cell.token.clone(),
            usable_until: deadlines.ends_at,
            hold_until: deadlines.hold_until,
            keeps: false,
            fence: cell.fence,
        };
        self.handle.tell(Ask::Adopt { op, adopted, cell: None });
        match self.handle.extend(op, cell.terms.ttl).await {
            Ok(Ok(kept)) => {
                cell.shared.trace_rescued(cell, &kept.ballot);
                cell.shared.leave_news(News::Extended(cell.op, kept.deadlines.ends_at));
                cell.keep(kept);
            }
            Ok(Err(ExtendError::Lost(loss))) => {
                if cell.end(LeaseEnd::Lost(loss.clone())) {
                    cell.shared.trace_lost(cell, &loss);
                }
                cell.shared.leave_news(News::Lost(cell.op));
            }
            // It is checked again before the lease ends.
            Ok(Err(ExtendError::Unknown(ballot))) => {
                cell.shared.trace_not_kept(cell, &ballot);
                cell.not_kept(ballot);
            }
            Ok(Err(_)) | Err(_) => {}
        }
        self.handle.tell(Ask::Forget(op));
    }
}

/// Keeps a rescue until nobody has needed it for a while. The engine ends when the last
/// reference is dropped.
async fn linger(rescue: Arc<Rescue>) {
    let mut begun = 0;
    loop {
        tokio::time::sleep(LINGER).await;
        rescue.handle.settled().await; // a lost lease is being undone
        let so_far = rescue.handle.ops_begun();
        if so_far == begun && Arc::strong_count(&rescue) == 1 {
            return;
        }
        begun = so_far;
    }
}
