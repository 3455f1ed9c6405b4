//! Leases that another process took apart: going on with them, giving them back.

use crate::{
    engine::{Ask, Handle, LeaseCell, LeaseEnd},
    error::{InvalidRequest, LockError, ReleaseError},
    guard::{Guard, LeaseParts, Lost, Released},
    locks::Locks,
    request::Limits,
};
use redlatch_core::{
    Ballot, ExtendError, Moment, OpId, Resources, Terms, Token,
    config::Wanted,
    machine::{Adopted, Grant},
    release::ReleaseError as Unknown,
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

impl Locks {
    /// Goes on with a lease that another process took apart with
    /// [`Guard::into_parts`]. A majority must still have it, and must say so
    /// before its old end, by this machine's wall clock. Otherwise the error is
    /// [`LockError::Lost`], or [`LockError::NoQuorum`] where it is not known.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lock as it was, perhaps extended.
    pub async fn resume(&self, parts: &LeaseParts) -> Result<Guard, LockError> {
        let cell = self.cell_of(parts)?;
        let left = cell.ends_at().since(cell.place.clock.now());
        if left <= cell.terms.notice {
            return Err(LockError::Lost(Lost::Expired)); // nobody could act on it
        }
        let (op, ttl) = (cell.op, cell.terms.ttl);
        self.handle.tell(Ask::Adopt { op, adopted: adopted(&cell), cell: Some(cell.clone()) });
        let mut unless_kept = ForgetOnDrop { handle: &self.handle, op: Some(op) };
        let decision = self.handle.extend(op, ttl).await;
        let guard = || {
            let limits = Limits { max_ttl: self.defaults.wanted.max_ttl };
            Guard::new(cell.clone(), self.handle.clone(), limits)
        };
        match decision {
            Ok(Ok(_)) if cell.is_held() => {
                unless_kept.op = None;
                Ok(guard())
            }
            Ok(Err(ExtendError::Unknown(ballot))) => {
                Err(LockError::NoQuorum { votes: cell.place.votes(&ballot) })
            }
            Ok(Err(ExtendError::Lost(ballot))) if ballot.tally().refusals_decide() => {
                Err(LockError::Lost(Lost::Gone { votes: cell.place.votes(&ballot) }))
            }
            Ok(_) => Err(LockError::Lost(Lost::Expired)),
            Err(_) => match cell.why() {
                Some(LeaseEnd::Lost(_)) => Err(LockError::Lost(Lost::Expired)),
                _ => Err(LockError::Stopped),
            },
        }
    }

    /// The lease that the parts are of, as far as they tell.
    fn cell_of(&self, parts: &LeaseParts) -> Result<Arc<LeaseCell>, InvalidRequest> {
        let resources = Resources::new(&parts.resources)?;
        let terms = Terms::check(&Wanted { ttl: parts.ttl, ..self.defaults.wanted.clone() })?;
        let place = &self.handle.place;
        let (now, left) = left_of(parts, || place.clock.now(), SystemTime::now);
        let grant = Grant {
            token: Token::from_bytes(&parts.token),
            // A clock that is behind must not make the lease longer than it can be.
            usable_until: now.after(left.min(terms.usable())),
            ballot: Ballot::of(place.nodes.len()),
            fence: parts.fencing_token,
            second_round: false,
        };
        let op = self.handle.next_op();
        Ok(Arc::new(LeaseCell::new(op, resources, terms, grant, now, place.clone())))
    }

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
        let cell = self.cell_of(parts)?;
        let place = &cell.place;
        self.handle.tell(Ask::Adopt { op: cell.op, adopted: adopted(&cell), cell: None });
        match self.handle.release(cell.op).await {
            Ok(Ok(released)) => Ok(released),
            Ok(Err(Unknown::Unknown(ballot))) => {
                Err(ReleaseError::Unknown { votes: place.votes(&ballot) })
            }
            Ok(Err(error)) => Err(ReleaseError::Unknown { votes: place.votes(error.ballot()) }),
            Err(_) => Err(ReleaseError::Stopped),
        }
    }
}

/// The time now, and how much of the lease is left from then on. The wall clock
/// is read last: whoever is held up in between loses time, and gains none.
fn left_of(
    parts: &LeaseParts,
    now: impl FnOnce() -> Moment,
    wall: impl FnOnce() -> SystemTime,
) -> (Moment, Duration) {
    (now(), parts.usable_until.duration_since(wall()).unwrap_or_default())
}

fn adopted(cell: &LeaseCell) -> Adopted {
    Adopted {
        resources: cell.resources.clone(),
        terms: cell.terms.clone(),
        token: cell.token.clone(),
        usable_until: cell.usable_until(),
        replants: true,
        fence: cell.fence,
    }
}

struct ForgetOnDrop<'a> {
    handle: &'a Handle,
    op: Option<OpId>,
}

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(op) = self.op {
            self.handle.tell(Ask::Forget(op));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::Cell, time::UNIX_EPOCH};

    #[test]
    fn a_process_that_is_held_up_while_it_takes_over_a_lease_gains_no_time() {
        const SEC: Duration = Duration::from_secs(1);
        let passed = Cell::new(Duration::ZERO);
        let held_up = || passed.replace(passed.get() + 3 * SEC);
        let parts = LeaseParts {
            resources: vec!["deploy".into()],
            token: b"token".to_vec(),
            ttl: 20 * SEC,
            usable_until: UNIX_EPOCH + 10 * SEC,
            fencing_token: None,
        };

        let (now, left) =
            left_of(&parts, || Moment::START.after(held_up()), || UNIX_EPOCH + held_up());

        assert!(now.after(left) <= Moment::START.after(10 * SEC), "{left:?} from {now:?} on");
    }

    #[tokio::test]
    async fn a_wall_clock_that_is_behind_makes_no_lease_longer_than_its_ttl() {
        let locks = Locks::memory(3);
        let mut parts = locks.lock("deploy").await.unwrap().into_parts();
        parts.usable_until += Duration::from_secs(3600);

        let cell = locks.cell_of(&parts).unwrap();

        let longest = cell.place.clock.now().after(parts.ttl);
        assert!(cell.usable_until() <= longest, "{:?} and not {longest:?}", cell.usable_until());
    }
}
