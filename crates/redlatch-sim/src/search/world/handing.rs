//! A lease that one client hands to another: it is taken apart here, and goes on
//! there, as the library does it.
//!
//! The end travels by wall clock. Whoever takes over must prove the lease before
//! that, by an extension, and believes in it only then.

use super::{World, callers::terms};
use crate::search::{
    client::{Op, Waits},
    invariants::Seen,
    ledger::Lease,
    schedule::resources,
};
use redlatch_core::{Input, OpId, extend, machine::Adopted};
use std::time::Duration;

impl World<'_> {
    /// The lease that a caller has, if any, goes to another client.
    pub(super) fn hand_over(&mut self, client: usize, op: OpId, job: usize, heir: usize) {
        let able = self.clients.get(heir).is_some_and(super::Client::runs) && heir != client;
        let id = self.lease(client, op);
        let held = self.ledger.get(id).is_some_and(|lease| self.now < self.ends_at(lease, client));
        let extending = self.clients[client].ops.get(&op).is_some_and(|known| known.waits.extend);
        if !able || !held || extending {
            return;
        }
        let Some(lease) = self.ledger.get(id).cloned() else { return };
        let Some(token) = lease.token.clone() else { return };
        let process = &mut self.clients[client];
        process.outlives.insert(token, Duration::MAX);
        process.ops.remove(&op);
        process.jobs.remove(&job);
        self.over(client, op, "handed over");
        self.hand_in(client, Input::Forget(op));
        let process = &mut self.clients[client];
        let left = lease.until.since(process.clock.read(self.now));
        let wall = process.wall.read(self.now).after(left);
        self.take_over(heir, job, &lease, wall);
    }

    fn take_over(&mut self, heir: usize, job: usize, lease: &Lease, ends: redlatch_core::Moment) {
        let plan = &self.schedule.jobs[job];
        let terms = terms(plan, self.schedule.party(heir).max_ttl.get());
        let process = &mut self.clients[heir];
        // A clock that is behind must not make the lease longer than it can be.
        let left = ends.since(process.wall.read(self.now)).min(terms.usable());
        let Some(token) = lease.token.clone().filter(|_| left > terms.notice) else { return };
        let op = process.next_op();
        let waits = Waits { extend: true, ..Waits::default() };
        let asked = self.now;
        process.ops.insert(op, Op { job, asked, dropped: false, waits });
        process.jobs.insert(job, op);
        process.resuming.insert(op, lease.clone());
        process.outlives.insert(token.clone(), Duration::MAX);
        process.rested = false;
        let adopted = Adopted {
            resources: resources(&plan.resources),
            token,
            usable_until: process.clock.read(self.now).after(left),
            replants: true,
            fence: lease.fence,
            terms: terms.clone(),
        };
        self.heirs.insert(job, heir);
        self.hand_in(heir, Input::Adopt(op, adopted));
        self.hand_in(heir, Input::Extend(op, terms.ttl));
    }

    /// The extension that was to prove it was decided.
    pub(super) fn resumed(&mut self, heir: usize, op: OpId, decision: &extend::Decision) {
        let Some(lease) = self.clients[heir].resuming.remove(&op) else { return };
        let Ok(until) = decision else {
            // Whoever failed to take over leaves the lock as it was.
            return self.hand_in(heir, Input::Forget(op));
        };
        let id = self.lease(heir, op);
        let lease = Lease { id, until: *until, ..lease };
        self.counts.handed_over += 1;
        self.begin_bar(&lease);
        self.ledger.add(lease);
        self.watch(heir, op);
        self.see(&Seen::Kept(id));
    }

    fn ends_at(&self, lease: &Lease, client: usize) -> redlatch_core::Moment {
        self.clients[client].clock.when(lease.until)
    }
}
