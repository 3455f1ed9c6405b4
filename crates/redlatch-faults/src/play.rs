//! Plays the rows, one after the other.

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::checker;
use crate::report::Line;
use crate::scenario::{Load, Part, Row, Scale, Script};
use crate::scene::{PATIENCE, Scene};
use crate::tested::Tested;

/// How rows are to be played.
pub(crate) struct Player {
    pub(crate) scale: Scale,
    /// Where the histories of rows that missed are kept.
    pub(crate) keep: PathBuf,
    /// Keeps all histories.
    pub(crate) keep_all: bool,
    pub(crate) tested: Tested,
}

impl Player {
    /// Plays all parts of a row.
    pub(crate) fn row(&self, row: &Row) -> Vec<Line> {
        row.parts
            .iter()
            .map(|part| {
                let begin = Instant::now();
                let mut line = match part {
                    Part::Load(load) => self.load(row.number, load),
                    Part::Script(script) => self.script(script),
                    Part::Tests(names) => self.tested.line(names),
                };
                line.row = row.number;
                row.fault.clone_into(&mut line.fault);
                line.took = begin.elapsed();
                eprintln!("{line}");
                line
            })
            .collect()
    }

    fn load(&self, number: u32, load: &Load) -> Line {
        let how = format!("load: {}", load.what);
        match unless_it_panics(|| self.try_load(number, load)) {
            Ok(line) => Line { how, ..line },
            Err(error) => Line::failed(how, &error),
        }
    }

    fn try_load(&self, number: u32, load: &Load) -> anyhow::Result<Line> {
        let lasts = load.lasts(self.scale);
        let mut scene = Scene::set(load, lasts)?;
        (load.prepare)(&mut scene);
        let patience = Instant::now() + PATIENCE;
        loop {
            while !scene.is_over() {
                (load.nemesis)(&mut scene);
            }
            let so_far = checker::check(&scene.history()?);
            let is_shown = load.must.unshown(&so_far).is_empty();
            if is_shown || scene.crew.is_done() || Instant::now() > patience {
                break;
            }
            scene.go_on(lasts);
        }
        (load.repair)(&mut scene);
        if load.must.recovers {
            scene.await_recovery();
        }
        let (tracks, dir) = scene.close()?;
        let findings = checker::check(&tracks);
        let missed = load.must.missed(&findings);
        if self.keep_all || !missed.is_empty() {
            let name = load.what.replace(", ", "-").replace(' ', "-");
            let kept = self.keep.join(format!("row-{number}-{name}"));
            keep(dir.path(), &kept)?;
            eprintln!("history kept in {}", kept.display());
        }
        if !missed.is_empty() {
            findings.breaches().iter().for_each(|breach| eprintln!("  {breach}"));
        }
        Ok(Line { note: load.must.note(), ..Line::of(&findings, missed) })
    }

    fn script(&self, script: &Script) -> Line {
        let how = format!("script: {}", script.what);
        match unless_it_panics(|| (script.play)(self.scale)) {
            Ok(shown) => Line::shown(how, shown),
            Err(error) => Line::failed(how, &error),
        }
    }
}

/// Servers that do not do as they are told make the testbed panic: a miss of one
/// row, not the end of all.
fn unless_it_panics<T>(act: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    panic::catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panicked| {
        let text = panicked.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panicked.downcast_ref::<&str>().copied());
        Err(anyhow::anyhow!("panicked: {}", text.unwrap_or("no reason given")))
    })
}

/// Copies a history, which lives in memory and is about to go.
fn keep(from: &Path, to: &Path) -> anyhow::Result<()> {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_reason() {
        let result: anyhow::Result<()> = unless_it_panics(|| panic!("the server on {} is down", 7));

        assert_eq!(result.unwrap_err().to_string(), "panicked: the server on 7 is down");
    }
}
