//! All rows of the table of faults, a file for each kind of fault.

mod memory;

pub(crate) mod history;

use std::time::Duration;

use crate::scenario::Row;

/// All rows, in the order of the table.
pub(crate) fn all() -> Vec<Row> {
    let mut rows: Vec<Row> = [memory::rows()].into_iter().flatten().collect();
    rows.sort_by_key(|row| row.number);
    rows
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
