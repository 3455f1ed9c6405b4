//! How the command ends.

use crate::table::Bound;
use std::process::{ExitCode, Termination};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Measured; with `--check`, every bound was met.
    Met = 0,
    /// With `--check`: a bound was missed.
    Missed = 1,
    /// Nothing was measured. Wrong usage has the same status.
    Failed = 2,
}

impl Exit {
    /// The result of a check; prints every bound.
    pub(crate) fn of<'a>(bounds: impl IntoIterator<Item = &'a Bound>) -> Self {
        let mut exit = Self::Met;
        for bound in bounds {
            println!("{bound}");
            if !bound.met {
                exit = Self::Missed;
            }
        }
        exit
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
    use crate::table::Table;

    #[test]
    fn one_missed_bound_is_enough() {
        let mut table = Table::new("hand-over");
        table.at_most("p50", 1.0, 1.5);
        assert_eq!(Exit::of(&table.bounds), Exit::Met);

        table.at_most("p99", 2.0, 1.5);
        assert_eq!(Exit::of(&table.bounds), Exit::Missed);
        assert_eq!(Exit::of([]), Exit::Met);
    }
}
