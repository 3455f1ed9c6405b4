//! Plays the rows of the table of faults, one after the other.
//!
//! In:  rows, the scale, and the outcomes of the tests they name.
//! Out: a report line per part; the histories of parts that missed are kept.

use crate::{
    checker,
    report::ReportLine,
    scenario::{Load, Part, Row, Scale, Script},
    scene::{PATIENCE, Scene},
    tested::Tested,
};
use std::{
    fs,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    time::Instant,
};

pub(crate) struct Player {
    pub(crate) scale: Scale,
    /// Where to keep the histories of rows that missed.
    pub(crate) keep: PathBuf,
    pub(crate) keep_all: bool,
    pub(crate) tested: Tested,
}

impl Player {
    pub(crate) fn row(&self, row: &Row) -> Vec<ReportLine> {
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

    fn load(&self, number: u32, load: &Load) -> ReportLine {
        let how = format!("load: {}", load.what);
        match unless_it_panics(|| self.try_load(number, load)) {
            Ok(line) => ReportLine { how, ..line },
            Err(error) => ReportLine::failed(how, &error),
        }
    }

    fn try_load(&self, number: u32, load: &Load) -> anyhow::Result<ReportLine> {
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
        Ok(ReportLine { note: load.must.note(), ..ReportLine::of(&findings, missed) })
    }

    fn script(&self, script: &Script) -> ReportLine {
        let how = format!("script: {}", script.what);
        match unless_it_panics(|| (script.play)(self.scale)) {
            Ok(shown) => ReportLine::shown(how, shown),
            Err(error) => ReportLine::failed(how, &error),
        }
    }
}

/// The testbed panics if a server misbehaves: that row has missed, but the run
/// continues.
fn unless_it_panics<T>(act: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    panic::catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panicked| {
        let text = panicked.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panicked.downcast_ref::<&str>().copied());
        Err(anyhow::anyhow!("panicked: {}", text.unwrap_or("no reason given")))
    })
}

/// Copies a history, which lives in memory and is about to be deleted.
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
