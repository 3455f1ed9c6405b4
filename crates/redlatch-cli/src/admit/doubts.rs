//! What speaks against vouching for nodes.
//!
//! In:  the nodes that somebody is about to vouch for.
//! Out: nothing, or an error: nobody is vouched for unasked while a lock is to
//! be seen anywhere, or while a node cannot be looked at.

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
pub(super) async fn ask(observer: &Observer, named: &[Arc<str>]) -> Result<(), Failure> {
    let standings = observer.standings().await;
    let out: Vec<&str> = standings
        .iter()
        .filter(|node| named.contains(&node.node) && may_have_forgotten(node))
        .map(|node| &*node.node)
        .collect();
    if out.is_empty() {
        return Ok(());
    }
    let listing = observer.list("*").await;
    if listing.locks.is_empty() && listing.failed.is_empty() {
        return Ok(());
    }
    let nodes = standings.len();
    if can_ask() {
        eprint!("{}", table(&listing.locks, nodes));
        listing.failed.iter().for_each(|(node, fault)| eprintln!("{}", unseen(node, fault)));
    }
    let question = format!(
        "{} may have forgotten locks. Vouch for that all the same? Two can hold one lock then; \
         `redlatch admit --wait` is safe.",
        out.join(", ")
    );
    let unasked = format!(
        "{}; `redlatch admit --wait {}` is safe; add --yes if no lock that was forgotten can still \
         be in use",
        doubts(&listing.locks, &listing.failed, nodes),
        out.join(" ")
    );
    confirm(&question, &unasked)
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
