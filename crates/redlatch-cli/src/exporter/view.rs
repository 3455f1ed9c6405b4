//! What the nodes say, as metrics.

use crate::metrics::Metrics;
use redlatch::{
    LockState, Standing,
    observer::{Examined, Listed, Listing, Observer},
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

const NODES: &str = "redlatch_nodes";
const STANDING: &str = "redlatch_node_standing";
const ROUND_TRIP: &str = "redlatch_node_round_trip_seconds";
const CLOCK: &str = "redlatch_node_clock_offset_seconds";
const MAJORITY: &str = "redlatch_majority";
const HELD: &str = "redlatch_locks_held";
const UNCLEAR: &str = "redlatch_locks_unclear";
const OLDEST: &str = "redlatch_oldest_lock_seconds";
const WAITERS: &str = "redlatch_waiters";
const LISTED: &str = "redlatch_nodes_listed";

const DESCRIBED: [(&str, &str, &str); 10] = [
    (NODES, "gauge", "Nodes by standing: admitted, quarantined or down."),
    (STANDING, "gauge", "1 for the standing that a node has."),
    (ROUND_TRIP, "gauge", "How long a node takes to answer one question."),
    (CLOCK, "gauge", "How far a node's clock is ahead of this machine's."),
    (MAJORITY, "gauge", "1 if enough nodes are admitted for a lock to be taken."),
    (HELD, "gauge", "Locks that a majority of the nodes has."),
    (UNCLEAR, "gauge", "Locks that only a minority of the nodes has."),
    (OLDEST, "gauge", "For how long this exporter has seen the oldest lock with the same owner."),
    (WAITERS, "gauge", "Clients that wait in line for a lock, over all locks."),
    (LISTED, "gauge", "Nodes that list their locks."),
];

/// What was seen last, and since when each lock has been there.
pub(super) struct View {
    observer: Observer,
    every: Duration,
    last: Option<(Instant, String)>,
    since: BTreeMap<(String, Option<String>), Instant>,
}

impl View {
    pub(super) fn new(observer: Observer, every: Duration) -> Self {
        View { observer, every, last: None, since: BTreeMap::new() }
    }

    /// The metrics. Asks the nodes, unless the last answer is new enough.
    pub(super) async fn metrics(&mut self, now: Instant) -> String {
        if let Some((at, text)) = &self.last
            && now.saturating_duration_since(*at) < self.every
        {
            return text.clone();
        }
        let (reports, listing) = tokio::join!(self.observer.reports(), self.observer.list("*"));
        let text = self.text(&reports, &listing);
        self.last = Some((Instant::now(), text.clone()));
        text
    }

    fn text(&mut self, reports: &[Examined], listing: &Listing) -> String {
        let mut metrics = Metrics::default();
        for standing in STANDINGS {
            metrics.set(NODES, &[("standing", standing)], 0.0);
        }
        for (at, node) in reports.iter().enumerate() {
            let standing = self.standing(at, node);
            *metrics.sample(NODES, &[("standing", standing)]) += 1.0;
            for known in STANDINGS {
                let value = f64::from(u8::from(known == standing));
                metrics.set(STANDING, &[("node", &node.node), ("standing", known)], value);
            }
            if node.facts.is_ok() {
                let of = [("node", &*node.node)];
                metrics.set(ROUND_TRIP, &of, node.round_trip.as_secs_f64());
                if let Some(ahead) = node.ahead {
                    metrics.set(CLOCK, &of, ahead);
                }
            }
        }
        let admitted = *metrics.sample(NODES, &[("standing", STANDINGS[0])]);
        let is_majority = 2.0 * admitted > number(reports.len());
        metrics.set(MAJORITY, &[], f64::from(u8::from(is_majority)));
        self.locks(&mut metrics, reports.len(), listing);
        metrics.text(&DESCRIBED)
    }

    fn standing(&self, at: usize, node: &Examined) -> &'static str {
        let [admitted, quarantined, down] = STANDINGS;
        match node.facts.as_ref().map(|facts| self.observer.standing(at, facts)) {
            Ok(Standing::Admitted) => admitted,
            Ok(Standing::Quarantined(_)) => quarantined,
            _ => down,
        }
    }

    fn locks(&mut self, metrics: &mut Metrics, nodes: usize, listing: &Listing) {
        let now = Instant::now();
        let is_held = |state: &LockState| matches!(state, LockState::Held { .. });
        let held: Vec<_> = listing.locks.iter().filter(|lock| is_held(&lock.state)).collect();
        let is_unclear = |lock: &&Listed| lock.state == LockState::Unclear;
        let unclear = listing.locks.iter().filter(is_unclear).count();
        let waiters: usize = listing.locks.iter().map(|lock| lock.waiters).sum();
        let known = std::mem::take(&mut self.since);
        for lock in &held {
            let key = (lock.name.to_string(), lock.owner.clone());
            let since = known.get(&key).copied().unwrap_or(now);
            self.since.insert(key, since);
        }
        let oldest = self.since.values().min().map_or(Duration::ZERO, |since| now - *since);
        metrics.set(HELD, &[], number(held.len()));
        metrics.set(UNCLEAR, &[], number(unclear));
        metrics.set(WAITERS, &[], number(waiters));
        metrics.set(OLDEST, &[], oldest.as_secs_f64());
        metrics.set(LISTED, &[], number(nodes - listing.failed.len()));
    }
}

fn number(count: usize) -> f64 {
    u32::try_from(count).unwrap_or(u32::MAX).into()
}

const STANDINGS: [&str; 3] = ["admitted", "quarantined", "down"];
