//! Limits how many attempts may be in progress at once.
//!
//! In:  how long a majority of the nodes took to answer an attempt, and the node
//!      timeout.
//! Out: the limit, between [`FEWEST`] and [`MOST`].
//!
//! Overloaded nodes answer too late; the attempts fail, are undone and retried, and add
//! even more load. So the limit grows while answers come well within the node timeout, and
//! is halved as soon as they do not. Only time spent in queues counts, so that distant
//! nodes are not mistaken for busy ones. Only the majority's speed counts: a slow, frozen
//! or dead minority changes nothing.

use crate::moment::Moment;
use core::time::Duration;

/// This many attempts may always be in progress.
pub const FEWEST: usize = 16;
/// The highest limit: each attempt takes memory, here and on the way.
pub const MOST: usize = 4096;
/// This many quick answers raise the limit by one, which is an eighth per round trip. It
/// grows more slowly than it shrinks, so that the locks with the shortest timeout decide.
const QUICK_ANSWERS: usize = 8;

/// Adapts the number of attempts in progress to how fast the nodes answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pace {
    limit: usize,
    /// Quick answers since the limit last changed.
    quick: usize,
    /// The quickest round trip so far, taken as one without queueing.
    least: Duration,
    /// When the limit was last halved. Attempts that began earlier say nothing
    /// about the current limit.
    halved_at: Moment,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { limit: FEWEST, quick: 0, least: Duration::MAX, halved_at: Moment::START }
    }
}

impl Pace {
    /// Returns how many attempts may be in progress.
    #[must_use]
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Records that a majority answered an attempt after `took`, with this node
    /// `timeout`. `in_use` says whether anyone is waiting because of the limit:
    /// only then do quick answers show that more is possible.
    pub(crate) fn answered(
        &mut self,
        now: Moment,
        took: Duration,
        timeout: Duration,
        in_use: bool,
    ) {
        if in_use {
            self.least = self.least.min(took);
        }
        let queued = took.saturating_sub(self.least);
        let spare = timeout.saturating_sub(self.least);
        if queued > spare / 2 {
            self.halve(now, took);
        }
        if queued > spare / 4 {
            if in_use && self.limit == FEWEST {
                // Such a small number of attempts cannot keep the nodes busy, so the round
                // trip itself has become longer.
                self.least += queued / 8;
            }
        } else if in_use {
            self.grow();
        }
    }

    /// Records that an attempt ended after `took` without answers from a majority.
    pub(crate) fn unanswered(&mut self, now: Moment, took: Duration) {
        self.halve(now, took);
    }

    fn grow(&mut self) {
        self.quick += 1;
        if self.quick >= QUICK_ANSWERS {
            self.quick = 0;
            self.limit = (self.limit + 1).min(MOST);
        }
    }

    /// Halves the limit once for all attempts that were in progress together.
    fn halve(&mut self, now: Moment, took: Duration) {
        if self.limit > FEWEST && now.before(took) >= self.halved_at {
            self.limit = (self.limit / 2).max(FEWEST);
            self.quick = 0;
            self.halved_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const MS: Duration = Duration::from_millis(1);
    const TIMEOUT: Duration = Duration::from_millis(50);

    /// Nodes with a round trip of `way` that execute `per_ms` attempts per
    /// millisecond, for an unlimited number of callers.
    struct Nodes {
        pace: Pace,
        now: Moment,
        way: Duration,
        per_ms: u32,
    }

    impl Nodes {
        fn new(way: Duration, per_ms: u32) -> Self {
            let now = Moment::START.after(1000 * MS);
            Nodes { pace: Pace::default(), now, way, per_ms }
        }

        /// Sends as many attempts as the limit allows, all at once.
        fn round(&mut self) -> Duration {
            let together = u32::try_from(self.pace.limit()).unwrap();
            let began = self.now;
            let mut took = Duration::ZERO;
            for attempt in 1..=together {
                took = self.way + attempt * MS / self.per_ms;
                self.now = began.after(took);
                if took < TIMEOUT {
                    self.pace.answered(self.now, took, TIMEOUT, true);
                } else {
                    self.pace.unanswered(began.after(TIMEOUT), TIMEOUT);
                }
            }
            took
        }

        /// Returns the longest time an attempt takes once the limit has settled.
        fn longest(&mut self) -> Duration {
            let rounds: Vec<_> = (0..250).map(|_| self.round()).collect();
            rounds[200..].iter().copied().max().unwrap()
        }
    }

    #[test]
    fn it_grows_until_answers_take_a_good_part_of_the_timeout_and_no_further() {
        for per_ms in [2, 10, 50] {
            let mut nodes = Nodes::new(MS, per_ms);

            let longest = nodes.longest();

            assert!(longest < TIMEOUT * 3 / 4, "{per_ms} a ms: {longest:?}");
            assert!(longest > TIMEOUT / 8, "{per_ms} a ms: {longest:?}");
        }
    }

    #[test]
    fn nodes_that_become_slower_are_asked_for_less() {
        let mut nodes = Nodes::new(MS, 50);
        nodes.longest();

        nodes.per_ms = 5;
        let longest = nodes.longest();

        assert!(longest < TIMEOUT * 3 / 4, "{longest:?}");
    }

    #[test]
    fn nodes_far_away_are_not_taken_for_busy_ones() {
        let mut nodes = Nodes::new(40 * MS, 100);

        nodes.longest();

        assert!(nodes.pace.limit() > 10 * FEWEST, "{}", nodes.pace.limit());
    }

    #[test]
    fn a_way_that_becomes_longer_is_not_taken_for_a_queue_forever() {
        let mut nodes = Nodes::new(MS, 100);
        nodes.longest();

        nodes.way = 40 * MS;
        nodes.longest();

        assert!(nodes.pace.limit() > 10 * FEWEST, "{}", nodes.pace.limit());
    }

    #[test]
    fn a_round_of_late_answers_halves_it_once() {
        let mut nodes = Nodes::new(MS, 100);
        nodes.longest();
        let before = nodes.pace.limit();

        let began = nodes.now;
        for late in 0..100 {
            let took = 40 * MS + late * MS / 100;
            nodes.pace.answered(began.after(took), took, TIMEOUT, true);
        }

        assert_eq!(nodes.pace.limit(), before / 2);
    }

    #[test]
    fn silence_leaves_the_fewest_and_the_first_answers_let_it_grow_again() {
        let mut nodes = Nodes::new(MS, 100);
        nodes.longest();
        let before = nodes.pace.limit();

        for _ in 0..20 {
            nodes.now = nodes.now.after(TIMEOUT);
            nodes.pace.unanswered(nodes.now, TIMEOUT);
        }
        assert_eq!(nodes.pace.limit(), FEWEST);
        nodes.longest();

        assert!(nodes.pace.limit() > before / 2, "{}", nodes.pace.limit());
    }

    #[test]
    fn quick_answers_to_few_callers_do_not_show_that_more_is_possible() {
        let mut pace = Pace::default();

        for _ in 0..1000 {
            pace.answered(Moment::START.after(MS), MS, TIMEOUT, false);
        }

        assert_eq!(pace, Pace::default());
    }

    #[test]
    fn it_never_grows_beyond_the_most() {
        let mut pace = Pace::default();

        for _ in 0..MOST * QUICK_ANSWERS * 2 {
            pace.answered(Moment::START.after(MS), MS, TIMEOUT, true);
        }

        assert_eq!(pace.limit(), MOST);
    }
}
