//! What the nodes say, as metrics.

use crate::{
    live::{Snapshot, Stands, State, number},
    metrics::Metrics,
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
    (NODES, "gauge", "Nodes by standing: admitted, quarantined, refusing writes or down."),
    (STANDING, "gauge", "1 for the standing that a node has."),
    (ROUND_TRIP, "gauge", "How long a node takes to answer one question."),
    (CLOCK, "gauge", "How far a node's clock is ahead of this machine's."),
    (MAJORITY, "gauge", "1 if a majority of the nodes votes: locks can be taken."),
    (HELD, "gauge", "Locks that a majority of the nodes has."),
    (
        UNCLEAR,
        "gauge",
        "Locks that some nodes have, while no majority says whether they are held or free.",
    ),
    (OLDEST, "gauge", "For how long this exporter has seen the oldest lock with the same owner."),
    (WAITERS, "gauge", "Clients that wait in line for a lock, over all locks."),
    (LISTED, "gauge", "Nodes that list their locks."),
];

/// The metrics of one snapshot.
pub(super) fn text(snapshot: &Snapshot) -> String {
    let mut metrics = Metrics::default();
    for standing in Stands::COUNTED {
        let count = number(snapshot.standing(standing));
        metrics.set(NODES, &[("standing", standing.word())], count);
    }
    for node in &snapshot.nodes {
        for known in Stands::COUNTED {
            let value = f64::from(u8::from(known == node.standing.counted()));
            metrics.set(STANDING, &[("node", &node.name), ("standing", known.word())], value);
        }
        let of = [("node", &*node.name)];
        if let Some(round_trip) = node.round_trip {
            metrics.set(ROUND_TRIP, &of, round_trip.as_secs_f64());
        }
        if let Some(ahead) = node.clock_ahead {
            metrics.set(CLOCK, &of, ahead);
        }
    }
    metrics.set(MAJORITY, &[], f64::from(u8::from(snapshot.has_majority())));
    locks(&mut metrics, snapshot);
    metrics.text(&DESCRIBED)
}

/// If no majority lists its locks, these metrics are absent: zero would be a lie.
fn locks(metrics: &mut Metrics, snapshot: &Snapshot) {
    let listed = snapshot.nodes.iter().filter(|node| node.lists).count();
    metrics.set(LISTED, &[], number(listed));
    let (Some(held), Some(waiting)) = (snapshot.held, snapshot.waiting) else { return };
    let in_state = |state| snapshot.locks.iter().filter(move |lock| lock.state == state);
    let oldest = in_state(State::Held).map(|lock| lock.seen).max().unwrap_or_default();
    metrics.set(HELD, &[], number(held));
    metrics.set(UNCLEAR, &[], number(in_state(State::Unclear).count()));
    metrics.set(WAITERS, &[], number(waiting));
    metrics.set(OLDEST, &[], oldest.as_secs_f64());
}
