//! Whether one address leads to one server.
//!
//! Behind a load balancer it leads to several in turn, and each would vote as
//! if it were the node. A server that was restarted is another one for good;
//! behind a balancer the first comes back.

use redlatch_core::Fault;
use std::sync::{Arc, Mutex, PoisonError};

/// How many are remembered.
const MOST: usize = 16;

/// Who has answered under one address so far, the last one last.
#[derive(Debug, Default)]
pub(super) struct Runs(Mutex<Vec<Arc<str>>>);

impl Runs {
    /// Whether nobody has answered yet.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes note of who answers now.
    pub(super) fn note(&self, run: &Arc<str>) -> Result<(), Fault> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.last() == Some(run) {
            return Ok(());
        }
        if runs.contains(run) {
            return Err(Fault::WrongAddress(
                "several servers answer in turn under this address (a load balancer?); \
                 name each server by an address of its own"
                    .into(),
            ));
        }
        runs.push(run.clone());
        if runs.len() > MOST {
            runs.remove(0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_restarted_is_another_one_for_good() {
        let runs = Runs::default();
        let [one, two]: [Arc<str>; 2] = ["one".into(), "two".into()];

        for run in [&one, &one, &two, &two] {
            assert_eq!(runs.note(run), Ok(()));
        }
        assert!(matches!(runs.note(&one), Err(Fault::WrongAddress(_))), "it came back");
    }
}
