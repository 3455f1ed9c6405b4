//! An extension carries the lease's fencing token: a node that granted one gives
//! out no lower number afterwards.

use super::{Seen, Site};
use redlatch_core::{Command, FencingToken, Reply, Vote};

pub(super) fn see(site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
    let Seen::Served { client, node, command, reply: Reply::Vote(Vote::Granted) } = seen else {
        return Ok(());
    };
    let Command::Extend { resources, token, .. } = command else { return Ok(()) };
    let lease = site.leases.of(*client).find(|lease| lease.token.as_ref() == Some(token));
    let number = lease.and_then(|lease| lease.fence).map_or(0, FencingToken::get);
    let register = site.servers[*node].node.register(resources);
    if register < number {
        return Err(format!("node {node} extends {number}, but its register is at {register}"));
    }
    Ok(())
}
