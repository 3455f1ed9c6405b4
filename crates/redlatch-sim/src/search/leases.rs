//! The leases that someone believes they hold.
//!
//! In:  grants, extensions, ends.
//! Out: who holds what, until when, by whose clock.

use redlatch_core::{FencingToken, Moment, OpId, Resource, Resources, Token};
use std::{collections::BTreeMap, time::Duration};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseId {
    /// A client's lease, by its life and operation: a restarted process counts its
    /// operations from one again.
    Ours(usize, u32, OpId),
    /// Another library's lease, by the number of its trouble.
    Foreign(usize),
}

#[derive(Debug, Clone)]
pub struct Lease {
    pub id: LeaseId,
    pub resources: Resources,
    /// `None` for another library's.
    pub token: Option<Token>,
    /// Its end by its owner's clock; in true time for another library's.
    pub until: Moment,
    pub fence: Option<FencingToken>,
    /// When the attempt that won it began, in true time.
    pub started: Moment,
    /// When it was granted, in true time.
    pub granted: Moment,
    /// How long before the end its loss must be signalled.
    pub notice: Duration,
    /// How much of it must be left when it is granted.
    pub least: Duration,
}

/// All leases whose guards may say "held".
#[derive(Debug, Default)]
pub struct Leases {
    leases: BTreeMap<LeaseId, Lease>,
    by_resource: BTreeMap<Resource, Vec<LeaseId>>,
}

impl Leases {
    pub fn add(&mut self, lease: Lease) {
        for resource in &lease.resources {
            self.by_resource.entry(resource.clone()).or_default().push(lease.id);
        }
        self.leases.insert(lease.id, lease);
    }

    pub fn extend(&mut self, id: LeaseId, until: Moment) -> bool {
        let lease = self.leases.get_mut(&id);
        lease.map(|lease| lease.until = lease.until.max(until)).is_some()
    }

    /// Its guard no longer says "held".
    pub fn end(&mut self, id: LeaseId) -> Option<Lease> {
        let lease = self.leases.remove(&id)?;
        for resource in &lease.resources {
            if let Some(ids) = self.by_resource.get_mut(resource) {
                ids.retain(|known| *known != id);
            }
        }
        Some(lease)
    }

    pub fn get(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.get(&id)
    }

    pub fn of(&self, client: usize) -> impl Iterator<Item = &Lease> {
        let whose =
            move |lease: &&Lease| matches!(lease.id, LeaseId::Ours(who, ..) if who == client);
        self.leases.values().filter(whose)
    }

    pub fn on(&self, resource: &Resource) -> impl Iterator<Item = &Lease> {
        let ids = self.by_resource.get(resource).map_or(&[][..], Vec::as_slice);
        ids.iter().filter_map(|id| self.leases.get(id))
    }
}
