//! All rows of the table of faults, a file for each kind of fault.

mod clients;
mod clocks;
mod memory;
mod names;
mod network;
mod races;
mod room;
mod servers;
mod strain;

pub(crate) mod history;

use std::time::Duration;

use crate::scenario::{Load, Part, Row, Scale, Script, Shown};

/// All rows, in the order of the table.
pub(crate) fn all() -> Vec<Row> {
    let kinds = [
        clients::rows(),
        clocks::rows(),
        memory::rows(),
        names::rows(),
        network::rows(),
        races::rows(),
        room::rows(),
        servers::rows(),
        strain::rows(),
    ];
    let mut rows: Vec<Row> = kinds.into_iter().flatten().collect();
    rows.sort_by_key(|row| row.number);
    rows
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn sec(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn row(number: u32, fault: &'static str, parts: Vec<Part>) -> Row {
    Row { number, fault, parts }
}

fn load(what: &'static str, load: Load) -> Part {
    Part::Load(Box::new(Load { what, ..load }))
}

fn tests(names: &'static [&'static str]) -> Part {
    Part::Tests(names)
}

fn script(what: &'static str, play: fn(Scale) -> anyhow::Result<Shown>) -> Part {
    Part::Script(Script { what, play })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_played_once() {
        let numbers: Vec<u32> = all().iter().map(|row| row.number).collect();

        assert_eq!(numbers, (1..=56).collect::<Vec<_>>());
        assert!(all().iter().all(|row| !row.parts.is_empty()));
    }
}
