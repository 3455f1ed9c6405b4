//! Removes our keys from every node, whatever happens to the caller.
//!
//! In:  votes and the time.
//! Out: which nodes to ask (again), and one answer for the caller, if any.
//!
//! Promise: every node that may have our key is asked until it has answered, or until the key has
//! expired. Compare-and-delete does nothing if the key is not ours, so asking again is harmless.

use crate::{
    lease,
    moment::{Moment, Now, Steady},
    mutant::{self, Mutant},
    vote::{Ballot, Verdict, Vote, of_nodes},
};
use alloc::{boxed::Box, vec};
use core::time::Duration;

/// The first pause before a failed node is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The removal of one lock from all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Undo {
    started: Moment,
    ballot: Ballot,
    /// Whether each node was asked, and how long to pause if it fails.
    asked: Box<[(Asked, Duration)]>,
    /// When the keys have expired. On the steady clock, so that stepping the wall clock
    /// cannot end it early.
    expires: Steady,
    /// When to check for that, on the clock that wakes callers.
    expires_at: Moment,
    /// Until when a caller waits for the outcome, if any does.
    answer_by: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Asked {
    Waiting,
    AgainAt(Moment),
    Done,
}

impl Undo {
    /// Starts the removal. `taken` holds the votes on what is being removed: a node that no
    /// command reached has nothing to remove. Without those votes, any node may have the key.
    #[must_use]
    pub(crate) fn new(
        now: Now,
        nodes: usize,
        taken: Option<&Ballot>,
        ttl: Duration,
        answer_by: Option<Moment>,
    ) -> Self {
        let Now { lease: now, steady } = now;
        let life = lease::longest_life(ttl);
        let mut ballot = Ballot::of(nodes);
        let mut asked = vec![(Asked::AgainAt(now), FIRST_PAUSE); nodes];
        for (node, cast) in taken.iter().flat_map(|taken| taken.casts()).enumerate() {
            match &cast.vote {
                Vote::Failed(fault) if fault.never_sent() => {
                    ballot.cast(node, cast.vote.clone(), Duration::ZERO);
                    asked[node].0 = Asked::Done;
                }
                Vote::Held(_) if mutant::on(Mutant::NoUndoWhereRefused) => {
                    asked[node].0 = Asked::Done;
                }
                _ => {}
            }
        }
        Undo {
            started: now,
            ballot,
            asked: asked.into(),
            expires: steady.after(life),
            expires_at: now.after(life),
            answer_by,
        }
    }

    /// Skips nodes that have nothing of ours, or that are to be asked later.
    #[must_use]
    pub(crate) fn skip(mut self, is_skipped: impl Fn(usize) -> bool) -> Self {
        for (node, (asked, _)) in self.asked.iter_mut().enumerate() {
            if is_skipped(node) {
                *asked = Asked::Done;
            }
        }
        self
    }

    /// Also asks nodes that no command reached: an earlier attempt may have left its ticket there.
    #[must_use]
    pub(crate) fn ask_unreached(mut self) -> Self {
        for (node, (asked, _)) in self.asked.iter_mut().enumerate() {
            if matches!(self.ballot.vote(node), Vote::Failed(fault) if fault.never_sent()) {
                *asked = Asked::AgainAt(self.started);
            }
        }
        self
    }

    /// Returns whether to ask this node now. It is asked once until it answers.
    pub(crate) fn asks(&mut self, node: usize, now: Moment) -> bool {
        let (asked, _) = &mut self.asked[node];
        let is_due = matches!(asked, Asked::AgainAt(at) if *at <= now);
        if is_due {
            *asked = Asked::Waiting;
        }
        is_due
    }

    /// Records one node's answer. Returns the caller's answer if this settles it.
    pub(crate) fn vote(&mut self, time: Now, node: usize, vote: Vote) -> Option<Decision> {
        let now = time.lease;
        let (asked, pause) = &mut self.asked[node];
        *asked = Asked::Done;
        if let Vote::Failed(_) = &vote {
            *asked = Asked::AgainAt(now.after(*pause));
            *pause = (*pause * 2).min(LONGEST_PAUSE);
        }
        self.ballot.cast(node, vote, now.since(self.started));
        self.decide(time)
    }

    /// Registers a caller that wants the outcome and waits for it until `answer_by`.
    pub(crate) fn answer(&mut self, now: Now, answer_by: Moment) -> Option<Decision> {
        self.answer_by = Some(answer_by);
        self.decide(now)
    }

    /// Answers the caller once it has waited long enough.
    pub(crate) fn tick(&mut self, now: Now) -> Option<Decision> {
        self.expires_at = now.lease.after(self.expires.since(now.steady));
        self.decide(now)
    }

    /// Returns whether nothing is left to do.
    #[must_use]
    pub(crate) fn is_over(&self, now: Now) -> bool {
        self.answer_by.is_none() && (self.is_settled() || now.steady >= self.expires)
    }

    /// Returns whether no node is left to ask.
    #[must_use]
    pub(crate) fn is_settled(&self) -> bool {
        self.asked.iter().all(|(asked, _)| *asked == Asked::Done)
    }

    /// Returns when to call [`tick`](Self::tick) and [`asks`](Self::asks) again; never
    /// later than when the keys expire.
    #[must_use]
    pub(crate) fn due(&self) -> Moment {
        let again = self.asked.iter().filter_map(|(asked, _)| match asked {
            Asked::AgainAt(at) => Some(*at),
            _ => None,
        });
        again.chain(self.answer_by).fold(self.expires_at, Moment::min)
    }

    /// Returns the votes so far.
    #[must_use]
    pub(crate) fn ballot(&self) -> &Ballot {
        &self.ballot
    }

    fn decide(&mut self, time: Now) -> Option<Decision> {
        let now = time.lease;
        let answer_by = self.answer_by?;
        let tally = self.ballot.tally();
        // Once the keys have expired, no node is asked again.
        let late = now >= answer_by || time.steady >= self.expires;
        let decision = match tally.verdict() {
            Verdict::Won => Ok(Released::Now),
            _ if tally.refusals_decide() => Ok(Released::AlreadyGone),
            _ if tally.pending > 0 && !late => return None,
            _ => {
                let mut ballot = self.ballot.clone();
                ballot.close(now.since(self.started));
                Err(ReleaseError::Unknown(ballot))
            }
        };
        self.answer_by = None;
        Some(decision)
    }
}

/// The outcome of a release.
pub type Decision = Result<Released, ReleaseError>;

/// A release that a majority answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Released {
    /// A majority had the lock and removed it.
    Now,
    /// The lock was already gone: expired, lost or removed by hand.
    AlreadyGone,
}

/// A release whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// No majority answered. The release continues in the background; the lock is free
    /// when its TTL ends, if not before.
    #[error("not known: {} did not answer the release", of_nodes(.0.tally().failed, .0.tally().nodes))]
    Unknown(Ballot),
}

impl ReleaseError {
    /// Returns every node's vote.
    #[must_use]
    pub fn ballot(&self) -> &Ballot {
        let ReleaseError::Unknown(ballot) = self;
        ballot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vote::{Fault, Holder};
    use alloc::vec::Vec;

    const MS: Duration = Duration::from_millis(1);
    const TTL: Duration = Duration::from_secs(1);

    fn at(millis: u32) -> Moment {
        Moment::START.after(millis * MS)
    }

    /// Both clocks agree.
    fn now(millis: u32) -> Now {
        Now { lease: at(millis), steady: Steady::from_nanos(at(millis).as_nanos()) }
    }

    fn broken() -> Vote {
        Vote::Failed(Fault::Disconnected("reset".into()))
    }

    fn undo_of(votes: [Vote; 3]) -> Undo {
        let mut taken = Ballot::of(3);
        for (node, vote) in votes.into_iter().enumerate() {
            taken.cast(node, vote, MS);
        }
        Undo::new(now(0), 3, Some(&taken), TTL, Some(at(50)))
    }

    /// The nodes that are asked now.
    fn ask(undo: &mut Undo, millis: u32) -> Vec<usize> {
        (0..3).filter(|node| undo.asks(*node, at(millis))).collect()
    }

    fn undo() -> Undo {
        undo_of([Vote::Granted, Vote::Granted, Vote::Granted])
    }

    #[test]
    fn every_node_is_asked_even_one_that_refused_failed_or_was_silent() {
        let mut undo = undo_of([Vote::Held(Holder::default()), broken(), Vote::Pending]);

        assert_eq!(ask(&mut undo, 0), [0, 1, 2]);
        assert_eq!(ask(&mut undo, 0), [0; 0], "once each");
    }

    #[test]
    fn a_node_the_take_never_reached_has_nothing_to_undo() {
        let refused = Vote::Failed(Fault::Unreachable("connection refused".into()));
        let mut undo = undo_of([Vote::Granted, refused, Vote::Granted]);

        assert_eq!(ask(&mut undo, 0), [0, 2]);
    }

    #[test]
    fn released_at_the_majoritys_answers() {
        let mut undo = undo();
        ask(&mut undo, 0);

        assert_eq!(undo.vote(now(1), 0, Vote::Granted), None);
        assert_eq!(undo.vote(now(2), 1, Vote::Granted), Some(Ok(Released::Now)));
        assert!(!undo.is_over(now(2)), "the third node still has the key");
        assert_eq!(undo.vote(now(3), 2, Vote::Granted), None);
        assert!(undo.is_over(now(3)));
    }

    #[test]
    fn releasing_an_expired_lock_is_an_outcome_not_an_error() {
        let mut undo = undo();
        ask(&mut undo, 0);
        undo.vote(now(1), 0, Vote::Gone);

        assert_eq!(undo.vote(now(2), 1, Vote::Gone), Some(Ok(Released::AlreadyGone)));
    }

    #[test]
    fn silence_of_the_majority_is_unknown_and_the_undo_goes_on() {
        let mut undo = undo();
        ask(&mut undo, 0);
        undo.vote(now(1), 0, Vote::Granted);
        undo.vote(now(1), 1, broken());

        let decision = undo.tick(now(50));

        assert!(matches!(decision, Some(Err(ReleaseError::Unknown(_)))), "{decision:?}");
        assert_eq!(ask(&mut undo, 51), [1], "asked again after a pause");
        assert!(!undo.is_over(now(51)));
    }

    #[test]
    fn a_node_does_not_wait_longer_because_others_fail_too() {
        let mut undo = undo();
        ask(&mut undo, 0);
        for node in 0..3 {
            undo.vote(now(0), node, broken());
        }

        assert_eq!(ask(&mut undo, 50), [0, 1, 2]);
        undo.vote(now(50), 0, broken());
        assert_eq!(ask(&mut undo, 149), [0; 0]);
        assert_eq!(ask(&mut undo, 150), [0], "twice the pause for the second failure");
    }

    #[test]
    fn pauses_grow_to_a_second_and_no_further() {
        let taken = Ballot::of(1);
        let mut undo = Undo::new(now(0), taken.casts().len(), Some(&taken), 30 * TTL, None);
        let mut pauses = Vec::new();
        let mut asked = now(0);
        for _ in 0..7 {
            assert!(undo.asks(0, asked.lease));
            undo.vote(asked, 0, broken());
            let pause = undo.due().since(asked.lease);
            pauses.push(pause.as_millis());
            asked = Now { lease: undo.due(), steady: asked.steady.after(pause) };
        }

        assert_eq!(pauses, [50, 100, 200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn when_all_have_answered_nobody_is_waited_for() {
        let mut undo = undo();
        ask(&mut undo, 0);
        undo.vote(now(1), 0, Vote::Granted);
        assert_eq!(undo.vote(now(1), 1, broken()), None);

        let decision = undo.vote(now(1), 2, broken());

        assert!(matches!(decision, Some(Err(ReleaseError::Unknown(_)))), "{decision:?}");
    }

    #[test]
    fn it_ends_when_the_keys_have_died_by_themselves() {
        let mut undo = undo();
        ask(&mut undo, 0);
        undo.tick(now(50));

        assert!(!undo.is_over(now(1011)));
        assert!(undo.is_over(now(1012)), "TTL and drift have passed");
    }

    #[test]
    fn a_wall_clock_that_steps_forward_does_not_end_it() {
        let mut undo = undo();
        ask(&mut undo, 0);
        undo.tick(now(50));
        let stepped = |millis| Now { lease: at(60_000 + millis), ..now(millis) };

        undo.tick(stepped(100));

        assert!(!undo.is_over(stepped(100)));
        assert_eq!(undo.due(), stepped(1012).lease, "looked at again when it is over");
        assert!(undo.is_over(stepped(1012)));
    }

    #[test]
    fn one_yes_one_no_and_one_silence_is_unknown_once_waiting_ends() {
        let mut undo = undo();
        ask(&mut undo, 0);
        undo.vote(now(1), 0, Vote::Granted);
        assert_eq!(undo.vote(now(1), 1, Vote::Gone), None);

        assert!(matches!(undo.tick(now(50)), Some(Err(ReleaseError::Unknown(_)))));
    }
}
