//! Reasons not to vouch for nodes, or not to take them from their clients.
//!
//! In:  the nodes that the user is about to vouch for, or to take.
//! Out: nothing, or an error. We ask first if any node has a lock, or a key that may be
//! a lock of another library, or cannot be read; before taking a node that its clients
//! know by another name, or whose clients have more nodes, since our list may be the
//! wrong one; and before taking back a node from others who may still be working on it.

use super::strangers;
use crate::{
    confirm::{can_ask, confirm},
    failure::{Failure, in_words, to_paste},
    look::{ANY_USER, is_all, table, why_unlisted},
    name,
    plain::plain,
};
use redlatch::{
    Cause, Fault, LockState, NodeStanding, Quarantine, Standing,
    observer::{Agreement, Listed, Observer, Taking},
};
use std::{borrow::Cow, sync::Arc, time::Duration};

/// Asks whether to vouch for these nodes, if there are doubts.
pub(super) async fn ask_to_vouch(
    observer: &Observer,
    named: &[Arc<str>],
    typed: &str,
) -> Result<(), Failure> {
    let out = names(meant(observer, named, may_have_forgotten).await);
    let Some(doubts) = doubts_about(observer, &out).await else { return Ok(()) };
    let question = format!(
        "{} may have forgotten locks. Vouch anyway? A lock that is still in use can then get a second \
         holder; `redlatch admit --wait` is safe.",
        out.join(", ")
    );
    let unasked = format!(
        "{doubts}; `redlatch admit --wait {}` is safe; add --yes if no forgotten lock can still be in \
         use",
        out.join(" ")
    );
    confirm(&to_paste(&question, typed), &unasked)
}

/// Asks whether to take these nodes from their clients, if there are doubts. A user who has
/// stopped all of those clients knows that they have another list, but may not know that it
/// is longer.
pub(super) async fn ask_to_replace(
    observer: &Observer,
    named: &[Arc<str>],
    all_stopped: bool,
) -> Result<(), Failure> {
    let out = meant(observer, named, |node| node.standing != Standing::Admitted).await;
    let others = out.iter().filter_map(|node| observer.other_name(&node.node, &node.standing));
    let mut doubts: Vec<String> = in_words(&others.collect::<Vec<_>>()).into_iter().collect();
    doubts.extend(missing_here(observer, &out));
    if !all_stopped {
        doubts.extend(still_taken(observer, &out).await);
    }
    if can_ask() {
        for doubt in &doubts {
            eprintln!("{}", plain(doubt));
        }
    }
    let out = names(out);
    doubts.extend(doubts_about(observer, &out).await);
    if doubts.is_empty() {
        return Ok(());
    }
    let (doubts, out) = (doubts.join("; "), out.join(", "));
    let question = format!(
        "Take {out} from the clients with other settings? They lose their locks when they have no \
         majority left. If this host's settings are wrong, correct them instead.",
    );
    let unasked = format!(
        "{doubts}; clients with other settings would lose {out}, and their locks when they have no \
         majority left; give all clients the same settings, or add --yes if the change is meant \
         for all of them",
    );
    confirm(&question, &unasked)
}

/// The nodes that our list lacks, if clients of these nodes have a longer one.
fn missing_here(observer: &Observer, out: &[NodeStanding]) -> Option<String> {
    let theirs = out.iter().filter_map(|node| match &node.standing.quarantine()?.cause {
        Cause::Disagrees(theirs) => Agreement::parse(theirs.as_deref()?),
        _ => None,
    });
    let longest = theirs.max_by_key(|theirs| theirs.nodes().len())?;
    let (ours, theirs) = (observer.nodes().count(), longest.nodes());
    if theirs.len() <= ours {
        return None;
    }
    let lacks = |node: &&Arc<str>| observer.nodes().all(|name| name != &***node);
    let missing: Vec<&str> = theirs.iter().filter(lacks).map(|node| &**node).collect();
    // Lists may have no name in common.
    let missing = Some(missing).filter(|missing| missing.len() == theirs.len() - ours);
    let missing = missing.map_or(String::new(), |nodes| format!(", without {}", nodes.join(", ")));
    Some(format!(
        "the clients of these nodes have {} nodes, and this host's list has {ours}{missing}",
        theirs.len()
    ))
}

/// Whether others may still be working on taking one of these nodes from our list.
async fn still_taken(observer: &Observer, out: &[NodeStanding]) -> Option<String> {
    let reports = observer.reports().await;
    let taken = reports.iter().enumerate().filter(|(at, node)| {
        let facts = node.facts.as_ref().ok();
        let taking = facts.and_then(|facts| observer.taking(*at, facts));
        taking == Some(Taking::UnderWay) && out.iter().any(|named| named.node == node.node)
    });
    let taken: Vec<&str> = taken.map(|(_, node)| &*node.node).collect();
    let are = if taken.len() == 1 { "is" } else { "are" };
    (!taken.is_empty()).then(|| {
        let taken = taken.join(", ");
        format!("{taken} {are} being taken by clients with another list of nodes, or other times")
    })
}

/// The named nodes to which the question applies.
async fn meant(
    observer: &Observer,
    named: &[Arc<str>],
    is_meant: fn(&NodeStanding) -> bool,
) -> Vec<NodeStanding> {
    let standings = observer.standings().await.into_iter();
    standings.filter(|node| named.contains(&node.node) && is_meant(node)).collect()
}

fn names(nodes: Vec<NodeStanding>) -> Vec<Arc<str>> {
    nodes.into_iter().map(|node| node.node).collect()
}

/// The doubts in one line, if there are any. At a terminal, prints all of them first.
async fn doubts_about(observer: &Observer, out: &[Arc<str>]) -> Option<String> {
    if out.is_empty() {
        return None;
    }
    let (mut listing, mut others, standings) =
        tokio::join!(observer.list("*"), observer.others(), observer.standings());
    listing.locks.retain(|lock| !matches!(lock.state, LockState::Reserved { .. }));
    // Already reported.
    others.unseen.retain(|(node, _)| listing.failed.iter().all(|(failed, _)| failed != node));
    let strangers = strangers::in_words(observer, &others);
    if listing.locks.is_empty() && listing.failed.is_empty() && strangers.is_none() {
        return None;
    }
    let nodes = observer.nodes().count();
    let failed = listing.failed.iter().map(|(node, fault)| (observer.label(node), fault));
    let failed: Vec<_> = failed.collect();
    if can_ask() {
        eprint!("{}", table(&listing.locks, nodes, is_all(&listing, &standings)));
        for (node, fault) in &failed {
            eprintln!("{}", plain(&unseen(node, fault)));
        }
        if let Some(strangers) = &strangers {
            eprintln!("{}", plain(strangers));
        }
    }
    let doubts = doubts(&listing.locks, &failed, nodes);
    let all = [Some(doubts), strangers].into_iter().flatten().filter(|words| !words.is_empty());
    Some(all.collect::<Vec<_>>().join("; "))
}

/// What to tell someone who waits for these nodes: keys that live longer than the
/// restart guard waits for, if any of the nodes may have forgotten one.
pub(super) async fn before_waiting(
    observer: &Observer,
    named: &[Arc<str>],
    max_ttl: Duration,
) -> Option<String> {
    if meant(observer, named, may_have_forgotten).await.is_empty() {
        return None;
    }
    let (listing, others) = tokio::join!(observer.list("*"), observer.others());
    strangers::outliving(observer, &listing, &others, max_ttl)
}

fn may_have_forgotten(node: &NodeStanding) -> bool {
    matches!(&node.standing, Standing::Quarantined(Quarantine { cause: Cause::Forgot, .. }))
}

/// How many locks a message names.
pub(super) const NAMED: usize = 3;

/// The doubts in one line.
fn doubts(locks: &[Listed], failed: &[(Cow<'_, str>, &Fault)], nodes: usize) -> String {
    let mut doubts = Vec::new();
    if !locks.is_empty() {
        let held =
            if locks.len() == 1 { "1 lock is" } else { &format!("{} locks are", locks.len()) };
        let mut named: Vec<String> =
            locks.iter().take(NAMED).map(|lock| held_by(lock, nodes)).collect();
        if locks.len() > NAMED {
            named.push("…".into());
        }
        doubts.push(format!("{held} still on the nodes: {}", named.join(", ")));
    }
    doubts.extend(failed.iter().map(|(node, fault)| unseen(node, fault)));
    doubts.join("; ")
}

fn unseen(node: &str, fault: &Fault) -> String {
    format!("{node} cannot be read: {}", why_unlisted(fault, ANY_USER))
}

fn held_by(lock: &Listed, nodes: usize) -> String {
    let owner = lock.owner.as_ref().map_or(String::new(), |owner| format!("of {owner} "));
    let name = name::shown(lock.name.as_bytes());
    format!("{name} ({owner}on {} of {nodes} nodes)", lock.nodes)
}
