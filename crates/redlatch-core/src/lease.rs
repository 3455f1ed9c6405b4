//! All time arithmetic of a lease.
//!
//! `t1` is read before the first byte is sent, so the keys on the nodes always
//! outlive the lease that counts from it.

use crate::{config::Terms, moment::Moment, vote::Ballot};
use core::time::Duration;

/// Returns how far two clocks may drift apart over `ttl`: one percent, plus two
/// milliseconds because servers expire keys in whole milliseconds.
#[must_use]
pub fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

/// Returns how much of `ttl` a lease may use; zero if drift uses up all of it.
#[must_use]
pub fn usable(ttl: Duration) -> Duration {
    ttl.saturating_sub(drift(ttl))
}

/// Returns a TTL, hardly longer than needed, that lets a lease use `time`.
fn ttl_for(time: Duration) -> Duration {
    let millisecond = Duration::from_millis(1);
    let with_rest = time.saturating_add(2 * millisecond);
    // A TTL is truncated to whole milliseconds, so add one.
    with_rest.saturating_add(with_rest / 99).saturating_add(millisecond)
}

/// Returns the TTL of an extension after which `least` passes before loss is signalled,
/// however long nodes take to answer.
#[must_use]
pub fn ttl_to_ensure(least: Duration, terms: &Terms) -> Duration {
    let around = terms.notice.saturating_add(terms.node_timeout);
    ttl_for(least.saturating_add(around)).max(terms.ttl)
}

/// Returns the end of a lease whose commands were sent no earlier than `t1`.
#[must_use]
pub fn usable_until(t1: Moment, ttl: Duration) -> Moment {
    t1.after(usable(ttl))
}

/// Returns how long a key may stay on a node after its command was sent.
#[must_use]
pub(crate) fn longest_life(ttl: Duration) -> Duration {
    ttl.saturating_add(drift(ttl))
}

/// Returns whether a lease was granted in time: it is not over, and at least `least` of it
/// is `left`.
#[must_use]
pub fn is_of_use(left: Duration, least: Duration) -> bool {
    !left.is_zero() && left >= least
}

/// Returns the end of a lease that another process handed over with `left` of it: never
/// more than its TTL allows, since that process's wall clock may be ahead of ours.
#[must_use]
pub fn handed_over_until(now: Moment, left: Duration, terms: &Terms) -> Moment {
    now.after(left.min(terms.usable()))
}

/// Returns when `max_hold` ends a lock held since `since`; [`Moment::NEVER`] without a cap.
#[must_use]
pub fn hold_until(since: Moment, terms: &Terms) -> Moment {
    terms.renewal.as_ref().map_or(Moment::NEVER, |renewal| since.after(renewal.max_hold))
}

/// Returns when the loss of a lease that ends at `ends_at` is signalled.
#[must_use]
pub fn notice_at(terms: &Terms, ends_at: Moment) -> Moment {
    ends_at.before(terms.notice)
}

/// The times at which something must happen to a lease. Every grant and every extension
/// carries them, so that nothing else computes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Deadlines {
    /// When the lease ends.
    pub ends_at: Moment,
    /// When its loss is signalled, unless it has been extended.
    pub notice_at: Moment,
    /// When renewal is so late that someone else should extend the lease. [`Moment::NEVER`]
    /// for a lease that is not renewed or has reached its cap.
    pub rescue_at: Moment,
    /// The cap set by `max_hold`; [`Moment::NEVER`] without one.
    pub hold_until: Moment,
}

impl Deadlines {
    /// Returns the deadlines of a lease proven until `usable_until` and capped at `hold_until`.
    #[must_use]
    pub fn of(terms: &Terms, usable_until: Moment, hold_until: Moment) -> Self {
        let ends_at = usable_until.min(hold_until);
        let notice_at = notice_at(terms, ends_at);
        let rescue_at = match &terms.renewal {
            // Half-way between the time renewal is due and the time loss is signalled.
            Some(renewal) if ends_at < hold_until => {
                let slack = terms.usable().saturating_sub(terms.notice);
                notice_at.before(slack.saturating_sub(renewal.every) / 2)
            }
            _ => Moment::NEVER,
        };
        Deadlines { ends_at, notice_at, rescue_at, hold_until }
    }

    /// Returns the deadlines of the same lease, now proven until `usable_until`. The lease
    /// never gets shorter.
    #[must_use]
    pub fn extended(&self, terms: &Terms, usable_until: Moment) -> Self {
        Deadlines::of(terms, self.ends_at.max(usable_until), self.hold_until)
    }

    /// Returns when to renew, counted back from the end, so that renewal is in time however
    /// the end last moved. [`Moment::NEVER`] if renewal is off or can no longer move the end.
    #[must_use]
    pub(crate) fn renew_at(&self, terms: &Terms) -> Moment {
        match &terms.renewal {
            Some(renewal) if !self.is_capped() => {
                self.ends_at.before(terms.usable()).after(renewal.every)
            }
            _ => Moment::NEVER,
        }
    }

    /// Returns how long a rescue that begins now may wait for the nodes, or `None` if it is
    /// too early or too late for one. It is a little less than the time left, so that the
    /// votes are known when the loss is signalled.
    #[must_use]
    pub fn rescue_patience(&self, now: Moment) -> Option<Duration> {
        let left = self.notice_at.since(now);
        (self.rescue_at <= now && now < self.notice_at).then(|| left / 8 * 7)
    }

    /// Returns the longest time until loss is signalled, however many times the lease is
    /// extended: by then `max_hold` ends it.
    #[must_use]
    pub fn longest(&self, terms: &Terms, now: Moment) -> Duration {
        self.hold_until.before(terms.notice).since(now)
    }

    /// Returns how the lease was lost, if it is lost now: by the votes of the last failed
    /// attempt to extend it, if there was one, or by its time.
    #[must_use]
    pub fn loss(&self, tried: Option<Ballot>) -> Loss {
        match tried {
            Some(ballot) if ballot.tally().refusals_decide() => Loss::Gone(ballot),
            _ if self.is_capped() => Loss::MaxHold,
            tried => Loss::Expired(tried),
        }
    }

    fn is_capped(&self) -> bool {
        self.hold_until <= self.ends_at
    }
}

/// Why a lease ended before it was released.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// It expired. Carries the votes of the last attempt to extend it; `None` if nobody
    /// tried, because no extension was wanted or the process was stalled.
    Expired(Option<Ballot>),
    /// A majority of the nodes no longer has our key.
    Gone(Ballot),
    /// The lease reached the cap set by `max_hold`.
    MaxHold,
}

impl Loss {
    /// Returns the votes of the last attempt to keep the lease, if they matter.
    #[must_use]
    pub fn ballot(&self) -> Option<&Ballot> {
        match self {
            Loss::Gone(ballot) => Some(ballot),
            Loss::Expired(tried) => tried.as_ref(),
            Loss::MaxHold => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{Wanted, WantedRenewal},
        vote::{Fault, Vote},
    };

    const SEC: Duration = Duration::from_secs(1);

    fn at(seconds: u32) -> Moment {
        Moment::START.after(seconds * SEC)
    }

    /// A TTL of 10 s, renewed every 3 s; loss is signalled 1 s before the end.
    fn renewed(max_hold: Duration) -> Terms {
        let renewal = Some(WantedRenewal { every: Some(3 * SEC), max_hold });
        let wanted = Wanted { notice: Some(SEC), renewal, ..Wanted::default() };
        Terms::check(&wanted).unwrap()
    }

    #[test]
    fn the_ttl_for_a_time_leaves_that_time_and_hardly_more() {
        for micros in [0, 1, 999, 1_000, 97_777, 4_000_000, 29_000_001] {
            let time = Duration::from_micros(micros);

            let ttl = crate::config::check_ttl(ttl_for(time), Duration::MAX).unwrap();

            let spare = usable(ttl).checked_sub(time);
            assert!(
                spare < Some(Duration::from_millis(2)) && spare.is_some(),
                "{time:?}: {spare:?}"
            );
        }
        assert_eq!(ttl_for(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn a_lease_is_renewed_then_rescued_then_given_up_then_over() {
        let terms = renewed(Duration::MAX);

        let lease = Deadlines::of(&terms, at(100), hold_until(at(0), &terms));

        let order = [lease.renew_at(&terms), lease.rescue_at, lease.notice_at, lease.ends_at];
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(lease.notice_at, at(99));
        let (before, after) =
            (lease.rescue_at.since(order[0]), lease.notice_at.since(lease.rescue_at));
        assert_eq!(before, after, "half-way");
    }

    #[test]
    fn a_lease_that_reached_its_cap_ends_there_and_nobody_extends_it() {
        let terms = renewed(50 * SEC);

        let lease = Deadlines::of(&terms, at(100), hold_until(at(50), &terms));

        assert_eq!((lease.ends_at, lease.rescue_at), (at(100), Moment::NEVER));
        assert_eq!(lease.renew_at(&terms), Moment::NEVER);
        assert_eq!(lease.loss(None), Loss::MaxHold);
        assert_eq!(lease.extended(&terms, at(200)), lease);
    }

    #[test]
    fn a_lease_without_renewal_has_no_cap_and_is_not_rescued() {
        let terms = Terms::check(&Wanted { renewal: None, ..Wanted::default() }).unwrap();

        let lease = Deadlines::of(&terms, at(100), hold_until(at(0), &terms));

        assert_eq!((lease.ends_at, lease.rescue_at), (at(100), Moment::NEVER));
        assert_eq!(lease.loss(None), Loss::Expired(None));
    }

    #[test]
    fn a_rescue_ends_before_the_loss_is_signalled() {
        let terms = renewed(Duration::MAX);
        let lease = Deadlines::of(&terms, at(100), Moment::NEVER);
        let early = lease.rescue_at.before(Duration::from_nanos(1));

        assert_eq!(lease.rescue_patience(early), None);
        assert_eq!(lease.rescue_patience(lease.notice_at), None);
        let patience = lease.rescue_patience(lease.rescue_at).unwrap();
        assert!(lease.rescue_at.after(patience) < lease.notice_at);
    }

    #[test]
    fn a_lease_is_gone_only_if_a_majority_says_so() {
        let lease = Deadlines::of(&renewed(Duration::MAX), at(100), Moment::NEVER);
        let votes = |votes: [Vote; 3]| {
            let mut ballot = Ballot::of(3);
            for (node, vote) in votes.into_iter().enumerate() {
                ballot.cast(node, vote, Duration::ZERO);
            }
            ballot
        };
        let mute = Vote::Failed(Fault::TimedOut(SEC));
        let gone = votes([Vote::Gone, mute.clone(), Vote::Gone]);
        let unknown = votes([Vote::Gone, mute.clone(), mute]);

        assert_eq!(lease.loss(Some(gone.clone())), Loss::Gone(gone));
        assert_eq!(lease.loss(Some(unknown.clone())), Loss::Expired(Some(unknown)));
    }

    #[test]
    fn drift_is_one_percent_and_two_milliseconds() {
        assert_eq!(drift(Duration::from_secs(10)), Duration::from_millis(102));
        assert_eq!(usable(Duration::from_secs(10)), Duration::from_millis(9898));
    }

    #[test]
    fn a_ttl_smaller_than_drift_leaves_nothing_and_does_not_underflow() {
        assert_eq!(usable(Duration::from_millis(2)), Duration::ZERO);
        assert_eq!(usable(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn the_lease_ends_before_the_key_even_if_the_node_was_instant() {
        let t1 = Moment::from_nanos(1_000);
        let ttl = Duration::from_millis(500);

        assert!(usable_until(t1, ttl) < t1.after(ttl));
        assert!(ttl < longest_life(ttl));
    }
}
