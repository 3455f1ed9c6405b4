//! Every request is answered exactly once and in time: a lock is granted or refused
//! within the wait plus one lease, by its caller's clock.

use super::{Seen, Site};

pub(super) fn see(site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
    match seen {
        Seen::Unanswered(client, op) => {
            Err(format!("client {client} has no answer to {op:?} in time"))
        }
        Seen::Unasked(client, op, what) => {
            Err(format!("client {client} was told of {op:?}: {what}; nobody asked"))
        }
        Seen::Over => everybody_answered(site),
        _ => Ok(()),
    }
}

fn everybody_answered(site: &Site<'_>) -> Result<(), String> {
    for (number, client) in site.clients.iter().enumerate() {
        for (op, known) in &client.ops {
            let waits = known.waits;
            if waits.acquire || waits.extend || waits.release {
                return Err(format!("client {number} never got its answer to {op:?}: {waits:?}"));
            }
        }
    }
    Ok(())
}
