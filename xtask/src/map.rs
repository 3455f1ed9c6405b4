//! Holds ARCHITECTURE.md to what it says of the life of a lock.

use crate::shell;
use std::{collections::BTreeSet, fs, path::Path};

/// The walks of a lock: each its title, and the rest of its paragraph.
fn walks(map: &str) -> Vec<(String, String)> {
    let (_, life) = map.split_once("\n## Life of a lock\n").unwrap();
    let life = life.split("\n## ").next().unwrap();
    let walks = life.lines().filter_map(|line| line.strip_prefix("**")?.split_once(":** "));
    walks.map(|(title, walk)| (title.to_owned(), walk.to_owned())).collect()
}

/// The files that a text names in backquotes.
fn files(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|quoted| quoted.contains('/') && !quoted.contains("::"))
}

fn is_there(file: &str) -> bool {
    let crates = shell::workspace().join("crates");
    let path = match (file.strip_prefix("core/"), file.strip_suffix(".lua")) {
        (Some(core), _) => Path::new("redlatch-core/src").join(core).with_extension("rs"),
        (_, Some(_)) => Path::new("redlatch/src/node/redis").join(file),
        _ => Path::new("redlatch/src").join(file).with_extension("rs"),
    };
    crates.join(path).is_file()
}

#[test]
fn the_files_that_a_lock_visits_are_there_and_acquire_enters_none_twice() {
    let map = fs::read_to_string(shell::workspace().join("ARCHITECTURE.md")).unwrap();
    let walks = walks(&map);

    for (title, walk) in &walks {
        assert!(files(walk).count() > 3, "{title} names no files");
        for file in files(walk) {
            assert!(is_there(file), "{title}: {file} is not there");
        }
    }
    for title in ["Acquire, down", "Acquire, back"] {
        let (_, walk) = walks.iter().find(|(walk, _)| walk == title).unwrap();
        // In brackets: what answers a question on the spot.
        let entered = walk.split('[').map(|part| part.split_once(']').map_or(part, |part| part.1));
        let entered: String = entered.collect();
        let mut seen = BTreeSet::new();
        for file in files(&entered) {
            assert!(seen.insert(file), "{title} enters {file} twice");
        }
    }
}
