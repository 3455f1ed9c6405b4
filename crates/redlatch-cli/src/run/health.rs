//! Reports nodes that do not vote while enough others do, and renewals.

use super::Plan;
use crate::say::{Event, millis};
use redlatch::{HealthError, Lease, Locks, Standing, Vote, Votes};
use std::{
    convert::Infallible,
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

/// How long the end of a verbose run waits for the nodes' answers. The lock is
/// released by then.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

/// A look at all nodes, beside the command. Only if details are wanted.
pub(super) struct Health(Option<JoinHandle<Result<redlatch::Health, HealthError>>>);

impl Health {
    pub(super) fn ask(plan: &Plan, locks: Option<&Locks>) -> Self {
        let locks = locks.filter(|_| plan.say.has_details()).cloned();
        Health(locks.map(|locks| tokio::spawn(async move { locks.health().await })))
    }

    /// Reports what the nodes answer. Cancel safe.
    pub(super) async fn report(&mut self, plan: &Plan) -> Infallible {
        self.answer(plan).await;
        std::future::pending().await
    }

    /// The same, if there was no answer yet.
    pub(super) async fn report_last(&mut self, plan: &Plan) {
        let _ = tokio::time::timeout(LAST_ANSWERS, self.answer(plan)).await;
    }

    async fn answer(&mut self, plan: &Plan) {
        let Some(asked) = &mut self.0 else { return };
        let answered = asked.await;
        self.0 = None;
        if let Ok(Ok(health)) = answered
            && health.nodes.iter().any(|node| node.standing != Standing::Admitted)
        {
            plan.tell(&Event::Degraded { message: health.to_string() });
        }
    }
}

/// Notices renewals, and nodes that no longer take part.
pub(super) struct Renewals {
    ends: Instant,
    missing: Vec<(String, String)>,
}

impl Renewals {
    pub(super) fn new(lease: &Lease) -> Self {
        // The first look at all nodes tells which of them are missing now.
        Renewals { ends: Instant::now() + lease.ends_in(), missing: missing(&lease.votes()) }
    }

    /// Called every so often: reports a renewal since the last time.
    pub(super) fn look(&mut self, plan: &Plan, lease: &Lease) {
        let ends = Instant::now() + lease.ends_in();
        // Clocks are read twice, so the same end differs a little.
        if ends <= self.ends + plan.settings.ttl() / 20 {
            return;
        }
        self.ends = ends;
        plan.trace.borrow_mut().renewed(lease);
        plan.tell(&Event::Renewed { usable_ms: millis(lease.remaining()) });
        let votes = lease.votes();
        let missing = missing(&votes);
        let is_new = |node: &String| self.missing.iter().all(|(known, _)| known != node);
        if missing.iter().any(|(node, _)| is_new(node)) {
            let (nodes, count) = (votes.tally().nodes, missing.len());
            let which: Vec<_> =
                missing.iter().map(|(node, why)| format!("{node}: {why}")).collect();
            let message = format!("{} of {nodes} nodes vote; {}", nodes - count, which.join("; "));
            plan.tell(&Event::Degraded { message });
        }
        self.missing = missing;
    }
}

/// The nodes that did not vote, and why.
fn missing(votes: &Votes) -> Vec<(String, String)> {
    let is_missing = |vote: &Vote| matches!(vote, Vote::Failed(_) | Vote::Quarantined(_));
    let missing = votes.iter().filter(|node| is_missing(&node.vote));
    missing.map(|node| (node.label().into_owned(), node.vote.to_string())).collect()
}
