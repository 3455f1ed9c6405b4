//! The exit status of `redlatch`. The only place with the numbers.

use serde::{Serialize, Serializer};
use std::process::{ExitCode, Termination};

/// How `redlatch` ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; for `doctor`: no problems or warnings.
    Done,
    /// `doctor` found something worth a warning.
    Warned,
    /// `doctor` found something that breaks locks.
    Broken,
    /// Another owner has the lock.
    Held,
    /// The same, with the status given by `-E`.
    HeldAs(u8),
    /// No majority: nodes do not answer, or may not vote.
    NoMajority,
    /// The lock was lost, or is no longer ours.
    Lost,
    /// `--max-hold` was reached.
    MaxHold,
    /// `redlatch` itself failed, was used incorrectly, or the user answered no.
    Failed,
    /// The command cannot be executed.
    NotExecutable,
    /// The command was not found.
    NotFound,
    /// The command's own status.
    Code(u8),
    /// The signal with this number ended the command, or the wait.
    Signal(i32),
}

impl Exit {
    /// The exit status that the caller sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Warned => 1,
            Exit::Broken => 2,
            Exit::Held => 121,
            Exit::NoMajority => 122,
            Exit::Lost => 123,
            Exit::MaxHold => 124,
            Exit::Failed => 125,
            Exit::NotExecutable => 126,
            Exit::NotFound => 127,
            Exit::HeldAs(code) | Exit::Code(code) => code,
            // Signal numbers go up to 64.
            Exit::Signal(number) => 128 + u8::try_from(number).unwrap_or(0) % 128,
        }
    }

    /// The worse of two, when several things were checked.
    pub(crate) fn worse(self, other: Exit) -> Exit {
        if other.code() > self.code() { other } else { self }
    }
}

impl Serialize for Exit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.code())
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

/// The part of `--help` for `run`, and for all commands together.
pub(crate) const HELP: &str = "\
Exit status:
  0    done
  121  another owner has the lock (-E of `run` replaces it)
  122  no majority: nodes do not answer, or may not vote
  123  the lock was lost, or is no longer yours
  124  --max-hold was reached
  125  redlatch itself failed, was used incorrectly, or you answered no
  126  the command cannot be executed
  127  the command was not found
  128+n  signal n ended the command, or the wait
  Anything else is the command's own status.";

/// The part of `--help` for `acquire`.
pub(crate) const ACQUIRE_HELP: &str = "\
Exit status:
  0    done
  121  another owner has the lock
  122  no majority: nodes do not answer, or may not vote
  125  redlatch itself failed, or was used incorrectly
  128+n  signal n ended the wait";

/// The part of `--help` for `release`.
pub(crate) const RELEASE_HELP: &str = "\
Exit status:
  0    done
  121  --force: another owner has the lock by now; nothing was released
  122  no majority: nodes do not answer, or may not vote; the outcome is not known
  123  the lock is no longer yours
  125  redlatch itself failed, was used incorrectly, or you answered no
  128+n  signal n ended it";

/// The part of `--help` for `extend`.
pub(crate) const EXTEND_HELP: &str = "\
Exit status:
  0    done
  122  no majority: nodes do not answer, or may not vote; the outcome is not known
  123  the lock is no longer yours
  125  redlatch itself failed, or was used incorrectly
  128+n  signal n ended it";

/// The part of `--help` for `status`.
pub(crate) const STATUS_HELP: &str = "\
Exit status:
  0    all locks are free
  121  one is held, or reserved for the next in line
  122  no majority: nodes do not answer, or may not vote
  125  redlatch itself failed, or was used incorrectly";

/// The part of `--help` for `ls`.
pub(crate) const LS_HELP: &str = "\
Exit status:
  0    done
  122  no majority: nodes do not answer, or may not vote; the list may not be complete
  125  redlatch itself failed, or was used incorrectly";

/// The part of `--help` for `doctor`.
pub(crate) const DOCTOR_HELP: &str = "\
Exit status, by the worst finding:
  0    no problems or warnings
  1    warnings: locks work, but something is wrong or missing
  2    problems: no lock can be taken, or locks are not safe
  125  redlatch itself failed, or was used incorrectly";

/// The part of `--help` for `admit`.
pub(crate) const ADMIT_HELP: &str = "\
Exit status:
  0    the nodes may vote
  122  some may not vote, do not answer, refuse writes, or lack locks that are held (--wait)
  125  redlatch itself failed, was used incorrectly, or you answered no";

/// The part of `--help` for commands that change no lock.
pub(crate) const PLAIN_HELP: &str = "\
Exit status:
  0    done
  125  redlatch itself failed, or was used incorrectly";

/// The part of `--help` for this command.
pub(crate) fn help(command: &str) -> &'static str {
    match command {
        "doctor" => DOCTOR_HELP,
        "admit" => ADMIT_HELP,
        "acquire" => ACQUIRE_HELP,
        "extend" => EXTEND_HELP,
        "release" => RELEASE_HELP,
        "status" => STATUS_HELP,
        "ls" => LS_HELP,
        "log" | "top" | "web" | "exporter" | "completions" | "man" => PLAIN_HELP,
        _ => HELP,
    }
}

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
            (Exit::HeldAs(75), 75),
            (Exit::NoMajority, 122),
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
        assert_eq!(codes(DOCTOR_HELP), [0, 1, 2, 125]);
        assert_eq!(codes(ADMIT_HELP), [0, 122, 125]);
        assert_eq!(codes(ACQUIRE_HELP), [0, 121, 122, 125]);
        assert_eq!(codes(EXTEND_HELP), [0, 122, 123, 125]);
        assert_eq!(codes(RELEASE_HELP), [0, 121, 122, 123, 125]);
        assert_eq!(codes(STATUS_HELP), [0, 121, 122, 125]);
        assert_eq!(codes(LS_HELP), [0, 122, 125]);
        assert_eq!(codes(PLAIN_HELP), [0, 125]);
    }

    #[test]
    fn the_worse_ending_wins() {
        assert_eq!(Exit::Done.worse(Exit::Held), Exit::Held);
        assert_eq!(Exit::NoMajority.worse(Exit::Held), Exit::NoMajority);
    }
}
