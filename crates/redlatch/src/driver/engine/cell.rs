//! What a guard, the engine and the keeper share about one lease.
//!
//! The end of the lease only moves forward, and its loss is final: once one of them
//! sees it end, all of them do. The core determines when it ends and how it was lost.

use super::{Shared, last_votes::LastVotes, meter::Holding};
use redlatch_core::{
    Ballot, FencingToken, Moment, OpId, Resources, Terms, Token,
    lease::{Deadlines, Loss},
    machine::{Grant, Kept},
};
use std::{
    hash::{Hash, Hasher},
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
#[cfg(feature = "tokio-util")]
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(crate) struct LeaseCell {
    pub(crate) op: OpId,
    pub(crate) resources: Resources,
    pub(crate) terms: Terms,
    pub(crate) token: Token,
    pub(crate) fence: Option<FencingToken>,
    pub(crate) second_round: bool,
    pub(crate) shared: Arc<Shared>,
    /// Changes only while `state` is locked.
    ends_at: AtomicU64,
    hold_until: Moment,
    ended: AtomicBool,
    /// Whether the last votes were on an extension that failed. Changes only while `state`
    /// is locked.
    is_not_kept: AtomicBool,
    state: Mutex<State>,
    /// Whether the keeper is extending it right now.
    being_rescued: AtomicBool,
    holding: Holding,
}

#[derive(Debug)]
struct State {
    /// The votes on the take, later on the latest extension.
    votes: LastVotes,
    /// Boxed: among very many leases, few are over or waited for.
    ending: Option<Box<Ending>>,
}

#[derive(Debug, Default)]
struct Ending {
    /// Set once it is over.
    end: Option<LeaseEnd>,
    /// Set once somebody waits for that.
    on_end: Option<Arc<Notify>>,
    /// Set once somebody has asked for it.
    #[cfg(feature = "tokio-util")]
    cancelled: Option<CancellationToken>,
}

impl State {
    fn end(&self) -> Option<&LeaseEnd> {
        self.ending.as_ref()?.end.as_ref()
    }
}

/// Why a lease is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeaseEnd {
    /// Its owner released it.
    Released,
    /// Its owner took it apart, to hand it over.
    HandedOver,
    /// It could no longer be proven held.
    Lost(Loss),
    /// Its engine is gone.
    Stopped,
}

/// A lease equals only itself.
impl PartialEq for LeaseCell {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }
}

impl Eq for LeaseCell {}

impl Hash for LeaseCell {
    fn hash<H: Hasher>(&self, state: &mut H) {
        ptr::hash(self, state);
    }
}

impl LeaseCell {
    pub(crate) fn new(op: OpId, grant: Grant, shared: Arc<Shared>) -> Self {
        let Grant { resources, terms, token, deadlines, ballot, fence, second_round } = grant;
        let holding = Holding::begin(shared.clock);
        LeaseCell {
            op,
            resources,
            terms,
            token,
            fence,
            second_round,
            shared,
            ends_at: AtomicU64::new(deadlines.ends_at.as_nanos()),
            hold_until: deadlines.hold_until,
            ended: AtomicBool::new(false),
            is_not_kept: AtomicBool::new(false),
            state: Mutex::new(State { votes: LastVotes::of(ballot), ending: None }),
            being_rescued: AtomicBool::new(false),
            holding,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ends_at(&self) -> Moment {
        Moment::from_nanos(self.ends_at.load(Ordering::Acquire))
    }

    pub(crate) fn deadlines(&self) -> Deadlines {
        Deadlines::of(&self.terms, self.ends_at(), self.hold_until)
    }

    /// How it was lost, if it is lost now.
    fn loss(&self, state: &State) -> Loss {
        self.deadlines().loss(self.is_not_kept().then(|| state.votes.ballot()))
    }

    /// Whether the keeper may start to extend it: one rescue at a time.
    pub(crate) fn begin_rescue(&self) -> bool {
        !self.being_rescued.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end_rescue(&self) {
        self.being_rescued.store(false, Ordering::Release);
    }

    /// How much of it was left at this time; zero once it is over.
    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        let is_over = self.ended.load(Ordering::Acquire);
        if is_over { Duration::ZERO } else { self.ends_at().since(now) }
    }

    /// Whether it is provably held right now.
    pub(crate) fn is_held(&self) -> bool {
        !self.ended.load(Ordering::Acquire) && self.shared.clock.now() < self.ends_at()
    }

    /// Whether its owner released it.
    pub(crate) fn is_released(&self) -> bool {
        self.ended.load(Ordering::Acquire) && matches!(self.state().end(), Some(LeaseEnd::Released))
    }

    /// Why it is over, once it is.
    pub(crate) fn why(&self) -> Option<LeaseEnd> {
        let state = self.state();
        let ran_out = || self.shared.clock.now() >= self.ends_at();
        let end = state.end().cloned();
        end.or_else(|| ran_out().then(|| LeaseEnd::Lost(self.loss(&state))))
    }

    pub(crate) fn ballot(&self) -> Ballot {
        self.state().votes.ballot()
    }

    /// Records an extension. The end never moves back, and not at all once the lease is over.
    pub(crate) fn keep(&self, kept: Kept) {
        let mut state = self.state();
        let Kept { deadlines: Deadlines { ends_at, .. }, ballot } = kept;
        if state.end().is_none() && ends_at >= self.ends_at() {
            self.ends_at.store(ends_at.as_nanos(), Ordering::Release);
            state.votes = LastVotes::of(ballot);
            self.is_not_kept.store(false, Ordering::Release);
        }
    }

    /// Whether the last extension failed.
    pub(crate) fn is_not_kept(&self) -> bool {
        self.is_not_kept.load(Ordering::Acquire)
    }

    /// Records a failed extension, with its votes.
    pub(crate) fn not_kept(&self, ballot: Ballot) {
        let mut state = self.state();
        if state.end().is_none() {
            state.votes = LastVotes::of(ballot);
            self.is_not_kept.store(true, Ordering::Release);
        }
    }

    /// Ends the lease, once, and wakes everyone waiting for its end. Returns whether this
    /// call ended it.
    pub(crate) fn end(&self, end: LeaseEnd) -> bool {
        self.end_as(|_| end)
    }

    /// Ends the lease because it was not extended in time.
    pub(crate) fn run_out(&self) -> bool {
        self.end_as(|state| LeaseEnd::Lost(self.loss(state)))
    }

    fn end_as(&self, end: impl FnOnce(&State) -> LeaseEnd) -> bool {
        let mut state = self.state();
        if state.end().is_some() {
            return false;
        }
        let end = end(&state);
        if let LeaseEnd::Lost(loss) = &end
            && let Some(ballot) = loss.ballot()
        {
            state.votes = LastVotes::of(ballot.clone());
        }
        self.holding.end(self.shared.clock, &end);
        let ending = state.ending.get_or_insert_default();
        ending.end = Some(end);
        self.ended.store(true, Ordering::Release);
        if let Some(on_end) = &ending.on_end {
            on_end.notify_waiters();
        }
        #[cfg(feature = "tokio-util")]
        if let Some(token) = &ending.cancelled {
            token.cancel();
        }
        true
    }

    /// A token that is cancelled when the lease ends, by whoever sees that first.
    #[cfg(feature = "tokio-util")]
    pub(crate) fn cancelled_at_end(&self) -> CancellationToken {
        // Under the lock: the lease cannot end in between.
        let mut state = self.state();
        let ending = state.ending.get_or_insert_default();
        let token = ending.cancelled.get_or_insert_default();
        if ending.end.is_some() {
            token.cancel();
        }
        token.clone()
    }

    /// Waits until the lease is over.
    pub(crate) async fn ended(&self) -> LeaseEnd {
        let on_end =
            self.state().ending.get_or_insert_default().on_end.get_or_insert_default().clone();
        loop {
            let notified = on_end.notified();
            // Registered before looking, so that no end is missed in between.
            let end = self.state().end().cloned();
            if let Some(end) = end {
                return end;
            }
            notified.await;
        }
    }
}
