//! Decides one extension of a lease.
//!
//! In:  votes and the time.
//! Out: kept (with the new end), lost, or unknown.
//!
//! Promise: kept only if a majority of *all* nodes still had our key and answered before
//! the *old* end; a later answer proves nothing about the time in between. Keys are never
//! created to win the vote.

use crate::{
    lease::{self, Deadlines, Loss},
    moment::Moment,
    mutant::{self, Mutant},
    vote::{Ballot, Verdict, Vote},
};
use core::time::Duration;

/// One extension: one ballot, one result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Extension {
    started: Moment,
    ttl: Duration,
    /// The lease without this extension.
    lease: Deadlines,
    deadline: Moment,
    ballot: Ballot,
    /// The votes on the previous attempt if it failed, until this one gets a vote.
    earlier: Option<Ballot>,
    decided: bool,
    kept: bool,
}

impl Extension {
    /// Extends `lease` by `ttl`. Its commands are sent after `started`, never before.
    #[must_use]
    pub(crate) fn new(
        started: Moment,
        nodes: usize,
        ttl: Duration,
        node_timeout: Duration,
        lease: Deadlines,
    ) -> Self {
        Extension {
            started,
            ttl,
            lease,
            deadline: started.after(node_timeout).min(lease.ends_at),
            ballot: Ballot::of(nodes),
            earlier: None,
            decided: false,
            kept: false,
        }
    }

    /// Makes this the attempt that follows `last`.
    #[must_use]
    pub(crate) fn after(mut self, last: Extension) -> Self {
        self.earlier = (last.decided && !last.kept).then_some(last.ballot);
        self
    }

    /// Returns when nodes that have not answered stop counting.
    #[must_use]
    pub(crate) fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Records that someone else extended the lease: answers count until its new end.
    pub(crate) fn extended_elsewhere(&mut self, lease: Deadlines) {
        if lease.ends_at > self.lease.ends_at {
            self.lease = lease;
        }
    }

    /// Returns whether there has been a result.
    #[must_use]
    pub(crate) fn is_decided(&self) -> bool {
        self.decided
    }

    /// Returns whether the result was that the lease is kept.
    #[must_use]
    pub(crate) fn is_kept(&self) -> bool {
        self.kept
    }

    /// Returns the votes so far.
    #[must_use]
    pub(crate) fn ballot(&self) -> &Ballot {
        &self.ballot
    }

    /// Returns whether it was kept and every node has voted, so that no more votes will come.
    #[must_use]
    pub(crate) fn is_over(&self) -> bool {
        self.kept && self.ballot.tally().pending == 0
    }

    /// Returns the votes to report if the lease is lost now, with silent nodes as timed
    /// out; `None` if it was kept. Until a node has answered this attempt, the votes on
    /// the failed attempt before it say more.
    #[must_use]
    pub(crate) fn failure(&self, now: Moment) -> Option<Ballot> {
        if self.kept {
            return None;
        }
        let mut ballot = self.earlier.as_ref().unwrap_or(&self.ballot).clone();
        ballot.close(now.since(self.started));
        Some(ballot)
    }

    /// Records one vote. Returns the result once, with the deciding vote.
    pub(crate) fn vote(&mut self, now: Moment, node: usize, vote: Vote) -> Option<Decision> {
        self.earlier = None;
        self.ballot.cast(node, vote, now.since(self.started));
        self.decide(now)
    }

    /// Stops waiting for nodes once the deadline has passed.
    pub(crate) fn tick(&mut self, now: Moment) -> Option<Decision> {
        if now >= self.deadline {
            self.earlier = None;
            self.ballot.close(now.since(self.started));
        }
        self.decide(now)
    }

    fn decide(&mut self, now: Moment) -> Option<Decision> {
        if self.decided {
            return None;
        }
        let tally = self.ballot.tally();
        let decision = match tally.verdict() {
            Verdict::Open => return None,
            // Lost, but wait until the reason is clear: one dead node must not make a lease
            // that is gone look like an outage.
            Verdict::Lost if !tally.refusals_decide() && tally.refusals_may_decide() => {
                return None;
            }
            Verdict::Won
                if now < self.lease.ends_at || mutant::on(Mutant::ExtensionAfterTheEnd) =>
            {
                Ok(lease::usable_until(self.started, self.ttl).max(self.lease.ends_at))
            }
            Verdict::Lost if !tally.refusals_decide() && now < self.lease.ends_at => {
                Err(ExtendError::Unknown(self.ballot.clone()))
            }
            Verdict::Won | Verdict::Lost => {
                Err(ExtendError::Lost(self.lease.loss(Some(self.ballot.clone()))))
            }
        };
        self.decided = true;
        self.kept = decision.is_ok();
        Some(decision)
    }
}

/// The new end of the lease, or why it is not known to have moved.
pub type Decision = Result<Moment, ExtendError>;

/// Why a lease was not extended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lock is no longer ours. Stop.
    Lost(Loss),
    /// The lease was already over: released, or its loss signalled.
    Over,
    /// No majority answered. The end of the lease does not change; try again.
    Unknown(Ballot),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{Terms, Wanted},
        vote::Fault,
    };

    const MS: Duration = Duration::from_millis(1);

    fn at(millis: u32) -> Moment {
        Moment::START.after(millis * MS)
    }

    fn lease_until(end: Moment) -> Deadlines {
        Deadlines::of(&Terms::check(&Wanted::default()).unwrap(), end, Moment::NEVER)
    }

    /// An extension by 1 s, sent at 300 ms, of a lease that ends at 988 ms.
    fn extension(nodes: usize) -> Extension {
        Extension::new(at(300), nodes, 1000 * MS, 50 * MS, lease_until(at(988)))
    }

    #[test]
    fn kept_by_a_majority_counts_from_before_it_was_sent() {
        let mut extension = extension(3);
        extension.vote(at(301), 0, Vote::Granted);

        assert_eq!(extension.vote(at(302), 2, Vote::Granted), Some(Ok(at(1288))));
    }

    #[test]
    fn extended_only_within_the_validity_time() {
        let mut extension = Extension::new(at(980), 3, 1000 * MS, 50 * MS, lease_until(at(988)));
        extension.vote(at(981), 0, Vote::Granted);

        let decision = extension.vote(at(988), 1, Vote::Granted);

        assert!(matches!(decision, Some(Err(ExtendError::Lost(_)))), "{decision:?}");
    }

    #[test]
    fn majority_is_of_all_nodes_not_of_those_that_granted_before() {
        let mut extension = extension(5);
        for node in 0..2 {
            assert_eq!(extension.vote(at(301), node, Vote::Granted), None);
        }
        for node in 2..4 {
            assert_eq!(extension.vote(at(301), node, Vote::Gone), None);
        }

        let decision = extension.vote(at(301), 4, Vote::Gone);

        assert!(matches!(decision, Some(Err(ExtendError::Lost(_)))), "{decision:?}");
    }

    #[test]
    fn answers_without_a_majority_are_unknown_not_lost() {
        let mut extension = extension(3);
        extension.vote(at(301), 0, Vote::Granted);
        extension.vote(at(301), 1, Vote::Gone);

        let decision = extension.tick(at(350));

        let Some(Err(ExtendError::Unknown(ballot))) = decision else {
            panic!("{decision:?}");
        };
        assert!(matches!(ballot.vote(2), Vote::Failed(Fault::TimedOut(_))));
    }

    #[test]
    fn two_failed_nodes_and_two_that_lost_the_key_later_are_a_lost_lease() {
        let mut extension = extension(4);
        for node in 0..2 {
            let unreachable = Vote::Failed(Fault::Unreachable("refused".into()));
            assert_eq!(extension.vote(at(301), node, unreachable), None);
        }
        assert_eq!(extension.vote(at(302), 2, Vote::Gone), None);

        let decision = extension.vote(at(303), 3, Vote::Gone);

        assert!(matches!(decision, Some(Err(ExtendError::Lost(_)))), "{decision:?}");
    }

    #[test]
    fn no_answer_is_waited_for_beyond_the_end_of_the_lease() {
        let extension = Extension::new(at(980), 3, 1000 * MS, 50 * MS, lease_until(at(988)));

        assert_eq!(extension.deadline(), at(988));
    }

    #[test]
    fn no_majority_by_the_end_of_the_lease_is_a_loss() {
        let mut extension = Extension::new(at(980), 3, 1000 * MS, 50 * MS, lease_until(at(988)));
        extension.vote(at(981), 0, Vote::Granted);

        let decision = extension.tick(at(988));

        assert!(matches!(decision, Some(Err(ExtendError::Lost(_)))), "{decision:?}");
    }

    #[test]
    fn what_others_extended_by_less_shortens_nothing() {
        let mut extension = extension(1);
        extension.extended_elsewhere(lease_until(at(400)));

        assert_eq!(extension.vote(at(500), 0, Vote::Granted), Some(Ok(at(1288))));
    }

    #[test]
    fn a_shorter_extension_never_shortens() {
        let mut extension = Extension::new(at(300), 1, 100 * MS, 50 * MS, lease_until(at(988)));

        assert_eq!(extension.vote(at(301), 0, Vote::Granted), Some(Ok(at(988))));
    }
}
