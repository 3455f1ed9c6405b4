//! At the end, nobody stands in line on any node.
//!
//! A ticket may stay until it no longer counts (see
//! [`dead_drop_out`](super::dead_drop_out)) if its client is dead, or if the connection to
//! that node failed and the client could not remove the ticket: the node was out of reach
//! for as long as the client tried, or the take arrived only later, over a connection that
//! had broken. Until then it costs the others one reservation.

use super::{Seen, Site};
use crate::search::schedule::Wrong;
use redlatch_core::Ticket;

pub(super) fn see(site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
    if *seen != Seen::Over {
        return Ok(());
    }
    for (number, server) in site.servers.iter().enumerate() {
        let now = server.clock.read(site.now);
        let lines = server.node.contents.lines.iter().filter(|(_, (_, dies))| now < *dies);
        for (name, (line, _)) in lines {
            let left = line.tickets().iter().find(|ticket| !is_excused(site, number, ticket));
            if let Some(ticket) = left {
                let who = ticket.waiter;
                return Err(format!("{who:?} still stands in line for {name} on node {number}"));
            }
        }
    }
    Ok(())
}

fn is_excused(site: &Site<'_>, node: usize, ticket: &Ticket) -> bool {
    let Some(wire) = site.servers[node].listeners.get(&ticket.waiter.client()) else {
        return true; // its connection is gone
    };
    // While a database was swapped away, nobody could leave the line there.
    let swapped = |wrong: &Wrong| matches!(wrong, Wrong::Swap { node: at, .. } if *at == node);
    let process = &site.clients[wire.client];
    let in_vain =
        process.links[wire.node].failed && process.gone.contains(&(wire.node, ticket.waiter));
    process.life > 0
        || in_vain
        || site.schedule.troubles.iter().any(|trouble| swapped(&trouble.what))
}
