//! What speaks against vouching for nodes, or taking them from their clients.
//!
//! In:  the nodes that somebody is about to vouch for, or to take.
//! Out: nothing, or an error: neither is done unasked while a lock is to be seen
//! anywhere, or while a node cannot be looked at.

use crate::{
    confirm::{can_ask, confirm},
    failure::Failure,
    look::{table, why_unlisted},
};
use redlatch::{
    Cause, Fault, NodeStanding, Quarantine, Standing,
    observer::{Listed, Observer},
};
use std::sync::Arc;

/// Asks whether to vouch for these nodes, if anything speaks against it.
pub(super) async fn ask_to_vouch(observer: &Observer, named: &[Arc<str>]) -> Result<(), Failure> {
    let out = meant(observer, named, may_have_forgotten).await;
    let Some(doubts) = doubts_about(observer, &out).await else { return Ok(()) };
    let question = format!(
        "{} may have forgotten locks. Vouch for that all the same? Two can hold one lock then; \
         `redlatch admit --wait` is safe.",
        out.join(", ")
    );
    let unasked = format!(
        "{doubts}; `redlatch admit --wait {}` is safe; add --yes if no lock that was forgotten can \
         still be in use",
        out.join(" ")
    );
    confirm(&question, &unasked)
}

/// Asks whether to take these nodes from their clients, if anything speaks
/// against it.
pub(super) async fn ask_to_replace(observer: &Observer, named: &[Arc<str>]) -> Result<(), Failure> {
    let out = meant(observer, named, |node| node.standing != Standing::Admitted).await;
    let Some(doubts) = doubts_about(observer, &out).await else { return Ok(()) };
    let out = out.join(", ");
    let question = format!(
        "Take {out} from the clients with other settings? They lose their locks when too few nodes \
         are left to them. If this host's settings are wrong, correct them instead.",
    );
    let unasked = format!(
        "{doubts}; clients with other settings would lose {out}, and their locks when too few nodes \
         are left to them; give all clients the same settings, or add --yes if the change is meant \
         for all of them",
    );
    confirm(&question, &unasked)
}

/// Those of the named nodes that it is about.
async fn meant(
    observer: &Observer,
    named: &[Arc<str>],
    is_meant: fn(&NodeStanding) -> bool,
) -> Vec<Arc<str>> {
    let standings = observer.standings().await.into_iter();
    let meant = standings.filter(|node| named.contains(&node.node) && is_meant(node));
    meant.map(|node| node.node).collect()
}

/// What speaks against it, in a line; a person is shown all of it.
async fn doubts_about(observer: &Observer, out: &[Arc<str>]) -> Option<String> {
    if out.is_empty() {
        return None;
    }
    let listing = observer.list("*").await;
    if listing.locks.is_empty() && listing.failed.is_empty() {
        return None;
    }
    let nodes = observer.nodes().count();
    if can_ask() {
        eprint!("{}", table(&listing.locks, nodes));
        listing.failed.iter().for_each(|(node, fault)| eprintln!("{}", unseen(node, fault)));
    }
    Some(doubts(&listing.locks, &listing.failed, nodes))
}

fn may_have_forgotten(node: &NodeStanding) -> bool {
    matches!(&node.standing, Standing::Quarantined(Quarantine { cause: Cause::Forgot, .. }))
}

/// How many locks a message names.
const NAMED: usize = 3;

/// All that speaks against it, in a line.
fn doubts(locks: &[Listed], failed: &[(Arc<str>, Fault)], nodes: usize) -> String {
    let mut doubts = Vec::new();
    if !locks.is_empty() {
        let held =
            if locks.len() == 1 { "1 lock is" } else { &format!("{} locks are", locks.len()) };
        let mut named: Vec<String> =
            locks.iter().take(NAMED).map(|lock| held_by(lock, nodes)).collect();
        if locks.len() > NAMED {
            named.push("…".into());
        }
        doubts.push(format!("{held} still to be seen: {}", named.join(", ")));
    }
    doubts.extend(failed.iter().map(|(node, fault)| unseen(node, fault)));
    doubts.join("; ")
}

fn unseen(node: &str, fault: &Fault) -> String {
    format!("{node} cannot be looked at: {}", why_unlisted(fault))
}

fn held_by(lock: &Listed, nodes: usize) -> String {
    let owner = lock.owner.as_ref().map_or(String::new(), |owner| format!("of {owner} "));
    format!("{} ({owner}on {} of {nodes} nodes)", lock.name, lock.nodes)
}
