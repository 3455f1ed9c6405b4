//! A request for a lock, until it is granted or refused.

use super::{
    advice::admit_command,
    error::{LockError, RunError},
    guard::{Guard, Lease},
    settings::{Settings, Wait, setters, wait_setter},
    signature::Signature,
};
use crate::driver::{
    clock::wall_micros,
    engine::{Acquire, Handle, NotGranted, Shared, meter::Waiting},
};
use redlatch_core::{
    AcquireError, FencingToken, InLine, Moment, Owner, Terms, WallClock, config::Wanted, lease,
    machine::Order,
};
use std::{
    future::{Future, IntoFuture},
    pin::{Pin, pin},
    sync::Mutex,
    task::{Context, Poll, ready},
    time::Duration,
};
use tracing::{Instrument, field::Empty, instrument::Instrumented};

/// The defaults of all requests of one [`Locks`](crate::Locks).
#[derive(Debug)]
pub(crate) struct Defaults {
    pub(crate) wanted: Wanted,
    /// `wanted`, checked; shared by all requests that do not change it. `None` if it is
    /// wrong: each request then reports the error itself.
    pub(crate) terms: Option<Terms>,
    /// The terms of the last request that changed them: the next one often wants the
    /// same terms, and then shares these.
    pub(crate) changed_terms: Mutex<Option<Terms>>,
    pub(crate) wait: Duration,
    pub(crate) owner: Owner,
    pub(crate) signature: Signature,
    /// With fencing: how far clocks may be apart.
    pub(crate) fencing: Option<Duration>,
    pub(crate) fair: bool,
    pub(crate) poll_max: Duration,
    pub(crate) local_batch: u32,
}

/// A request for a lock: `.await` it, or [`run`](LockRequest::run) work under it.
/// Made by [`Locks::lock`](crate::Locks::lock) and
/// [`Locks::lock_all`](crate::Locks::lock_all).
///
/// The request does nothing until it is awaited; settings are checked then, not before.
/// It asks all nodes at once and is granted as soon as a majority has granted it. If
/// another owner holds the lock, it [waits](LockRequest::wait) in line.
///
/// # Settings
///
/// Each setting defaults to the same setting of the [`Builder`](crate::Builder), if
/// there is one.
///
/// | setting | default | sets |
/// |---|---|---|
/// | [`wait`](Self::wait), [`wait_until`](Self::wait_until), [`wait_forever`](Self::wait_forever) | 10 s | how long to wait for the lock |
/// | [`fair`](Self::fair) | `true` | whether to wait in line |
/// | [`ttl`](Self::ttl) | 10 s | how long the lock outlives a crashed holder |
/// | [`max_hold`](Self::max_hold) | 1 h | how long renewal may hold the lock |
/// | [`renew_every`](Self::renew_every), [`no_renewal`](Self::no_renewal) | a third of the TTL | how often the lease is extended |
/// | [`notice`](Self::notice) | a tenth of the lease, at most 500 ms | how early loss is signalled |
/// | [`min_validity`](Self::min_validity) | half of the lease | how much of the lease a grant must have left |
/// | [`node_timeout`](Self::node_timeout) | TTL / 20, 5 to 500 ms | how long one node may take to vote |
/// | [`owner`](Self::owner) | `host/pid` | the label that operators see |
///
/// # Errors
///
/// [`LockError::Held`] if another owner still holds the lock when the wait ends,
/// [`LockError::NoMajority`] if too many nodes have failed by then,
/// [`LockError::Quarantined`] if too many are new or restarted, and
/// [`LockError::Invalid`] if the settings contradict each other. See [`LockError`] for the
/// rest. Whatever a failed request has set on the nodes is removed in the background.
///
/// # Cancel safety
///
/// Cancel-safe: dropping the future gives up the place in line and undoes the attempt on
/// every node, in the background. A lock that was just granted is released.
///
/// # Example
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let locks = redlatch::Locks::memory(3);
/// use redlatch::LockError;
/// use std::time::Duration;
///
/// let request = locks.lock("report").ttl(Duration::from_secs(5)).wait(Duration::from_secs(2));
/// match request.await {
///     Ok(guard) => println!("locked, with fencing token {:?}", guard.fencing_token()),
///     Err(LockError::Held { votes }) => println!("held by another owner: {votes}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Functions that take a `Future`, such as `tokio::spawn`, `tokio::time::timeout` or
/// `join_all`, take a request by [`into_future`](IntoFuture::into_future):
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let locks = redlatch::Locks::memory(3);
/// use std::future::IntoFuture as _;
///
/// let waiting = tokio::spawn(locks.lock("report").into_future());
/// let guard = waiting.await??;
/// assert!(guard.is_held());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// To stop waiting when something else happens, put it into `select!`:
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let locks = redlatch::Locks::memory(3);
/// # let shutdown = std::future::pending::<()>();
/// tokio::select! {
///     guard = locks.lock("report").wait_forever() => println!("locked: {:?}", guard?),
///     () = shutdown => println!("gave up the place in line"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a request does nothing until it is awaited"]
pub struct LockRequest(pub(super) Settings);

/// A request for a lock only if it is free: `.await` it, or
/// [`run`](TryLockRequest::run) work under it. Made by
/// [`Locks::try_lock`](crate::Locks::try_lock) and
/// [`Locks::try_lock_all`](crate::Locks::try_lock_all).
///
/// Awaited, it returns a [`Guard`], or `None` if another owner holds the lock. It has the
/// settings of a [`LockRequest`], except those for waiting.
///
/// Bind the guard to a variable: in `try_lock(…).await?;` it is dropped, and the lock
/// released, at once.
///
/// # Errors
///
/// Any [`LockError`]. [`LockError::Held`] is returned only if other data has the lock's
/// name, so that the lock can never be free.
///
/// # Cancel safety
///
/// Cancel-safe: dropping the future undoes the attempt on every node, in the background.
///
/// # Example
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let locks = redlatch::Locks::memory(3);
/// let Some(guard) = locks.try_lock("nightly-report").await? else {
///     println!("another instance is on it");
///     return Ok(());
/// };
/// // … write the report …
/// guard.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a request does nothing until it is awaited"]
pub struct TryLockRequest(pub(super) Settings);

setters!(LockRequest);
wait_setter!(LockRequest);
setters!(TryLockRequest);

/// The engine's answer to a request.
type Answer = <Acquire as Future>::Output;

/// A request that was handed to the engine.
pub(crate) struct Asked {
    answer: Instrumented<Acquire>,
    handle: Handle,
    started: Moment,
    waiting: Waiting,
}

impl Settings {
    pub(super) fn acquire(self) -> Acquisition {
        let wait = self.wait;
        Acquisition::New(Box::new(self), wait)
    }

    pub(super) fn try_acquire(self) -> Acquisition {
        Acquisition::New(Box::new(self), Wait::For(Duration::ZERO))
    }

    /// Checks the settings and hands the request to the engine. Returns only what
    /// must be kept while waiting.
    fn ask(mut self, wait: Wait) -> Result<Asked, LockError> {
        let terms = self.terms()?;
        let resources = self.resources?;
        let started = self.handle.shared.clock.now();
        let arrived = wall_micros();
        let owner = self.owner?.with_clock(started, arrived);
        let fencing =
            self.fencing.map(|skew| WallClock { read_at: started, micros: arrived, skew });
        let Defaults { poll_max, local_batch, .. } = *self.defaults;
        let line = self.fair.then_some(InLine { arrived, poll_max, local_batch });
        let wait_until = started.after(wait.left(self.handle.shared.clock));
        let order = Order { resources, terms, owner, wait_until, fencing, line };
        let resources = &order.resources;
        let span =
            tracing::debug_span!("acquire", %resources, outcome = Empty, fencing_token = Empty);
        let answer = self.handle.acquire(order).instrument(span);
        Ok(Asked {
            waiting: Waiting::since(started, self.handle.shared.clock),
            handle: self.handle,
            started,
            answer,
        })
    }
}

/// The future of a request.
///
/// Written by hand: there may be very many of them, and a compiler-generated future
/// would keep the settings, and room for them, while it waits.
pub(crate) enum Acquisition {
    New(Box<Settings>, Wait),
    Asked(Asked),
    Over,
}

impl Future for Acquisition {
    type Output = Result<Guard, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Acquisition::New(..) = this
            && let Acquisition::New(settings, wait) = std::mem::replace(this, Acquisition::Over)
        {
            *this = Acquisition::Asked(settings.ask(wait)?);
        }
        let Acquisition::Asked(asked) = this else {
            return Poll::Pending; // polled again after it was ready
        };
        let answer = ready!(Pin::new(&mut asked.answer).poll(cx));
        let Acquisition::Asked(asked) = std::mem::replace(this, Acquisition::Over) else {
            return Poll::Pending;
        };
        Poll::Ready(asked.answered(answer))
    }
}

impl Asked {
    /// Reports the answer to the caller, to its span and to the metrics.
    fn answered(self, answer: Answer) -> Result<Guard, LockError> {
        let Asked { answer: asked, handle, started, waiting } = self;
        let span = asked.span().clone();
        drop(asked);
        let result = Self::result(handle, started, answer);
        let outcome = outcome_of(&result);
        span.record("outcome", outcome);
        if let Ok(guard) = &result {
            span.record("fencing_token", guard.fencing_token().map(FencingToken::get));
        }
        waiting.end_as(outcome);
        result
    }

    fn result(handle: Handle, started: Moment, answer: Answer) -> Result<Guard, LockError> {
        let cell = match answer {
            Ok(Ok(cell)) => cell,
            Ok(Err(refused)) => return Err(lock_error(&handle.shared, refused)),
            Err(_) => return Err(LockError::Stopped),
        };
        let now = cell.shared.clock.now();
        let (elapsed, remaining) = (now.since(started), cell.remaining(now));
        let guard = Guard::new(cell, handle, elapsed);
        if lease::is_of_use(remaining, Duration::ZERO) {
            return Ok(guard);
        }
        // This thread was not scheduled for the whole time of the lease.
        Err(LockError::TooSlow { elapsed, votes: guard.votes() })
    }
}

impl LockRequest {
    /// Runs `work` under the lock, then releases the lock. Drops `work` as soon as the
    /// lease can no longer be proven.
    ///
    /// `work` is stopped at an `.await`, so it must not block for long. Tasks that it
    /// spawned are not stopped: let them watch the lease that it is given. To clean up
    /// before the lease ends instead of being dropped, take a [`Guard`] and wait for
    /// [`Lease::lost`].
    ///
    /// # Errors
    ///
    /// [`RunError::Lock`] if the lock was not granted: `work` never started.
    /// [`RunError::Lost`] if the lock was lost: `work` was dropped half done.
    /// [`RunError::Late`], with the value, if `work` finished just as the lease
    /// ended. A release that fails is not an error: the lock expires by itself.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: dropping the future drops `work` and releases the lock in the
    /// background.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// let answer = locks.lock("report").run(|lease| async move {
    ///     assert!(lease.is_held());
    ///     42
    /// });
    /// assert_eq!(answer.await?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Work that can fail returns its own result inside that of `run`; `??` unwraps both:
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// let work = |_lease| async { std::str::from_utf8(b"all paid") };
    /// let report: &str = locks.lock("report").run(work).await??;
    /// assert_eq!(report, "all paid");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn run<T, F>(self, work: impl FnOnce(Lease) -> F) -> Result<T, RunError<T>>
    where
        F: Future<Output = T>,
    {
        run_under(self.await?, work).await
    }
}

impl TryLockRequest {
    /// Runs `work` under the lock if it is free, as [`LockRequest::run`] does.
    /// Returns `None`, without running `work`, if another owner holds the lock.
    ///
    /// # Errors
    ///
    /// As [`LockRequest::run`], except that `None` means that the lock is held. If other data
    /// has the lock's name, `work` could never run: that is [`LockError::Held`].
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: dropping the future drops `work` and releases the lock in the
    /// background.
    ///
    /// # Example
    ///
    /// A job that every instance of a service starts and only one runs:
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let locks = redlatch::Locks::memory(3);
    /// match locks.try_lock("nightly-report").run(|_lease| async { "sent" }).await? {
    ///     Some(done) => println!("the report is {done}"),
    ///     None => println!("another instance is on it"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn run<T, F>(self, work: impl FnOnce(Lease) -> F) -> Result<Option<T>, RunError<T>>
    where
        F: Future<Output = T>,
    {
        match self.await? {
            Some(guard) => run_under(guard, work).await.map(Some),
            None => Ok(None),
        }
    }
}

async fn run_under<T, F>(guard: Guard, work: impl FnOnce(Lease) -> F) -> Result<T, RunError<T>>
where
    F: Future<Output = T>,
{
    let outcome = while_held(&guard, work(guard.lease())).await;
    if let Err(error) = guard.release().await {
        tracing::debug!("{error}");
    }
    outcome
}

/// Polls `work` only while the lease is held.
async fn while_held<T>(lease: &Lease, work: impl Future<Output = T>) -> Result<T, RunError<T>> {
    let mut lost = pin!(lease.lost());
    let mut work = pin!(work);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(lost) = lost.as_mut().poll(cx) {
            return Poll::Ready(Err(RunError::Lost(lost)));
        }
        if !lease.is_held() {
            return Poll::Ready(Err(RunError::Lost(lease.why_lost())));
        }
        work.as_mut().poll(cx).map(|value| finished(lease, value))
    })
    .await
}

/// The result of work that has finished. Its value counts as done under the lock
/// only if the lock is still held now.
pub(super) fn finished<T>(lease: &Lease, value: T) -> Result<T, RunError<T>> {
    if lease.is_held() { Ok(value) } else { Err(RunError::Late { value, lost: lease.why_lost() }) }
}

impl IntoFuture for LockRequest {
    type Output = Result<Guard, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.acquire())
    }
}

impl IntoFuture for TryLockRequest {
    type Output = Result<Option<Guard>, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let acquisition = self.0.try_acquire();
        Box::pin(async { unless_held(acquisition.await) })
    }
}

/// Turns `Held` into `None`, unless other data has the name: nobody ever releases that,
/// and a caller of `try_lock` would never learn why the lock is never free.
pub(super) fn unless_held<G>(result: Result<G, LockError>) -> Result<Option<G>, LockError> {
    match result {
        Ok(guard) => Ok(Some(guard)),
        Err(LockError::Held { votes }) if !votes.are_of_data() => Ok(None),
        Err(error) => Err(error),
    }
}

/// One of the outcomes that [`telemetry`](crate::telemetry) documents.
fn outcome_of(result: &Result<Guard, LockError>) -> &'static str {
    match result {
        Ok(_) => "granted",
        Err(LockError::Held { .. }) => "held",
        Err(LockError::NoMajority { .. }) => "no-majority",
        Err(LockError::Quarantined { .. }) => "quarantined",
        Err(LockError::TooSlow { .. }) => "too-slow",
        Err(LockError::Busy { .. }) => "busy",
        Err(_) => "stopped",
    }
}

fn lock_error(shared: &Shared, refused: NotGranted) -> LockError {
    let NotGranted { resources, error, held_here } = refused;
    if let AcquireError::Busy { waited, waiting } = error {
        return LockError::Busy { name: resources.to_string().into(), waited, waiting };
    }
    let votes = |ballot| shared.votes(ballot).on(resources);
    match &error {
        AcquireError::Held(ballot) => LockError::Held { votes: votes(ballot).held_here(held_here) },
        AcquireError::TooSlow { elapsed, ballot } => {
            LockError::TooSlow { elapsed: *elapsed, votes: votes(ballot) }
        }
        AcquireError::NoMajority(ballot) => LockError::NoMajority { votes: votes(ballot) },
        AcquireError::Quarantined { remaining, ballot } => {
            let votes = votes(ballot);
            let admit = admit_command(&votes);
            LockError::Quarantined { votes, remaining: *remaining, admit: admit.into() }
        }
        _ => LockError::Stopped,
    }
}
