//! A client that a node refuses, because the node serves others, admits and plants nothing, however
//! late it learns of the refusal. An operator may still take a node from others. No node votes for
//! an unguarded client whose locks may live longer than agreed on by the clients that the node
//! serves. Not covered: the client may mark a node if the nodes that refused it do not answer its
//! look.

use super::{Seen, Site};
use redlatch_core::{Agreement, Command, Fingerprint, Reply, Vote};

pub(super) fn see(site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
    match seen {
        Seen::Sent { command: Command::Watch { .. }, .. } => Ok(()),
        Seen::Sent { client, node, .. } => {
            let by = &site.clients[*client].refused_by;
            let told_to = site.clients[*client].reserved.contains(node);
            if by.is_empty() || told_to || !site.claims.liveness {
                return Ok(());
            }
            Err(format!("client {client}, refused by {by:?}, admits node {node}"))
        }
        Seen::Served { client, node, command, reply: Reply::Vote(vote) } => {
            let granted = matches!(vote, Vote::Granted | Vote::Numbered(_));
            match (command, guard_of(command)) {
                (_, Some(fingerprint)) if granted && serves_others(site, *node, fingerprint) => {
                    Err(format!("node {node} serves others, and votes for client {client}"))
                }
                (Command::Take { .. }, None)
                    if granted && outlives_window(site, *client, *node) =>
                {
                    Err(format!("a lock of client {client} outlives a window of node {node}"))
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn guard_of(command: &Command) -> Option<Fingerprint> {
    match command {
        Command::Take { fingerprint, .. }
        | Command::Raise { fingerprint, .. }
        | Command::Plant { fingerprint, .. }
        | Command::Extend { fingerprint, .. } => *fingerprint,
        _ => None,
    }
}

fn outlives_window(site: &Site<'_>, client: usize, node: usize) -> bool {
    let ledger = &site.servers[node].node.contents.ledger;
    let agreed = ledger.agreement.as_deref().and_then(Agreement::parse);
    agreed.is_some_and(|agreed| site.schedule.party(client).max_ttl.get() > agreed.max_ttl())
}

fn serves_others(site: &Site<'_>, node: usize, fingerprint: Fingerprint) -> bool {
    site.servers[node].node.cause(fingerprint).is_some_and(|cause| cause.is_conflict())
}
