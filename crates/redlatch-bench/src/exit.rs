//! How the command ends.

use std::process::{ExitCode, Termination};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Measured; with `--check`, every bound was met.
    Met = 0,
    /// With `--check`: a bound was missed.
    Missed = 1,
    /// Nothing was measured. The number that wrong usage has, too.
    Failed = 2,
}

impl Exit {
    /// Of a check; tells which bounds were missed.
    pub(crate) fn of(missed: &[String]) -> Self {
        for bound in missed {
            eprintln!("missed: {bound}");
        }
        if missed.is_empty() { Self::Met } else { Self::Missed }
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_missed_bound_is_enough() {
        assert_eq!(Exit::of(&["too slow".to_owned()]), Exit::Missed);
        assert_eq!(Exit::of(&[]), Exit::Met);
    }
}
