//! A suite that checks any kind of node, including yours.
//!
//! In:  a node. Out: which checks it passes, and what it did instead.
//!
//! The suite can run against a server in use: it only takes locks with random
//! names, and releases them. It takes about two seconds of real time: tokio's
//! clock must not be paused.
//!
//! While it runs, the node does not vote for clients with a restart guard: the suite takes
//! the node over, and restores it afterwards. A node that had no clients before then serves
//! the suite's made-up clients; the next real clients have to take the node from them, as
//! from any others. For the same reason, do not run two suites on one node at the same time.
//!
//! A node need not keep lines in which clients wait: see [`Suite::without_lines`].
//!
//! Requires the feature `conformance`, ideally in your `dev-dependencies`.
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
mod links;
mod locking;
mod party;
mod restart_guard;
mod serving;
mod site;
mod waiter;
mod waiting;

use super::Node;
use party::Before;
use site::{PATIENCE, Site};
use std::fmt;

/// Runs all checks on the node: [`Suite::check`] of the default suite.
///
/// # Panics
///
/// Panics with the [`Report`] unless the node passes every check.
///
/// # Cancel safety
///
/// As for [`Suite::run`].
pub async fn check(node: &dyn Node) {
    Suite::default().check(node).await;
}

/// Runs all checks on the node and reports the result of each: [`Suite::run`] of the
/// default suite.
///
/// # Cancel safety
///
/// As for [`Suite::run`].
pub async fn run(node: &dyn Node) -> Report {
    Suite::default().run(node).await
}

/// Which checks to run. Default: all that a node with lines passes.
///
/// # Example
///
/// ```no_run
/// use redlatch::node::{Node, conformance::Suite};
///
/// async fn check(mine: &dyn Node) {
///     Suite::default().without_lines().check(mine).await;
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suite {
    lines: bool,
}

impl Default for Suite {
    fn default() -> Self {
        Suite { lines: true }
    }
}

impl Suite {
    /// Checks a node that keeps no lines. Such a node is just as safe, but its clients are
    /// not served in order of arrival. It has to ignore tickets: a refusal says nothing
    /// about a line, and a release deletes the key.
    #[must_use]
    pub fn without_lines(self) -> Self {
        Suite { lines: false }
    }

    /// Runs the checks on the node.
    ///
    /// # Panics
    ///
    /// Panics with the [`Report`] unless the node passes every check.
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Suite::run).
    pub async fn check(self, node: &dyn Node) {
        let report = self.run(node).await;
        assert!(report.is_passed(), "{report}");
    }

    /// Runs the checks on the node and reports the result of each.
    ///
    /// # Cancel safety
    ///
    /// If dropped before it completes, it leaves behind locks with random names, for a
    /// minute or so, and a node that votes for no client with a restart guard until one
    /// replaces the suite's made-up clients.
    pub async fn run(self, node: &dyn Node) -> Report {
        let mut findings = Vec::new();
        let before = Before::look(&Site::new(node, PATIENCE)).await;
        for (check, run) in self.checks() {
            let site = Site::new(node, PATIENCE);
            let problem = run(&site).await.err();
            site.clear().await;
            findings.push(Finding { check, problem });
        }
        if let Some(before) = before {
            // A node that cannot even do this has already failed its checks.
            let _ = before.put_back(&Site::new(node, PATIENCE)).await;
        }
        Report { node: node.name().into(), findings }
    }

    fn checks(self) -> impl Iterator<Item = &'static (&'static str, checks::Check)> {
        let of_lines = if self.lines { checks::WITH_LINES } else { checks::WITHOUT_LINES };
        checks::BASIC.iter().chain(of_lines)
    }
}

/// The results of the checks on one node. Its `Display` lists those that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    node: String,
    findings: Vec<Finding>,
}

impl Report {
    /// Returns whether the node passed every check.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.findings.iter().all(|finding| finding.problem.is_none())
    }

    /// Returns the result of each check, in the order they ran.
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

/// The result of one check on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The name of the check: a sentence that is true of a conforming node.
    pub check: &'static str,
    /// What the node did instead; `None` if it passed.
    pub problem: Option<Problem>,
}

/// What a node did wrong, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Problem(String);

#[cfg(test)]
pub(crate) fn tag(number: u32) -> redlatch_core::Tag {
    redlatch_core::Tag::of_driver(number)
}

/// A take of one lock, without fencing, guard or line.
#[cfg(test)]
pub(crate) fn take(name: &str, token: &[u8], ttl: std::time::Duration) -> redlatch_core::Command {
    let (resources, token) = (resources([name]), redlatch_core::Token::from_bytes(token));
    let (fence, fingerprint, place) = (None, None, None);
    redlatch_core::Command::Take { resources, token, ttl, fence, fingerprint, place }
}

/// The next replies of a link, at least this many; fewer if no more arrive in time.
#[cfg(test)]
pub(crate) async fn replies(
    link: &mut dyn super::Link,
    least: usize,
    patience: std::time::Duration,
) -> Vec<(redlatch_core::Tag, redlatch_core::Reply)> {
    use std::task::Poll;
    let mut replies = Vec::new();
    let enough = std::future::poll_fn(|cx| {
        link.poll(cx, &mut replies);
        if replies.len() < least { Poll::Pending } else { Poll::Ready(()) }
    });
    let _ = tokio::time::timeout(patience, enough).await;
    replies
}

#[cfg(test)]
pub(crate) fn resources<N: AsRef<[u8]>>(
    names: impl IntoIterator<Item = N>,
) -> redlatch_core::Resources {
    redlatch_core::Resources::new(names).expect("good names")
}

#[cfg(test)]
mod tests;
