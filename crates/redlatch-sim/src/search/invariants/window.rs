//! Promise 7: a node that forgot does not vote until every lock it may have
//! forgotten has expired.
//!
//! The simulator knows when a node really forgot, and what. The node is not
//! admitted before the window has passed in true time, and grants no lock whose key
//! it should still have, unless an operator truthfully vouched for it.

use super::{Seen, Site};
use redlatch_core::{Command, Reply, Resources, Token, Vote};

pub(super) fn see(site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
    let Seen::Served { client, node, command, reply: Reply::Vote(vote) } = seen else {
        return Ok(());
    };
    let granted = matches!(vote, Vote::Granted | Vote::Numbered(_));
    if !granted || !site.claims.windows {
        return Ok(());
    }
    match command {
        Command::Admit { .. } => not_early(site, *client, *node),
        Command::Take { resources, token, fingerprint: Some(_), .. } => {
            not_betrayed(site, *node, resources, token)
        }
        _ => Ok(()),
    }
}

fn not_early(site: &Site<'_>, client: usize, node: usize) -> Result<(), String> {
    let memory = &site.servers[node].memory;
    let Some(forgot) = memory.forgot.filter(|_| !memory.vouched) else { return Ok(()) };
    let (passed, window) = (site.now.since(forgot), site.schedule.party(client).window());
    // The counting client's clock may run fast, within the drift allowance.
    if passed < window.mul_f64(0.99) {
        return Err(format!(
            "client {client} admits node {node} {passed:?} after it forgot, not {window:?}"
        ));
    }
    Ok(())
}

fn not_betrayed(
    site: &Site<'_>,
    node: usize,
    resources: &Resources,
    token: &Token,
) -> Result<(), String> {
    let alive = site.servers[node].memory.lost.iter().find(|lost| {
        let wanted = resources.iter().any(|name| *name == lost.name);
        wanted && site.now < lost.dies && *lost.value != *token.as_bytes()
    });
    if let Some(lost) = alive {
        let (name, left) = (&lost.name, lost.dies.since(site.now));
        return Err(format!("node {node} gives {name} away, and forgot a key that has {left:?}"));
    }
    Ok(())
}
