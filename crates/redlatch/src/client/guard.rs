//! The guard: the lock in the caller's hand.

use super::{
    error::{ExtendError, InvalidRequest, ReleaseError},
    votes::{Asked, Votes},
};
use crate::driver::engine::{Ask, Handle, LeaseCell, LeaseEnd, Shared};
use redlatch_core::{
    Ballot, FencingToken, Resource, Resources, TermsError,
    config::check_ttl,
    extend,
    lease::{Loss, ttl_to_ensure},
    release,
    resource::Shown,
    token::owner_of,
};
use std::{
    fmt,
    ops::Deref,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tracing::{Instrument as _, Span, debug_span, field::Empty};

pub use redlatch_core::Released;

/// A held lock. Dropping the guard releases the lock in the background.
///
/// The guard derefs to [`Lease`], which has the methods to check, extend and await the
/// end of the lock. A [`Lease`] can be cloned and handed to tasks that must know
/// whether the lock is still held; a guard cannot be cloned, because it stands for the
/// lock itself.
///
/// | to end the lock | use |
/// |---|---|
/// | without waiting for the outcome | `drop(guard)`, or let it go out of scope |
/// | and know the outcome | [`release`](Self::release) |
/// | here only, and continue in another process | [`into_parts`](Self::into_parts) |
///
/// A dropped guard needs its engine for a moment longer. If the process ends right after
/// that, the lock stays until its TTL ends: [`release`](Self::release) it before
/// `std::process::exit`, or give the engine a
/// [thread of its own](crate::Builder::dedicated_thread) and drop the [`Locks`](crate::Locks),
/// too.
///
/// Leaking a guard (`std::mem::forget`) leaves the lock renewed until
/// [`max_hold`](crate::LockRequest::max_hold) or until its runtime shuts down.
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
#[must_use = "dropping a guard releases the lock"]
pub struct Guard {
    lease: Lease,
    armed: bool,
    /// In nanoseconds, to save memory: there may be very many guards.
    waited: u64,
}

/// The state of a lock that is, or was, held. Cheap to clone.
///
/// Clones do not keep the lock: it is released when its [`Guard`] is dropped.
///
/// There are three ways to notice the loss of a lock:
///
/// | way | when to use it |
/// |---|---|
/// | [`is_held`](Self::is_held) | before each step that must not happen without the lock |
/// | [`lost`](Self::lost) | in `select!`, next to the work |
/// | `cancellation_token` (feature `tokio-util`) | for code that takes a `CancellationToken` |
///
/// None of them protects a write that is already under way: between the check and the
/// write, the process can be paused. Send the [fencing token](Self::fencing_token) with
/// writes that must never come late.
///
/// # Example
///
/// Work that checks the lease between two steps:
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let locks = redlatch::Locks::memory(3);
/// let guard = locks.lock("import").await?;
/// let lease = guard.lease();
/// let import = tokio::spawn(async move {
///     for row in 0..3 {
///         if !lease.is_held() {
///             return row; // stop: another owner may have the lock
///         }
///         // … import the row …
///     }
///     3
/// });
/// assert_eq!(import.await?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Lease {
    cell: Arc<LeaseCell>,
    handle: Handle,
}

/// Why a lease ended. Returned by [`Lease::lost`], and part of the errors of
/// [`extend`](Lease::extend), [`resume`](crate::Locks::resume) and
/// [`run`](crate::LockRequest::run).
///
/// Whatever the reason, another owner may have the lock from then on. The `Display` text
/// shows every node's vote on the last attempt to extend the lease.
///
/// # Example
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
/// #     .block_on(async {
/// use redlatch::{Lost, testing::Nodes};
///
/// let nodes = Nodes::new(3);
/// let guard = nodes.locks().lock("import").await?;
/// nodes.lose("import");
///
/// match guard.lost().await {
///     Lost::Gone { votes } => println!("deleted or forgotten: {votes}"),
///     Lost::Expired { .. } => println!("not extended in time"),
///     other => println!("{other}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lost {
    /// It expired: no extension succeeded in time, or none was tried.
    Expired {
        /// The votes of the last attempt to extend it. `None` if nobody tried:
        /// renewal was off, or the process was paused for too long.
        votes: Option<Votes>,
    },
    /// A majority of the nodes no longer has the key: somebody deleted it, or
    /// servers lost their memory.
    Gone {
        /// Every node's vote.
        votes: Votes,
    },
    /// It was held for as long as `max_hold` allows.
    MaxHold,
    /// Its guard released it.
    Released,
    /// [`Guard::into_parts`] took it apart. The lock is still on the nodes, but another
    /// process answers for it.
    HandedOver,
    /// The engine is gone, with its runtime.
    Stopped,
}

impl std::error::Error for Lost {}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())?;
        self.votes().map_or(Ok(()), |votes| write!(f, ": {votes}"))
    }
}

impl Lost {
    pub(crate) fn by(shared: &Shared, end: LeaseEnd) -> Self {
        match end {
            LeaseEnd::Released => Lost::Released,
            LeaseEnd::HandedOver => Lost::HandedOver,
            LeaseEnd::Stopped => Lost::Stopped,
            LeaseEnd::Lost(loss) => Lost::of(shared, &loss),
        }
    }

    pub(crate) fn of(shared: &Shared, loss: &Loss) -> Self {
        let votes = |ballot: &Ballot| shared.votes(ballot).on_being(Asked::Extension);
        match loss {
            Loss::MaxHold => Lost::MaxHold,
            Loss::Gone(ballot) => Lost::Gone { votes: votes(ballot) },
            loss => Lost::Expired { votes: loss.ballot().map(votes) },
        }
    }

    /// What happened, without the votes.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Lost::Expired { votes: Some(votes) } if votes.tally().nodes == 1 => {
                "the only node did not extend the lease in time"
            }
            Lost::Expired { votes: Some(_) } => {
                "no majority of the nodes extended the lease in time"
            }
            Lost::Expired { votes: None } => "the lease was not extended in time",
            Lost::Gone { votes } if votes.tally().nodes == 1 => {
                "the only node no longer has the lock"
            }
            Lost::Gone { .. } => "a majority of the nodes no longer has the lock",
            Lost::MaxHold => "the lock was held for as long as max_hold allows",
            Lost::Released => "the lock was released",
            Lost::HandedOver => "the lease was taken apart, to be handed over",
            Lost::Stopped => super::error::STOPPED,
        }
    }

    /// The votes of the last attempt to extend it, if they matter.
    pub(crate) fn votes(&self) -> Option<&Votes> {
        match self {
            Lost::Gone { votes } => Some(votes),
            Lost::Expired { votes } => votes.as_ref(),
            Lost::MaxHold | Lost::Released | Lost::HandedOver | Lost::Stopped => None,
        }
    }
}

/// A lease taken out of one process, to be resumed in another.
///
/// Made by [`Guard::into_parts`], used by [`Locks::resume`](crate::Locks::resume)
/// and [`Locks::release_parts`](crate::Locks::release_parts). The fields are plain data, so
/// they can travel in any format. Anyone who has them can release the lock: treat them
/// like a password. `Debug` leaves the lock token out.
///
/// Resume them once, and never from a message that may be delivered twice: two processes
/// that resume the same parts do not exclude each other, and when one of them releases the
/// lock, the other learns of it only when it next extends the lease.
///
/// Nobody renews the lock in the meantime, so the other process must resume it before
/// `usable_until`, and early enough for its own notice of loss.
#[derive(Clone, PartialEq, Eq)]
pub struct LeaseParts {
    /// The locked resources.
    pub resources: Vec<Vec<u8>>,
    /// The lock token, the secret value of the lock's keys on the nodes.
    pub lock_token: Vec<u8>,
    /// How long its keys live without renewal.
    pub ttl: Duration,
    /// Until when it is provably held, by this machine's wall clock.
    pub usable_until: SystemTime,
    /// The fencing token of the grant; `None` without fencing.
    pub fencing_token: Option<FencingToken>,
}

impl fmt::Debug for LeaseParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.resources.iter().map(|name| Shown(name).to_string());
        f.debug_struct("LeaseParts")
            .field("resources", &names.collect::<Vec<_>>())
            .field("owner", &owner_of(&self.lock_token))
            .field("ttl", &self.ttl)
            .field("usable_until", &self.usable_until)
            .field("fencing_token", &self.fencing_token)
            .finish_non_exhaustive()
    }
}

/// Shows what an operator would ask first, without the lock token.
impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe("Lease", f)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lease.describe("Guard", f)
    }
}

impl Guard {
    pub(crate) fn new(cell: Arc<LeaseCell>, handle: Handle, waited: Duration) -> Self {
        Guard {
            lease: Lease { cell, handle },
            armed: true,
            waited: u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// Returns how long the request took, from asking for the lock to getting it.
    /// Zero for a lock that was handed over by another process.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// let guard = locks.lock("report").await?;
    /// println!("waited {:?} for the lock", guard.waited());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited)
    }

    /// Returns a clone of the lease, for a task that outlives this borrow. The lock is
    /// still released when the guard is dropped.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Releases the lock and reports the outcome.
    ///
    /// Returns as soon as a majority has answered; the other nodes follow in the
    /// background. If the lock had expired or was lost, this returns
    /// [`Released::AlreadyGone`], which is not an error.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`] if it is not known whether the lock was released. There is
    /// nothing to retry: the lock is being removed in the background, and expires no
    /// later than its TTL.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: dropping the future, polled or not, releases the lock in the
    /// background.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// use redlatch::Released;
    ///
    /// let guard = locks.lock("invoice:42").await?;
    /// match guard.release().await {
    ///     Ok(Released::Now) => println!("free for the next"),
    ///     Ok(Released::AlreadyGone) => println!("lost before: check what was written"),
    ///     Err(error) => eprintln!("{error}"), // it expires by itself
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn release(mut self) -> Result<Released, ReleaseError> {
        self.armed = false;
        let Lease { cell, handle } = &self.lease;
        if let Some(LeaseEnd::Lost(_)) = cell.why() {
            handle.tell(Ask::Cancel(cell.op));
            self.lease.release_span().record("outcome", "already-gone");
            return Ok(Released::AlreadyGone);
        }
        let unless_dropped = CancelOnDrop { lease: &self.lease, armed: true };
        let span = self.lease.release_span();
        let answer = handle.release(cell.op).instrument(span.clone()).await;
        unless_dropped.disarm();
        let outcome = match answer {
            // Lost in the meantime, so it is being undone.
            Err(_) if matches!(cell.why(), Some(LeaseEnd::Lost(_))) => Ok(Released::AlreadyGone),
            answer => released(&cell.shared, &cell.resources, answer.ok()),
        };
        span.record("outcome", word(&outcome));
        outcome
    }

    /// Takes the lease apart, to hand it to another process.
    ///
    /// Renewal stops. The lock stays on the nodes until its TTL ends, unless another
    /// process [resumes](crate::Locks::resume) or
    /// [releases](crate::Locks::release_parts) it. Choose a TTL that leaves enough time
    /// for the hand-over.
    ///
    /// For this process the lease is over, since it cannot know what the other one does
    /// with it: every clone of the [`Lease`] is no longer held, and its end is
    /// [`Lost::HandedOver`].
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// let parts = locks.lock("deploy").await?.into_parts();
    /// // … in another process …
    /// let guard = locks.resume(&parts).await?;
    /// assert!(guard.is_held());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn into_parts(mut self) -> LeaseParts {
        self.armed = false;
        let Lease { cell, handle } = &self.lease;
        // Here and now: the engine may learn of it later.
        cell.end(LeaseEnd::HandedOver);
        handle.tell(Ask::Forget(cell.op));
        LeaseParts {
            resources: cell.resources.iter().map(|name| name.as_bytes().to_vec()).collect(),
            lock_token: cell.token.as_bytes().to_vec(),
            ttl: cell.terms.ttl,
            usable_until: SystemTime::now() + self.lease.remaining_by_clock(),
            fencing_token: cell.fence,
        }
    }

    /// Releases the lock in the background.
    fn cancel(&self) {
        self.lease.release_span().record("outcome", "background");
        self.lease.handle.abandon(&self.lease.cell);
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

/// The result of a release. `answer` is `None` if the engine is gone.
pub(super) fn released(
    shared: &Shared,
    resources: &Resources,
    answer: Option<release::Decision>,
) -> Result<Released, ReleaseError> {
    let decision = answer.ok_or(ReleaseError::Stopped)?;
    decision.map_err(|error| {
        let votes = shared.votes(error.ballot()).on_being(Asked::Release);
        ReleaseError::Unknown { votes: votes.on(resources.clone()) }
    })
}

/// One of the outcomes that [`telemetry`](crate::telemetry) documents.
fn word(outcome: &Result<Released, ReleaseError>) -> &'static str {
    match outcome {
        Ok(Released::AlreadyGone) => "already-gone",
        Ok(_) => "released",
        Err(_) => "unknown",
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
            self.lease.handle.abandon(&self.lease.cell);
        }
    }
}

impl Lease {
    /// Returns whether the lock is provably held right now.
    ///
    /// It asks no node: it reads the clocks and compares them with the end of the lease, so
    /// it is cheap, and right even in a process that was paused. It returns `false` once the
    /// loss was signalled or the lease has ended, and never `true` again: request a lost
    /// lock again.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// # fn charge(_: u32) {}
    /// let guard = locks.lock("invoices").await?;
    /// for invoice in 0..3 {
    ///     if !guard.is_held() {
    ///         break; // another owner may have the lock
    ///     }
    ///     charge(invoice);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.cell.is_held()
    }

    /// Returns how long the lease lasts without another extension; zero once it has
    /// ended or its loss was signalled.
    ///
    /// To decide whether a step still fits, use [`ensure`](Self::ensure), which extends
    /// the lease if it does not.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.is_held() { self.remaining_by_clock() } else { Duration::ZERO }
    }

    /// Returns the time until the lease ends, even after its loss was signalled:
    /// the time left to stop in. Zero if the lock was released or handed over. After
    /// [`Lost::Gone`], another owner may have the lock already: stop at once.
    ///
    /// # Example
    ///
    /// Give the work until shortly before the end to stop by itself:
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
    /// #     .block_on(async {
    /// # let nodes = redlatch::testing::Nodes::new(3);
    /// # let guard = nodes.locks().lock("import").await?;
    /// # let mut work = tokio::spawn(async {});
    /// # nodes.lose("import");
    /// guard.lost().await;
    /// if tokio::time::timeout(guard.ends_in() / 2, &mut work).await.is_err() {
    ///     work.abort();
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn ends_in(&self) -> Duration {
        match self.cell.why() {
            Some(LeaseEnd::Released | LeaseEnd::HandedOver) => Duration::ZERO,
            _ => self.remaining_by_clock(),
        }
    }

    fn release_span(&self) -> Span {
        let (resources, fence) = (&self.cell.resources, self.fencing_token());
        let fencing_token = fence.map(FencingToken::get);
        debug_span!("release", %resources, fencing_token, outcome = Empty)
    }

    fn remaining_by_clock(&self) -> Duration {
        self.cell.ends_at().since(self.cell.shared.clock.now())
    }

    /// Waits until the lease has ended, and returns why.
    ///
    /// Loss is signalled *before* the lease ends, by
    /// [`notice`](crate::LockRequest::notice), so that there is time to stop. The signal
    /// comes in time even if no node answers and even if the runtime is blocked; a
    /// blocked runtime cannot poll your task, though, so check
    /// [`is_held`](Self::is_held) in long stretches without an `.await`.
    ///
    /// If the lease has already ended, this returns at once.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: nothing changes, and the next call waits for the same end.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
    /// #     .block_on(async {
    /// let nodes = redlatch::testing::Nodes::new(3);
    /// let guard = nodes.locks().lock("import").await?;
    /// # nodes.lose("import");
    /// tokio::select! {
    ///     lost = guard.lost() => println!("stopping: {lost}"),
    ///     () = std::future::pending() => println!("imported"), // the work
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn lost(&self) -> Lost {
        Lost::by(&self.cell.shared, self.cell.ended().await)
    }

    /// Returns a token that is cancelled when the lease ends, for whatever
    /// reason: on loss, by `notice` before its end, and on release.
    ///
    /// Cancelling it yourself cancels no other token of the lease, and does not
    /// release the lock.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
    /// #     .block_on(async {
    /// let nodes = redlatch::testing::Nodes::new(3);
    /// let guard = nodes.locks().lock("import").await?;
    /// let stop = guard.cancellation_token();
    /// let import = tokio::spawn(async move {
    ///     // … import, and between two rows:
    ///     stop.cancelled().await;
    ///     "stopped"
    /// });
    ///
    /// nodes.lose("import");
    ///
    /// assert_eq!(import.await?, "stopped");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tokio-util")]
    #[must_use]
    pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
        self.cell.cancelled_at_end().child_token()
    }

    /// Extends the lease to its own TTL from now, in addition to any renewal.
    ///
    /// With renewal, which is the default, you rarely need this. Without it
    /// ([`no_renewal`](crate::LockRequest::no_renewal)), the lease ends after one TTL
    /// unless you call it in time.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Lost`] if the lock is no longer held: stop.
    /// [`ExtendError::Unknown`] if no majority answered: the lease keeps its old
    /// end, and you may retry until then.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: an extension in progress is carried out, and counts.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// use redlatch::ExtendError;
    ///
    /// let guard = locks.lock("import").no_renewal().await?;
    /// for _batch in 0..3 {
    ///     // … import a batch …
    ///     match guard.extend().await {
    ///         Ok(()) => {}
    ///         Err(ExtendError::Unknown { .. }) if guard.is_held() => {} // try after the next
    ///         Err(error) => return Err(error.into()),
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn extend(&self) -> Result<(), ExtendError> {
        self.extend_by(self.cell.terms.ttl).await
    }

    /// Extends the lease to `ttl` from now, but never beyond
    /// [`max_hold`](crate::LockRequest::max_hold): in that case it succeeds with a shorter
    /// time, which [`remaining`](Lease::remaining) returns. To be sure of a time, use
    /// [`ensure`](Lease::ensure).
    ///
    /// The lease never gets shorter: if it already lasts longer, it keeps its end. Later
    /// renewals use the lease's own TTL again.
    ///
    /// # Errors
    ///
    /// As [`extend`](Lease::extend), and [`ExtendError::Invalid`] if `ttl` is above
    /// [`max_ttl`](crate::Builder::max_ttl) or too short to be of use.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: an extension in progress is carried out, and counts.
    pub async fn extend_by(&self, ttl: Duration) -> Result<(), ExtendError> {
        if !self.is_held() {
            return Err(ExtendError::Lost(self.why_lost()));
        }
        let ttl = check_ttl(ttl, self.cell.terms.max_ttl).map_err(InvalidRequest::from)?;
        match self.handle.extend(self.cell.op, ttl).await {
            Ok(Ok(kept)) => {
                self.cell.keep(kept);
                if self.is_held() { Ok(()) } else { Err(ExtendError::Lost(self.why_lost())) }
            }
            Ok(Err(extend::ExtendError::Unknown(ballot))) => {
                let votes = self.cell.shared.votes(&ballot).on_being(Asked::Extension);
                Err(ExtendError::Unknown { votes: votes.on(self.cell.resources.clone()) })
            }
            Ok(Err(extend::ExtendError::Lost(loss))) => {
                let end = self.cell.why().unwrap_or(LeaseEnd::Lost(loss));
                Err(ExtendError::Lost(Lost::by(&self.cell.shared, end)))
            }
            Ok(Err(_)) | Err(_) => Err(ExtendError::Lost(self.why_lost())),
        }
    }

    /// Extends the lease if its loss could be signalled before `least` has passed.
    ///
    /// Call it before a step that takes that long: if it succeeds,
    /// [`lost`](Lease::lost) does not report an expired lease before then. The extension
    /// is at least the lease's own TTL. It covers `least`, the
    /// [notice](crate::LockRequest::notice) of loss, clock drift and the time that nodes
    /// may take to answer.
    ///
    /// # Errors
    ///
    /// As [`extend`](Lease::extend), and [`ExtendError::Invalid`] if `least` is too long for
    /// [`max_ttl`](crate::Builder::max_ttl) or ends after
    /// [`max_hold`](crate::LockRequest::max_hold). The lease then keeps its old end.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe, like [`extend`](Lease::extend).
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// use std::time::Duration;
    ///
    /// let guard = locks.lock("import").ttl(Duration::from_secs(5)).no_renewal().await?;
    /// guard.ensure(Duration::from_secs(20)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(10), "enough for the next step");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn ensure(&self, least: Duration) -> Result<(), ExtendError> {
        let (terms, deadlines) = (&self.cell.terms, self.cell.deadlines());
        let now = self.cell.shared.clock.now();
        if !self.is_held() {
            return Err(ExtendError::Lost(self.why_lost()));
        }
        if deadlines.notice_at.since(now) >= least {
            return Ok(());
        }
        let left = deadlines.longest(terms, now);
        if left < least {
            return Err(InvalidRequest::from(TermsError::EnsureMaxHold { least, left }).into());
        }
        let ttl = ttl_to_ensure(least, terms);
        let max_ttl = terms.max_ttl;
        if ttl > max_ttl {
            let too_long = TermsError::EnsureTooLong { least, ttl, max_ttl };
            return Err(InvalidRequest::from(too_long).into());
        }
        self.extend_by(ttl).await
    }

    /// Returns the fencing token: greater than that of every earlier grant of the
    /// resource. `None` only if [fencing](crate::Builder::fencing) is off.
    ///
    /// Send it with each write, and let the resource refuse tokens smaller than one
    /// it has seen: then a holder that was paused past its lease cannot write late.
    /// See [`fence`](crate::fence).
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// use redlatch::fence::Register;
    ///
    /// let balance = Register::new(100);
    /// let late = locks.lock("account:7").await?.fencing_token().expect("fencing is on");
    ///
    /// let guard = locks.lock("account:7").await?;
    /// let token = guard.fencing_token().expect("fencing is on");
    /// balance.write(token, |cents| *cents -= 30)?;
    ///
    /// assert!(token > late);
    /// assert!(balance.write(late, |cents| *cents = 0).is_err(), "refused");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.cell.fence
    }

    /// Returns whether agreeing on the [`fencing_token`](Lease::fencing_token) took
    /// a second round trip: the nodes gave different numbers at first, because
    /// another grant of the same lock was in progress, or because clocks are
    /// further apart than [`skew`](crate::Builder::skew).
    #[must_use]
    pub fn took_second_round(&self) -> bool {
        self.cell.second_round
    }

    /// Returns the locked resources, in the order in which they were requested.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.cell.resources.iter()
    }

    /// Returns the owner's label, which operators see on the nodes: `host/pid`, unless
    /// [`owner`](crate::LockRequest::owner) was set.
    #[must_use]
    pub fn owner(&self) -> String {
        owner_of(self.cell.token.as_bytes()).unwrap_or_default()
    }

    /// Returns the lock token, the secret value of the lock's keys on the nodes.
    /// Anyone who knows it can release the lock: keep it out of logs.
    #[must_use]
    pub fn lock_token(&self) -> &[u8] {
        self.cell.token.as_bytes()
    }

    /// Returns each node's last vote: on the take, or on the latest extension, even
    /// if that failed. A node that was slower than the majority counts as not waited for.
    #[must_use]
    pub fn votes(&self) -> Votes {
        let votes = self.cell.shared.votes(&self.cell.ballot());
        if self.cell.is_not_kept() { votes.on_being(Asked::Extension) } else { votes }
    }

    fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resources: Vec<_> = self.resources().map(ToString::to_string).collect();
        let mut shown = f.debug_struct(name);
        shown.field("resources", &resources);
        if let Some(token) = self.fencing_token() {
            shown.field("fencing_token", &token.get());
        }
        shown.field("is_held", &self.is_held()).field("remaining", &self.remaining());
        shown.finish_non_exhaustive()
    }

    /// Why the lease has ended. Call it only if the lease has ended or is about to.
    pub(crate) fn why_lost(&self) -> Lost {
        Lost::by(&self.cell.shared, self.cell.why().unwrap_or(LeaseEnd::Stopped))
    }
}
