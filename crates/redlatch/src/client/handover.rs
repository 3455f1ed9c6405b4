//! Leases that another process took apart: resuming and releasing them.

use super::{
    error::{InvalidRequest, ReleasePartsError, ResumeError},
    guard::{Guard, LeaseParts, Lost, Released, released},
    locks::Locks,
    votes::Asked,
};
use crate::driver::engine::{Ask, Handle, LeaseCell, LeaseEnd, Shared};
use redlatch_core::{
    Ballot, ExtendError, Moment, OpId, Resources, Terms, Token,
    config::Wanted,
    lease::{self, Loss},
    machine::{Adopted, Grant},
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

impl Locks {
    /// Resumes a lease that another process took apart with [`Guard::into_parts`].
    ///
    /// A majority must still have it, and must confirm that before its old end, by
    /// this machine's wall clock.
    ///
    /// Resume parts once: see [`LeaseParts`].
    ///
    /// The lease keeps its resources, its TTL, its fencing token and its owner: `status` and
    /// errors still name the process that took the lock. All else is as for any lock of
    /// this client: it is renewed, even if it was taken without renewal, and
    /// [`max_hold`](crate::Builder::max_hold) counts from now.
    ///
    /// # Errors
    ///
    /// [`ResumeError::TooLate`] if the time to resume the parts is over: no node was asked,
    /// [`ResumeError::Lost`] if the lock is no longer held,
    /// [`ResumeError::NoMajority`] if no majority answered,
    /// [`ResumeError::Invalid`] if the parts cannot be those of a lock, and
    /// [`ResumeError::Stopped`] if the engine is gone.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: dropping the future leaves the lock as it was, perhaps
    /// extended.
    pub async fn resume(&self, parts: &LeaseParts) -> Result<Guard, ResumeError> {
        let adopted = self.adopted(parts, self.defaults.wanted.clone())?;
        let (shared, deadlines) = (&self.handle.shared, adopted.deadlines());
        if shared.clock.now() >= deadlines.notice_at {
            // No time is left to act on it.
            return Err(match deadlines.loss(None) {
                Loss::MaxHold => ResumeError::Lost(Lost::MaxHold),
                _ => ResumeError::TooLate { ago: passed(parts.usable_until, adopted.terms.notice) },
            });
        }
        let (op, ttl) = (self.handle.next_op(), adopted.terms.ttl);
        let cell = Arc::new(LeaseCell::new(op, grant(&adopted, shared), shared.clone()));
        self.handle.tell(Ask::Adopt { op, adopted, cell: Some(cell.clone()) });
        let mut unless_kept = ForgetOnDrop { handle: &self.handle, op: Some(op) };
        let over = |end| ResumeError::Lost(Lost::by(shared, end));
        match self.handle.extend(op, ttl).await {
            Ok(Ok(kept)) => cell.keep(kept),
            Ok(Err(ExtendError::Unknown(ballot))) => {
                let votes = shared.votes(&ballot).on_being(Asked::Extension);
                return Err(ResumeError::NoMajority { votes: votes.on(cell.resources.clone()) });
            }
            Ok(Err(ExtendError::Lost(loss))) => return Err(over(LeaseEnd::Lost(loss))),
            Ok(Err(_)) | Err(_) => {}
        }
        match cell.why() {
            None if cell.is_held() => {
                unless_kept.op = None;
                Ok(Guard::new(cell, self.handle.clone(), Duration::ZERO))
            }
            Some(end @ LeaseEnd::Lost(_)) => Err(over(end)),
            _ => Err(ResumeError::Stopped),
        }
    }

    /// The lease that the parts describe, with these settings for the rest.
    fn adopted(&self, parts: &LeaseParts, rest: Wanted) -> Result<Adopted, InvalidRequest> {
        let resources = Resources::new(&parts.resources)?;
        if parts.lock_token.is_empty() {
            return Err(InvalidRequest::NoLockToken);
        }
        let terms = Terms::check(&Wanted { ttl: parts.ttl, ..rest })?;
        let clock = self.handle.shared.clock;
        let (now, left) = left_of(parts, || clock.now(), SystemTime::now);
        Ok(Adopted {
            resources,
            token: Token::from_bytes(&parts.lock_token),
            usable_until: lease::handed_over_until(now, left, &terms),
            hold_until: lease::hold_until(now, &terms),
            keeps: true,
            fence: parts.fencing_token,
            terms,
        })
    }

    /// Releases a lease that was taken apart with
    /// [`Guard::into_parts`](crate::Guard::into_parts), even one that has expired.
    ///
    /// Only its own keys are removed: if the lock has another lock token, nothing
    /// changes, and the result is [`Released::AlreadyGone`]. Another process that has
    /// [resumed](Locks::resume) the same parts has that lock token too, and loses the lock.
    ///
    /// # Errors
    ///
    /// [`ReleasePartsError::Invalid`] if the parts cannot be those of a lock,
    /// [`ReleasePartsError::Release`] if it is not known whether the lock was released.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: once the future has been polled, the lock is released even if the
    /// future is dropped.
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
    /// assert_eq!(locks.release_parts(&parts).await?, Released::Now);
    /// assert_eq!(locks.release_parts(&parts).await?, Released::AlreadyGone);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn release_parts(&self, parts: &LeaseParts) -> Result<Released, ReleasePartsError> {
        // A lock may be released however long or short its TTL is, and whatever this client's
        // own locks are like.
        let rest = Wanted { max_ttl: parts.ttl, renewal: None, ..Wanted::default() };
        let adopted = self.adopted(parts, rest)?;
        let (shared, op) = (&self.handle.shared, self.handle.next_op());
        let resources = adopted.resources.clone();
        self.handle.tell(Ask::Adopt { op, adopted, cell: None });
        let answer = self.handle.release(op).await;
        Ok(released(shared, &resources, answer.ok())?)
    }
}

/// The time now, and how much of the lease is left from then on. The wall clock is
/// read last: a delay in between shortens the lease, never lengthens it.
fn left_of(
    parts: &LeaseParts,
    now: impl FnOnce() -> Moment,
    wall: impl FnOnce() -> SystemTime,
) -> (Moment, Duration) {
    (now(), parts.usable_until.duration_since(wall()).unwrap_or_default())
}

/// How long ago it was too late to resume a lease that ends then.
fn passed(usable_until: SystemTime, notice: Duration) -> Duration {
    let since_the_end = SystemTime::now().duration_since(usable_until);
    since_the_end.map_or_else(|early| notice.saturating_sub(early.duration()), |past| past + notice)
}

/// What is known of the lease before any node was asked.
fn grant(adopted: &Adopted, shared: &Shared) -> Grant {
    Grant {
        resources: adopted.resources.clone(),
        terms: adopted.terms.clone(),
        token: adopted.token.clone(),
        deadlines: adopted.deadlines(),
        ballot: Ballot::of(shared.nodes.len()),
        fence: adopted.fence,
        second_round: false,
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
            lock_token: b"token".to_vec(),
            ttl: 20 * SEC,
            usable_until: UNIX_EPOCH + 10 * SEC,
            fencing_token: None,
        };

        let (now, left) =
            left_of(&parts, || Moment::START.after(held_up()), || UNIX_EPOCH + held_up());

        assert!(now.after(left) <= Moment::START.after(10 * SEC), "{left:?} from {now:?} on");
    }

    #[tokio::test]
    async fn parts_that_come_too_late_are_not_said_to_be_of_a_lock_that_was_lost() {
        let locks = Locks::memory(3);
        let mut parts = locks.lock("deploy").await.unwrap().into_parts();
        let other = locks.resume(&parts).await.unwrap();
        parts.usable_until = SystemTime::now() - Duration::from_secs(5);

        let refused = locks.resume(&parts).await.unwrap_err();

        let words = refused.to_string();
        let ResumeError::TooLate { ago } = refused else { panic!("{refused}") };
        assert!(ago >= Duration::from_secs(5), "{ago:?}");
        assert!(words.contains("no node was asked; another process may have resumed"), "{words}");
        assert!(!words.contains("no longer held") && other.is_held(), "{words}");
    }

    #[tokio::test]
    async fn clones_of_a_lease_learn_at_once_that_it_was_handed_over() {
        let locks = Locks::memory(3);
        let guard = locks.lock("deploy").await.unwrap();
        let lease = guard.lease();

        let parts = guard.into_parts();

        assert!(!lease.is_held() && lease.remaining().is_zero());
        assert_eq!(lease.lost().await, Lost::HandedOver);
        let extended = lease.extend().await;
        assert!(matches!(extended, Err(crate::ExtendError::Lost(Lost::HandedOver))));
        assert!(parts.usable_until > SystemTime::now(), "{parts:?}");
        assert!(locks.resume(&parts).await.unwrap().is_held());
    }

    #[tokio::test]
    async fn a_wall_clock_that_is_behind_makes_no_lease_longer_than_its_ttl() {
        let locks = Locks::memory(3);
        let mut parts = locks.lock("deploy").await.unwrap().into_parts();
        parts.usable_until += Duration::from_secs(3600);

        let ends_at =
            locks.adopted(&parts, locks.defaults.wanted.clone()).unwrap().deadlines().ends_at;

        let longest = locks.handle.shared.clock.now().after(parts.ttl);
        assert!(ends_at <= longest, "{ends_at:?} and not {longest:?}");
    }
}
