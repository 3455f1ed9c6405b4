//! An extension brings the lease's fencing token along: a node that has granted
//! one gives no number below it any more.

use super::{Invariant, Seen, Site};
use redlatch_core::{Command, FencingToken, Reply, Vote};

pub(super) struct Carried;

impl Invariant for Carried {
    fn name(&self) -> &'static str {
        "an extension carries the number"
    }

    fn see(&mut self, site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
        let Seen::Served { client, node, command, reply: Reply::Vote(Vote::Granted) } = seen else {
            return Ok(());
        };
        let Command::Extend { resources, token, .. } = command else { return Ok(()) };
        let lease = site.ledger.of(*client).find(|lease| lease.token.as_ref() == Some(token));
        let number = lease.and_then(|lease| lease.fence).map_or(0, FencingToken::get);
        let register = site.servers[*node].node.register(resources);
        if register < number {
            return Err(format!("node {node} extends {number}, but its register is at {register}"));
        }
        Ok(())
    }
}
