//! Another library that locks the same key: `SET NX PX` on one node after the
//! other, and a compare-and-delete at the end.
//!
//! It never checks what happened; what it leaves expires.

use super::{Seen, World};
use crate::search::{
    event::{Event, ForeignStep},
    leases::{Lease, LeaseId},
    schedule::{Span, Wrong, resources},
};
use redlatch_core::{Resources, Token, lease};
use std::time::Duration;

struct Plan {
    resources: Resources,
    token: Token,
    ttl: Duration,
    hold: Option<Span>,
    pace: Duration,
}

impl World<'_> {
    fn foreign_plan(&self, number: usize) -> Option<Plan> {
        let Wrong::Foreign { resource, ttl, hold, pace } = self.trouble(number).what else {
            return None;
        };
        // Servers count in whole milliseconds.
        let ttl = Duration::from_millis((ttl.0 / 1000).max(5));
        let token = Token::from_bytes(format!("another-{number}").as_bytes());
        Some(Plan { resources: resources(&[resource]), token, ttl, hold, pace: pace.get() })
    }

    pub(super) fn foreign_begins(&mut self, number: usize) {
        self.queue.push(self.now, Event::Foreign(number, ForeignStep::Set(0)));
    }

    pub(super) fn foreign(&mut self, number: usize, step: ForeignStep) {
        let Some(plan) = self.foreign_plan(number) else { return };
        let later = self.now.after(plan.pace);
        let nodes = self.servers.len();
        match step {
            ForeignStep::Set(node) if node < nodes => {
                let server = &mut self.servers[node];
                if server.runs() {
                    let now = server.clock.read(self.now);
                    server.node.take(now, &plan.resources, &plan.token, plan.ttl);
                }
                self.queue.push(later, Event::Foreign(number, ForeignStep::Set(node + 1)));
            }
            ForeignStep::Set(_) => {
                self.queue.push(self.now, Event::Foreign(number, ForeignStep::Count));
            }
            ForeignStep::Count => self.foreign_counts(number, &plan),
            ForeignStep::Delete(node) if node < nodes => {
                let server = &mut self.servers[node];
                if server.runs() {
                    let now = server.clock.read(self.now);
                    server.node.remove(now, &plan.resources, &plan.token);
                }
                self.queue.push(later, Event::Foreign(number, ForeignStep::Delete(node + 1)));
            }
            ForeignStep::Delete(_) => {}
        }
    }

    /// Its lease counts from before its first command, as it should.
    fn foreign_counts(&mut self, number: usize, plan: &Plan) {
        let has = |server: &&crate::search::server::Server| {
            let now = server.clock.read(self.now);
            server.node.has_all(now, &plan.resources, &plan.token)
        };
        let got = self.servers.iter().filter(has).count();
        let began = self.trouble(number).at.in_true_time();
        let until = began.after(lease::usable(plan.ttl));
        if got * 2 <= self.servers.len() || self.now >= until {
            return self.queue.push(self.now, Event::Foreign(number, ForeignStep::Delete(0)));
        }
        let id = LeaseId::Foreign(number);
        self.leases.add(Lease {
            id,
            resources: plan.resources.clone(),
            token: None,
            until,
            fence: None,
            started: began,
            granted: self.now,
            notice: Duration::ZERO,
            least: Duration::ZERO,
        });
        self.queue.push(until, Event::RunsOut(id, until));
        if let Some(hold) = plan.hold {
            // It stops working before it deletes its keys.
            let at = self.now.after(hold.get());
            self.queue.push(at, Event::RunsOut(id, until));
            self.queue.push(at, Event::Foreign(number, ForeignStep::Delete(0)));
        }
        self.see(&Seen::Granted(id));
    }

    pub(super) fn over_foreign(&mut self, id: LeaseId) {
        self.leases.end(id);
    }
}
