//! A node and its host: its clock, and whether it runs at all.

use super::{
    clock::Clock,
    event::Wire,
    memory::{Lost, Memory},
    schedule::{Schedule, Span, resources},
};
use crate::node::{self, Flaw};
use redlatch_core::{
    Command, Moment, Reply, Tag, Ticket, Vote, Waiter, dice::Dice, reference::Presence,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// The wall clock at true time zero: 2026, in nanoseconds.
pub const EPOCH: u64 = 1_770_000_000_000_000_000;

#[derive(Debug)]
pub struct Server {
    pub node: node::Node,
    /// Its wall clock, which keys expire by.
    pub clock: Clock,
    /// How many troubles keep it down.
    pub down: u32,
    /// How many of those its peers have not noticed.
    pub silent: u32,
    /// How many troubles keep it paused.
    pub paused: u32,
    /// How much longer messages to and from it may take.
    pub slow: Duration,
    /// What arrived while it was paused.
    pub backlog: VecDeque<Arrived>,
    /// The percentage of its replies that are garbled.
    pub garbled: u64,
    pub memory: Memory,
    /// Nobody has admitted it yet.
    is_new: bool,
    /// How many troubles have swapped its databases: the first one swaps, the last
    /// one swaps back.
    pub swaps: u32,
    /// What it had forgotten when its databases were swapped.
    hidden: Option<Memory>,
    dice: Dice,
    habits: node::Habits,
    /// The clients it can wake, by the id in their tickets, and over which connection.
    pub listeners: BTreeMap<u64, Wire>,
}

/// A command that reached a node.
#[derive(Debug, Clone)]
pub struct Arrived {
    pub wire: Wire,
    pub sent: Moment,
    pub tag: Tag,
    pub command: Command,
}

impl Server {
    pub fn new(schedule: &Schedule, number: usize, habits: node::Habits) -> Self {
        let place = &schedule.nodes[number];
        let first = &schedule.parties[0];
        let guard = first.guard().filter(|_| !schedule.fresh);
        let mut node = node::Node::server(number);
        node.listening = Some(BTreeSet::new());
        node.waiters = keeps_waiters(habits);
        if let (Some(guard), Some(at)) = (guard, first.position(number)) {
            node.admit_now(guard.fingerprint(at), &guard.agreement_at(at).to_string());
        }
        for resource in schedule.jobs.iter().flat_map(|job| &job.resources) {
            node.set_register(&resources(&[*resource]), schedule.registers[number]);
        }
        let epoch = Moment::from_nanos(EPOCH.saturating_add_signed(place.wall * 1000));
        Server {
            node,
            clock: Clock::new(place.drift, epoch),
            down: 0,
            silent: 0,
            paused: 0,
            slow: Duration::ZERO,
            backlog: VecDeque::new(),
            garbled: 0,
            memory: Memory::default(),
            is_new: schedule.fresh && first.guard().is_some(),
            swaps: 0,
            hidden: None,
            dice: Dice::of(schedule.seed, &[3, u64::try_from(number).unwrap_or(0)]),
            habits,
            listeners: BTreeMap::new(),
        }
    }

    /// A client can be woken over this connection from now on.
    pub fn listens(&mut self, id: u64, wire: Wire) {
        self.listeners.insert(id, wire);
        self.node.listening.get_or_insert_default().insert(id);
    }

    /// From now on nobody can be woken over this connection.
    pub fn hangs_up(&mut self, wire: Wire) {
        let listening = self.node.listening.get_or_insert_default();
        self.listeners.retain(|id, known| {
            let stays = *known != wire;
            if !stays {
                listening.remove(id);
            }
            stays
        });
    }

    /// It restarts, and every connection is gone.
    pub fn starts(&mut self) {
        self.listeners.clear();
        self.node.listening = Some(BTreeSet::new());
        self.node.waiters = self.node.waiters.take().or(keeps_waiters(self.habits));
    }

    /// Whether it carries out what arrives.
    pub fn runs(&self) -> bool {
        self.down == 0 && self.paused == 0
    }

    pub fn carry_out(&mut self, now: Moment, command: &Command) -> Reply {
        let reading = self.clock.read(now);
        let clock = node::Clock { now: reading, wall: reading.as_nanos() / 1000 };
        let reply = self.node.carry_out(clock, command, self.habits);
        let admitted = matches!(command, Command::Admit { .. });
        self.is_new &= !(admitted && reply == Reply::Vote(Vote::Granted));
        reply
    }

    /// Whether its next reply is garbled.
    pub fn garbles(&mut self) -> bool {
        self.garbled > 0 && self.dice.percent(self.garbled)
    }

    /// Loses everything at that true time, or is about to. A node that nobody has
    /// admitted yet has nothing to lose.
    pub fn forgets(&mut self, now: Moment) {
        if self.is_new {
            return;
        }
        // A reservation is not a lock.
        let locks = self.keys(now).filter(|(_, key)| Ticket::reserved_in(&key.value).is_none());
        let lost = locks.map(|(name, key)| Lost {
            name: name.clone(),
            value: key.value.clone(),
            dies: self.clock.when(key.dies),
        });
        let lost = lost.collect();
        self.memory.forgets(now, lost);
    }

    /// Swaps its databases at that true time. It remembers again what it knew
    /// before the last swap, unless it was admitted since.
    pub fn swap(&mut self, now: Moment) {
        let before = self.memory.clone();
        match self.hidden.take() {
            Some(hidden) if self.memory.forgot.is_some() => self.memory = hidden,
            Some(_) => self.forgets(now),
            None => {
                self.forgets(now);
                self.hidden = Some(before);
            }
        }
        self.node.swap();
    }

    /// Forgets both databases.
    pub fn forgets_both(&mut self, now: Moment) {
        self.forgets(now);
        self.hidden = None;
    }

    /// The keys alive at that true time.
    pub fn keys(
        &self,
        now: Moment,
    ) -> impl Iterator<Item = (&redlatch_core::Resource, &node::Key)> {
        let now = self.clock.read(now);
        self.node.contents.keys.iter().filter(move |(_, key)| now < key.dies)
    }

    pub fn slow_down(&mut self, by: Span) {
        self.slow += by.get();
    }

    pub fn speed_up(&mut self, by: Span) {
        self.slow = self.slow.saturating_sub(by.get());
    }
}

/// Where to note until when tickets count.
fn keeps_waiters(habits: node::Habits) -> Option<BTreeMap<Waiter, Presence>> {
    (habits.flaw != Some(Flaw::KeepsTheDead)).then(BTreeMap::new)
}
