//! Counts votes and says what they decide.
//!
//! In:  one vote per node, in any order.
//! Out: open, won or lost, decided as early as the votes allow.
//!
//! Promise: a majority is ⌊N/2⌋ + 1 of the *configured* nodes, never of those that
//! answered. "Held" and "failed" are counted separately: the first means wait, the second
//! means tell an operator.

use crate::{
    fence::FencingToken,
    line::Ticket,
    mutant::{self, Mutant},
    quarantine::{Cause, Quarantine},
    token::owner_of,
};
use alloc::{boxed::Box, format, string::String, sync::Arc, vec, vec::Vec};
use core::{fmt, time::Duration};

/// One node's answer to a take, an extension or a release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vote {
    /// No answer yet. In a decided round: we did not wait for this node.
    Pending,
    /// The node did what was asked.
    Granted,
    /// The node did what was asked, and its fencing register is now at this number.
    Numbered(FencingToken),
    /// Take: the key already exists. It may even be our own, from a command that
    /// the network repeated, so a refusal does not prove another owner.
    Held(Holder),
    /// Extension or release: the node does not have our key, or no longer has it.
    Gone,
    /// The node did not vote.
    Failed(Fault),
    /// The node may not vote: it may have forgotten locks.
    Quarantined(Quarantine),
}

/// What a refusing node said about the lock it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Holder {
    /// The owner's label; `None` for another library's opaque value.
    pub owner: Option<Arc<str>>,
    /// How long until the key expires, by the node's clock.
    pub remaining: Option<Duration>,
    /// How many wait in line ahead of us, if we are in line.
    pub ahead: Option<u16>,
    /// Whether nobody holds the lock, which is reserved for the next in line.
    pub reserved: bool,
    /// Whether the key never expires. Unless its owner is known, it is data, not a lock.
    pub endless: bool,
}

/// What a key is that [keeps everybody](Holder::is_data) from a lock, and is none.
pub const DATA: &str = "the key has no TTL, so it is data and not a lock";

/// Why a node did not vote.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No answer in time. The command may still be executed later.
    #[error("no answer within {0:.1?}")]
    TimedOut(Duration),
    /// No answer in time, and no connection yet. The command may still be executed later.
    #[error("no answer within {waited:.1?}: {hint}")]
    Connecting {
        /// How long we waited for the answer.
        waited: Duration,
        /// What the connection waits for, and what may be wrong.
        hint: &'static str,
    },
    /// The connection broke while the command was in progress: it may have been
    /// executed.
    #[error("connection lost: {0}")]
    Disconnected(Arc<str>),
    /// There was no connection, so the command was never sent.
    #[error("unreachable: {0}")]
    Unreachable(Arc<str>),
    /// The server answered with an error.
    #[error("server error: {0}")]
    Refused(Arc<str>),
    /// The server's answer could not be understood.
    #[error("not understood: {0}")]
    Nonsense(Arc<str>),
    /// The server answers, but cannot serve as a node.
    #[error("cannot be used: {0}")]
    Unfit(Arc<str>),
    /// What is at this address can never be a node: it is part of a cluster, or several
    /// servers answer in turn. The list of nodes is wrong.
    #[error("not a node: {0}")]
    WrongAddress(Arc<str>),
}

impl Fault {
    /// Returns whether nothing was heard from the node, not even an error.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        matches!(
            self,
            Fault::TimedOut(_)
                | Fault::Connecting { .. }
                | Fault::Disconnected(_)
                | Fault::Unreachable(_)
        )
    }

    /// Returns whether the command certainly never reached the node.
    #[must_use]
    pub fn never_sent(&self) -> bool {
        let garbled = matches!(self, Fault::Nonsense(_)) && mutant::on(Mutant::NonsenseNeverSent);
        garbled || matches!(self, Fault::Unreachable(_) | Fault::Unfit(_) | Fault::WrongAddress(_))
    }
}

impl Vote {
    /// Returns what a refusing node said about the lock.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Vote::Held(holder) => Some(holder),
            _ => None,
        }
    }

    /// Returns the fencing number that came with a grant.
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
            Vote::Pending => f.write_str("not waited for"),
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
        if self.reserved {
            return f.write_str("reserved for the next in line");
        }
        if self.is_data() {
            return f.write_str(DATA);
        }
        f.write_str("held")?;
        if let Some(owner) = &self.owner {
            write!(f, " by {owner}")?;
        }
        if let Some(remaining) = self.remaining {
            write!(f, " for another {remaining:.1?}")?;
        }
        match self.ahead {
            None => Ok(()),
            Some(0) => f.write_str(", we are next"),
            Some(ahead) => write!(f, ", {ahead} ahead of us in line"),
        }
    }
}

/// A vote and how long the node took to cast it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Cast {
    /// What the node answered.
    pub vote: Vote,
    /// Time from sending to the answer; `None` while there is no answer.
    pub after: Option<Duration>,
}

/// The votes of all nodes in one round.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ballot {
    casts: Box<[Cast]>,
    counts: Counts,
}

impl Ballot {
    /// Creates an empty ballot: every vote is pending.
    #[must_use]
    pub fn of(nodes: usize) -> Self {
        let pending = Cast { vote: Vote::Pending, after: None };
        Ballot { casts: vec![pending; nodes].into(), counts: Counts::default() }
    }

    /// Creates a ballot on which every node has granted.
    pub(crate) fn granted(nodes: usize) -> Self {
        let mut ballot = Ballot::of(nodes);
        (0..nodes).for_each(|node| ballot.replace(node, Vote::Granted, None));
        ballot
    }

    /// Records one node's answer. A late answer replaces a timeout.
    pub fn cast(&mut self, node: usize, vote: Vote, after: Duration) {
        self.replace(node, vote, Some(after));
    }

    /// Discards a node's vote, to wait for another answer.
    pub(crate) fn reopen(&mut self, node: usize) {
        self.replace(node, Vote::Pending, None);
    }

    /// Turns pending votes into timeouts.
    pub fn close(&mut self, waited: Duration) {
        for node in 0..self.casts.len() {
            if self.casts[node].vote == Vote::Pending {
                self.replace(node, Vote::Failed(Fault::TimedOut(waited)), None);
            }
        }
    }

    fn replace(&mut self, node: usize, vote: Vote, after: Option<Duration>) {
        let cast = &mut self.casts[node];
        self.counts.shift(&cast.vote, &vote);
        *cast = Cast { vote, after };
    }

    /// Returns the votes in node order.
    #[must_use]
    pub fn casts(&self) -> &[Cast] {
        &self.casts
    }

    /// Returns one node's vote.
    #[must_use]
    pub fn vote(&self, node: usize) -> &Vote {
        &self.casts[node].vote
    }

    /// Returns the highest fencing number, and how many nodes answered with exactly that.
    #[must_use]
    pub(crate) fn greatest_number(&self) -> Option<(FencingToken, usize)> {
        let numbers = || self.casts.iter().filter_map(|cast| cast.vote.number());
        let greatest = numbers().max()?;
        Some((greatest, numbers().filter(|number| *number == greatest).count()))
    }

    /// Returns whether a majority is missing only because of nodes that may not vote yet:
    /// once they may, no other node is needed.
    #[must_use]
    pub(crate) fn quarantine_decides(&self) -> bool {
        let (tally, returning) = (self.tally(), self.returning().count());
        // A client that one node refuses for good admits no other node.
        let conflict = tally.quarantined > returning;
        returning > 0 && !conflict && tally.granted + returning >= tally.majority()
    }

    /// Returns how long until enough of those nodes may vote for a majority, if known.
    #[must_use]
    pub(crate) fn quarantine_ends_in(&self) -> Option<Duration> {
        let mut returning: Vec<Option<Duration>> = self.returning().collect();
        returning.sort_unstable_by_key(|remaining| remaining.unwrap_or(Duration::MAX));
        let tally = self.tally();
        let missing = tally.majority().checked_sub(tally.granted + 1)?;
        *returning.get(missing)?
    }

    /// Yields the time left, if known, for each node that will vote again by itself.
    fn returning(&self) -> impl Iterator<Item = Option<Duration>> {
        self.casts.iter().filter_map(|cast| match &cast.vote {
            Vote::Quarantined(out) if out.cause == Cause::Forgot => Some(out.remaining),
            _ => None,
        })
    }

    /// Returns how many votes there are of each kind.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let (nodes, [granted, refused, failed, quarantined]) =
            (self.casts.len(), self.counts.0.map(usize::from));
        let pending = nodes - granted - refused - failed - quarantined;
        Tally { nodes, granted, refused, failed, quarantined, pending }
    }
}

/// How many nodes granted, refused, failed and are quarantined. Updated with every vote,
/// because it is read far more often; small, because every held lock has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Counts([u16; 4]);

impl Counts {
    /// Records that a vote is replaced.
    fn shift(&mut self, before: &Vote, after: &Vote) {
        if let Some(count) = self.of(before) {
            *count -= 1;
        }
        if let Some(count) = self.of(after) {
            *count += 1;
        }
    }

    fn of(&mut self, vote: &Vote) -> Option<&mut u16> {
        let [granted, refused, failed, quarantined] = &mut self.0;
        match vote {
            Vote::Pending => None,
            Vote::Granted | Vote::Numbered(_) => Some(granted),
            Vote::Held(_) | Vote::Gone => Some(refused),
            Vote::Failed(_) => Some(failed),
            Vote::Quarantined(_) => Some(quarantined),
        }
    }
}

/// How many nodes cast each kind of vote.
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

/// Says which part of the nodes is meant: "the only node", or "2 of 3 nodes".
///
/// # Example
///
/// ```
/// use redlatch_core::vote::of_nodes;
///
/// assert_eq!(of_nodes(2, 3), "2 of 3 nodes");
/// assert_eq!(of_nodes(1, 1), "the only node");
/// ```
#[must_use]
pub fn of_nodes(count: usize, nodes: usize) -> String {
    if (count, nodes) == (1, 1) {
        return "the only node".into();
    }
    format!("{count} of {nodes} nodes")
}

/// What the votes amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The missing votes can decide either way.
    Open,
    /// A majority granted.
    Won,
    /// A majority has become impossible.
    Lost,
}

impl Tally {
    /// Returns the smallest number of nodes that is a majority of all configured ones.
    #[must_use]
    pub const fn majority(self) -> usize {
        self.nodes / 2 + 1
    }

    /// Returns won or lost as soon as the missing votes cannot change the result.
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

    /// Returns whether the refusals alone rule out a majority, whatever the failed
    /// nodes would have said.
    #[must_use]
    pub(crate) const fn refusals_decide(self) -> bool {
        self.nodes - self.refused < self.majority()
    }

    /// Returns whether further refusals may still rule out a majority. Until that
    /// is settled, a lost vote is neither "held" nor "failed".
    #[must_use]
    pub(crate) const fn refusals_may_decide(self) -> bool {
        self.nodes - self.refused - self.pending < self.majority()
    }
}

impl fmt::Display for Tally {
    /// Writes how many of the nodes did not vote.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |count| of_nodes(count, self.nodes);
        match (self.failed, self.quarantined) {
            (failed, 0) => write!(f, "{} failed", of(failed)),
            (0, quarantined) => write!(f, "{} quarantined", of(quarantined)),
            (failed, quarantined) => {
                write!(f, "{} failed, {quarantined} quarantined", of(failed))
            }
        }
    }
}

impl Holder {
    /// Creates a holder from what is known.
    #[must_use]
    pub fn new(owner: Option<Arc<str>>, remaining: Option<Duration>) -> Self {
        Holder { owner, remaining, ahead: None, reserved: false, endless: false }
    }

    /// Creates the holder that a node reports for a key with this value that expires after
    /// `remaining`.
    #[must_use]
    pub fn of_value(value: &[u8], remaining: Option<Duration>) -> Self {
        let reserved = Ticket::reserved_in(value).is_some();
        Holder { reserved, ..Holder::new(owner_of(value).map(Arc::from), remaining) }
    }

    /// Sets whether the key never expires.
    #[must_use]
    pub fn with_endless(self, endless: bool) -> Self {
        Holder { endless, ..self }
    }

    /// Returns whether the key is not a lock: it never expires and names no owner, nor
    /// anyone it is reserved for.
    #[must_use]
    pub fn is_data(&self) -> bool {
        self.endless && self.owner.is_none() && !self.reserved
    }

    /// Sets how many wait in line ahead of us.
    #[must_use]
    pub fn with_ahead(self, ahead: Option<usize>) -> Self {
        let ahead = ahead.map(|ahead| u16::try_from(ahead).unwrap_or(u16::MAX));
        Holder { ahead, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_vote_that_is_missing_in_a_result_reads_not_waited_for() {
        assert_eq!(Vote::Pending.to_string(), "not waited for");
    }

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

    /// Checks every combination of votes of up to five nodes against a dumb oracle, which
    /// fills in the missing votes in every possible way and sees what comes out.
    #[test]
    fn the_verdict_is_what_every_completion_of_the_votes_agrees_on() {
        for nodes in 1..=5_u32 {
            for code in 0..4_usize.pow(nodes) {
                let votes: Vec<Vote> = (0..nodes)
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

    /// Checks the running counts against a recount, after every vote of every history of
    /// three votes of two nodes, which also reopen and close the ballot.
    #[test]
    fn the_tally_is_what_counting_all_votes_again_gives() {
        let quarantined = Vote::Quarantined(Quarantine::new(Cause::Forgot));
        let number = FencingToken::new(1).unwrap();
        let votes = [
            Vote::Pending,
            Vote::Granted,
            Vote::Numbered(number),
            held(),
            Vote::Gone,
            down(),
            quarantined,
        ];
        let events = 2 * votes.len() + 3;
        for start in [Ballot::of(2), Ballot::granted(2)] {
            for history in 0..events.pow(3) {
                let mut ballot = start.clone();
                for step in 0..3 {
                    match history / events.pow(step) % events {
                        0 => ballot.close(Duration::ZERO),
                        event @ 1..=2 => ballot.reopen(event - 1),
                        event => {
                            let (node, vote) = ((event - 3) % 2, (event - 3) / 2);
                            ballot.cast(node, votes[vote].clone(), Duration::ZERO);
                        }
                    }

                    assert_eq!(ballot.tally(), recount(&ballot), "{ballot:?}");
                }
            }
        }
    }

    fn recount(ballot: &Ballot) -> Tally {
        let count = |is: fn(&Vote) -> bool| ballot.casts().iter().filter(|c| is(&c.vote)).count();
        Tally {
            nodes: ballot.casts().len(),
            granted: count(|vote| matches!(vote, Vote::Granted | Vote::Numbered(_))),
            refused: count(|vote| matches!(vote, Vote::Held(_) | Vote::Gone)),
            failed: count(|vote| matches!(vote, Vote::Failed(_))),
            quarantined: count(|vote| matches!(vote, Vote::Quarantined(_))),
            pending: count(|vote| *vote == Vote::Pending),
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
