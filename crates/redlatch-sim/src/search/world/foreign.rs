//! Another library that locks the same key: `SET NX PX` on one node after the
//! other, and a compare-and-delete at the end.
//!
//! It never asks what became of anything; whatever it leaves dies by its TTL.

use super::{Seen, World};
use crate::search::{
    event::{Event, Turn},
    ledger::{Lease, LeaseId},
    schedule::{Span, Wrong, resources},
};
use redlatch_core::{Resource, lease};
use std::time::Duration;

struct Plan {
    name: Resource,
    value: String,
    ttl: Duration,
    hold: Option<Span>,
    pace: Duration,
}

impl World<'_> {
    fn foreign_plan(&self, number: usize) -> Option<Plan> {
        let Wrong::Foreign { resource, ttl, hold, pace } = self.trouble(number).what else {
            return None;
        };
        let name = resources(&[resource]).single()?.clone();
        // The servers count in whole milliseconds.
        let ttl = Duration::from_millis((ttl.0 / 1000).max(5));
        Some(Plan { name, value: format!("another-{number}"), ttl, hold, pace: pace.get() })
    }

    pub(super) fn foreign_begins(&mut self, number: usize) {
        self.queue.push(self.now, Event::Foreign(number, Turn::Set(0)));
    }

    pub(super) fn foreign(&mut self, number: usize, turn: Turn) {
        let Some(plan) = self.foreign_plan(number) else { return };
        let later = self.now.after(plan.pace);
        let nodes = self.servers.len();
        match turn {
            Turn::Set(node) if node < nodes => {
                let server = &mut self.servers[node];
                if server.runs() {
                    let now = server.clock.read(self.now);
                    server.node.set_if_absent(now, &plan.name, plan.value.as_bytes(), plan.ttl);
                }
                self.queue.push(later, Event::Foreign(number, Turn::Set(node + 1)));
            }
            Turn::Set(_) => self.queue.push(self.now, Event::Foreign(number, Turn::Count)),
            Turn::Count => self.foreign_counts(number, &plan),
            Turn::Delete(node) if node < nodes => {
                let server = &mut self.servers[node];
                if server.runs() {
                    server.node.delete_if(&plan.name, plan.value.as_bytes());
                }
                self.queue.push(later, Event::Foreign(number, Turn::Delete(node + 1)));
            }
            Turn::Delete(_) => {}
        }
    }

    /// It counts from before its first command, as it should.
    fn foreign_counts(&mut self, number: usize, plan: &Plan) {
        let has = |server: &&crate::search::server::Server| {
            let key = server.node.key(server.clock.read(self.now), &plan.name);
            key.is_some_and(|key| *key.value == *plan.value.as_bytes())
        };
        let got = self.servers.iter().filter(has).count();
        let began = self.trouble(number).at.in_true_time();
        let until = began.after(lease::usable(plan.ttl));
        if got * 2 <= self.servers.len() || self.now >= until {
            return self.queue.push(self.now, Event::Foreign(number, Turn::Delete(0)));
        }
        let id = LeaseId::Foreign(number);
        self.ledger.add(Lease {
            id,
            resources: plan.name.clone().into(),
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
            self.queue.push(at, Event::Foreign(number, Turn::Delete(0)));
        }
        self.see(&Seen::Granted(id));
    }

    pub(super) fn over_foreign(&mut self, id: LeaseId) {
        self.ledger.end(id);
    }
}
