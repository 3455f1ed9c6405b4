//! What a guard, the engine and the keeper know of one lease.
//!
//! The end of the lease is one number that only grows, and its loss is final:
//! whoever sees the lease end first, everyone sees it.

use super::Place;
use redlatch_core::{
    Ballot, FencingToken, Moment, OpId, Resources, Terms, Token, lease::Loss, machine::Grant,
};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct LeaseCell {
    pub(crate) op: OpId,
    pub(crate) resources: Resources,
    pub(crate) terms: Terms,
    pub(crate) token: Token,
    pub(crate) fence: Option<FencingToken>,
    pub(crate) second_round: bool,
    pub(crate) place: Arc<Place>,
    taken: Moment,
    usable_until: AtomicU64,
    ended: AtomicBool,
    end: Mutex<Option<LeaseEnd>>,
    on_end: Notify,
    ballot: Mutex<Ballot>,
    /// The keeper is extending it at this moment.
    being_rescued: AtomicBool,
}

/// Why a lease is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeaseEnd {
    /// Its owner gave it back.
    Released,
    /// It could no longer be proved.
    Lost(Loss),
    /// The engine that looked after it is gone.
    Stopped,
}

impl LeaseCell {
    pub(crate) fn new(
        op: OpId,
        resources: Resources,
        terms: Terms,
        grant: Grant,
        taken: Moment,
        place: Arc<Place>,
    ) -> Self {
        LeaseCell {
            op,
            resources,
            terms,
            token: grant.token,
            fence: grant.fence,
            second_round: grant.second_round,
            taken,
            usable_until: AtomicU64::new(grant.usable_until.as_nanos()),
            ended: AtomicBool::new(false),
            end: Mutex::new(None),
            on_end: Notify::new(),
            ballot: Mutex::new(grant.ballot),
            being_rescued: AtomicBool::new(false),
            place,
        }
    }

    pub(crate) fn usable_until(&self) -> Moment {
        Moment::from_nanos(self.usable_until.load(Ordering::Acquire))
    }

    /// Where the lease ends for its owner: the cap counts, too.
    pub(crate) fn ends_at(&self) -> Moment {
        self.usable_until().min(self.cap())
    }

    /// The end that `max_hold` sets. It is never later than the machine's own:
    /// an extension up to the machine's cap reaches this one, too.
    fn cap(&self) -> Moment {
        let renewal = self.terms.renewal.as_ref();
        renewal.map_or(Moment::NEVER, |renewal| self.taken.after(renewal.max_hold))
    }

    /// What to call it when the time is over.
    pub(crate) fn cause_of_end(&self) -> Loss {
        if self.cap() <= self.usable_until() { Loss::MaxHold } else { Loss::Expired }
    }

    /// Whether the keeper may start to extend it: one rescue at a time.
    pub(crate) fn begin_rescue(&self) -> bool {
        !self.being_rescued.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end_rescue(&self) {
        self.being_rescued.store(false, Ordering::Release);
    }

    /// Held, provably, at this very moment.
    pub(crate) fn is_held(&self) -> bool {
        !self.ended.load(Ordering::Acquire) && self.place.clock.now() < self.ends_at()
    }

    /// Why it is over, once it is.
    pub(crate) fn why(&self) -> Option<LeaseEnd> {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ran_out = || self.place.clock.now() >= self.ends_at();
        end.or_else(|| ran_out().then(|| LeaseEnd::Lost(self.cause_of_end())))
    }

    pub(crate) fn ballot(&self) -> Ballot {
        self.ballot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Moves the end of the lease; never back, and not once it is over.
    pub(crate) fn extend(&self, until: Moment, ballot: Option<Ballot>) {
        if !self.ended.load(Ordering::Acquire) {
            self.usable_until.fetch_max(until.as_nanos(), Ordering::AcqRel);
            if let Some(ballot) = ballot {
                *self.ballot.lock().unwrap_or_else(PoisonError::into_inner) = ballot;
            }
        }
    }

    /// Ends the lease, once. Whoever waits for its end is woken.
    pub(crate) fn end(&self, end: LeaseEnd) {
        let mut slot = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_none() {
            *slot = Some(end);
            self.ended.store(true, Ordering::Release);
            self.on_end.notify_waiters();
        }
    }

    /// Waits until the lease is over.
    pub(crate) async fn ended(&self) -> LeaseEnd {
        loop {
            let notified = self.on_end.notified();
            // Registered before looking, so that no end is missed in between.
            if let Some(end) = self.end.lock().unwrap_or_else(PoisonError::into_inner).clone() {
                return end;
            }
            notified.await;
        }
    }
}
