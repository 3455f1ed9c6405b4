//! All rows of the table of faults, one file per kind of fault.

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

use crate::scenario::Row;
use std::time::Duration;

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

fn row(number: u32, fault: &'static str) -> Row {
    Row { number, fault, parts: Vec::new() }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Part;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_row_of_the_table_is_played_once() {
        let numbers: Vec<u32> = all().iter().map(|row| row.number).collect();

        assert_eq!(numbers, (1..=56).collect::<Vec<_>>());
        assert!(all().iter().all(|row| !row.parts.is_empty()));
    }

    #[test]
    fn every_test_that_a_row_names_is_a_function_of_the_workspace() {
        let mut sources = String::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        read_sources(&crates, &mut sources);

        let parts = all().into_iter().flat_map(|row| row.parts);
        let names = parts.filter_map(|part| match part {
            Part::Tests(names) => Some(names),
            _ => None,
        });
        let is_missing = |name: &&&str| {
            let function = name.rsplit("::").next().unwrap_or(name);
            !sources.contains(&format!("fn {function}("))
        };
        let missing: Vec<&&str> = names.flatten().filter(is_missing).collect();

        assert!(missing.is_empty(), "{missing:?}");
    }

    fn read_sources(dir: &Path, sources: &mut String) {
        for entry in fs::read_dir(dir).expect("a directory of the workspace") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                read_sources(&path, sources);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                *sources += &fs::read_to_string(&path).expect("a source");
            }
        }
    }
}
