//! A client process: the shipped machine, its clocks and its connections.

use super::{
    clock::Clock,
    dice::Dice,
    event::{Act, Event},
    ledger::Lease,
    link::Link,
    schedule::{Place, Schedule},
    server::EPOCH,
};
use redlatch_core::{Machine, Moment, Now, OpId, Owner, Steady, Token, WallClock};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::Duration,
};

/// One process.
#[derive(Debug)]
pub struct Client {
    /// What decides.
    pub machine: Machine<Dice>,
    /// What its leases end by: moves on when its wall clock is set forward, is
    /// never set back.
    pub clock: Clock,
    /// What windows are counted by: no step moves it.
    steady: Clock,
    /// Its wall clock, which numbers are proposed by.
    pub wall: Clock,
    /// Its ways to the nodes.
    pub links: Vec<Link>,
    /// How often it was started before.
    pub life: u32,
    /// How many troubles keep it down.
    pub down: u32,
    /// How many troubles keep it standing still.
    pub paused: u32,
    /// When it last came out of a pause, or had its clock set.
    pub woke: Moment,
    /// When its timer goes off, in true time.
    pub wakes: Option<Moment>,
    /// What its callers want of which operation.
    pub ops: BTreeMap<OpId, Op>,
    /// When the attempt that a token signs began, in true time.
    pub attempts: HashMap<Token, Moment>,
    /// The operation of each job.
    pub jobs: BTreeMap<usize, OpId>,
    /// What its callers did while it stood still.
    pub asks: VecDeque<(usize, Act)>,
    /// What reached it meanwhile, by node.
    pub mail: Vec<VecDeque<Event>>,
    /// How long what a token signs may stay on a node after the machine has given
    /// up undoing it: it gives up when the keys must be dead if they were set as
    /// soon as they were sent.
    pub outlives: HashMap<Token, Duration>,
    /// The leases that it is about to take over from another client.
    pub resuming: BTreeMap<OpId, Lease>,
    /// Whether it has been idle since its last request.
    pub rested: bool,
    /// The nodes of its list that said, when they were last looked at, that they
    /// serve other clients.
    pub refused_by: BTreeSet<usize>,
    /// Those that said that they were taken from others for it.
    pub reserved: BTreeSet<usize>,
    /// The nodes of its list, in its order.
    pub list: Vec<usize>,
    number: u64,
    skew: Duration,
}

/// One operation, as its caller sees it.
#[derive(Debug, Clone)]
pub struct Op {
    /// Which job it is for.
    pub job: usize,
    /// When it was asked for, in true time.
    pub asked: Moment,
    /// Nobody listens any more.
    pub dropped: bool,
    /// The answers that are still out.
    pub waits: Waits,
}

/// Which answers a caller waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// For the lock.
    pub acquire: bool,
    /// For an extension.
    pub extend: bool,
    /// For the outcome of a release.
    pub release: bool,
}

impl Client {
    /// A process that has not done anything yet.
    #[must_use]
    pub fn new(schedule: &Schedule, number: usize) -> Self {
        let Place { drift, wall } = schedule.clients[number].place;
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
            resuming: BTreeMap::new(),
            rested: true,
            refused_by: BTreeSet::new(),
            reserved: BTreeSet::new(),
            list: party.list.clone(),
            number: 0,
            skew: party.skew.get(),
        }
    }

    /// Whether it does anything when something reaches it.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.down == 0 && self.paused == 0
    }

    /// The next operation.
    pub fn next_op(&mut self) -> OpId {
        self.number += 1;
        OpId::new(self.number)
    }

    /// The operation of a job that its caller has not left yet.
    #[must_use]
    pub fn under_way(&self, job: usize) -> Option<OpId> {
        let op = *self.jobs.get(&job)?;
        self.ops.get(&op).filter(|known| !known.dropped).map(|_| op)
    }

    /// The time on both of its clocks. With `one`, a driver that has only the
    /// clock of leases.
    #[must_use]
    pub fn now(&self, at: Moment, one: bool) -> Now {
        let (lease, steady) = (self.clock.read(at), self.steady.read(at));
        let steady = if one { lease } else { steady };
        Now { lease, steady: Steady::from_nanos(steady.as_nanos()) }
    }

    /// What its wall clock shows.
    #[must_use]
    pub fn wall_clock(&self, now: Moment) -> WallClock {
        let micros = self.wall.read(now).as_nanos() / 1000;
        WallClock { read_at: self.clock.read(now), micros, skew: self.skew }
    }

    /// Whether nothing is under way, here or on the network.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.machine.is_idle() && self.links.iter().all(Link::is_quiet)
    }

    /// Starts anew, knowing nothing.
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

/// What signs the locks of one life of one client.
#[must_use]
pub fn label(client: usize, life: u32) -> String {
    format!("c{client}.{life}")
}

/// The label as an owner.
#[must_use]
pub fn owner(client: usize, life: u32) -> Owner {
    Owner::new(label(client, life)).expect("a printable label")
}

fn machine(schedule: &Schedule, number: usize, life: u32) -> Machine<Dice> {
    let id = u64::try_from(number).unwrap_or(u64::MAX);
    let dice = Dice::of(schedule.seed, &[1, id, life.into()]);
    let party = schedule.party(number);
    let machine = Machine::new(party.list.len(), dice);
    match party.guard() {
        Some(guard) => machine.guarded(guard),
        None => machine,
    }
}
