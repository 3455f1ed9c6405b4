//! A client that no longer asks drops out of line: nothing is reserved for it, and a client
//! that joins or checks the line finds the dead neither just ahead nor at the end.
//!
//! So a ticket that nobody removes, because its client died or its node was out of reach,
//! counts for [`TICKET_LIFE`] and is gone after the next check by the client behind it, or
//! by anyone if there is none. If a node's clock is set back, it stays longer.

use super::{Seen, Site};
use redlatch_core::{
    Command, Moment, Reply, Resources, Then, Ticket, Vote, Waiter, line::TICKET_LIFE,
};
use std::{collections::BTreeMap, time::Duration};

/// If an earlier ticket takes a reservation, its waiter goes back into line, and its
/// ticket counts again from then on: at most this much later.
const MOST_PATIENCE: Duration = Duration::from_secs(2);

/// When each waiter last asked on each node, or was served.
#[derive(Debug, Default)]
pub(super) struct DeadDropOut {
    asked: BTreeMap<(usize, Waiter), Moment>,
}

impl DeadDropOut {
    pub(super) fn see(&mut self, site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
        let Seen::Served { node, command, reply, .. } = seen else { return Ok(()) };
        match (command, reply) {
            (
                Command::Take { resources, place: Some(place), .. },
                Reply::Vote(Vote::Held(holder)),
            ) if holder.ahead.is_some() => {
                self.asked.insert((*node, place.ticket.waiter), site.now);
                self.neighbours(site, *node, resources, place.ticket.waiter)
            }
            (Command::Release { resources, then, .. }, _) => {
                if let Some(Then::Wait(ticket) | Then::Pass(ticket)) = then {
                    self.asked.insert((*node, ticket.waiter), site.now);
                }
                self.served(site, *node, resources)
            }
            _ => Ok(()),
        }
    }

    /// The waiters just ahead of one that joined or checked, and the last in line.
    fn neighbours(
        &self,
        site: &Site<'_>,
        node: usize,
        resources: &Resources,
        waiter: Waiter,
    ) -> Result<(), String> {
        for name in resources {
            let Some((line, _)) = site.servers[node].node.contents.lines.get(name) else {
                continue;
            };
            let tickets = line.tickets();
            let at = tickets.iter().position(|ticket| ticket.waiter == waiter);
            let ahead = at.and_then(|at| tickets[..at].last());
            for ticket in ahead.into_iter().chain(tickets.last()) {
                self.is_alive(site, node, ticket)?;
            }
        }
        Ok(())
    }

    /// The waiters for whom a release has reserved something.
    fn served(
        &mut self,
        site: &Site<'_>,
        node: usize,
        resources: &Resources,
    ) -> Result<(), String> {
        for name in resources {
            let server = &site.servers[node];
            let key = server.node.key(server.clock.read(site.now), name);
            if let Some(ticket) = key.and_then(|key| Ticket::reserved_in(&key.value)) {
                self.is_alive(site, node, &ticket)?;
                self.asked.insert((node, ticket.waiter), site.now);
            }
        }
        Ok(())
    }

    fn is_alive(&self, site: &Site<'_>, node: usize, ticket: &Ticket) -> Result<(), String> {
        let asked = self.asked.get(&(node, ticket.waiter)).copied().unwrap_or(Moment::START);
        let silent = site.now.since(asked);
        // The slowest clock of a node may show a hundredth less.
        let most = (TICKET_LIFE + MOST_PATIENCE).mul_f64(1.01);
        if silent <= most || !site.claims.keys_go {
            return Ok(());
        }
        let who = ticket.waiter;
        Err(format!("{who:?} counts on node {node}, where it last asked {silent:.1?} ago"))
    }
}
