//! Promise 6: an attempt that failed, timed out, was cancelled or dropped, and a
//! lease that ended, leave no key on any node.
//!
//! Two things may leave a key until its TTL ends: a process that died, and a take that
//! reached its node after its connection broke, behind its own undo. Also, the machine
//! gives up an undo that a node has not answered once the TTL has ended: a key that was
//! set long after it was sent lives that much longer.

use super::{Seen, Site};
use crate::search::client::label;
use redlatch_core::{Moment, Ticket, Token};
use std::time::Duration;

/// No reservation lasts longer.
const MOST_PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn see(site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
    match seen {
        Seen::Quiet(client) if site.claims.keys_go => no_key_of(site, *client),
        Seen::Over => at_rest(site),
        _ => Ok(()),
    }
}

fn no_key_of(site: &Site<'_>, client: usize) -> Result<(), String> {
    let Some(process) = site.clients.get(client) else { return Ok(()) };
    let signed = format!("@{}", label(client, process.life));
    for (number, server) in site.servers.iter().enumerate() {
        for (name, key) in server.keys(site.now) {
            // Reservations lapse by themselves.
            let is_lock = Ticket::reserved_in(&key.value).is_none();
            if !is_lock || !key.value.ends_with(signed.as_bytes()) {
                continue;
            }
            let token = Token::from_bytes(&key.value);
            let tolerated = process.outlives.get(&token).copied().unwrap_or_default();
            if key.dies.since(server.clock.read(site.now)) > tolerated {
                return Err(format!("client {client} is done, but node {number} has its {name}"));
            }
        }
    }
    Ok(())
}

/// Nothing is under way, and every key is gone within the longest TTL.
fn at_rest(site: &Site<'_>) -> Result<(), String> {
    if let Some(client) = site.clients.iter().position(|client| !client.machine.is_idle()) {
        return Err(format!("client {client} waits for something that will never come"));
    }
    let max_ttl = site.schedule.max_ttl();
    for (number, server) in site.servers.iter().enumerate() {
        let now = server.clock.read(site.now);
        let is_late = |dies: Moment, reserved: bool| {
            let most = if reserved { MOST_PATIENCE } else { max_ttl };
            dies > now.after(most)
        };
        let late = server
            .keys(site.now)
            .find(|(_, key)| is_late(key.dies, Ticket::reserved_in(&key.value).is_some()));
        if let Some((name, _)) = late.filter(|_| site.claims.keys_go) {
            return Err(format!("node {number} keeps {name} for longer than any TTL"));
        }
    }
    Ok(())
}
