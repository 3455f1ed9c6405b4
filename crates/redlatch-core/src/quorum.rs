//! Votes, and what they add up to.
//!
//! In:  one vote per node, in any order.
//! Out: open, won or lost, decided as early as the votes allow.
//!
//! Promise: a majority is ⌊N/2⌋ + 1 of the *configured* nodes, never of those
//! that answered. "Held" and "failed" are counted apart: the first means wait,
//! the second means tell an operator.

use crate::{
    fence::FencingToken,
    mutant::{self, Mutant},
    quarantine::Quarantine,
};
use alloc::{boxed::Box, sync::Arc, vec};
use core::{fmt, time::Duration};

/// One node's answer to a take, an extension or a release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vote {
    /// No answer yet.
    Pending,
    /// The node did what was asked.
    Granted,
    /// The same, and its fencing register now stands at this number.
    Numbered(FencingToken),
    /// Take: there is a key already. It may even be our own, from a command
    /// the network repeated: a refusal does not prove another owner.
    Held(Holder),
    /// Extension or release: our key is not there (any more).
    Gone,
    /// The node did not vote.
    Failed(Fault),
    /// The node may not vote: it may have forgotten locks.
    Quarantined(Quarantine),
}

/// What a refusing node told about the lock it holds, as far as it told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Holder {
    /// The owner's label; none for another library's opaque value.
    pub owner: Option<Arc<str>>,
    /// How long the key lives on, by the node's clock.
    pub remaining: Option<Duration>,
}

/// Why a node did not vote.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No answer in time. The command may still be carried out later.
    #[error("no answer within {0:.1?}")]
    TimedOut(Duration),
    /// The connection broke with the command under way: it may have been carried out.
    #[error("connection lost: {0}")]
    Disconnected(Arc<str>),
    /// There was no connection, so the command never left.
    #[error("unreachable: {0}")]
    Unreachable(Arc<str>),
    /// The server answered with an error of its own.
    #[error("server error: {0}")]
    Refused(Arc<str>),
    /// The server's answer made no sense.
    #[error("not understood: {0}")]
    Nonsense(Arc<str>),
    /// The server answers, but it cannot serve as a node.
    #[error("unfit: {0}")]
    Unfit(Arc<str>),
    /// What is at this address can never be a node: a part of a cluster, or
    /// several servers in turn. The list of nodes is wrong.
    #[error("not a node: {0}")]
    WrongAddress(Arc<str>),
}

impl Fault {
    /// Whether the command certainly never reached the node.
    #[must_use]
    pub fn never_sent(&self) -> bool {
        let garbled = matches!(self, Fault::Nonsense(_)) && mutant::on(Mutant::NonsenseNeverSent);
        garbled || matches!(self, Fault::Unreachable(_) | Fault::Unfit(_) | Fault::WrongAddress(_))
    }
}

impl Vote {
    /// The fencing number that came with a grant.
    #[must_use]
    pub fn number(&self) -> Option<FencingToken> {
        match self {
            Vote::Numbered(number) => Some(*number),
            _ => None,
        }
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vote::Pending => f.write_str("no answer yet"),
            Vote::Granted => f.write_str("granted"),
            Vote::Numbered(number) => write!(f, "granted with {number}"),
            Vote::Held(holder) => write!(f, "{holder}"),
            Vote::Gone => f.write_str("no longer ours"),
            Vote::Failed(fault) => write!(f, "{fault}"),
            Vote::Quarantined(quarantine) => write!(f, "{quarantine}"),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("held")?;
        if let Some(owner) = &self.owner {
            write!(f, " by {owner}")?;
        }
        if let Some(remaining) = self.remaining {
            write!(f, " for another {remaining:.1?}")?;
        }
        Ok(())
    }
}

/// A vote and how long the node took for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Cast {
    /// What the node answered.
    pub vote: Vote,
    /// From sending to the answer; none while there is no answer.
    pub after: Option<Duration>,
}

/// The votes of all nodes in one round.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ballot(Box<[Cast]>);

impl Ballot {
    /// An empty ballot: every vote is pending.
    #[must_use]
    pub fn of(nodes: usize) -> Self {
        let pending = Cast { vote: Vote::Pending, after: None };
        Ballot(vec![pending; nodes].into())
    }

    /// Writes down one node's answer. A later answer replaces a time-out.
    pub fn cast(&mut self, node: usize, vote: Vote, after: Duration) {
        self.0[node] = Cast { vote, after: Some(after) };
    }

    /// Turns what is still pending into time-outs.
    pub fn close(&mut self, waited: Duration) {
        for cast in self.0.iter_mut().filter(|cast| cast.vote == Vote::Pending) {
            cast.vote = Vote::Failed(Fault::TimedOut(waited));
        }
    }

    /// The votes in the order of the nodes.
    #[must_use]
    pub fn casts(&self) -> &[Cast] {
        &self.0
    }

    /// One node's vote.
    #[must_use]
    pub fn vote(&self, node: usize) -> &Vote {
        &self.0[node].vote
    }

    /// The greatest fencing number, and how many nodes answered exactly it.
    #[must_use]
    pub fn greatest_number(&self) -> Option<(FencingToken, usize)> {
        let numbers = || self.0.iter().filter_map(|cast| cast.vote.number());
        let greatest = numbers().max()?;
        Some((greatest, numbers().filter(|number| *number == greatest).count()))
    }

    /// The votes, counted.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally { nodes: self.0.len(), ..Tally::default() };
        for cast in &self.0 {
            match cast.vote {
                Vote::Pending => tally.pending += 1,
                Vote::Granted | Vote::Numbered(_) => tally.granted += 1,
                Vote::Held(_) | Vote::Gone => tally.refused += 1,
                Vote::Failed(_) => tally.failed += 1,
                Vote::Quarantined(_) => tally.quarantined += 1,
            }
        }
        tally
    }
}

/// How many nodes voted how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Tally {
    /// All configured nodes.
    pub nodes: usize,
    /// Said yes.
    pub granted: usize,
    /// Said no: held by another owner, or no longer ours.
    pub refused: usize,
    /// Did not vote: down, too slow, broken.
    pub failed: usize,
    /// May not vote: they may have forgotten locks.
    pub quarantined: usize,
    /// Have not answered yet.
    pub pending: usize,
}

/// What the votes amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Votes that are still out can decide either way.
    Open,
    /// A majority granted.
    Won,
    /// A majority has become impossible.
    Lost,
}

impl Tally {
    /// The smallest number of nodes that is a majority of all configured ones.
    #[must_use]
    pub const fn majority(self) -> usize {
        self.nodes / 2 + 1
    }

    /// Won or lost as soon as the outstanding votes cannot change it.
    #[must_use]
    pub fn verdict(self) -> Verdict {
        if mutant::on(Mutant::MajorityOfTheReachable) && self.pending == 0 {
            let won = self.granted * 2 > self.nodes - self.failed;
            return if won { Verdict::Won } else { Verdict::Lost };
        }
        if self.granted >= self.majority() {
            Verdict::Won
        } else if self.granted + self.pending < self.majority() {
            Verdict::Lost
        } else {
            Verdict::Open
        }
    }

    /// Whether the refusals alone rule out a majority, whatever the failed
    /// nodes would have said.
    #[must_use]
    pub const fn refusals_decide(self) -> bool {
        self.nodes - self.refused < self.majority()
    }

    /// Whether the refusals may yet come to decide: until that is settled, a
    /// lost vote is neither "held" nor "failed".
    #[must_use]
    pub const fn refusals_may_decide(self) -> bool {
        self.nodes - self.refused - self.pending < self.majority()
    }
}

impl fmt::Display for Tally {
    /// How many nodes did not vote, and how many of all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.failed, self.quarantined) {
            (failed, 0) => write!(f, "{failed} of {} nodes failed", self.nodes),
            (0, quarantined) => write!(f, "{quarantined} of {} nodes quarantined", self.nodes),
            (failed, quarantined) => {
                write!(f, "{failed} of {} nodes failed, {quarantined} quarantined", self.nodes)
            }
        }
    }
}

impl Holder {
    /// What is known of a holder.
    #[must_use]
    pub fn new(owner: Option<Arc<str>>, remaining: Option<Duration>) -> Self {
        Holder { owner, remaining }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballot(votes: &[Vote]) -> Tally {
        let mut ballot = Ballot::of(votes.len());
        for (node, vote) in votes.iter().enumerate() {
            if *vote != Vote::Pending {
                ballot.cast(node, vote.clone(), Duration::ZERO);
            }
        }
        ballot.tally()
    }

    fn held() -> Vote {
        Vote::Held(Holder::default())
    }

    fn down() -> Vote {
        Vote::Failed(Fault::TimedOut(Duration::ZERO))
    }

    #[test]
    fn majority_is_more_than_half_of_the_configured_nodes_even_n_included() {
        let majorities: [usize; 8] = core::array::from_fn(|n| ballot(&vec![down(); n]).majority());

        assert_eq!(majorities, [1, 1, 2, 2, 3, 3, 4, 4]);
    }

    #[test]
    fn won_at_the_majority_without_the_slowest() {
        let tally = ballot(&[Vote::Granted, Vote::Pending, Vote::Granted]);

        assert_eq!(tally.verdict(), Verdict::Won);
    }

    #[test]
    fn lost_as_soon_as_a_majority_is_impossible() {
        let tally = ballot(&[held(), Vote::Pending, Vote::Pending, held(), held()]);

        assert_eq!(tally.verdict(), Verdict::Lost);
        assert!(tally.refusals_decide());
    }

    #[test]
    fn an_even_split_is_lost_not_open() {
        let tally = ballot(&[Vote::Granted, Vote::Granted, held(), held()]);

        assert_eq!(tally.verdict(), Verdict::Lost);
        assert!(tally.refusals_decide());
    }

    #[test]
    fn failed_nodes_are_not_refusals() {
        let tally = ballot(&[held(), down(), down()]);

        assert_eq!(tally.verdict(), Verdict::Lost);
        assert!(!tally.refusals_decide());
    }

    #[test]
    fn only_a_command_without_a_connection_or_a_fit_node_was_never_sent() {
        let why = || Arc::from("why");
        let faults = [
            (Fault::Unreachable(why()), true),
            (Fault::Unfit(why()), true),
            (Fault::TimedOut(Duration::ZERO), false),
            (Fault::Disconnected(why()), false),
            (Fault::Refused(why()), false),
            (Fault::Nonsense(why()), false),
        ];
        for (fault, never_sent) in faults {
            assert_eq!(fault.never_sent(), never_sent, "{fault}");
        }
    }

    /// Every combination of votes of up to five nodes, against a dumb oracle:
    /// fill the outstanding votes in every way and see what comes out.
    #[test]
    fn the_verdict_is_what_every_completion_of_the_votes_agrees_on() {
        for nodes in 1..=5_u32 {
            for code in 0..4_usize.pow(nodes) {
                let votes: vec::Vec<Vote> = (0..nodes)
                    .map(|n| match code / 4_usize.pow(n) % 4 {
                        0 => Vote::Pending,
                        1 => Vote::Granted,
                        2 => held(),
                        _ => down(),
                    })
                    .collect();

                assert_eq!(ballot(&votes).verdict(), oracle(&votes), "{votes:?}");
            }
        }
    }

    fn oracle(votes: &[Vote]) -> Verdict {
        let wins = |granted: usize| granted * 2 > votes.len();
        let granted = votes.iter().filter(|v| **v == Vote::Granted).count();
        let pending = votes.iter().filter(|v| **v == Vote::Pending).count();
        match (wins(granted), wins(granted + pending)) {
            (true, _) => Verdict::Won,
            (false, true) => Verdict::Open,
            (false, false) => Verdict::Lost,
        }
    }
}
