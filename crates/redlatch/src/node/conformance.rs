//! What every kind of node has to do, as a suite to run on yours.
//!
//! In:  a node. Out: which checks it passes, and what it did instead.
//!
//! The suite works on a server in use: it takes locks of random names only and
//! gives them back. It runs for about two seconds, in real time: tokio's clock
//! must not be paused.
//!
//! Meanwhile the node does not vote for clients with a restart guard: the suite
//! takes it from them, and then gives it back as it was. A node that nobody had
//! before is left to clients that do not exist; those who come next have to
//! replace them, as they would any others. So no two suites can be run on one
//! node at the same time.
//!
//! # Example
//!
//! ```
//! use redlatch::node::{Memory, conformance};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! conformance::check(&Memory::new("memory:mine")).await;
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```

mod checks;
mod fencing;
mod guard;
mod links;
mod locking;
mod party;
mod site;

use super::Node;
use party::Before;
use redlatch_core::{Command, Entropy, Input, Machine, Moment, Now, OpId, Output, Steady, Tag};
use site::{PATIENCE, Site};
use std::{fmt, time::Duration};

/// Runs all checks on the node.
///
/// # Panics
///
/// With the [`Report`] unless the node passes every one.
///
/// # Cancel safety
///
/// Dropped half-way, it leaves locks of random names behind, for a minute at
/// most, and a node that votes for no client with a restart guard until one
/// replaces the clients that the suite made up.
pub async fn check(node: &dyn Node) {
    let report = run(node).await;
    assert!(report.is_passed(), "{report}");
}

/// Runs all checks on the node and reports what came of each.
///
/// # Cancel safety
///
/// Dropped half-way, it leaves locks of random names behind, for a minute at
/// most, and a node that votes for no client with a restart guard until one
/// replaces the clients that the suite made up.
pub async fn run(node: &dyn Node) -> Report {
    let mut findings = Vec::new();
    let before = Before::look(&Site::new(node, PATIENCE)).await;
    for (check, run) in checks::ALL {
        let site = Site::new(node, PATIENCE);
        let problem = run(&site).await.err();
        site.clear().await;
        findings.push(Finding { check, problem });
    }
    if let Some(before) = before {
        // A node that cannot even do this has failed its checks before.
        let _ = before.put_back(&Site::new(node, PATIENCE)).await;
    }
    Report { node: node.name().into(), findings }
}

/// What came of the checks on one node. Shown, it lists those that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    node: String,
    findings: Vec<Finding>,
}

impl Report {
    /// Whether the node passed every check.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.findings.iter().all(|finding| finding.problem.is_none())
    }

    /// What came of each check, in the order they were run.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.findings.iter().filter(|finding| finding.problem.is_none()).count();
        write!(f, "the node {} passes {passed} of {} checks", self.node, self.findings.len())?;
        for finding in &self.findings {
            if let Some(problem) = &finding.problem {
                write!(f, "\n  {}: {problem}", finding.check.replace('_', " "))?;
            }
        }
        Ok(())
    }
}

/// What came of one check on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The name of the check: a sentence that is true for a node.
    pub check: &'static str,
    /// What the node did instead; none if it passed.
    pub problem: Option<Problem>,
}

/// What a node did that it should not have done, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Problem(String);

/// The tag of a question.
pub(crate) fn tag(number: u64) -> Tag {
    struct Unused;
    impl Entropy for Unused {
        fn fill(&mut self, _: &mut [u8]) {}
    }
    // Tags are the core's: only a machine makes them.
    let mut machine = Machine::new(1, Unused);
    let question = Input::Survey(OpId::new(number), Command::Identify, Duration::ZERO);
    let start = Now { lease: Moment::START, steady: Steady::from_nanos(0) };
    machine.handle(start, question);
    match machine.poll() {
        Some(Output::Send { tag, .. }) => tag,
        output => unreachable!("a survey asks, but this came: {output:?}"),
    }
}

#[cfg(test)]
pub(crate) fn resources<N: AsRef<[u8]>>(
    names: impl IntoIterator<Item = N>,
) -> redlatch_core::Resources {
    redlatch_core::Resources::new(names).expect("good names")
}

#[cfg(test)]
mod tests;
