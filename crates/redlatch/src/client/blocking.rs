//! The same locks for code without async.
//!
//! The engine runs on its own thread, and every call blocks until it has the
//! answer. Names and meanings are those of the async API. A request ends in
//! [`acquire`](LockRequest::acquire) where the async one is awaited.
//!
//! Do not call it from async code: it blocks the thread.
//!
//! ```
//! use redlatch::blocking::Locks;
//!
//! let locks = Locks::connect(["memory:"])?;
//! let guard = locks.lock("invoice:42").acquire()?;
//! assert!(guard.is_held());
//! guard.release()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::{
    Builder, ConnectError, ExtendError, Health, HealthError, LeaseParts, LockError, Lost,
    ReleaseError, ReleasePartsError, Released, ResumeError, RunError, Status, StatusError, guard,
    one,
    request::{finished, unless_held},
    settings::{Settings, Wait, setters, wait_setter},
};
use redlatch_core::Resources;
use std::{
    fmt,
    future::Future,
    ops::Deref,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

/// Locks on a set of nodes, for code without async. Cheap to clone.
///
/// Dropping the last clone blocks until every undo is done, for at most half a
/// second.
#[derive(Clone)]
pub struct Locks(pub(super) crate::Locks);

impl Locks {
    /// Connects to nodes by their addresses. The blocking
    /// [`crate::Locks::connect`].
    ///
    /// # Errors
    ///
    /// Fails if fewer than a majority of the nodes can be reached, or if the list
    /// of nodes is wrong. See [`ConnectError`].
    pub fn connect<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Locks, ConnectError> {
        crate::Locks::builder().nodes(urls).connect_blocking()
    }

    /// Returns the settings for locks on a set of nodes. End them with
    /// [`Builder::connect_blocking`] or [`Builder::connect_lazy_blocking`].
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Requests a lock, and waits for it if another owner holds it. The blocking
    /// [`crate::Locks::lock`].
    pub fn lock(&self, resource: impl AsRef<[u8]>) -> LockRequest {
        LockRequest(self.0.settings(one(resource)))
    }

    /// Requests a lock without waiting. The blocking [`crate::Locks::try_lock`].
    pub fn try_lock(&self, resource: impl AsRef<[u8]>) -> TryLockRequest {
        TryLockRequest(self.0.settings(one(resource)))
    }

    /// Requests several resources together, all or none. The blocking
    /// [`crate::Locks::lock_all`].
    pub fn lock_all<N: AsRef<[u8]>>(&self, resources: impl IntoIterator<Item = N>) -> LockRequest {
        LockRequest(self.0.settings(Resources::new(resources).map_err(Into::into)))
    }

    /// Requests several resources together without waiting. The blocking
    /// [`crate::Locks::try_lock_all`].
    pub fn try_lock_all<N: AsRef<[u8]>>(
        &self,
        resources: impl IntoIterator<Item = N>,
    ) -> TryLockRequest {
        TryLockRequest(self.0.settings(Resources::new(resources).map_err(Into::into)))
    }

    /// Returns who holds a lock, without taking it. The blocking
    /// [`crate::Locks::status`].
    ///
    /// # Errors
    ///
    /// Fails if no lock can have this name, or if the engine is gone.
    pub fn status(&self, resource: impl AsRef<[u8]>) -> Result<Status, StatusError> {
        block_on(self.0.status(resource))
    }

    /// Returns the state of every node now. The blocking [`crate::Locks::health`].
    ///
    /// # Errors
    ///
    /// [`HealthError::Stopped`] if the engine is gone.
    pub fn health(&self) -> Result<Health, HealthError> {
        block_on(self.0.health())
    }

    /// Resumes a lease that another process took apart. The blocking
    /// [`crate::Locks::resume`].
    ///
    /// # Errors
    ///
    /// [`ResumeError::TooLate`] if the time to resume the parts is over,
    /// [`ResumeError::Lost`] if the lock is no longer held,
    /// [`ResumeError::NoMajority`] if no majority answered.
    pub fn resume(&self, parts: &LeaseParts) -> Result<Guard, ResumeError> {
        block_on(self.0.resume(parts)).map(Guard::new)
    }

    /// Releases a lease that was taken apart. The blocking
    /// [`crate::Locks::release_parts`].
    ///
    /// # Errors
    ///
    /// [`ReleasePartsError::Invalid`] if the parts cannot be those of a lock,
    /// [`ReleasePartsError::Release`] if it is not known whether the lock was released.
    pub fn release_parts(&self, parts: &LeaseParts) -> Result<Released, ReleasePartsError> {
        block_on(self.0.release_parts(parts))
    }

    /// Waits until nothing is left to undo. The blocking [`crate::Locks::settled`].
    pub fn settled(&self) {
        block_on(self.0.settled());
    }

    /// Stops listening for wakes on all nodes, before the process exits. As
    /// [`crate::Locks::hang_up`].
    pub fn hang_up(&self) {
        self.0.hang_up();
    }
}

/// A request for a lock: end it with [`acquire`](Self::acquire), or
/// [`run`](Self::run) work under the lock. Made by [`Locks::lock`] and
/// [`Locks::lock_all`].
#[derive(Debug)]
#[must_use = "a request does nothing until `acquire` or `run` is called"]
pub struct LockRequest(Settings);

/// A request for a lock only if it is free: end it with [`acquire`](Self::acquire),
/// or [`run`](Self::run) work under the lock. Made by [`Locks::try_lock`] and
/// [`Locks::try_lock_all`].
#[derive(Debug)]
#[must_use = "a request does nothing until `acquire` or `run` is called"]
pub struct TryLockRequest(Settings);

setters!(LockRequest);
wait_setter!(LockRequest);
setters!(TryLockRequest);

impl LockRequest {
    /// Acquires the lock.
    ///
    /// # Errors
    ///
    /// [`LockError::Held`] if another owner still holds the lock when the
    /// [wait](Self::wait) ends. See [`LockError`] for the rest.
    pub fn acquire(self) -> Result<Guard, LockError> {
        block_on(self.0.acquire()).map(Guard::new)
    }

    /// Runs `work` under the lock, then releases the lock.
    ///
    /// Nothing can stop `work` from outside: let it check the lease.
    ///
    /// # Errors
    ///
    /// [`RunError::Lock`] if the lock was not granted: `work` never started.
    /// [`RunError::Late`], with the value, if the lock was lost before `work`
    /// finished.
    ///
    /// # Example
    ///
    /// ```
    /// # let locks = redlatch::blocking::Locks::connect(["memory:"])?;
    /// let sum = locks.lock("report").run(|lease| {
    ///     (1..=10).take_while(|_| lease.is_held()).sum::<u32>()
    /// })?;
    /// assert_eq!(sum, 55);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run<T>(self, work: impl FnOnce(&Lease) -> T) -> Result<T, RunError<T>> {
        run_under(self.acquire()?, work)
    }
}

impl TryLockRequest {
    /// Acquires the lock. Returns `None` if another owner holds it.
    ///
    /// # Errors
    ///
    /// Any [`LockError`], but [`Held`](LockError::Held) only if other data has the lock's
    /// name: see [`Locks::try_lock`](crate::Locks::try_lock).
    ///
    /// # Example
    ///
    /// ```
    /// # let locks = redlatch::blocking::Locks::connect(["memory:"])?;
    /// let guard = locks.try_lock("report").acquire()?;
    /// assert!(guard.is_some());
    /// assert!(locks.try_lock("report").acquire()?.is_none(), "it is held");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire(self) -> Result<Option<Guard>, LockError> {
        unless_held(block_on(self.0.try_acquire()).map(Guard::new))
    }

    /// Runs `work` under the lock if it is free, as [`LockRequest::run`] does.
    /// Returns `None`, without running `work`, if another owner holds the lock.
    ///
    /// # Errors
    ///
    /// As [`LockRequest::run`], except that `None` means that the lock is held.
    pub fn run<T>(self, work: impl FnOnce(&Lease) -> T) -> Result<Option<T>, RunError<T>> {
        match self.acquire()? {
            Some(guard) => run_under(guard, work).map(Some),
            None => Ok(None),
        }
    }
}

fn run_under<T>(guard: Guard, work: impl FnOnce(&Lease) -> T) -> Result<T, RunError<T>> {
    let outcome = finished(&guard, work(&guard));
    if let Err(error) = guard.release() {
        tracing::debug!("{error}");
    }
    outcome
}

/// A held lock. Dropping the guard releases the lock in the background. The
/// blocking [`crate::Guard`].
#[must_use = "dropping a guard releases the lock"]
pub struct Guard {
    guard: guard::Guard,
    lease: Lease,
}

impl Guard {
    fn new(guard: guard::Guard) -> Self {
        let lease = Lease(guard.lease());
        Guard { guard, lease }
    }

    /// Releases the lock and reports the outcome. The blocking
    /// [`crate::Guard::release`].
    ///
    /// # Errors
    ///
    /// [`ReleaseError`] if it is not known whether the lock was released.
    pub fn release(self) -> Result<Released, ReleaseError> {
        block_on(self.guard.release())
    }

    /// Takes the lease apart, to hand it to another process. As
    /// [`crate::Guard::into_parts`].
    #[must_use]
    pub fn into_parts(self) -> LeaseParts {
        self.guard.into_parts()
    }

    /// Returns how long it took to acquire the lock. As [`crate::Guard::waited`].
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.guard.waited()
    }

    /// Returns the part that can be cloned and given to other threads.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }
}

impl Deref for Guard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

/// The state of a lock that is, or was, held. The methods that do not block are
/// those of [`crate::Lease`], to which it derefs.
#[derive(Clone)]
pub struct Lease(crate::Lease);

impl Lease {
    /// Waits until the lease has ended, and returns why. The blocking
    /// [`crate::Lease::lost`].
    #[must_use]
    pub fn lost(&self) -> Lost {
        block_on(self.0.lost())
    }

    /// Extends the lease to its own TTL from now. The blocking
    /// [`crate::Lease::extend`].
    ///
    /// # Errors
    ///
    /// [`ExtendError::Lost`] if the lock is no longer held,
    /// [`ExtendError::Unknown`] if no majority answered.
    pub fn extend(&self) -> Result<(), ExtendError> {
        block_on(self.0.extend())
    }

    /// Extends the lease to `ttl` from now. The blocking
    /// [`crate::Lease::extend_by`].
    ///
    /// # Errors
    ///
    /// As [`extend`](Self::extend), and [`ExtendError::Invalid`] if `ttl` is not
    /// allowed.
    pub fn extend_by(&self, ttl: Duration) -> Result<(), ExtendError> {
        block_on(self.0.extend_by(ttl))
    }

    /// Extends the lease if its loss could be signalled before `least` has passed. The
    /// blocking [`crate::Lease::ensure`].
    ///
    /// # Errors
    ///
    /// As [`extend`](Self::extend), and [`ExtendError::Invalid`] if that much time cannot
    /// be ensured.
    pub fn ensure(&self, least: Duration) -> Result<(), ExtendError> {
        block_on(self.0.ensure(least))
    }
}

impl Deref for Lease {
    type Target = crate::Lease;

    fn deref(&self) -> &crate::Lease {
        &self.0
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What [`Builder::connect_blocking`] does.
pub(super) fn connect(settings: Builder) -> Result<Locks, ConnectError> {
    block_on(settings.connect()).map(Locks)
}

/// Parks the thread until the future is done. These futures only wait for the
/// engine's thread, so a wake-up is all they need.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}
