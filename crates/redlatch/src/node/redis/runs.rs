//! Checks that one address leads to one server.
//!
//! Behind a load balancer it leads to several in turn, and each would vote as if it were
//! the node. A restarted server never comes back as its earlier run; behind a balancer, the
//! first server does. So does a server after a failover and failback: it may vote again
//! once no other server has answered for [`QUIET`], which is longer than locks granted in
//! the meantime are likely to be held. A server that never voted here, because it is
//! another node, does not count: the address was wrong for a while. How many keys a server
//! has evicted does not matter here.

use super::observe::server_of;
use redlatch_core::Fault;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How many servers to remember.
const MOST: usize = 16;
/// How long only one server must have answered, after several have answered in turn.
const QUIET: Duration = Duration::from_secs(600);

/// The servers that have answered at one address so far.
#[derive(Debug, Default)]
pub(super) struct Runs(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// The runs that could be those of one server, the latest last, and whether each has voted.
    runs: Vec<(Box<str>, bool)>,
    /// Set once one has come back: which run answered last, and since when only that one has.
    in_turn: Option<(Box<str>, Instant)>,
}

impl Runs {
    /// Whether no server has answered yet, or none that still counts.
    pub(super) fn is_empty(&self) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.in_turn.as_ref().is_some_and(|(_, since)| since.elapsed() >= QUIET) {
            *seen = Seen::default();
        }
        seen.runs.is_empty()
    }

    /// Records which server answers now. Fails if several answer in turn.
    pub(super) fn note(&self, run: &str) -> Result<(), Fault> {
        let run = server_of(run);
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut seen.in_turn {
            Some((last, _)) if **last == *run => return Err(in_turn()),
            Some(turn) => {
                *turn = (run.into(), Instant::now());
                return Err(in_turn());
            }
            None => {}
        }
        match seen.position(run) {
            Some(at) if at + 1 == seen.runs.len() => return Ok(()),
            Some(_) => {
                seen.in_turn = Some((run.into(), Instant::now()));
                return Err(in_turn());
            }
            None => seen.push(run, false),
        }
        Ok(())
    }

    /// Records that it voted as this node.
    pub(super) fn voted(&self, run: &str) {
        let run = server_of(run);
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.position(run) {
            Some(at) => seen.runs[at].1 = true,
            None => seen.push(run, true),
        }
    }

    /// Records that it refuses to be this node. If it never voted as this node, the one
    /// that answered before it may come back.
    pub(super) fn refused(&self, run: &str) {
        let run = server_of(run);
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.runs.retain(|(seen, voted)| **seen != *run || *voted);
    }
}

impl Seen {
    fn position(&self, run: &str) -> Option<usize> {
        self.runs.iter().position(|(seen, _)| **seen == *run)
    }

    fn push(&mut self, run: &str, voted: bool) {
        self.runs.push((run.into(), voted));
        if self.runs.len() > MOST {
            self.runs.remove(0);
        }
    }
}

fn in_turn() -> Fault {
    let reason = format!(
        "several servers answer in turn under this address (a load balancer?); name each server \
         by an address of its own, or wait until only one has answered for {QUIET:?}"
    );
    Fault::WrongAddress(reason.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers() -> [&'static str; 2] {
        ["one", "two"]
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_was_restarted_is_another_one_for_good() {
        let (runs, [one, two]) = (Runs::default(), servers());

        for run in [one, one, two, two] {
            assert_eq!(runs.note(run), Ok(()));
        }
        assert!(matches!(runs.note(one), Err(Fault::WrongAddress(_))), "it came back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_came_back_votes_again_when_no_other_has_answered_for_long() {
        let (runs, [one, two]) = (Runs::default(), servers());
        for run in [one, two, one] {
            let _ = runs.note(run);
        }

        tokio::time::advance(QUIET / 2).await;
        assert!(!runs.is_empty() && runs.note(one).is_err());
        tokio::time::advance(QUIET / 2).await;

        assert!(runs.is_empty(), "it is asked twice again");
        assert_eq!(runs.note(one), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_comes_back_after_one_that_refused_to_be_this_node() {
        let (runs, [one, two]) = (Runs::default(), servers());
        runs.note(one).unwrap();
        runs.voted(one);

        for _ in 0..2 {
            runs.note(two).unwrap();
            runs.refused(two);
            assert_eq!(runs.note(one), Ok(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_does_not_come_back_after_one_that_voted_and_then_refused() {
        let (runs, [one, two]) = (Runs::default(), servers());
        runs.note(one).unwrap();
        runs.note(two).unwrap();

        runs.voted(two);
        runs.refused(two);

        assert!(matches!(runs.note(one), Err(Fault::WrongAddress(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_votes_after_all_is_remembered() {
        let (runs, [one, two]) = (Runs::default(), servers());
        runs.note(one).unwrap();
        runs.note(two).unwrap();

        runs.refused(two);
        runs.voted(two);

        assert!(matches!(runs.note(one), Err(Fault::WrongAddress(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_whose_count_of_evicted_keys_starts_anew_is_still_the_same() {
        let runs = Runs::default();

        for run in ["one", "one+5", "one", "one+5"] {
            assert_eq!(runs.note(run), Ok(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn behind_a_balancer_no_server_ever_votes_again() {
        let (runs, [one, two]) = (Runs::default(), servers());
        for run in [one, two, one] {
            let _ = runs.note(run);
        }

        for run in [two, one, two, one] {
            tokio::time::advance(QUIET / 2).await;
            assert!(!runs.is_empty() && runs.note(run).is_err());
        }
    }
}
