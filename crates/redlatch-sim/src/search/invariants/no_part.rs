//! A client that a node refuses, because it serves others, admits nobody and
//! plants nothing, however late it was told so. An operator may take a node away
//! from others all the same. Not covered: it may still mark a node, if those that
//! refused it do not answer when it looks.

use super::{Invariant, Seen, Site};
use redlatch_core::{Command, Fingerprint, Reply, Vote};

pub(super) struct NoPart;

impl Invariant for NoPart {
    fn name(&self) -> &'static str {
        "who is refused takes no part"
    }

    fn see(&mut self, site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
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
                    (_, Some(guard)) if granted && serves_others(site, *node, guard) => {
                        Err(format!("node {node} serves others, and votes for client {client}"))
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

fn guard_of(command: &Command) -> Option<Fingerprint> {
    match command {
        Command::Take { guard, .. }
        | Command::Raise { guard, .. }
        | Command::Plant { guard, .. }
        | Command::Extend { guard, .. } => *guard,
        _ => None,
    }
}

fn serves_others(site: &Site<'_>, node: usize, guard: Fingerprint) -> bool {
    site.servers[node].node.cause(guard).is_some_and(|cause| cause.is_conflict())
}
