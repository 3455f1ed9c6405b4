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

/// What the last column of a table of BUGS.md names in backquotes.
fn catchers(bugs: &str) -> impl Iterator<Item = &str> {
    let rows = bugs.lines().filter(|line| line.starts_with("| "));
    let last = rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit(" | ").next());
    last.flat_map(|cell| cell.split('`').skip(1).step_by(2))
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// All Rust code below a directory.
fn code_below(dir: &Path, code: &mut String) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            code_below(&path, code);
        } else if is_rust(&path) {
            code.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn the_files_and_tests_that_catch_a_bug_are_there() {
    let (root, mut code) = (shell::workspace(), String::new());
    code_below(&root.join("crates"), &mut code);
    code_below(&root.join("xtask"), &mut code);
    let bugs = fs::read_to_string(root.join("BUGS.md")).unwrap();
    let is_name =
        |text: &str| text.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());

    let (mut files, mut tests) = (0, 0);
    for named in catchers(&bugs) {
        let test = named.rsplit("::").next().unwrap();
        if is_rust(Path::new(named)) {
            files += 1;
            let is_there = root.join("crates").join(named).is_file() || root.join(named).is_file();
            assert!(is_there, "{named} is not there");
        } else if is_name(test) && test.matches('_').count() >= 3 {
            tests += 1;
            assert!(code.contains(&format!("fn {test}(")), "there is no test {named}");
        }
    }
    assert!(files > 100 && tests > 100, "{files} files, {tests} tests");
}
