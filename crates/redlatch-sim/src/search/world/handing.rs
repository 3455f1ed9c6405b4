//! Hands a lease from one client to another, as the library does.
//!
//! The end is passed on as wall-clock time. The heir must prove the lease before that
//! by an extension, and believes in it only then.

use super::{World, callers::terms};
use crate::search::{
    client::{Op, Waits},
    invariants::Seen,
    leases::Lease,
    schedule::resources,
};
use redlatch_core::{
    ExtendError, Input, Moment, OpId, lease,
    machine::{Adopted, Kept},
};
use std::time::Duration;

impl World<'_> {
    /// Hands the lease of a caller, if any, to another client.
    pub(super) fn hand_over(&mut self, client: usize, op: OpId, job: usize, heir: usize) {
        let able = self.clients.get(heir).is_some_and(super::Client::runs) && heir != client;
        let id = self.lease(client, op);
        let held = self.leases.get(id).is_some_and(|lease| self.now < self.ends_at(lease, client));
        let extending = self.clients[client].ops.get(&op).is_some_and(|known| known.waits.extend);
        if !able || !held || extending {
            return;
        }
        let Some(lease) = self.leases.get(id).cloned() else { return };
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

    fn take_over(&mut self, heir: usize, job: usize, lease: &Lease, ends: Moment) {
        let plan = &self.schedule.jobs[job];
        let terms = terms(plan, self.schedule.party(heir).max_ttl.get());
        let process = &mut self.clients[heir];
        // A clock that is behind must not make the lease too long.
        let left = ends.since(process.wall.read(self.now)).min(terms.usable());
        let Some(token) = lease.token.clone().filter(|_| left > terms.notice) else { return };
        let op = process.next_op();
        let waits = Waits { extend: true, ..Waits::default() };
        let asked = self.now;
        let wait_until = Moment::START; // it has the lock already
        let known = Op { job, asked, wait_until, dropped: false, waits, waiting_since: None };
        process.ops.insert(op, known);
        process.jobs.insert(job, op);
        process.resuming.insert(op, lease.clone());
        process.outlives.insert(token.clone(), Duration::MAX);
        process.rested = false;
        let now = process.clock.read(self.now);
        let adopted = Adopted {
            resources: resources(&plan.resources),
            token,
            usable_until: now.after(left),
            hold_until: lease::hold_until(now, &terms),
            keeps: true,
            fence: lease.fence,
            terms: terms.clone(),
        };
        self.heirs.insert(job, heir);
        self.hand_in(heir, Input::Adopt(op, adopted));
        self.hand_in(heir, Input::Extend(op, terms.ttl));
    }

    /// The extension that was to prove the lease has been decided.
    pub(super) fn resumed(&mut self, heir: usize, op: OpId, answer: &Result<Kept, ExtendError>) {
        let Some(lease) = self.clients[heir].resuming.remove(&op) else { return };
        let Ok(kept) = answer else {
            // An heir that failed to take over leaves the lock as it was.
            return self.hand_in(heir, Input::Forget(op));
        };
        let id = self.lease(heir, op);
        let lease = Lease { id, until: kept.deadlines.ends_at, ..lease };
        self.counts.handed_over += 1;
        self.begin_bar(&lease);
        self.leases.add(lease);
        self.watch(heir, op);
        self.see(&Seen::Kept(id));
    }

    fn ends_at(&self, lease: &Lease, client: usize) -> Moment {
        self.clients[client].clock.when(lease.until)
    }
}
