//! Whether one address leads to one server.
//!
//! Behind a load balancer it leads to several in turn, and each would vote as
//! if it were the node. A server that was restarted is another one for good;
//! behind a balancer the first comes back. So does one after a failover and a
//! fallback: it may vote again when nobody else has answered for [`QUIET`], which
//! is longer than what was granted meanwhile is likely to be held. A server that
//! never voted here, because it is another node, does not count: the address was
//! wrong for a while.

use redlatch_core::Fault;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How many are remembered.
const MOST: usize = 16;
/// For how long only one server must have answered, once several have in turn.
const QUIET: Duration = Duration::from_secs(600);

/// Who has answered under one address so far.
#[derive(Debug, Default)]
pub(super) struct Runs(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// Those that could be one server, the last one last, and whether they have
    /// voted.
    runs: Vec<(Arc<str>, bool)>,
    /// Who answered last, once one has come back, and since when only that one.
    in_turn: Option<(Arc<str>, Instant)>,
}

impl Runs {
    /// Whether nobody has answered yet, or nobody whose word still counts.
    pub(super) fn is_empty(&self) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.in_turn.as_ref().is_some_and(|(_, since)| since.elapsed() >= QUIET) {
            *seen = Seen::default();
        }
        seen.runs.is_empty()
    }

    /// Takes note of who answers now.
    pub(super) fn note(&self, run: &Arc<str>) -> Result<(), Fault> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut seen.in_turn {
            Some((last, _)) if last == run => return Err(in_turn()),
            Some(turn) => {
                *turn = (run.clone(), Instant::now());
                return Err(in_turn());
            }
            None => {}
        }
        match seen.position(run) {
            Some(at) if at + 1 == seen.runs.len() => return Ok(()),
            Some(_) => {
                seen.in_turn = Some((run.clone(), Instant::now()));
                return Err(in_turn());
            }
            None => seen.push(run, false),
        }
        Ok(())
    }

    /// It has voted as this node.
    pub(super) fn voted(&self, run: &Arc<str>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.position(run) {
            Some(at) => seen.runs[at].1 = true,
            None => seen.push(run, true),
        }
    }

    /// It refuses to be this node. If it has never voted as this node, the one that
    /// answered before it may come back.
    pub(super) fn refused(&self, run: &Arc<str>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.runs.retain(|(seen, voted)| seen != run || *voted);
    }
}

impl Seen {
    fn position(&self, run: &Arc<str>) -> Option<usize> {
        self.runs.iter().position(|(seen, _)| seen == run)
    }

    fn push(&mut self, run: &Arc<str>, voted: bool) {
        self.runs.push((run.clone(), voted));
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

    fn servers() -> [Arc<str>; 2] {
        ["one".into(), "two".into()]
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_was_restarted_is_another_one_for_good() {
        let (runs, [one, two]) = (Runs::default(), servers());

        for run in [&one, &one, &two, &two] {
            assert_eq!(runs.note(run), Ok(()));
        }
        assert!(matches!(runs.note(&one), Err(Fault::WrongAddress(_))), "it came back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_came_back_votes_again_when_no_other_has_answered_for_long() {
        let (runs, [one, two]) = (Runs::default(), servers());
        for run in [&one, &two, &one] {
            let _ = runs.note(run);
        }

        tokio::time::advance(QUIET / 2).await;
        assert!(!runs.is_empty() && runs.note(&one).is_err());
        tokio::time::advance(QUIET / 2).await;

        assert!(runs.is_empty(), "it is asked twice again");
        assert_eq!(runs.note(&one), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_comes_back_after_one_that_refused_to_be_this_node() {
        let (runs, [one, two]) = (Runs::default(), servers());
        runs.note(&one).unwrap();
        runs.voted(&one);

        for _ in 0..2 {
            runs.note(&two).unwrap();
            runs.refused(&two);
            assert_eq!(runs.note(&one), Ok(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_does_not_come_back_after_one_that_voted_and_then_refused() {
        let (runs, [one, two]) = (Runs::default(), servers());
        runs.note(&one).unwrap();
        runs.note(&two).unwrap();

        runs.voted(&two);
        runs.refused(&two);

        assert!(matches!(runs.note(&one), Err(Fault::WrongAddress(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_votes_after_all_is_remembered() {
        let (runs, [one, two]) = (Runs::default(), servers());
        runs.note(&one).unwrap();
        runs.note(&two).unwrap();

        runs.refused(&two);
        runs.voted(&two);

        assert!(matches!(runs.note(&one), Err(Fault::WrongAddress(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn behind_a_balancer_no_server_ever_votes_again() {
        let (runs, [one, two]) = (Runs::default(), servers());
        for run in [&one, &two, &one] {
            let _ = runs.note(run);
        }

        for run in [&two, &one, &two, &one] {
            tokio::time::advance(QUIET / 2).await;
            assert!(!runs.is_empty() && runs.note(run).is_err());
        }
    }
}
