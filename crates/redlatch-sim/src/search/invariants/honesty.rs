//! Promise 5: a guard says "held" only while that can be proved, and its loss is
//! signalled before its end.
//!
//! "Proved" is taken at its word: when a lease is granted or extended, a majority
//! of the nodes has its keys, and all of them outlive the lease. And whoever is
//! granted one can use it: as much of it is left as was asked for.

use super::{Invariant, LeaseId, Seen, Site, name};
use crate::search::{ledger::Lease, server::Server};
use redlatch_core::{Moment, lease::Loss};
use std::time::Duration;

/// What rounding between clocks amounts to.
const ROUNDING: Duration = Duration::from_micros(1);

pub(super) struct Honesty;

impl Invariant for Honesty {
    fn name(&self) -> &'static str {
        "honesty"
    }

    fn see(&mut self, site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Granted(id) => fresh(site, *id).and_then(|()| proved(site, *id)),
            Seen::Kept(id) => proved(site, *id),
            Seen::Lost(id, loss) => in_time(site, *id, loss),
            Seen::RanOut(id) => unsaid(site, *id),
            _ => Ok(()),
        }
    }
}

/// Who wants no notice is told at the end, which is now.
fn unsaid(site: &Site<'_>, id: LeaseId) -> Result<(), String> {
    let noticed = site.ledger.get(id).is_some_and(|lease| !lease.notice.is_zero());
    if noticed { Err(format!("the lease of {} ran out unsaid", name(id))) } else { Ok(()) }
}

/// By its owner's clock, which is what the grant was decided by.
fn fresh(site: &Site<'_>, id: LeaseId) -> Result<(), String> {
    let (LeaseId::Ours(client, ..), Some(lease)) = (id, site.ledger.get(id)) else {
        return Ok(());
    };
    let left = lease.until.since(site.clients[client].clock.read(site.now));
    if left.is_zero() || left < lease.least {
        let (who, wanted) = (name(id), lease.least);
        return Err(format!("{who} was granted a lease with {left:?} left of at least {wanted:?}"));
    }
    Ok(())
}

fn proved(site: &Site<'_>, id: LeaseId) -> Result<(), String> {
    let Some(lease) = site.ledger.get(id).filter(|_| site.claims.keys_stay) else {
        return Ok(());
    };
    let ends = site.ends(id);
    let LeaseId::Ours(client, ..) = id else { return Ok(()) };
    let list = &site.clients[client].list;
    let proves = |node: &&usize| outlives(&site.servers[**node], lease, ends);
    let proving = list.iter().filter(proves).count();
    if site.now < ends && proving <= list.len() / 2 {
        let who = name(id);
        return Err(format!("{who} holds {}, but {proving} nodes prove it", lease.resources));
    }
    Ok(())
}

/// Whether the node has all keys of the lease until it ends and longer.
fn outlives(server: &Server, lease: &Lease, ends: Moment) -> bool {
    let Some(token) = &lease.token else { return false };
    let ends = server.clock.read(ends);
    lease.resources.iter().all(|name| {
        let key = server.node.key(ends.before(ROUNDING), name);
        key.is_some_and(|key| *key.value == *token.as_bytes())
    })
}

/// Whoever has just woken up could not say it earlier; `is_held` did.
fn in_time(site: &Site<'_>, id: LeaseId, loss: &Loss) -> Result<(), String> {
    let (LeaseId::Ours(client, ..), Some(lease)) = (id, site.ledger.get(id)) else {
        return Ok(());
    };
    let client = &site.clients[client];
    let notice = match loss {
        Loss::Expired | Loss::MaxHold => lease.notice,
        _ => Duration::ZERO,
    };
    let latest = lease.until.before(notice).after(ROUNDING);
    let now = client.clock.read(site.now);
    if now > latest && client.woke < site.now && lease.granted < site.now {
        let late = now.since(latest);
        return Err(format!("the loss of {} was signalled {late:?} late", name(id)));
    }
    Ok(())
}
