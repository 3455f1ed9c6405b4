//! Extends the leases of an engine that is blocked.
//!
//! In:  leases that are due, the most urgent first.
//! Out: leases that end later, or a loss that is signalled.
//!
//! One engine for all leases of a [`Place`], so that however many there are, a
//! node has one connection more. It opens with the first lease, closes when none
//! has needed it for a while, never plants a key, so that it cannot race a
//! release, and admits no node.
//!
//! Only so many extensions are under way at a time: a node's queue is never so
//! long that the last answer in it comes too late.

use super::Watch;
use crate::{
    clock::Clock,
    engine::{Ask, Engine, Handle, LeaseCell, LeaseEnd, News, Place},
};
use redlatch_core::{Moment, extend::ExtendError, lease::Loss, machine::Adopted};
use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::sync::Semaphore;

/// The most extensions under way. A server carries out as many in some tens of
/// milliseconds, and over a line with 100 ms of round trip this still makes ten
/// thousand a second.
const AT_ONCE: usize = 1000;
/// How long the connections are kept after the last lease that needed them: the
/// leases of a blocked engine come due one after the other.
const LINGER: Duration = Duration::from_secs(1);

/// An engine of the keeper's own, in place of one that is blocked.
#[derive(Debug)]
pub(crate) struct Rescue {
    handle: Handle,
    turns: Semaphore,
}

/// Extends these leases, each with the moment by which it must be.
pub(super) fn all(mut late: Vec<(Moment, Arc<LeaseCell>)>) {
    late.sort_by_key(|(by, _)| *by);
    for (_, cell) in late {
        let rescue = Rescue::of(&cell.place);
        tokio::spawn(async move {
            rescue.extend_in_turn(&cell).await;
            cell.end_rescue();
        });
    }
}

impl Rescue {
    /// The one for the place, started if there is none. On the keeper's thread.
    fn of(place: &Place) -> Arc<Self> {
        let mut slot = place.rescue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = slot.upgrade() {
            return running;
        }
        tracing::warn!("a runtime is blocked: its leases are extended over other connections");
        let (engine, handle) = Engine::new(place.passing());
        tokio::spawn(engine);
        let started = Arc::new(Rescue { handle, turns: Semaphore::new(AT_ONCE) });
        *slot = Arc::downgrade(&started);
        tokio::spawn(linger(started.clone()));
        started
    }

    async fn extend_in_turn(&self, cell: &LeaseCell) {
        let Ok(_turn) = self.turns.acquire().await else { return };
        // While it waited, its engine may have woken up, or its time run out.
        let now = Clock::System.now();
        let Watch { rescue_at, notice_at } = Watch::of(cell);
        if cell.why().is_none() && (rescue_at..notice_at).contains(&now) {
            self.extend(cell, notice_at.since(now)).await;
        }
    }

    async fn extend(&self, cell: &LeaseCell, left: Duration) {
        let op = self.handle.next_op();
        let adopted = Adopted {
            resources: cell.resources.clone(),
            // There is nothing better to do with the time until loss is signalled,
            // and the connections have to be made first.
            terms: cell.terms.clone().without_renewal().with_node_timeout(left),
            token: cell.token.clone(),
            usable_until: cell.usable_until(),
            replants: false,
            fence: cell.fence,
        };
        self.handle.tell(Ask::Adopt { op, adopted, cell: None });
        match self.handle.extend(op, cell.terms.ttl).await {
            Ok(Ok(until)) => {
                tracing::debug!(resources = %cell.resources, "lease extended in its place");
                cell.place.leave_news(News::Extended(cell.op, until));
                cell.extend(until, None);
            }
            Ok(Err(ExtendError::Lost(ballot))) => {
                cell.end(LeaseEnd::Lost(Loss::Gone(ballot)));
                cell.place.leave_news(News::Lost(cell.op));
            }
            // Not known: there will be another look before the lease ends.
            Ok(Err(_)) | Err(_) => {}
        }
        self.handle.tell(Ask::Forget(op));
    }
}

/// Keeps a rescue until nobody has needed it for a while. The engine ends when
/// the last who holds it lets go.
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
