//! `release --force`, and the same for the page: releases a lock by force.
//!
//! In:  a name, and the grants that somebody was shown. Out: what happened to them.
//!
//! Promise: only those grants are removed, no matter who has the lock by now.

use crate::{
    admit::cause_for,
    confirm::confirm,
    exit::Exit,
    failure::Failure,
    look::NAMELESS,
    name,
    plain::plain,
    say::{Event, Say, print_json},
    settings::Settings,
    stdout,
    trace::Trace,
};
use redlatch::{
    GrantId, LockState, NodeKey, Status,
    observer::{Forced, Observer, Removal, of_nodes},
};
use serde_json::json;
use std::{ffi::OsStr, fmt::Write as _, io, os::unix::ffi::OsStrExt};

/// The result of a forced release.
pub(crate) struct Outcome {
    forced: Vec<Forced>,
    pub(crate) words: String,
    pub(crate) exit: Exit,
}

/// Shows whose lock it is, asks, and releases it.
pub(crate) async fn force(
    name: &OsStr,
    sure: bool,
    as_json: bool,
    settings: Settings,
    say: Say,
    trace: &mut Trace,
) -> Result<Exit, Failure> {
    let observer = settings.builder().observer()?;
    let status = observer.status(name.as_bytes()).await?;
    if !sure && !status.grants.is_empty() {
        refuse_another_list(&observer, &status)?;
        let whose = whose(&name::text(name.as_bytes()), &status);
        confirm(
            &format!("{whose}. Take it away? Its holder may still be at work."),
            &format!(
                "{whose}; stdin is not a terminal, so nobody can confirm; add --yes to take it away"
            ),
        )?;
    }
    let Outcome { forced, words, exit } =
        take_away(&observer, name.as_bytes(), &status, &status.grants).await?;
    if exit == Exit::Done {
        trace.succeeded();
    }
    trace.note(&words);
    if as_json {
        print_forced(&forced)?;
    }
    match exit {
        Exit::Done if !as_json => stdout::print(format!("{}\n", plain(&words)).as_bytes())?,
        Exit::Done => {}
        exit => say.say(&Event::failed(words, exit)),
    }
    Ok(exit)
}

/// Removes these grants of a lock from every node that has one of them. `status` must
/// be at least as recent as the look that showed who holds the lock.
pub(crate) async fn take_away(
    observer: &Observer,
    name: &[u8],
    status: &Status,
    grants: &[GrantId],
) -> Result<Outcome, Failure> {
    refuse_another_list(observer, status)?;
    let forced = observer.force_release(name, grants).await?;
    let (mut words, exit) = outcome(&name::text(name), &forced);
    if let (LockState::Reserved { .. }, true) = (&status.state, grants.is_empty()) {
        words = format!("{} is {}", name::text(name), status.state);
    }
    Ok(Outcome { forced, words, exit })
}

/// Who has the lock of this name.
fn whose(name: &str, status: &Status) -> String {
    let mut owners: Vec<&str> = status.nodes.iter().filter_map(held_by).collect();
    owners.sort_unstable();
    owners.dedup();
    match &status.state {
        LockState::Held { owner, .. } => {
            format!("{name} is held by {}", owner.as_deref().unwrap_or(NAMELESS))
        }
        _ => format!("no majority of the nodes has {name}; some have a lock of {}", all(&owners)),
    }
}

fn held_by(node: &redlatch::NodeStatus) -> Option<&str> {
    match &node.key {
        NodeKey::Held { owner, .. } => Some(owner.as_deref().unwrap_or(NAMELESS)),
        _ => None,
    }
}

fn all(owners: &[&str]) -> String {
    if owners.is_empty() { NAMELESS.into() } else { owners.join(" and ") }
}

/// Refuses if the nodes serve clients with another list: with a list that differs from
/// the holder's, we would remove its lock from some of its nodes and call it free.
fn refuse_another_list(observer: &Observer, status: &Status) -> Result<(), Failure> {
    let conflict = status.nodes.iter().find_map(|node| {
        let cause = &node.quarantine.as_ref()?.cause;
        cause.is_conflict().then(|| format!("{}: {}", node.node, cause_for(observer, cause)))
    });
    match conflict {
        Some(words) => Err(Failure::new(Exit::NoMajority, format!("nothing was changed: {words}"))),
        None => Ok(()),
    }
}

/// Sums up the nodes' outcomes in words and an exit status.
fn outcome(name: &str, forced: &[Forced]) -> (String, Exit) {
    let on = |wanted: Removal| forced.iter().filter(|node| node.outcome == Ok(wanted)).count();
    let whose = |wanted: Removal| {
        let nodes = forced.iter().filter(|node| node.outcome == Ok(wanted));
        let mut owners: Vec<&str> = nodes.filter_map(|node| node.owner.as_deref()).collect();
        owners.dedup();
        all(&owners)
    };
    let (removed, other, nodes) = (on(Removal::Removed), on(Removal::Other), forced.len());
    let (strange, of) = (on(Removal::NoLock), |count| of_nodes(count, nodes));
    let failed = forced.iter().filter_map(|node| {
        node.outcome.as_ref().err().map(|fault| format!("{}: {fault}", node.node))
    });
    let failed: Vec<String> = failed.collect();
    if failed.len() == nodes {
        let words = format!(
            "it is not known whether {name} is free: {} failed: {}; try again",
            of(nodes),
            failed.join("; ")
        );
        return (words, Exit::NoMajority);
    }
    let mut words = match (removed, other, on(Removal::Free)) {
        (0, 0, 0) => format!("{name} was not taken away on any node"),
        (0, 0, free) if free == nodes => format!("{name} was free"),
        (0, 0, free) => format!("{name} was free on {}", of(free)),
        (0, other, _) => format!(
            "{name} was taken again after it was shown, by {}, and is left alone on {}; nothing was \
             released",
            whose(Removal::Other),
            of(other)
        ),
        (removed, ..) => {
            format!("{name} was held by {}; taken away on {}", whose(Removal::Removed), of(removed))
        }
    };
    if removed > 0 && other > 0 {
        let whose = whose(Removal::Other);
        let _ = write!(words, "; on {} it is {whose}'s by now, and stays", of(other));
    }
    if strange > 0 {
        let _ = write!(
            words,
            "; on {} the key is no lock and stays, since it does not expire, is no text or is longer \
             than 64 KiB; if nobody needs it, delete it there",
            of(strange)
        );
    }
    if !failed.is_empty() {
        let on = of(failed.len());
        let _ = write!(words, "; the outcome is not known on {on}: {}", failed.join("; "));
    }
    let exit = match strange {
        _ if nodes - failed.len() <= nodes / 2 => Exit::NoMajority,
        _ if other > nodes / 2 || (other > 0 && removed == 0) => Exit::Held,
        0 => Exit::Done,
        _ => Exit::Failed,
    };
    if exit == Exit::NoMajority {
        let _ = write!(words, "; it is not known whether {name} is free: try again");
    }
    (words, exit)
}

fn print_forced(forced: &[Forced]) -> io::Result<()> {
    let nodes: Vec<_> = forced
        .iter()
        .map(|node| {
            json!({
                "node": *node.node,
                "owner": node.owner,
                "removed": node.outcome == Ok(Removal::Removed),
                "reason": match &node.outcome {
                    Ok(Removal::NoLock) => Some("the key is no lock".into()),
                    Ok(Removal::Other) => Some("it was taken again after it was shown".into()),
                    outcome => outcome.as_ref().err().map(ToString::to_string),
                },
            })
        })
        .collect();
    print_json(&json!({ "nodes": nodes }))
}
