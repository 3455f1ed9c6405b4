//! One run: a schedule played out on virtual nodes, clocks and connections.
//!
//! In:  a [`Schedule`].
//! Out: what was broken, if anything, what was counted and, if wanted, a trace.
//!
//! Promise: nothing here decides anything that the schedule does not. The same
//! schedule is the same run, byte for byte. What the library's engine does
//! around the machine is done here the same way: the time is read before
//! anything is sent and after anything was received, and a process that wakes
//! up first hears its callers, then its connections, then its timer.

mod callers;
mod foreign;
mod handing;
mod network;
mod record;
mod serving;
mod troubles;

use super::{
    client::Client,
    event::{Act, Event, Queue},
    invariants::{self, Invariant, Seen, Site, Violation},
    ledger::Ledger,
    schedule::{Claims, Schedule, Trouble},
    server::Server,
};
use crate::{node::Habits, trace::Trace};
use redlatch_core::Moment;
use std::collections::BTreeMap;

/// More than any run needs: one that goes on after so many does not end.
const MOST_EVENTS: u64 = 20_000_000;

/// How a run is played.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Write down what happens.
    pub trace: bool,
    /// How the nodes go about it.
    pub habits: Habits,
    /// What the drivers of the clients get wrong.
    pub slip: Option<Slip>,
    /// Hold it to the order of tokens also where a majority forgets, however far
    /// the nodes' clocks are apart.
    pub by_clock: bool,
}

/// A mistake of what drives the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slip {
    /// The clock of leases is handed in for both.
    OneClock,
    /// A client without a guard does not ask whom the nodes serve.
    TrustsAnyNode,
    /// Nobody keeps an operator from exchanging one node for another at once.
    ExchangesNodes,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The first promise that was broken.
    pub violation: Option<Violation>,
    /// What was counted.
    pub counts: Counts,
    /// What happened.
    pub trace: Option<Trace>,
}

/// How much happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Everything.
    pub events: u64,
    /// Commands sent to nodes.
    pub commands: u64,
    /// Requests for locks.
    pub asked: u64,
    /// Locks granted.
    pub granted: u64,
    /// Leases extended.
    pub kept: u64,
    /// Leases lost.
    pub lost: u64,
    /// Commands that reached a node behind their connection's end.
    pub late: u64,
    /// Nodes admitted again.
    pub admitted: u64,
    /// Leases handed from one client to another.
    pub handed_over: u64,
    /// Requests that had to wait for their turn.
    pub queued: u64,
}

impl Counts {
    /// Both together.
    #[must_use]
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
        }
    }
}

/// Everything there is.
pub(super) struct World<'a> {
    schedule: &'a Schedule,
    claims: Claims,
    now: Moment,
    queue: Queue,
    servers: Vec<Server>,
    clients: Vec<Client>,
    ledger: Ledger,
    invariants: Vec<Box<dyn Invariant>>,
    violation: Option<Violation>,
    counts: Counts,
    record: Option<record::Record>,
    slip: Option<Slip>,
    /// Who goes on with the lease of a job that was handed over.
    heirs: BTreeMap<usize, usize>,
    /// By then everything that is wanted has been decided.
    ends: Moment,
}

/// Plays a schedule to its end, or to the first promise that is broken.
#[must_use]
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
        let mut queue = Queue::default();
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
            ledger: Ledger::default(),
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
            ledger: &self.ledger,
        };
        for invariant in &mut self.invariants {
            if let (Err(what), None) = (invariant.see(&site, seen), &self.violation) {
                let invariant = invariant.name();
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
