//! Giving back a lease that another process took apart.

use crate::{
    engine::Ask,
    error::{InvalidRequest, ReleaseError},
    guard::{LeaseParts, Released},
    locks::Locks,
};
use redlatch_core::{
    Resources, Terms, Token, config::Wanted, machine::Adopted, release::ReleaseError as Unknown,
};

impl Locks {
    /// Gives back a lease that was taken apart with
    /// [`Guard::into_parts`](crate::Guard::into_parts), also one whose time is
    /// over. Only its own keys are removed: with another token nothing changes,
    /// and the answer is [`Released::AlreadyGone`].
    ///
    /// # Cancel safety
    ///
    /// Once polled, the lock is given back even if the future is dropped.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use redlatch::{Locks, Released};
    ///
    /// let locks = Locks::memory(3);
    /// let parts = locks.lock("deploy").await?.into_parts();
    /// // … in another process, perhaps …
    /// assert_eq!(locks.give_back(&parts).await?, Released::Now);
    /// assert_eq!(locks.give_back(&parts).await?, Released::AlreadyGone);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn give_back(&self, parts: &LeaseParts) -> Result<Released, ReleaseError> {
        let resources = Resources::new(&parts.resources).map_err(InvalidRequest::from)?;
        let wanted = Wanted { ttl: parts.ttl, ..self.defaults.wanted.clone() };
        let terms = Terms::check(&wanted).map_err(InvalidRequest::from)?.without_renewal();
        let place = &self.handle.place;
        let adopted = Adopted {
            resources,
            terms,
            token: Token::from_bytes(&parts.token),
            usable_until: place.clock.now(),
            replants: false,
            fence: None,
        };
        let op = self.handle.next_op();
        self.handle.tell(Ask::Adopt { op, adopted, cell: None });
        match self.handle.release(op).await {
            Ok(Ok(released)) => Ok(released),
            Ok(Err(Unknown::Unknown(ballot))) => {
                Err(ReleaseError::Unknown { votes: place.votes(&ballot) })
            }
            Ok(Err(error)) => Err(ReleaseError::Unknown { votes: place.votes(error.ballot()) }),
            Err(_) => Err(ReleaseError::Stopped),
        }
    }
}
