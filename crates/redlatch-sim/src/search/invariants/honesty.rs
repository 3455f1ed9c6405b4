//! Promise 5: a guard says "held" only while it can prove it, and its loss is
//! signalled before its end.
//!
//! "Prove" means: when a lease is granted or extended, a majority of the nodes has
//! its keys, and all of these outlive it. A fresh lease also has as much time left
//! as was asked for.

use super::{LeaseId, Seen, Site, name};
use crate::search::{leases::Lease, server::Server};
use redlatch_core::{Moment, lease::Loss};
use std::time::Duration;

/// The error of rounding between clocks.
const ROUNDING: Duration = Duration::from_micros(1);

pub(super) fn see(site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
    match seen {
        Seen::Granted(id) => fresh(site, *id).and_then(|()| proved(site, *id)),
        Seen::Kept(id) => proved(site, *id),
        Seen::Lost(id, loss) => in_time(site, *id, loss),
        Seen::RanOut(id) => unsaid(site, *id),
        _ => Ok(()),
    }
}

/// Without notice, the loss is signalled at the end, which is now.
fn unsaid(site: &Site<'_>, id: LeaseId) -> Result<(), String> {
    let noticed = site.leases.get(id).is_some_and(|lease| !lease.notice.is_zero());
    if noticed { Err(format!("the lease of {} ran out unsaid", name(id))) } else { Ok(()) }
}

/// By the owner's clock, which decided the grant.
fn fresh(site: &Site<'_>, id: LeaseId) -> Result<(), String> {
    let (LeaseId::Ours(client, ..), Some(lease)) = (id, site.leases.get(id)) else {
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
    let Some(lease) = site.leases.get(id).filter(|_| site.claims.keys_stay) else {
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

/// Whether the node keeps all keys of the lease until it ends.
fn outlives(server: &Server, lease: &Lease, ends: Moment) -> bool {
    let Some(token) = &lease.token else { return false };
    let ends = server.clock.read(ends);
    lease.resources.iter().all(|name| {
        let key = server.node.key(ends.before(ROUNDING), name);
        key.is_some_and(|key| *key.value == *token.as_bytes())
    })
}

/// A client that has just resumed could not signal it earlier; `is_held` did.
fn in_time(site: &Site<'_>, id: LeaseId, loss: &Loss) -> Result<(), String> {
    let (LeaseId::Ours(client, ..), Some(lease)) = (id, site.leases.get(id)) else {
        return Ok(());
    };
    let client = &site.clients[client];
    let notice = match loss {
        Loss::Expired(_) | Loss::MaxHold => lease.notice,
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
