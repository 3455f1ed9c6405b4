//! The lease in the caller's hand.

use crate::{
    engine::{Ask, Handle, LeaseCell, LeaseEnd},
    error::{ExtendError, InvalidRequest, ReleaseError},
    request::Limits,
    votes::Votes,
};
use redlatch_core::{
    FencingToken, Resource, config::check_ttl, extend, lease::Loss, release, token::owner_of,
};
use std::{
    ops::Deref,
    sync::Arc,
    time::{Duration, SystemTime},
};

pub use redlatch_core::Released;

/// A lock that is held. Dropping it gives it back, in the background.
///
/// It derefs to [`Lease`], the part that can be cloned and handed to tasks that
/// want to know whether the lock is still there.
///
/// # Example
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let locks = redlatch::Locks::memory(3);
/// let guard = locks.lock("invoice:42").await?;
/// assert!(guard.is_held());
/// guard.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a guard that is dropped gives the lock back"]
pub struct Guard {
    lease: Lease,
    armed: bool,
}

/// What is known of a lock that is, or was, held. Cheap to clone; it keeps
/// nothing alive: the lock is given back when its [`Guard`] goes.
#[derive(Debug, Clone)]
pub struct Lease {
    cell: Arc<LeaseCell>,
    handle: Handle,
    limits: Limits,
}

/// Why a lease is over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// It ran out: no extension got through in time, or none was wanted.
    #[error("the lease ran out before a majority of the nodes extended it")]
    Expired,
    /// A majority of the nodes no longer has our key: somebody deleted it, or
    /// servers lost their memory.
    #[error("a majority of the nodes no longer has the lock: {votes}")]
    Gone {
        /// Every node's vote.
        votes: Votes,
    },
    /// It was held for as long as `max_hold` allows.
    #[error("the lock was held for as long as max_hold allows")]
    MaxHold,
    /// Its guard gave it back.
    #[error("the lock was released")]
    Released,
    /// The engine that looked after it is gone with its runtime.
    #[error(
        "the engine was stopped; its runtime has shut down, or stayed behind in a fork: connect again"
    )]
    Stopped,
}

/// A lease taken out of one process, to be resumed in another.
///
/// Made by [`Guard::into_parts`], used by `Locks::resume`. The fields are plain
/// so that they can travel in any format. Who has them can release the lock.
#[derive(Clone, PartialEq, Eq)]
pub struct LeaseParts {
    /// What is locked.
    pub resources: Vec<Vec<u8>>,
    /// What signs the lock.
    pub token: Vec<u8>,
    /// How long its keys live without renewal.
    pub ttl: Duration,
    /// Until when it is known to be held, by this machine's wall clock.
    pub usable_until: SystemTime,
    /// The number of the grant, with fencing.
    pub fencing_token: Option<FencingToken>,
}

impl std::fmt::Debug for LeaseParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.resources.iter().map(|name| name.escape_ascii().to_string());
        f.debug_struct("LeaseParts")
            .field("resources", &names.collect::<Vec<_>>())
            .field("owner", &owner_of(&self.token))
            .field("ttl", &self.ttl)
            .field("usable_until", &self.usable_until)
            .field("fencing_token", &self.fencing_token)
            .finish_non_exhaustive()
    }
}

impl Guard {
    pub(crate) fn new(cell: Arc<LeaseCell>, handle: Handle, limits: Limits) -> Self {
        Guard { lease: Lease { cell, handle, limits }, armed: true }
    }

    /// The part that can be cloned.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Gives the lock back and tells what became of it.
    ///
    /// Answers as soon as a majority has; the rest goes on in the background.
    /// A lock that had expired is [`Released::AlreadyGone`], not an error.
    ///
    /// # Cancel safety
    ///
    /// Once called, the lock is given back even if the future is dropped.
    pub async fn release(mut self) -> Result<Released, ReleaseError> {
        self.armed = false;
        let Lease { cell, handle, .. } = &self.lease;
        if let Some(LeaseEnd::Lost(_)) = cell.why() {
            handle.tell(Ask::Cancel(cell.op));
            return Ok(Released::AlreadyGone);
        }
        let unless_dropped = CancelOnDrop { lease: &self.lease, armed: true };
        let answer = handle.release(cell.op).await;
        unless_dropped.disarm();
        match answer {
            Ok(Ok(released)) => Ok(released),
            Ok(Err(release::ReleaseError::Unknown(ballot))) => {
                Err(ReleaseError::Unknown { votes: cell.place.votes(&ballot) })
            }
            Ok(Err(error)) => {
                Err(ReleaseError::Unknown { votes: cell.place.votes(error.ballot()) })
            }
            // Lost in the meantime: then it is being undone.
            Err(_) if matches!(cell.why(), Some(LeaseEnd::Lost(_))) => Ok(Released::AlreadyGone),
            Err(_) => Err(ReleaseError::Stopped),
        }
    }

    /// Takes the lease apart, to hand it to another process. Renewal stops; the
    /// lock stays until its TTL ends or somebody resumes and releases it.
    #[must_use]
    pub fn into_parts(mut self) -> LeaseParts {
        self.armed = false;
        let Lease { cell, handle, .. } = &self.lease;
        handle.tell(Ask::Forget(cell.op));
        LeaseParts {
            resources: cell.resources.iter().map(|name| name.as_bytes().to_vec()).collect(),
            token: cell.token.as_bytes().to_vec(),
            ttl: cell.terms.ttl,
            usable_until: SystemTime::now() + self.lease.remaining_by_clock(),
            fencing_token: cell.fence,
        }
    }

    /// Gives the lock back in the background.
    fn cancel(&self) {
        self.lease.handle.tell(Ask::Cancel(self.lease.cell.op));
    }
}

impl Deref for Guard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.armed {
            self.cancel();
        }
    }
}

struct CancelOnDrop<'a> {
    lease: &'a Lease,
    armed: bool,
}

impl CancelOnDrop<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.lease.handle.tell(Ask::Cancel(self.lease.cell.op));
        }
    }
}

impl Lease {
    /// Whether the lock is held, provably, at this very moment.
    ///
    /// It looks at the clock, so it is right even in a process that was paused.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.cell.is_held()
    }

    /// How long the lease is good without another extension; zero once it is
    /// over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.is_held() { self.remaining_by_clock() } else { Duration::ZERO }
    }

    /// How long until the lease ends, also once its loss was signalled: the
    /// time that is left to stop in.
    #[must_use]
    pub fn ends_in(&self) -> Duration {
        self.remaining_by_clock()
    }

    fn remaining_by_clock(&self) -> Duration {
        self.cell.ends_at().since(self.cell.place.clock.now())
    }

    /// Waits until the lease is over. Loss is signalled *before* the lease
    /// ends, by `notice`, so that there is time to stop.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing changes if the future is dropped.
    pub async fn lost(&self) -> Lost {
        self.lost_by(self.cell.ended().await)
    }

    /// Extends the lease by its own TTL from now, besides any renewal.
    ///
    /// # Cancel safety
    ///
    /// Safe: an extension that is under way is carried out, and counts.
    pub async fn extend(&self) -> Result<(), ExtendError> {
        self.extend_by(self.cell.terms.ttl).await
    }

    /// Extends the lease by `ttl` from now. It never gets shorter by this.
    ///
    /// # Cancel safety
    ///
    /// Safe: an extension that is under way is carried out, and counts.
    pub async fn extend_by(&self, ttl: Duration) -> Result<(), ExtendError> {
        let ttl = check_ttl(ttl, self.limits.max_ttl).map_err(InvalidRequest::from)?;
        if !self.is_held() {
            return Err(ExtendError::Lost(self.why_lost()));
        }
        match self.handle.extend(self.cell.op, ttl).await {
            Ok(Ok(until)) => {
                self.cell.extend(until, None);
                if self.is_held() { Ok(()) } else { Err(ExtendError::Lost(self.why_lost())) }
            }
            Ok(Err(extend::ExtendError::Unknown(ballot))) => {
                Err(ExtendError::Unknown { votes: self.cell.place.votes(&ballot) })
            }
            Ok(Err(error)) if error.ballot().tally().refusals_decide() => {
                let votes = self.cell.place.votes(error.ballot());
                Err(ExtendError::Lost(Lost::Gone { votes }))
            }
            // Its time was over first.
            Ok(Err(_)) | Err(_) => Err(ExtendError::Lost(self.why_lost())),
        }
    }

    /// Extends the lease only if less than `least` remains.
    ///
    /// # Cancel safety
    ///
    /// Safe, as [`extend`](Lease::extend) is.
    pub async fn ensure(&self, least: Duration) -> Result<(), ExtendError> {
        if self.is_held() && self.remaining() >= least {
            return Ok(());
        }
        self.extend_by(least.max(self.cell.terms.ttl)).await
    }

    /// The number of this grant: greater than that of every grant before it.
    ///
    /// Hand it to the resource with each write, and let the resource refuse
    /// smaller ones than it has seen: then a holder that was paused past its
    /// lease cannot write late. None only where fencing was switched off.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.cell.fence
    }

    /// Whether agreeing on the [`fencing_token`](Lease::fencing_token) took a
    /// second round trip: the nodes did not answer the same number at once,
    /// because another grant of the same lock was under way, or because clocks
    /// are further apart than [`skew`](crate::Builder::skew).
    #[must_use]
    pub fn took_second_round(&self) -> bool {
        self.cell.second_round
    }

    /// What is locked.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.cell.resources.iter()
    }

    /// The label that operators see on the nodes.
    #[must_use]
    pub fn owner(&self) -> String {
        owner_of(self.cell.token.as_bytes()).unwrap_or_default()
    }

    /// The value that signs this lock on the nodes. Who knows it can release
    /// the lock: keep it out of logs.
    #[must_use]
    pub fn token(&self) -> &[u8] {
        self.cell.token.as_bytes()
    }

    /// How each node voted last: on the take, later on the latest extension.
    #[must_use]
    pub fn votes(&self) -> Votes {
        self.cell.place.votes(&self.cell.ballot())
    }

    pub(crate) fn cell(&self) -> &Arc<LeaseCell> {
        &self.cell
    }

    /// Why it is over; asked only when it is, or is about to be.
    pub(crate) fn why_lost(&self) -> Lost {
        self.lost_by(self.cell.why().unwrap_or(LeaseEnd::Stopped))
    }

    fn lost_by(&self, end: LeaseEnd) -> Lost {
        match end {
            LeaseEnd::Released => Lost::Released,
            LeaseEnd::Stopped => Lost::Stopped,
            LeaseEnd::Lost(Loss::MaxHold) => Lost::MaxHold,
            LeaseEnd::Lost(Loss::Gone(ballot)) => {
                Lost::Gone { votes: self.cell.place.votes(&ballot) }
            }
            LeaseEnd::Lost(_) => Lost::Expired,
        }
    }
}
