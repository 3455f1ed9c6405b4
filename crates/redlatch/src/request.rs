//! A lock that is being asked for.

use crate::{
    blocking,
    clock::wall_micros,
    engine::{Acquire, Ask, Handle, Place},
    error::{InvalidRequest, LockError, RunError},
    guard::{Guard, Lease},
};
use redlatch_core::{
    AcquireError, Moment, Owner, Resources, Terms, WallClock, config::Wanted,
    config::WantedRenewal, machine::Order,
};
use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tracing::{Instrument, instrument::Instrumented};

/// What all locks of one [`Locks`](crate::Locks) start from.
#[derive(Debug, Clone)]
pub(crate) struct Defaults {
    pub(crate) wanted: Wanted,
    /// What `wanted` amounts to, shared by all requests that change nothing of
    /// it; none if it is wrong, which each request then says by itself.
    pub(crate) terms: Option<Terms>,
    pub(crate) wait: Duration,
    pub(crate) owner: Owner,
    /// With fencing: how far clocks may be apart.
    pub(crate) fencing: Option<Duration>,
}

/// The bounds that a lease keeps to after it was taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) max_ttl: Duration,
}

/// A lock that is being asked for: `.await` it, or [`run`](LockRequest::run)
/// work under it.
///
/// `M` says how it is asked: [`Wait`] (async), [`Try`] (async, none when held),
/// or their blocking twins.
#[derive(Debug)]
#[must_use = "a request does nothing until it is awaited"]
pub struct LockRequest<M = Wait> {
    handle: Handle,
    defaults: Arc<Defaults>,
    resources: Result<Resources, InvalidRequest>,
    wanted: Wanted,
    wait: Duration,
    owner: Result<Owner, InvalidRequest>,
    fencing: Option<Duration>,
    mode: PhantomData<M>,
}

/// Waits for the lock: an error if it is still held when waiting ends.
#[derive(Debug)]
pub struct Wait;

/// Does not wait: none if the lock is held.
#[derive(Debug)]
pub struct Try;

/// What comes of it.
type Answer = <Acquire as Future>::Output;

/// A request on its way.
pub(crate) struct Asked {
    /// Before `handle`: the last one waits for an engine that nobody can ask.
    answer: Instrumented<Acquire>,
    handle: Handle,
    started: Moment,
    limits: Limits,
}

impl<M> LockRequest<M> {
    pub(crate) fn new(
        handle: Handle,
        defaults: &Arc<Defaults>,
        resources: Result<Resources, InvalidRequest>,
    ) -> Self {
        LockRequest {
            handle,
            defaults: defaults.clone(),
            resources,
            wanted: defaults.wanted.clone(),
            wait: defaults.wait,
            owner: Ok(defaults.owner.clone()),
            fencing: defaults.fencing,
            mode: PhantomData,
        }
    }

    /// How long the lock outlives a holder that crashed. Default 10 s. Shorter
    /// frees a crashed holder's lock sooner; longer survives longer outages.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.wanted.ttl = ttl;
        self
    }

    /// How often the lease is extended. Default: every third of the TTL.
    pub fn renew_every(mut self, every: Duration) -> Self {
        let max_hold = self.max_hold_wanted();
        self.wanted.renewal = Some(WantedRenewal { every: Some(every), max_hold });
        self
    }

    /// Leaves extending the lease to you: it ends after one TTL.
    pub fn no_renewal(mut self) -> Self {
        self.wanted.renewal = None;
        self
    }

    /// How long the lock may be held at most. Default one hour, so that a job
    /// that hangs does not hold it for ever; `Duration::MAX` is no limit.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        let every = self.wanted.renewal.take().and_then(|renewal| renewal.every);
        self.wanted.renewal = Some(WantedRenewal { every, max_hold });
        self
    }

    /// How long one node may take to answer. Default `ttl / 20`, between 5 and
    /// 500 ms. Nodes far away need more.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.wanted.node_timeout = Some(timeout);
        self
    }

    /// The least a lease must have left to be of use when it is granted.
    /// Default: half of its time.
    pub fn min_validity(mut self, least: Duration) -> Self {
        self.wanted.min_validity = Some(least);
        self
    }

    /// How long before the end of the lease its loss is signalled. Default: a
    /// tenth of its time, at most 500 ms. Work that needs longer to stop needs
    /// more.
    pub fn notice(mut self, notice: Duration) -> Self {
        self.wanted.notice = Some(notice);
        self
    }

    /// The label that operators see on the nodes. Default `host/pid`.
    pub fn owner(mut self, label: impl AsRef<str>) -> Self {
        self.owner = Owner::new(label).map_err(Into::into);
        self
    }

    fn max_hold_wanted(&self) -> Duration {
        let default = redlatch_core::config::DEFAULT_MAX_HOLD;
        self.wanted.renewal.as_ref().map_or(default, |renewal| renewal.max_hold)
    }

    /// Checks what was asked for and hands it over. What is left is all that
    /// has to be kept while waiting.
    fn ask(self, wait: Duration) -> Result<Asked, LockError> {
        let resources = self.resources?;
        let terms = match &self.defaults.terms {
            Some(terms) if self.wanted == self.defaults.wanted => terms.clone(),
            _ => Terms::check(&self.wanted).map_err(InvalidRequest::from)?,
        };
        let owner = self.owner?;
        let started = self.handle.place.clock.now();
        let clock = |skew| WallClock { read_at: started, micros: wall_micros(), skew };
        let fencing = self.fencing.map(clock);
        let wait_until = started.after(wait);
        let order = Order { resources, terms, owner, wait_until, fencing };
        let span = tracing::debug_span!("lock", resources = %order.resources);
        let answer = self.handle.acquire(order).instrument(span);
        let limits = Limits { max_ttl: self.wanted.max_ttl };
        Ok(Asked { handle: self.handle, started, limits, answer })
    }

    pub(crate) fn acquire_async(self, wait: Duration) -> Acquisition<M> {
        Acquisition::New(Box::new(self), wait)
    }

    pub(crate) async fn try_async(self) -> Result<Option<Guard>, LockError> {
        match self.acquire_async(Duration::ZERO).await {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::Held { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A lock that is being taken.
///
/// A future by hand: there may be very many of them, and the compiler's would
/// keep the request, and room for it, while it waits.
pub(crate) enum Acquisition<M> {
    New(Box<LockRequest<M>>, Duration),
    Asked(Asked),
    Over,
}

impl<M> Future for Acquisition<M> {
    type Output = Result<Guard, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Acquisition::New(..) = this
            && let Acquisition::New(request, wait) = std::mem::replace(this, Acquisition::Over)
        {
            *this = Acquisition::Asked(request.ask(wait)?);
        }
        let Acquisition::Asked(asked) = this else {
            return Poll::Pending; // it was ready before
        };
        let answer = ready!(Pin::new(&mut asked.answer).poll(cx));
        let Acquisition::Asked(asked) = std::mem::replace(this, Acquisition::Over) else {
            return Poll::Pending;
        };
        Poll::Ready(asked.answered(answer))
    }
}

impl Asked {
    fn answered(self, answer: Answer) -> Result<Guard, LockError> {
        let Asked { handle, started, limits, .. } = self;
        let place = &handle.place;
        let cell = match answer {
            Ok(Ok(cell)) => cell,
            Ok(Err(error)) => return Err(lock_error(place, &error)),
            Err(_) => return Err(LockError::Stopped),
        };
        if !cell.is_held() {
            // This thread was away for as long as the lease lasts.
            handle.tell(Ask::Cancel(cell.op));
            let votes = place.votes(&cell.ballot());
            return Err(LockError::TooSlow { elapsed: place.clock.now().since(started), votes });
        }
        Ok(Guard::new(cell, handle, limits))
    }
}

impl LockRequest<Wait> {
    /// How long to wait for the lock. Default 10 s, as long as the default TTL:
    /// a crashed holder's lock is free by then. Zero makes one attempt.
    ///
    /// Where very many locks are asked for at once, a request first waits for
    /// its turn: for that long too, and as long as for one node at least. If its
    /// turn does not come, that is [`LockError::Busy`].
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Runs `work` under the lock, and drops it as soon as the lease cannot be
    /// proved any more. Afterwards the lock is given back.
    ///
    /// What `work` spawned elsewhere is not stopped: let it watch the lease it
    /// is given.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and gives the lock back.
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
    pub async fn run<T, F>(self, work: impl FnOnce(Lease) -> F) -> Result<T, RunError>
    where
        F: Future<Output = T>,
    {
        let guard = self.await?;
        let outcome = while_held(&guard, work(guard.lease())).await;
        if let Err(error) = guard.release().await {
            tracing::debug!("{error}");
        }
        Ok(outcome?)
    }
}

/// Polls the work only while the lease is held.
async fn while_held<T>(lease: &Lease, work: impl Future<Output = T>) -> Result<T, crate::Lost> {
    let mut lost = pin!(lease.lost());
    let mut work = pin!(work);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(lost) = lost.as_mut().poll(cx) {
            return Poll::Ready(Err(lost));
        }
        if !lease.is_held() {
            return Poll::Ready(Err(lease.why_lost()));
        }
        match work.as_mut().poll(cx) {
            Poll::Ready(done) if lease.is_held() => Poll::Ready(Ok(done)),
            Poll::Ready(_) => Poll::Ready(Err(lease.why_lost())),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

impl IntoFuture for LockRequest<Wait> {
    type Output = Result<Guard, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let wait = self.wait;
        Box::pin(self.acquire_async(wait))
    }
}

impl IntoFuture for LockRequest<Try> {
    type Output = Result<Option<Guard>, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.try_async())
    }
}

impl LockRequest<blocking::Wait> {
    pub(crate) fn wait_wanted(&self) -> Duration {
        self.wait
    }

    pub(crate) fn set_wait(&mut self, wait: Duration) {
        self.wait = wait;
    }
}

fn lock_error(place: &Place, error: &AcquireError) -> LockError {
    let votes = |ballot| place.votes(ballot);
    match error {
        AcquireError::Held(ballot) => LockError::Held { votes: votes(ballot) },
        AcquireError::TooSlow { elapsed, ballot } => {
            LockError::TooSlow { elapsed: *elapsed, votes: votes(ballot) }
        }
        AcquireError::Busy { waited, waiting } => {
            LockError::Busy { waited: *waited, waiting: *waiting }
        }
        AcquireError::NoQuorum(ballot) => LockError::NoQuorum { votes: votes(ballot) },
        _ => LockError::Stopped,
    }
}
