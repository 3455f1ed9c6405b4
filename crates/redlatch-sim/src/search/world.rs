//! One run: plays a schedule on virtual nodes, clocks and connections.
//!
//! In:  a [`Schedule`].
//! Out: the first broken promise, counts and, if wanted, a trace.
//!
//! Promise: the schedule decides everything: the same schedule gives the same run,
//! byte for byte. The world drives the machine as the library's engine does: it
//! reads the time before it sends and after it receives, and a process that wakes
//! up first hears its callers, then its connections, then its timer.

mod callers;
mod foreign;
mod handing;
mod network;
mod record;
mod serving;
mod troubles;
mod waking;

use super::{
    client::Client,
    event::{Act, Event},
    invariants::{self, Check, Seen, Site, Violation},
    leases::Leases,
    schedule::{Claims, Schedule, Trouble},
    server::Server,
};
use crate::{node::Habits, queue::Queue, trace::Trace};
use redlatch_core::Moment;
use std::collections::BTreeMap;

/// No run needs more events: a run with more never ends.
const MOST_EVENTS: u64 = 20_000_000;

#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    pub trace: bool,
    pub habits: Habits,
    /// A mistake of the clients' drivers.
    pub slip: Option<Slip>,
    /// Require the order of tokens even if a majority forgets, however far apart
    /// the nodes' clocks are.
    pub by_clock: bool,
}

/// A mistake of what drives the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slip {
    /// The driver passes the lease clock for both clocks.
    OneClock,
    /// A client without a guard does not ask whom the nodes serve.
    TrustsAnyNode,
    /// Nothing keeps an operator from exchanging one node for another at once.
    ExchangesNodes,
}

#[derive(Debug)]
pub struct Outcome {
    /// The first broken promise.
    pub violation: Option<Violation>,
    pub counts: Counts,
    pub trace: Option<Trace>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    pub commands: u64,
    pub asked: u64,
    pub granted: u64,
    pub kept: u64,
    pub lost: u64,
    /// Commands that reached a node after their connection had broken.
    pub late: u64,
    pub admitted: u64,
    pub handed_over: u64,
    /// Requests that had to queue.
    pub queued: u64,
    /// Requests that wait in line.
    pub in_line: u64,
    /// Wakes that reached a client.
    pub woken: u64,
}

impl Counts {
    pub fn and(self, other: Counts) -> Counts {
        Counts {
            events: self.events + other.events,
            commands: self.commands + other.commands,
            asked: self.asked + other.asked,
            granted: self.granted + other.granted,
            kept: self.kept + other.kept,
            lost: self.lost + other.lost,
            late: self.late + other.late,
            admitted: self.admitted + other.admitted,
            handed_over: self.handed_over + other.handed_over,
            queued: self.queued + other.queued,
            in_line: self.in_line + other.in_line,
            woken: self.woken + other.woken,
        }
    }
}

pub(super) struct World<'a> {
    schedule: &'a Schedule,
    claims: Claims,
    now: Moment,
    queue: Queue<Event>,
    servers: Vec<Server>,
    clients: Vec<Client>,
    leases: Leases,
    invariants: Vec<(&'static str, Check)>,
    violation: Option<Violation>,
    counts: Counts,
    record: Option<record::Record>,
    slip: Option<Slip>,
    /// The client that continues the lease of a job that was handed over.
    heirs: BTreeMap<usize, usize>,
    /// By then every request has been decided.
    ends: Moment,
}

/// Plays a schedule until it ends or breaks a promise.
pub fn play(schedule: &Schedule, options: Options) -> Outcome {
    let mut world = World::new(schedule, options);
    while world.violation.is_none()
        && let Some((at, event)) = world.queue.pop()
    {
        world.now = world.now.max(at);
        world.counts.events += 1;
        world.happen(event);
        if world.counts.events > MOST_EVENTS {
            world.broken("liveness", "it never comes to rest".into());
        }
    }
    if world.violation.is_none() {
        world.see(&Seen::Over);
    }
    let violation = world.violation.take();
    let trace = world.record.take().map(|record| record.finish(world.now, violation.as_ref()));
    Outcome { violation, counts: world.counts, trace }
}

impl<'a> World<'a> {
    fn new(schedule: &'a Schedule, options: Options) -> Self {
        let mut queue = Queue::new();
        for (number, trouble) in schedule.troubles.iter().enumerate() {
            queue.push(trouble.at.in_true_time(), Event::Begins(number));
        }
        for (number, job) in schedule.jobs.iter().enumerate() {
            queue.push(job.at.in_true_time(), Event::Job(number, Act::Ask));
        }
        let nodes = 0..schedule.nodes.len();
        let claims = schedule.claims();
        World {
            schedule,
            claims: Claims { by_clock: claims.by_clock || options.by_clock, ..claims },
            now: Moment::START,
            queue,
            servers: nodes.map(|n| Server::new(schedule, n, options.habits)).collect(),
            clients: (0..schedule.clients.len()).map(|n| Client::new(schedule, n)).collect(),
            leases: Leases::default(),
            invariants: invariants::all(),
            violation: None,
            counts: Counts::default(),
            record: options.trace.then(|| record::Record::of(schedule)),
            slip: options.slip,
            heirs: BTreeMap::new(),
            ends: schedule.ends(),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Job(job, act) => self.job(job, act),
            Event::Begins(trouble) => self.begins(trouble),
            Event::Ends(trouble) => self.ends(trouble),
            Event::Connects(wire, deadline) => self.connects(wire, deadline),
            Event::Command { wire, sent, tag, command } => {
                self.reaches_node(wire, sent, tag, command);
            }
            Event::Reply { .. } | Event::Refused { .. } => self.reaches_client(event),
            Event::Woken { wire, sent, wake } => self.woken(wire, sent, wake),
            Event::Wakes(client) => self.wakes(client),
            Event::RunsOut(lease, until) => self.runs_out(lease, until),
            Event::AnswerDue(client, op) => self.answer_due(client, op),
            Event::Foreign(trouble, turn) => self.foreign(trouble, turn),
        }
    }

    fn see(&mut self, seen: &Seen<'_>) {
        let site = Site {
            now: self.now,
            schedule: self.schedule,
            claims: self.claims,
            servers: &self.servers,
            clients: &self.clients,
            leases: &self.leases,
        };
        for (invariant, check) in &mut self.invariants {
            if let (Err(what), None) = (check(&site, seen), &self.violation) {
                self.violation = Some(Violation { invariant, at: self.now, what });
            }
        }
    }

    fn broken(&mut self, invariant: &'static str, what: String) {
        self.violation = Some(Violation { invariant, at: self.now, what });
    }

    fn trouble(&self, number: usize) -> &'a Trouble {
        &self.schedule.troubles[number]
    }
}
