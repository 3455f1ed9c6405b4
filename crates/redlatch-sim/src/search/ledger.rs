//! The leases that somebody believes in.
//!
//! In:  grants, extensions, ends.
//! Out: who holds what, until when by whose clock.

use redlatch_core::{FencingToken, Moment, OpId, Resource, Resources, Token};
use std::{collections::BTreeMap, time::Duration};

/// One lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseId {
    /// A client's, by its operation and the client's life: a process that comes
    /// back counts its operations anew.
    Ours(usize, u32, OpId),
    /// Another library's, by its trouble.
    Foreign(usize),
}

/// What there is to know about a lease.
#[derive(Debug, Clone)]
pub struct Lease {
    /// Which one.
    pub id: LeaseId,
    /// What is locked.
    pub resources: Resources,
    /// What signs it; none for another library's.
    pub token: Option<Token>,
    /// Its end, by its owner's clock: true time for another library's.
    pub until: Moment,
    /// Its number.
    pub fence: Option<FencingToken>,
    /// When the attempt that won it began, in true time.
    pub started: Moment,
    /// When it was granted, in true time.
    pub granted: Moment,
    /// How long before the end its loss must be signalled.
    pub notice: Duration,
    /// How much of it must have been left when it was granted.
    pub least: Duration,
}

/// All leases whose guards may say "held".
#[derive(Debug, Default)]
pub struct Ledger {
    leases: BTreeMap<LeaseId, Lease>,
    by_resource: BTreeMap<Resource, Vec<LeaseId>>,
}

impl Ledger {
    /// A lease was granted.
    pub fn add(&mut self, lease: Lease) {
        for resource in &lease.resources {
            self.by_resource.entry(resource.clone()).or_default().push(lease.id);
        }
        self.leases.insert(lease.id, lease);
    }

    /// It was extended; what is not there (any more) stays away.
    pub fn extend(&mut self, id: LeaseId, until: Moment) -> bool {
        let lease = self.leases.get_mut(&id);
        lease.map(|lease| lease.until = lease.until.max(until)).is_some()
    }

    /// Its guard says "held" no more.
    pub fn end(&mut self, id: LeaseId) -> Option<Lease> {
        let lease = self.leases.remove(&id)?;
        for resource in &lease.resources {
            if let Some(ids) = self.by_resource.get_mut(resource) {
                ids.retain(|known| *known != id);
            }
        }
        Some(lease)
    }

    /// One lease, unless it has ended.
    #[must_use]
    pub fn get(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.get(&id)
    }

    /// Those of one client, in order.
    pub fn of(&self, client: usize) -> impl Iterator<Item = &Lease> {
        let whose =
            move |lease: &&Lease| matches!(lease.id, LeaseId::Ours(who, ..) if who == client);
        self.leases.values().filter(whose)
    }

    /// Those of one resource.
    pub fn on(&self, resource: &Resource) -> impl Iterator<Item = &Lease> {
        let ids = self.by_resource.get(resource).map_or(&[][..], Vec::as_slice);
        ids.iter().filter_map(|id| self.leases.get(id))
    }
}
