//! A row of stages, each run whatever became of the others, and the summary.

use crate::shell::Outcome;
use std::{
    fmt::Write,
    process::ExitCode,
    time::{Duration, Instant},
};

/// Runs stages one after the other and remembers how they went.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    done: Vec<Stage>,
}

#[derive(Debug)]
struct Stage {
    name: String,
    took: Duration,
    result: Result<Ran, String>,
}

#[derive(Debug)]
enum Ran {
    Passed,
    Skipped(String),
}

impl Stages {
    pub(crate) fn run(&mut self, name: &str, stage: impl FnOnce() -> Outcome) -> Outcome {
        eprintln!("==> {name}");
        let begin = Instant::now();
        let outcome = stage();
        if let Err(why) = &outcome {
            eprintln!("error: {why}");
        }
        let result = outcome.clone().map(|()| Ran::Passed);
        self.done.push(Stage { name: name.to_owned(), took: begin.elapsed(), result });
        outcome
    }

    /// Notes a stage that is not run, and why.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        let result = Ok(Ran::Skipped(why.to_owned()));
        self.done.push(Stage { name: name.to_owned(), took: Duration::ZERO, result });
    }

    /// Prints the summary and says how the process should end.
    pub(crate) fn finish(self) -> ExitCode {
        print!("{}", self.summary());
        if self.done.iter().any(|stage| stage.result.is_err()) {
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }

    fn summary(&self) -> String {
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        let mut text = String::from("\n");
        for Stage { name, took, result } in &self.done {
            let word = match result {
                Ok(Ran::Passed) => {
                    passed += 1;
                    "ok".to_owned()
                }
                Ok(Ran::Skipped(why)) => {
                    skipped += 1;
                    format!("skipped: {why}")
                }
                Err(why) => {
                    failed += 1;
                    format!("FAILED: {}", why.lines().next().unwrap_or_default())
                }
            };
            let _ = writeln!(text, "{name:<24} {:>7.1} s  {word}", took.as_secs_f64());
        }
        let _ = write!(text, "stages: {passed} passed, {failed} failed");
        if skipped > 0 {
            let _ = write!(text, ", {skipped} skipped");
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_stage_does_not_stop_the_next_and_fails_the_whole() {
        let mut stages = Stages::default();

        let _ = stages.run("one", || Err("broken\nin detail".into()));
        let _ = stages.run("two", || Ok(()));
        stages.skip("three", "not asked for");

        let summary = stages.summary();
        assert!(summary.contains("FAILED: broken\n"), "{summary}");
        assert!(summary.contains("skipped: not asked for\n"), "{summary}");
        assert!(summary.ends_with("stages: 1 passed, 1 failed, 1 skipped\n"), "{summary}");
        assert_eq!(format!("{:?}", stages.finish()), format!("{:?}", ExitCode::FAILURE));
    }
}
