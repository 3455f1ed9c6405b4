//! Reports nodes that do not vote while enough others do, and renewals.

use super::{Plan, holder::WORD_PER_TTL};
use crate::say::{Event, millis};
use redlatch::{HealthError, Lease, Locks, NodeVote, Standing, Vote, Votes};
use std::{
    convert::Infallible,
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

/// How long the end of a verbose run waits for the nodes' answers. The lock is
/// released by then.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

/// The shortest pause between two looks.
const PAUSE: Duration = Duration::from_millis(300);

/// Looks at all nodes while the command runs, but only if details are wanted.
///
/// A renewal needs only a majority and does not wait for the others: a silent node
/// shows only here.
pub(super) struct Health(Option<JoinHandle<Result<redlatch::Health, HealthError>>>);

impl Health {
    pub(super) fn ask(plan: &Plan, locks: Option<&Locks>) -> Self {
        let locks = locks.filter(|_| plan.say.has_details()).cloned();
        Health(locks.map(|locks| tokio::spawn(async move { locks.health().await })))
    }

    /// Reports what the nodes answer, and looks again as often as locks are renewed.
    /// Cancel-safe.
    pub(super) async fn report(&mut self, plan: &Plan, locks: Option<&Locks>) -> Infallible {
        if !plan.say.has_details() {
            return std::future::pending().await;
        }
        loop {
            self.answer(plan).await;
            tokio::time::sleep(PAUSE.max(plan.settings.ttl() / 3)).await;
            *self = Health::ask(plan, locks);
        }
    }

    /// The same, if there was no answer yet.
    pub(super) async fn report_last(&mut self, plan: &Plan) {
        let _ = tokio::time::timeout(LAST_ANSWERS, self.answer(plan)).await;
    }

    async fn answer(&mut self, plan: &Plan) {
        let Some(asked) = &mut self.0 else { return };
        let answered = asked.await;
        self.0 = None;
        let Ok(Ok(health)) = answered else { return };
        // Without a majority, the lock is about to be lost: the loss is reported
        // separately.
        if !health.has_majority() {
            return;
        }
        let out = health.nodes.iter().filter(|node| node.standing != Standing::Admitted);
        let out = out.map(|node| node.node.to_string()).collect();
        if plan.missing.borrow_mut().are_new_at_a_look(out) {
            plan.tell(&Event::Degraded { message: health.to_string() });
        }
    }
}

/// The nodes that do not vote, according to the last look at all of them and to the
/// last renewal: each may see what the other cannot.
#[derive(Debug, Default)]
pub(super) struct Missing {
    by_look: Vec<String>,
    by_votes: Vec<String>,
}

impl Missing {
    /// Whether one of these nodes was not missing before.
    fn are_new_at_a_look(&mut self, nodes: Vec<String>) -> bool {
        let is_new = self.has_new(&nodes);
        self.by_look = nodes;
        is_new
    }

    fn are_new_at_a_renewal(&mut self, nodes: Vec<String>) -> bool {
        let is_new = self.has_new(&nodes);
        self.by_votes = nodes;
        is_new
    }

    fn has_new(&self, nodes: &[String]) -> bool {
        nodes.iter().any(|node| !self.by_look.contains(node) && !self.by_votes.contains(node))
    }
}

/// Notices renewals, and nodes that no longer take part.
pub(super) struct Renewals {
    ends: Instant,
}

impl Renewals {
    pub(super) fn new(lease: &Lease) -> Self {
        Renewals { ends: Instant::now() + lease.ends_in() }
    }

    /// Reports renewals. Cancel safe.
    pub(super) async fn report(mut self, plan: &Plan, lease: &Lease) -> Infallible {
        loop {
            tokio::time::sleep(plan.settings.ttl() / WORD_PER_TTL).await;
            self.look(plan, lease);
        }
    }

    /// Called every so often: reports a renewal since the last time.
    pub(super) fn look(&mut self, plan: &Plan, lease: &Lease) {
        let left = lease.ends_in();
        let ends = Instant::now() + left;
        // Clocks are read twice, so the same end differs a little. A lease that is over
        // seems to end now, at any time of looking.
        if left.is_zero() || ends <= self.ends + plan.settings.ttl() / 20 {
            return;
        }
        self.ends = ends;
        plan.trace.borrow_mut().renewed(lease);
        plan.tell(&Event::Renewed { usable_ms: millis(lease.remaining()) });
        let votes = lease.votes();
        let names: Vec<String> = missing(&votes).map(|node| node.node.to_string()).collect();
        let is_degraded = names.len() <= (votes.tally().nodes - 1) / 2;
        if is_degraded && plan.missing.borrow_mut().are_new_at_a_renewal(names) {
            let which = missing(&votes).map(|node| format!("{}: {}", node.label(), node.vote));
            let which: Vec<_> = which.collect();
            let nodes = votes.tally().nodes;
            let voting = nodes - which.len();
            let message = format!("{voting} of {nodes} nodes vote; {}", which.join("; "));
            plan.tell(&Event::Degraded { message });
        }
    }
}

/// The nodes that were waited for and did not vote.
fn missing(votes: &Votes) -> impl Iterator<Item = &NodeVote> {
    let is_missing = |vote: &Vote| matches!(vote, Vote::Failed(_) | Vote::Quarantined(_));
    votes.iter().filter(move |node| is_missing(&node.vote))
}
