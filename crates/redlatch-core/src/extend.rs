//! Decides one extension of a lease.
//!
//! In:  votes and the time.
//! Out: kept (with the new end), lost, or unknown.
//!
//! Promise: kept only if a majority of *all* nodes still had our key and
//! answered before the *old* end: a later answer proves nothing about the time
//! in between. Keys are never created to win the vote.

use crate::{
    lease,
    moment::Moment,
    mutant::{self, Mutant},
    quorum::{Ballot, Verdict, Vote},
};
use core::time::Duration;

/// One extension: one ballot, one result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Extension {
    started: Moment,
    ttl: Duration,
    old_until: Moment,
    deadline: Moment,
    ballot: Ballot,
    decided: bool,
    kept: bool,
}

impl Extension {
    /// Extends by `ttl` a lease that ends at `old_until`; commands are sent
    /// after `started`, never before.
    #[must_use]
    pub fn new(
        started: Moment,
        nodes: usize,
        ttl: Duration,
        node_timeout: Duration,
        old_until: Moment,
    ) -> Self {
        Extension {
            started,
            ttl,
            old_until,
            deadline: started.after(node_timeout).min(old_until),
            ballot: Ballot::of(nodes),
            decided: false,
            kept: false,
        }
    }

    /// When nodes that have not answered no longer count.
    #[must_use]
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Somebody else extended the lease meanwhile: answers count until then.
    pub fn lease_lasts_until(&mut self, until: Moment) {
        self.old_until = self.old_until.max(until);
    }

    /// Whether there has been a result.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.decided
    }

    /// Whether the result was that the lease is kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// The votes so far.
    #[must_use]
    pub fn ballot(&self) -> &Ballot {
        &self.ballot
    }

    /// Takes in one vote. The result comes once, with the vote that decides.
    pub fn vote(&mut self, now: Moment, node: usize, vote: Vote) -> Option<Decision> {
        self.ballot.cast(node, vote, now.since(self.started));
        self.decide(now)
    }

    /// Ends the waiting for nodes once the deadline has passed.
    pub fn tick(&mut self, now: Moment) -> Option<Decision> {
        if now >= self.deadline {
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
            // Lost, but wait for what to call it: one dead node must not make
            // a lock that is held look like an outage.
            Verdict::Lost if !tally.refusals_decide() && tally.refusals_may_decide() => {
                return None;
            }
            Verdict::Won if now < self.old_until || mutant::on(Mutant::ExtensionAfterTheEnd) => {
                Ok(lease::usable_until(self.started, self.ttl).max(self.old_until))
            }
            Verdict::Lost if !tally.refusals_decide() && now < self.old_until => {
                Err(ExtendError::Unknown(self.ballot.clone()))
            }
            Verdict::Won | Verdict::Lost => Err(ExtendError::Lost(self.ballot.clone())),
        };
        self.decided = true;
        self.kept = decision.is_ok();
        Some(decision)
    }
}

/// The new end of the lease, or why it is not known to be longer.
pub type Decision = Result<Moment, ExtendError>;

/// Why a lease was not extended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lock is no longer ours. Stop.
    #[error("no longer held: gone from {} of {} nodes, or its time was over", .0.tally().refused, .0.tally().nodes)]
    Lost(Ballot),
    /// Too few nodes answered. The lease stands until its old end; try again.
    #[error("not known: {}", .0.tally())]
    Unknown(Ballot),
}

impl ExtendError {
    /// Every node's vote.
    #[must_use]
    pub fn ballot(&self) -> &Ballot {
        match self {
            ExtendError::Lost(ballot) | ExtendError::Unknown(ballot) => ballot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::Fault;

    const MS: Duration = Duration::from_millis(1);

    fn at(millis: u32) -> Moment {
        Moment::START.after(millis * MS)
    }

    /// An extension by 1 s, sent at 300 ms, of a lease that ends at 988 ms.
    fn extension(nodes: usize) -> Extension {
        Extension::new(at(300), nodes, 1000 * MS, 50 * MS, at(988))
    }

    #[test]
    fn kept_by_a_majority_counts_from_before_it_was_sent() {
        let mut extension = extension(3);
        extension.vote(at(301), 0, Vote::Granted);

        assert_eq!(extension.vote(at(302), 2, Vote::Granted), Some(Ok(at(1288))));
    }

    #[test]
    fn extended_only_within_the_validity_time() {
        let mut extension = Extension::new(at(980), 3, 1000 * MS, 50 * MS, at(988));
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
    fn too_few_answers_are_unknown_not_lost() {
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
    fn of_four_nodes_two_that_fail_and_two_that_lost_the_key_later_are_a_lost_lease() {
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
    fn a_shorter_extension_never_shortens() {
        let mut extension = Extension::new(at(300), 1, 100 * MS, 50 * MS, at(988));

        assert_eq!(extension.vote(at(301), 0, Vote::Granted), Some(Ok(at(988))));
    }
}
