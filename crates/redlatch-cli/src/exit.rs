//! How `redlatch` ends. The numbers stand here and nowhere else.

use std::process::{ExitCode, Termination};

/// One way to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; of `doctor`: nothing that would hurt.
    Done,
    /// `doctor` found something to know about.
    Warned,
    /// `doctor` found something that breaks locks.
    Broken,
    /// Another owner has the lock.
    Held,
    /// Too few nodes answered, or may vote.
    TooFewNodes,
    /// The lock was lost, or is no longer ours.
    Lost,
    /// `--max-hold` was reached.
    MaxHold,
    /// `redlatch` itself failed, or was called wrongly.
    Failed,
    /// The command cannot be executed.
    NotExecutable,
    /// The command was not found.
    NotFound,
    /// What the command, or `-E`, says.
    Code(u8),
    /// The signal of that number ended the command, or the waiting.
    Signal(i32),
}

impl Exit {
    /// The number that the caller sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Warned => 1,
            Exit::Broken => 2,
            Exit::Held => 121,
            Exit::TooFewNodes => 122,
            Exit::Lost => 123,
            Exit::MaxHold => 124,
            Exit::Failed => 125,
            Exit::NotExecutable => 126,
            Exit::NotFound => 127,
            Exit::Code(code) => code,
            // Signals have numbers up to 64.
            Exit::Signal(number) => 128 + u8::try_from(number).unwrap_or(0) % 128,
        }
    }

    /// The worse of two, where several things were looked at.
    pub(crate) fn worse(self, other: Exit) -> Exit {
        if other.code() > self.code() { other } else { self }
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

/// The part of `--help` for commands that take a lock.
pub(crate) const HELP: &str = "\
Exit status:
  0    done
  121  another owner has the lock (-E of `run` replaces it)
  122  too few nodes answered, or may vote
  123  the lock was lost, or is no longer yours
  124  --max-hold was reached
  125  redlatch itself failed, or was called wrongly
  126  the command cannot be executed
  127  the command was not found
  128+n  signal n ended the command, or the waiting
  Anything else is the command's own.";

/// The part of `--help` for `doctor`.
pub(crate) const DOCTOR_HELP: &str = "\
Exit status, by the worst finding:
  0    nothing that would hurt
  1    warnings
  2    problems that break locks
  122  too few nodes answered
  125  redlatch itself failed, or was called wrongly";

/// The part of `--help` for `admit`.
pub(crate) const ADMIT_HELP: &str = "\
Exit status:
  0    the nodes may vote
  122  some may not, do not answer, or lack locks that are held (--wait)
  125  redlatch itself failed, or was called wrongly";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_has_the_number_that_is_documented() {
        let documented = [
            (Exit::Done, 0),
            (Exit::Warned, 1),
            (Exit::Broken, 2),
            (Exit::Held, 121),
            (Exit::TooFewNodes, 122),
            (Exit::Lost, 123),
            (Exit::MaxHold, 124),
            (Exit::Failed, 125),
            (Exit::NotExecutable, 126),
            (Exit::NotFound, 127),
            (Exit::Code(7), 7),
            (Exit::Signal(1), 129),
            (Exit::Signal(9), 137),
            (Exit::Signal(15), 143),
            (Exit::Signal(64), 192),
        ];
        for (exit, code) in documented {
            assert_eq!(exit.code(), code, "{exit:?}");
        }
    }

    #[test]
    fn the_help_lists_them_all() {
        let codes = |help: &str| -> Vec<u8> {
            let firsts = help.lines().filter_map(|line| line.split_whitespace().next());
            firsts.filter_map(|word| word.parse().ok()).collect()
        };
        assert_eq!(codes(HELP), [0, 121, 122, 123, 124, 125, 126, 127]);
        assert_eq!(codes(DOCTOR_HELP), [0, 1, 2, 122, 125]);
        assert_eq!(codes(ADMIT_HELP), [0, 122, 125]);
    }

    #[test]
    fn the_worse_ending_wins() {
        assert_eq!(Exit::Done.worse(Exit::Held), Exit::Held);
        assert_eq!(Exit::TooFewNodes.worse(Exit::Held), Exit::TooFewNodes);
    }
}
