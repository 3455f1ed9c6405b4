//! What must hold when a node is admitted again.
//!
//! It belongs only to those it was admitted for. They have seen a majority of their
//! nodes: a node that serves others would have been among them. And its registers are
//! not below any fencing token granted before its window ended, unless too many nodes
//! forgot for any other to know.

use super::{Seen, Site, exclusion::is_foreign};
use redlatch_core::{Command, Moment, Reply, Resources, Vote};

#[derive(Default)]
pub(super) struct Admission {
    /// Every fencing token granted, and when.
    numbers: Vec<(Moment, Resources, u64)>,
    /// Fewer than a majority could vote at some time: since then, tokens rest on clocks.
    amnesia: bool,
}

impl Admission {
    pub(super) fn see(&mut self, site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Granted(id) if !is_foreign(site, *id) => {
                let lease = site.leases.get(*id);
                let number = lease.and_then(|lease| Some((lease, lease.fence?.get())));
                let number =
                    number.map(|(lease, number)| (site.now, lease.resources.clone(), number));
                self.numbers.extend(number);
                Ok(())
            }
            Seen::Served { client, node, command, reply: Reply::Vote(Vote::Granted) } => {
                let Command::Admit { .. } = command else { return Ok(()) };
                nobody_elses(site, *node)?;
                by_a_majority(site, *client, *node)?;
                self.above_what_was_granted(site, *client, *node)
            }
            _ => Ok(()),
        }
    }
}

fn nobody_elses(site: &Site<'_>, node: usize) -> Result<(), String> {
    let ledger = &site.servers[node].node.contents.ledger;
    if ledger.reserved.is_some() || ledger.watched.is_some() {
        return Err(format!("node {node} was admitted, and keeps {ledger:?}"));
    }
    Ok(())
}

fn by_a_majority(site: &Site<'_>, client: usize, node: usize) -> Result<(), String> {
    let (process, party) = (&site.clients[client], site.schedule.party(client));
    let Some(guard) = party.guard() else { return Ok(()) };
    let serves_others = |(at, other): (usize, &usize)| {
        let served = site.servers[*other].node.contents.ledger.admitted.as_deref();
        let ours = guard.fingerprint(at).to_string();
        *other != node && served.is_some_and(|served| !served.ends_with(&ours))
    };
    let strange = party.list.iter().enumerate().filter(|known| serves_others(*known)).count();
    // The client may have seen this many without being refused.
    let (seen, nodes) = (party.list.len() - strange, party.list.len());
    // An operator may have said that it is theirs, or that it has forgotten
    // nothing.
    let told = process.reserved.contains(&node) || site.servers[node].memory.vouched;
    if site.claims.liveness && !told && seen <= nodes / 2 {
        return Err(format!("client {client} admits node {node}, but {strange} serve others"));
    }
    Ok(())
}

impl Admission {
    fn above_what_was_granted(
        &mut self,
        site: &Site<'_>,
        client: usize,
        node: usize,
    ) -> Result<(), String> {
        let (server, party) = (&site.servers[node], site.schedule.party(client));
        let Some(guard) = party.guard() else { return Ok(()) };
        let out = |(at, other): (usize, &usize)| {
            *other == node || !site.servers[*other].node.is_admitted(guard.fingerprint(at))
        };
        let out = party.list.iter().enumerate().filter(|known| out(*known)).count();
        self.amnesia |= out > (party.list.len() - 1) / 2;
        let claimed =
            site.claims.fencing && site.claims.windows && site.schedule.parties.len() == 1;
        let Some(forgot) = server.memory.forgot.filter(|_| claimed && !server.memory.vouched)
        else {
            return Ok(());
        };
        let window = party.window();
        // After a second window, clocks decide.
        if self.amnesia || site.now.since(forgot) > window.mul_f64(1.9) {
            return Ok(());
        }
        let ended = forgot.after(window.mul_f64(0.99));
        let below = self.numbers.iter().find(|(granted, resources, number)| {
            *granted <= ended && server.node.register(resources) < *number
        });
        match below {
            None => Ok(()),
            Some((_, resources, number)) => {
                Err(format!("node {node} is admitted below {number}, the number of {resources}"))
            }
        }
    }
}
