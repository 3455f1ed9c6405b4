//! A client process: the shipped machine, its clocks and its connections.

use super::{
    clock::Clock,
    event::{Act, Event},
    leases::Lease,
    link::Link,
    schedule::{Clocks, Schedule},
    server::EPOCH,
};
use redlatch_core::{
    Machine, Moment, Now, OpId, Owner, Steady, Token, Waiter, WallClock, dice::Dice,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::Duration,
};

#[derive(Debug)]
pub struct Client {
    pub machine: Machine<Dice>,
    /// The clock that its leases end by: jumps when the wall clock is set forward,
    /// never back.
    pub clock: Clock,
    /// The clock that windows are counted by: setting the wall clock does not move it.
    steady: Clock,
    /// Its wall clock, from which it proposes fencing tokens.
    pub wall: Clock,
    pub links: Vec<Link>,
    /// How many times it was started before.
    pub life: u32,
    /// How many troubles keep it down.
    pub down: u32,
    /// How many troubles keep it paused.
    pub paused: u32,
    /// When it last resumed, or had its clock set.
    pub woke: Moment,
    /// When its timer fires, in true time.
    pub wakes: Option<Moment>,
    pub ops: BTreeMap<OpId, Op>,
    /// When each attempt began, by its lock token, in true time.
    pub attempts: HashMap<Token, Moment>,
    pub jobs: BTreeMap<usize, OpId>,
    /// What its callers did while it was paused.
    pub asks: VecDeque<(usize, Act)>,
    /// What arrived meanwhile, by node.
    pub mail: Vec<VecDeque<Event>>,
    /// How long keys with this token may outlive the machine's undo. The machine gives
    /// the undo up once the keys must have expired if they were set as soon as they
    /// were sent.
    pub outlives: HashMap<Token, Duration>,
    /// The tickets that it removed, and those that reached a node after their
    /// connection had broken, by link.
    pub gone: BTreeSet<(usize, Waiter)>,
    /// The leases it is taking over from other clients.
    pub resuming: BTreeMap<OpId, Lease>,
    /// Whether it has been idle since its last request.
    pub rested: bool,
    /// The nodes of its list that said, when last examined, that they serve others.
    pub refused_by: BTreeSet<usize>,
    /// The nodes that said they are reserved for it.
    pub reserved: BTreeSet<usize>,
    /// The nodes of its list, in its order.
    pub list: Vec<usize>,
    number: u64,
    skew: Duration,
}

/// One operation, as its caller sees it.
#[derive(Debug, Clone)]
pub struct Op {
    pub job: usize,
    /// When it was asked for, in true time.
    pub asked: Moment,
    /// Until when its caller waits, by the client's clock: a step of that clock ends
    /// the wait early.
    pub wait_until: Moment,
    /// Its caller no longer listens.
    pub dropped: bool,
    pub waits: Waits,
    /// When it was first told to wait, in true time.
    pub waiting_since: Option<Moment>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    pub acquire: bool,
    pub extend: bool,
    pub release: bool,
}

impl Client {
    pub fn new(schedule: &Schedule, number: usize) -> Self {
        let Clocks { drift, wall } = schedule.clients[number].clocks;
        let party = schedule.party(number);
        let id = u64::try_from(number).unwrap_or(u64::MAX);
        let nodes = 0..schedule.nodes.len();
        let wide = |node| u64::try_from(node).unwrap_or(0);
        let link = |node| Link::new(node, Dice::of(schedule.seed, &[2, id, wide(node)]));
        let epoch = Moment::from_nanos(EPOCH.saturating_add_signed(wall * 1000));
        Client {
            machine: machine(schedule, number, 0),
            clock: Clock::new(drift, Moment::from_nanos(1_000_000_000)),
            steady: Clock::new(drift, Moment::from_nanos(1_000_000_000)),
            wall: Clock::new(drift, epoch),
            links: nodes.clone().map(link).collect(),
            life: 0,
            down: 0,
            paused: 0,
            woke: Moment::START,
            wakes: None,
            ops: BTreeMap::new(),
            attempts: HashMap::new(),
            jobs: BTreeMap::new(),
            asks: VecDeque::new(),
            mail: nodes.map(|_| VecDeque::new()).collect(),
            outlives: HashMap::new(),
            gone: BTreeSet::new(),
            resuming: BTreeMap::new(),
            rested: true,
            refused_by: BTreeSet::new(),
            reserved: BTreeSet::new(),
            list: party.list.clone(),
            number: 0,
            skew: party.skew.get(),
        }
    }

    /// Whether it reacts to what arrives.
    pub fn runs(&self) -> bool {
        self.down == 0 && self.paused == 0
    }

    pub fn next_op(&mut self) -> OpId {
        self.number += 1;
        OpId::new(self.number)
    }

    /// A job's operation, unless its caller has dropped it.
    pub fn under_way(&self, job: usize) -> Option<OpId> {
        let op = *self.jobs.get(&job)?;
        self.ops.get(&op).filter(|known| !known.dropped).map(|_| op)
    }

    /// The time on both of its clocks; with `one`, as a driver with only the lease
    /// clock reads them.
    pub fn now(&self, at: Moment, one: bool) -> Now {
        let (lease, steady) = (self.clock.read(at), self.steady.read(at));
        let steady = if one { lease } else { steady };
        Now { lease, steady: Steady::from_nanos(steady.as_nanos()) }
    }

    pub fn wall_clock(&self, now: Moment) -> WallClock {
        let micros = self.wall.read(now).as_nanos() / 1000;
        WallClock { read_at: self.clock.read(now), micros, skew: self.skew }
    }

    /// Whether nothing is under way, here or on the network.
    pub fn is_quiet(&self) -> bool {
        self.machine.is_idle() && self.links.iter().all(Link::is_quiet)
    }

    /// Restarts without its memory.
    pub fn restart(&mut self, schedule: &Schedule, number: usize) {
        self.life += 1;
        self.machine = machine(schedule, number, self.life);
        self.wakes = None;
        self.ops.clear();
        self.attempts.clear();
        self.jobs.clear();
        self.asks.clear();
        self.mail.iter_mut().for_each(VecDeque::clear);
        self.refused_by.clear();
        self.reserved.clear();
        self.resuming.clear();
    }
}

/// The owner label of one life of one client.
pub fn label(client: usize, life: u32) -> String {
    format!("c{client}.{life}")
}

pub fn owner(client: usize, life: u32) -> Owner {
    Owner::new(label(client, life)).expect("a printable label")
}

fn machine(schedule: &Schedule, number: usize, life: u32) -> Machine<Dice> {
    let id = u64::try_from(number).unwrap_or(u64::MAX);
    let dice = Dice::of(schedule.seed, &[1, id, life.into()]);
    let party = schedule.party(number);
    let machine = Machine::new(party.list.len(), dice);
    match party.guard() {
        Some(guard) => machine.admitting(guard),
        None => machine,
    }
}
