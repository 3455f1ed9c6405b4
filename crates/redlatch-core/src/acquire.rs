//! Decides one attempt to acquire a lock on N nodes.
//!
//! In:  votes and the time, both passed in.
//! Out: exactly one result, as soon as the votes allow.
//!
//! Promise: a grant is usable. Validity is checked when the majority is complete, not when
//! the attempt began. The caller undoes a lost attempt on every node (see
//! [`crate::machine`]).

use crate::{
    config::Terms,
    fence::FencingToken,
    lease,
    moment::Moment,
    mutant::{self, Mutant},
    vote::{Ballot, Fault, Tally, Verdict, Vote, of_nodes},
};
use alloc::{boxed::Box, string::ToString, vec, vec::Vec};
use core::{mem, time::Duration};

/// One attempt: one token, one ballot, one result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    started: Moment,
    usable_until: Moment,
    min_validity: Duration,
    deadline: Moment,
    ballot: Ballot,
    decided: bool,
    node_timeout: Duration,
    /// With fencing: the number that each node was asked to raise its register to.
    raising: Option<Box<[Option<FencingToken>]>>,
}

impl Attempt {
    /// Creates an attempt whose commands are sent after `started`, never before.
    #[must_use]
    pub(crate) fn new(started: Moment, nodes: usize, terms: &Terms) -> Self {
        Attempt {
            started,
            usable_until: lease::usable_until(started, terms.ttl),
            min_validity: terms.min_validity,
            deadline: started.after(terms.node_timeout),
            ballot: Ballot::of(nodes),
            decided: false,
            node_timeout: terms.node_timeout,
            raising: None,
        }
    }

    /// Adds fencing: a majority must also agree on a number.
    #[must_use]
    pub(crate) fn fenced(mut self) -> Self {
        self.raising = Some(vec![None; self.ballot.casts().len()].into());
        self
    }

    /// Returns the number that a majority agreed on, once the attempt is won.
    #[must_use]
    pub(crate) fn fencing_token(&self) -> Option<FencingToken> {
        self.raising.as_ref()?;
        self.ballot.greatest_number().map(|(number, _)| number)
    }

    /// Returns whether registers had to be raised, in a second round trip.
    #[must_use]
    pub(crate) fn took_a_second_round(&self) -> bool {
        self.raising.iter().flatten().any(Option::is_some)
    }

    /// Returns the registers to raise now, and to what, if a majority granted but
    /// answered with different numbers. Asks each node once per number; its answer
    /// becomes its new vote.
    pub(crate) fn raise(&mut self, now: Moment) -> Vec<(usize, FencingToken)> {
        let Some(raising) = self.raising.as_mut().filter(|_| !self.decided) else {
            return Vec::new();
        };
        if self.ballot.tally().verdict() != Verdict::Won {
            return Vec::new();
        }
        let Some((greatest, _)) = self.ballot.greatest_number() else {
            return Vec::new();
        };
        let mut raises = Vec::new();
        for (node, cast) in self.ballot.casts().iter().enumerate() {
            let lower = cast.vote.number().is_some_and(|number| number < greatest);
            if lower && raising[node] != Some(greatest) {
                raising[node] = Some(greatest);
                raises.push((node, greatest));
            }
        }
        if !raises.is_empty() {
            self.deadline = now.after(self.node_timeout).min(self.usable_until);
        }
        raises
    }

    /// Records that a node is asked again, so its earlier vote no longer counts.
    pub(crate) fn ask_again(&mut self, node: usize) {
        self.ballot.reopen(node);
    }

    /// Returns when it began. Nothing was sent earlier.
    #[must_use]
    pub(crate) fn started(&self) -> Moment {
        self.started
    }

    /// Returns when nodes that have not answered stop counting.
    #[must_use]
    pub(crate) fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Returns how long the attempt has been in progress.
    #[must_use]
    pub(crate) fn elapsed(&self, now: Moment) -> Duration {
        now.since(self.started)
    }

    /// Returns the votes so far.
    #[must_use]
    pub(crate) fn ballot(&self) -> &Ballot {
        &self.ballot
    }

    /// Takes the votes out of an attempt that has ended.
    pub(crate) fn take_ballot(&mut self) -> Ballot {
        mem::replace(&mut self.ballot, Ballot::of(0))
    }

    /// Records one vote. Returns the result once, with the deciding vote.
    pub(crate) fn vote(&mut self, now: Moment, node: usize, vote: Vote) -> Option<Decision> {
        let after = now.since(self.started);
        let vote = self.as_taken(node, vote);
        self.ballot.cast(node, vote, after);
        self.decide(now)
    }

    /// Stops waiting for nodes once the deadline has passed.
    pub(crate) fn tick(&mut self, now: Moment) -> Option<Decision> {
        if now >= self.deadline {
            let waited = now.since(self.started);
            self.ballot.close(waited);
            self.give_up_raising(waited);
        }
        self.decide(now)
    }

    /// Corrects the vote of a node that failed while raising its register: it had granted
    /// the take, so its key is there even if the node can no longer be reached.
    fn as_taken(&self, node: usize, vote: Vote) -> Vote {
        let raised = self.raising.as_ref().is_some_and(|raising| raising[node].is_some());
        match vote {
            Vote::Failed(fault) if raised && fault.never_sent() => {
                Vote::Failed(Fault::Disconnected(fault.to_string().into()))
            }
            vote => vote,
        }
    }

    /// Withdraws the votes of nodes that were asked to raise their registers and have not
    /// answered: they did not confirm the number.
    fn give_up_raising(&mut self, waited: Duration) {
        let Some(raising) = &self.raising else { return };
        for (node, asked) in raising.iter().enumerate() {
            if asked.is_some() && self.ballot.vote(node).number() < *asked {
                self.ballot.cast(node, Vote::Failed(Fault::TimedOut(waited)), waited);
            }
        }
    }

    /// Returns whether a majority confirmed the same number, if fencing needs one.
    fn agrees_on_a_number(&self) -> bool {
        let majority = self.ballot.tally().majority();
        let agreed = || self.ballot.greatest_number().is_some_and(|(_, nodes)| nodes >= majority);
        self.raising.is_none() || agreed() || mutant::on(Mutant::NoSecondRound)
    }

    /// Only ever true in a mutant build.
    fn skips_validity(&self) -> bool {
        let raised =
            || self.raising.as_ref().is_some_and(|asked| asked.iter().any(Option::is_some));
        mutant::on(Mutant::ValidityNotRechecked)
            || mutant::on(Mutant::ValidityCheckedEarly) && raised()
    }

    fn decide(&mut self, now: Moment) -> Option<Decision> {
        if self.decided {
            return None;
        }
        let tally = self.ballot.tally();
        let left = self.usable_until.since(now);
        let decision = match tally.verdict() {
            Verdict::Open => return None,
            // Granted, but the numbers differ: the registers are being raised.
            Verdict::Won if !self.agrees_on_a_number() && now < self.usable_until => return None,
            // Lost, but wait until the reason is clear: one dead node must not make a held
            // lock, or new nodes, look like an outage.
            Verdict::Lost if !is_plain(tally) => return None,
            Verdict::Won if lease::is_of_use(left, self.min_validity) || self.skips_validity() => {
                Ok(self.usable_until)
            }
            Verdict::Won => Err(AcquireError::TooSlow {
                elapsed: self.elapsed(now),
                ballot: self.ballot.clone(),
            }),
            Verdict::Lost if tally.refusals_decide() => {
                Err(AcquireError::Held(self.ballot.clone()))
            }
            Verdict::Lost => Err(AcquireError::no_majority(self.ballot.clone())),
        };
        self.decided = true;
        Some(decision)
    }
}

/// Returns whether the missing votes cannot change the error of a lost attempt.
fn is_plain(tally: Tally) -> bool {
    tally.refusals_decide()
        || !tally.refusals_may_decide() && (tally.quarantined == 0 || tally.pending == 0)
}

/// The end of the lease, or why there is none.
pub type Decision = Result<Moment, AcquireError>;

/// Why a lock was not acquired. Whatever the attempt left on the nodes has been, or is
/// being, undone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Refusals alone ruled out a majority: somebody has it, perhaps this very process.
    /// Wait and retry.
    #[error("held on {}", of_nodes(.0.tally().refused, .0.tally().nodes))]
    Held(Ballot),
    /// Failed nodes tipped the vote. Tell an operator.
    #[error("no majority: {}", .0.tally())]
    NoMajority(Ballot),
    /// There would be a majority if new or restarted nodes could vote. Wait for
    /// them, or vouch for them.
    #[error("{} may not vote yet", of_nodes(ballot.tally().quarantined, ballot.tally().nodes))]
    Quarantined {
        /// Time until a majority is possible, if known.
        remaining: Option<Duration>,
        /// The votes.
        ballot: Ballot,
    },
    /// A majority granted, but the answers used up the lease. Raise the TTL.
    #[error("granted after {elapsed:?}, too late to be of use")]
    TooSlow {
        /// From before the first byte was sent until the deciding vote.
        elapsed: Duration,
        /// The votes.
        ballot: Ballot,
    },
    /// No node was asked: so many other requests of this process were ahead that its turn
    /// never came. Make fewer at once, or wait longer.
    #[error("busy: waited {waited:?} in this process for its turn, {waiting} others still wait")]
    Busy {
        /// How long it waited.
        waited: Duration,
        /// How many others still wait.
        waiting: usize,
    },
}

impl AcquireError {
    /// Returns the error for a vote that was not decided by other owners' locks.
    pub(crate) fn no_majority(ballot: Ballot) -> Self {
        if ballot.quarantine_decides() {
            AcquireError::Quarantined { remaining: ballot.quarantine_ends_in(), ballot }
        } else {
            AcquireError::NoMajority(ballot)
        }
    }

    /// Returns whether the condition is known to last longer than `wait`. Failed nodes may
    /// be back before that.
    pub(crate) fn outlasts(&self, wait: Duration) -> bool {
        let AcquireError::Quarantined { remaining: Some(left), ballot } = self else {
            return false;
        };
        let tally = ballot.tally();
        *left > wait && tally.nodes - tally.quarantined < tally.majority()
    }

    /// Returns every node's vote, or `None` if no node was asked.
    #[must_use]
    pub fn ballot(&self) -> Option<&Ballot> {
        match self {
            AcquireError::Held(ballot)
            | AcquireError::NoMajority(ballot)
            | AcquireError::Quarantined { ballot, .. }
            | AcquireError::TooSlow { ballot, .. } => Some(ballot),
            AcquireError::Busy { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::Wanted,
        quarantine::{Cause, Quarantine},
        vote::Holder,
    };

    const MS: Duration = Duration::from_millis(1);

    fn attempt(nodes: usize) -> Attempt {
        let terms = Terms::check(&Wanted::default()).unwrap();
        Attempt::new(Moment::START, nodes, &terms)
    }

    fn at(millis: u32) -> Moment {
        Moment::START.after(millis * MS)
    }

    fn held() -> Vote {
        Vote::Held(Holder::default())
    }

    #[test]
    fn nodes_that_failed_may_be_back_before_others_may_vote() {
        let out = || {
            let quarantine =
                Quarantine { remaining: Some(60_000 * MS), ..Quarantine::new(Cause::Forgot) };
            Vote::Quarantined(quarantine)
        };
        let failed = || Vote::Failed(Fault::TimedOut(MS));
        let outlasts = |votes: [Vote; 3]| {
            let mut attempt = attempt(3);
            let voted = |(node, vote)| attempt.vote(at(1), node, vote);
            let decision = votes.into_iter().enumerate().filter_map(voted).last();
            decision.unwrap().unwrap_err().outlasts(30_000 * MS)
        };

        assert!(!outlasts([Vote::Granted, out(), failed()]));
        assert!(outlasts([Vote::Granted, out(), out()]));
    }

    #[test]
    fn the_lease_counts_from_before_the_first_byte_was_sent() {
        let mut attempt = attempt(3);

        assert_eq!(attempt.vote(at(100), 0, Vote::Granted), None);
        let decision = attempt.vote(at(200), 1, Vote::Granted);

        assert_eq!(decision, Some(Ok(at(9898))));
    }

    #[test]
    fn a_majority_that_comes_after_the_lease_is_no_grant() {
        let mut attempt = attempt(3);
        attempt.vote(at(1), 0, Vote::Granted);

        let decision = attempt.vote(at(9898), 1, Vote::Granted);

        assert!(matches!(decision, Some(Err(AcquireError::TooSlow { .. }))));
    }

    #[test]
    fn a_lease_shorter_than_min_validity_is_refused() {
        let mut attempt = attempt(1);

        let decision = attempt.vote(at(5000), 0, Vote::Granted);

        assert!(matches!(decision, Some(Err(AcquireError::TooSlow { .. }))));
    }

    #[test]
    fn silent_nodes_count_as_failed_once_the_node_timeout_has_passed() {
        let mut attempt = attempt(3);
        attempt.vote(at(1), 0, Vote::Granted);
        assert_eq!(attempt.tick(at(499)), None);

        let decision = attempt.tick(at(500));

        let Some(Err(AcquireError::NoMajority(ballot))) = decision else {
            panic!("{decision:?}");
        };
        assert_eq!(*ballot.vote(2), Vote::Failed(Fault::TimedOut(500 * MS)));
    }

    #[test]
    fn one_dead_node_does_not_make_a_held_lock_look_like_an_outage() {
        let mut attempt = attempt(3);
        attempt.vote(at(0), 0, Vote::Failed(Fault::Unreachable("refused".into())));
        assert_eq!(attempt.vote(at(1), 1, held()), None);

        let decision = attempt.vote(at(2), 2, held());

        assert!(matches!(decision, Some(Err(AcquireError::Held(_)))), "{decision:?}");
    }

    #[test]
    fn two_failed_nodes_and_two_that_refuse_later_are_a_held_lock() {
        let mut attempt = attempt(4);
        for node in 0..2 {
            let unreachable = Vote::Failed(Fault::Unreachable("refused".into()));
            assert_eq!(attempt.vote(at(0), node, unreachable), None);
        }
        assert_eq!(attempt.vote(at(1), 2, held()), None);

        let decision = attempt.vote(at(2), 3, held());

        assert!(matches!(decision, Some(Err(AcquireError::Held(_)))), "{decision:?}");
    }

    /// All votes of up to six nodes, in every order: only the votes, not their order,
    /// decide whether an attempt is won, held by others or without a majority.
    #[test]
    fn the_result_depends_on_the_votes_and_not_on_their_order() {
        for nodes in 1..=6_usize {
            for code in 0..3_usize.pow(u32::try_from(nodes).unwrap()) {
                let votes: Vec<Vote> = (0..nodes)
                    .map(|node| match code / 3_usize.pow(u32::try_from(node).unwrap()) % 3 {
                        0 => Vote::Granted,
                        1 => held(),
                        _ => Vote::Failed(Fault::Unreachable("x".into())),
                    })
                    .collect();
                let mut attempt = attempt(nodes);
                let cast = votes.iter().cloned().enumerate();
                let results: Vec<Decision> =
                    cast.filter_map(|(node, vote)| attempt.vote(at(1), node, vote)).collect();

                let count = |wanted: &Vote| votes.iter().filter(|vote| *vote == wanted).count();
                let (granted, refused) = (count(&Vote::Granted), count(&held()));
                let majority = nodes / 2 + 1;
                assert_eq!(results.len(), 1, "{votes:?}");
                match &results[0] {
                    Ok(_) => assert!(granted >= majority, "{votes:?}"),
                    Err(AcquireError::Held(_)) => assert!(nodes - refused < majority, "{votes:?}"),
                    Err(_) => {
                        assert!(granted < majority && nodes - refused >= majority, "{votes:?}");
                    }
                }
            }
        }
    }

    fn numbered(number: u64) -> Vote {
        Vote::Numbered(FencingToken::new(number).unwrap())
    }

    #[test]
    fn a_node_is_asked_again_when_a_greater_number_comes_up() {
        let mut attempt = attempt(5).fenced();
        let to = |number| FencingToken::new(number).unwrap();
        for (node, number) in [(0, 5), (1, 7), (2, 7)] {
            assert_eq!(attempt.vote(at(1), node, numbered(number)), None);
        }
        // Three granted, but only two answered with the same number.
        assert_eq!(attempt.raise(at(1)), [(0, to(7))]);

        assert_eq!(attempt.vote(at(2), 3, numbered(9)), None);

        assert_eq!(attempt.raise(at(2)), [(0, to(9)), (1, to(9)), (2, to(9))]);
        assert_eq!(attempt.raise(at(2)), [], "once for each number");
    }

    #[test]
    fn numbers_that_differ_when_the_lease_has_ended_are_not_a_grant() {
        let mut attempt = attempt(3).fenced();
        attempt.vote(at(1), 0, numbered(5));

        let decision = attempt.vote(at(9898), 1, numbered(7));

        assert!(matches!(decision, Some(Err(AcquireError::TooSlow { .. }))), "{decision:?}");
    }

    #[test]
    fn a_lease_of_no_time_is_refused_even_where_no_time_is_asked_for() {
        let wanted = Wanted { min_validity: Some(Duration::ZERO), ..Wanted::default() };
        let terms = Terms::check(&wanted).unwrap();
        let mut attempt = Attempt::new(Moment::START, 1, &terms);

        let decision = attempt.vote(at(9898), 0, Vote::Granted);

        assert!(matches!(decision, Some(Err(AcquireError::TooSlow { .. }))), "{decision:?}");
    }

    #[test]
    fn votes_after_the_decision_are_written_down_but_decide_nothing() {
        let mut attempt = attempt(3);
        attempt.vote(at(1), 0, Vote::Granted);
        attempt.vote(at(1), 1, Vote::Granted);

        assert_eq!(attempt.vote(at(2), 2, held()), None);
        assert_eq!(*attempt.ballot().vote(2), held());
    }

    /// Every order in which three nodes can grant, refuse, fail or stay silent, with
    /// each answer early, late or after the lease: one result, and the right one.
    #[test]
    fn every_history_of_three_nodes_ends_in_the_one_right_result() {
        let votes =
            [Vote::Granted, held(), Vote::Failed(Fault::Unreachable("x".into())), Vote::Pending];
        let times = [1, 400, 9898];
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let mut histories = 0;
        for code in 0..4_usize.pow(3) * 3_usize.pow(3) {
            for order in orders {
                let digit = |base: usize, place: u32, from: usize| from / base.pow(place) % base;
                let cast: Vec<(usize, u32, &Vote)> = order
                    .iter()
                    .enumerate()
                    .map(|(place, node)| {
                        let place = u32::try_from(place).unwrap();
                        let time = times[digit(3, place, code / 64)];
                        (*node, time, &votes[digit(4, place, code % 64)])
                    })
                    .collect();
                if cast.windows(2).any(|pair| pair[0].1 > pair[1].1) {
                    continue; // time does not run backwards
                }
                histories += 1;
                check_history(&cast);
            }
        }
        assert!(histories > 2_000, "{histories}");
    }

    fn check_history(cast: &[(usize, u32, &Vote)]) {
        let mut attempt = attempt(3);
        let mut results = Vec::new();
        for (node, time, vote) in cast {
            if *time >= 500 {
                results.extend(attempt.tick(at(500)));
            }
            if **vote != Vote::Pending {
                results.extend(attempt.vote(at(*time), *node, (*vote).clone()));
            }
        }
        results.extend(attempt.tick(at(9999)));

        let in_time = |wanted: &dyn Fn(&Vote) -> bool| {
            cast.iter().filter(|(_, time, vote)| *time < 500 && wanted(vote)).count()
        };
        let granted = in_time(&|vote| *vote == Vote::Granted);
        let refused = in_time(&|vote| *vote == held());
        assert_eq!(results.len(), 1, "{cast:?}");
        match &results[0] {
            Ok(until) => assert!(granted >= 2 && *until == at(9898), "{cast:?}"),
            Err(AcquireError::Held(_)) => assert!(refused >= 2, "{cast:?}"),
            Err(AcquireError::NoMajority(_)) => assert!(granted < 2 && refused < 2, "{cast:?}"),
            Err(error) => panic!("{error}: {cast:?}"),
        }
    }
}
