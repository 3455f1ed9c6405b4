//! The same locks for code without async.
//!
//! The engine runs on a thread of its own; every call waits for its answer.
//! Names and meanings are those of the async side. A request ends in
//! [`acquire`](crate::LockRequest::acquire) where the async one is awaited.
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

use crate::{
    error::{ConnectError, ExtendError, LockError, ReleaseError, RunError, StatusError},
    guard::{self, LeaseParts, Lost, Released},
    locks::{Builder, one},
    request::LockRequest,
    status::Status,
};
use redlatch_core::Resources;
use std::{
    future::Future,
    ops::Deref,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

/// Waits for the lock: an error if it is still held when waiting ends.
#[derive(Debug)]
pub struct Wait;

/// Does not wait: none if the lock is held.
#[derive(Debug)]
pub struct Try;

/// Locks on N nodes, for code without async. Cheap to clone.
///
/// Dropping the last clone waits until nothing is left to undo, for half a
/// second at most.
#[derive(Debug, Clone)]
pub struct Locks(crate::Locks);

impl Locks {
    /// As [`crate::Locks::connect`].
    pub fn connect<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Locks, ConnectError> {
        crate::Locks::builder().nodes(urls).connect_blocking()
    }

    /// Settings; end them with [`Builder::connect_blocking`].
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// As [`crate::Locks::lock`].
    pub fn lock(&self, resource: impl AsRef<[u8]>) -> LockRequest<Wait> {
        self.0.request(one(resource))
    }

    /// As [`crate::Locks::try_lock`].
    pub fn try_lock(&self, resource: impl AsRef<[u8]>) -> LockRequest<Try> {
        self.0.request(one(resource))
    }

    /// As [`crate::Locks::lock_all`].
    pub fn lock_all<N: AsRef<[u8]>>(
        &self,
        resources: impl IntoIterator<Item = N>,
    ) -> LockRequest<Wait> {
        self.0.request(Resources::new(resources).map_err(Into::into))
    }

    /// As [`crate::Locks::try_lock_all`].
    pub fn try_lock_all<N: AsRef<[u8]>>(
        &self,
        resources: impl IntoIterator<Item = N>,
    ) -> LockRequest<Try> {
        self.0.request(Resources::new(resources).map_err(Into::into))
    }

    /// As [`crate::Locks::status`].
    pub fn status(&self, resource: impl AsRef<[u8]>) -> Result<Status, StatusError> {
        block_on(self.0.status(resource))
    }

    /// As [`crate::Locks::resume`].
    pub fn resume(&self, parts: &LeaseParts) -> Result<Guard, LockError> {
        block_on(self.0.resume(parts)).map(Guard::new)
    }

    /// As [`crate::Locks::settled`].
    pub fn settled(&self) {
        block_on(self.0.settled());
    }
}

impl Builder {
    /// Connects, for code without async: the engine gets a thread of its own.
    pub fn connect_blocking(self) -> Result<Locks, ConnectError> {
        block_on(self.dedicated_thread().connect()).map(Locks)
    }
}

impl LockRequest<Wait> {
    /// How long to wait for the lock. Default 10 s. Zero makes one attempt.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.set_wait(wait);
        self
    }

    /// Takes the lock.
    pub fn acquire(self) -> Result<Guard, LockError> {
        let wait = self.wait_wanted();
        block_on(self.acquire_async(wait)).map(Guard::new)
    }

    /// Runs `work` under the lock and gives the lock back. Nobody can stop
    /// `work` from outside: let it look at the lease. If the lock was lost
    /// before it ended, that is an error.
    pub fn run<T>(self, work: impl FnOnce(&Lease) -> T) -> Result<T, RunError> {
        let guard = self.acquire()?;
        let done = work(&guard);
        let lost = (!guard.is_held()).then(|| guard.0.why_lost());
        if let Err(error) = guard.release() {
            tracing::debug!("{error}");
        }
        match lost {
            Some(lost) => Err(lost.into()),
            None => Ok(done),
        }
    }
}

impl LockRequest<Try> {
    /// Takes the lock, if nobody has it.
    pub fn acquire(self) -> Result<Option<Guard>, LockError> {
        block_on(self.try_async()).map(|guard| guard.map(Guard::new))
    }
}

/// A lock that is held. Dropping it gives it back, in the background.
#[derive(Debug)]
#[must_use = "a guard that is dropped gives the lock back"]
pub struct Guard {
    guard: guard::Guard,
    lease: Lease,
}

impl Guard {
    fn new(guard: guard::Guard) -> Self {
        let lease = Lease(guard.lease());
        Guard { guard, lease }
    }

    /// As [`crate::Guard::release`].
    pub fn release(self) -> Result<Released, ReleaseError> {
        block_on(self.guard.release())
    }

    /// As [`crate::Guard::into_parts`].
    #[must_use]
    pub fn into_parts(self) -> LeaseParts {
        self.guard.into_parts()
    }

    /// The part that can be cloned and given to other threads.
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

/// What is known of a lock that is, or was, held. What does not wait is in
/// [`crate::Lease`], which it derefs to.
#[derive(Debug, Clone)]
pub struct Lease(crate::Lease);

impl Lease {
    /// Waits until the lease is over. As [`crate::Lease::lost`].
    #[must_use]
    pub fn lost(&self) -> Lost {
        block_on(self.0.lost())
    }

    /// As [`crate::Lease::extend`].
    pub fn extend(&self) -> Result<(), ExtendError> {
        block_on(self.0.extend())
    }

    /// As [`crate::Lease::extend_by`].
    pub fn extend_by(&self, ttl: Duration) -> Result<(), ExtendError> {
        block_on(self.0.extend_by(ttl))
    }

    /// As [`crate::Lease::ensure`].
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

/// Sleeps until the future is done. The futures here only wait for the engine's
/// thread, so nothing but a wake-up is needed.
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
