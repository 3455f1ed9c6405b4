//! What a guard, the engine and the keeper share about one lease.
//!
//! The end of the lease only moves forward, and its loss is final: once one of them
//! sees it end, all of them do. The core determines when it ends and how it was lost.

use super::{Shared, meter::Holding};
use redlatch_core::{
    Ballot, FencingToken, Moment, OpId, Resources, Terms, Token,
    lease::{Deadlines, Loss},
    machine::{Grant, Kept},
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
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
    pub(crate) shared: Arc<Shared>,
    /// The same end as in `state`, to read without locking.
    ends_at: AtomicU64,
    ended: AtomicBool,
    state: Mutex<State>,
    on_end: Notify,
    #[cfg(feature = "tokio-util")]
    cancelled: std::sync::OnceLock<tokio_util::sync::CancellationToken>,
    /// The keeper is extending it right now.
    being_rescued: AtomicBool,
    holding: Holding,
}

#[derive(Debug)]
struct State {
    deadlines: Deadlines,
    /// The last votes: on the take, later on the latest extension.
    ballot: Ballot,
    /// Those votes were on an extension, and did not suffice.
    not_kept: bool,
    /// Boxed: of very many leases few are over.
    end: Option<Box<LeaseEnd>>,
}

/// Why a lease is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeaseEnd {
    /// Its owner released it.
    Released,
    /// It could no longer be proven held.
    Lost(Loss),
    /// Its engine is gone.
    Stopped,
}

impl State {
    /// The loss, if it is lost now.
    fn loss(&self) -> Loss {
        self.deadlines.loss(self.not_kept.then(|| self.ballot.clone()))
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
            ended: AtomicBool::new(false),
            state: Mutex::new(State { deadlines, ballot, not_kept: false, end: None }),
            on_end: Notify::new(),
            #[cfg(feature = "tokio-util")]
            cancelled: std::sync::OnceLock::new(),
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
        self.state().deadlines
    }

    /// Whether the keeper may start to extend it: one rescue at a time.
    pub(crate) fn begin_rescue(&self) -> bool {
        !self.being_rescued.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end_rescue(&self) {
        self.being_rescued.store(false, Ordering::Release);
    }

    /// How much of it was left at this time; nothing once it is over.
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
        self.ended.load(Ordering::Acquire)
            && matches!(self.state().end.as_deref(), Some(LeaseEnd::Released))
    }

    /// Why it is over, once it is.
    pub(crate) fn why(&self) -> Option<LeaseEnd> {
        let state = self.state();
        let ran_out = || self.shared.clock.now() >= state.deadlines.ends_at;
        let end = state.end.as_deref().cloned();
        end.or_else(|| ran_out().then(|| LeaseEnd::Lost(state.loss())))
    }

    pub(crate) fn ballot(&self) -> Ballot {
        self.state().ballot.clone()
    }

    /// Records an extension. The end never moves back, nor once the lease is over.
    pub(crate) fn keep(&self, kept: Kept) {
        let mut state = self.state();
        if state.end.is_none() && kept.deadlines.ends_at >= state.deadlines.ends_at {
            self.ends_at.store(kept.deadlines.ends_at.as_nanos(), Ordering::Release);
            let Kept { deadlines, ballot } = kept;
            *state = State { deadlines, ballot, not_kept: false, end: None };
        }
    }

    /// Whether the last extension failed.
    pub(crate) fn is_not_kept(&self) -> bool {
        self.state().not_kept
    }

    /// Records a failed extension, with its votes.
    pub(crate) fn not_kept(&self, ballot: Ballot) {
        let mut state = self.state();
        if state.end.is_none() {
            (state.ballot, state.not_kept) = (ballot, true);
        }
    }

    /// Ends the lease, once, and wakes everyone waiting for its end. Returns
    /// whether it was not over before.
    pub(crate) fn end(&self, end: LeaseEnd) -> bool {
        self.end_as(|_| end)
    }

    /// Ends the lease because it was not extended in time.
    pub(crate) fn run_out(&self) -> bool {
        self.end_as(|state| LeaseEnd::Lost(state.loss()))
    }

    fn end_as(&self, end: impl FnOnce(&State) -> LeaseEnd) -> bool {
        let mut state = self.state();
        if state.end.is_some() {
            return false;
        }
        let end = end(&state);
        if let LeaseEnd::Lost(loss) = &end
            && let Some(ballot) = loss.ballot()
        {
            state.ballot = ballot.clone();
        }
        self.holding.end(self.shared.clock, &end);
        state.end = Some(Box::new(end));
        self.ended.store(true, Ordering::Release);
        self.on_end.notify_waiters();
        #[cfg(feature = "tokio-util")]
        if let Some(token) = self.cancelled.get() {
            token.cancel();
        }
        true
    }

    /// A token that is cancelled when the lease ends, by whoever sees that first.
    #[cfg(feature = "tokio-util")]
    pub(crate) fn cancelled_at_end(&self) -> &tokio_util::sync::CancellationToken {
        // Under the lock: the lease cannot end in between.
        let state = self.state();
        let token = self.cancelled.get_or_init(tokio_util::sync::CancellationToken::new);
        if state.end.is_some() {
            token.cancel();
        }
        token
    }

    /// Waits until the lease is over.
    pub(crate) async fn ended(&self) -> LeaseEnd {
        loop {
            let notified = self.on_end.notified();
            // Registered before looking, so that no end is missed in between.
            let end = self.state().end.as_deref().cloned();
            if let Some(end) = end {
                return end;
            }
            notified.await;
        }
    }
}
