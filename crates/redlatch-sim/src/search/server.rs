//! A node and the machine it runs on: its clock, and whether it runs at all.

use super::{
    clock::Clock,
    dice::Dice,
    event::Wire,
    memory::{Lost, Memory},
    schedule::{Schedule, Span, resources},
};
use crate::node;
use redlatch_core::{Command, Moment, Reply, Tag, Vote};
use std::{collections::VecDeque, time::Duration};

/// The wall clock at the true time zero: the year 2026, in nanoseconds.
pub const EPOCH: u64 = 1_770_000_000_000_000_000;

/// One node.
#[derive(Debug)]
pub struct Server {
    /// Keys and registers.
    pub node: node::Node,
    /// Its wall clock, which keys die by.
    pub clock: Clock,
    /// How many troubles keep it down.
    pub down: u32,
    /// How many of those nobody was told of.
    pub silent: u32,
    /// How many troubles keep it standing still.
    pub paused: u32,
    /// How much longer messages to and from it may take.
    pub slow: Duration,
    /// What reached it while it stood still.
    pub backlog: VecDeque<Arrived>,
    /// How many of a hundred of its replies make no sense.
    pub garbled: u64,
    /// What it has forgotten.
    pub memory: Memory,
    /// Nobody has admitted it yet.
    is_new: bool,
    /// How many troubles have swapped its databases: the first swaps them, the
    /// last swaps them back.
    pub swaps: u32,
    /// What it had forgotten when its databases were swapped.
    hidden: Option<Memory>,
    dice: Dice,
    habits: node::Habits,
}

/// A command that reached a node.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// On which wire.
    pub wire: Wire,
    /// When it was sent.
    pub sent: Moment,
    /// Which question it is.
    pub tag: Tag,
    /// What it says.
    pub command: Command,
}

impl Server {
    /// A node with empty memory.
    #[must_use]
    pub fn new(schedule: &Schedule, number: usize, habits: node::Habits) -> Self {
        let place = &schedule.nodes[number];
        let first = &schedule.parties[0];
        let guard = first.guard().filter(|_| !schedule.fresh);
        let mut node = node::Node::server(number);
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
        }
    }

    /// Whether it carries out what reaches it.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.down == 0 && self.paused == 0
    }

    /// Carries out one command at that true time.
    pub fn carry_out(&mut self, now: Moment, command: &Command) -> Reply {
        let reading = self.clock.read(now);
        let clock = node::Clock { now: reading, wall: reading.as_nanos() / 1000 };
        let reply = self.node.carry_out(clock, command, self.habits);
        let admitted = matches!(command, Command::Admit { .. });
        self.is_new &= !(admitted && reply == Reply::Vote(Vote::Granted));
        reply
    }

    /// Whether the reply to what it has just done makes no sense.
    pub fn garbles(&mut self) -> bool {
        self.garbled > 0 && self.dice.percent(self.garbled)
    }

    /// Loses all that it has, at that true time; or is about to. One that nobody
    /// has admitted yet has nothing to lose.
    pub fn forgets(&mut self, now: Moment) {
        if self.is_new {
            return;
        }
        let lost = self.keys(now).map(|(name, key)| Lost {
            name: name.clone(),
            value: key.value.clone(),
            dies: self.clock.when(key.dies),
        });
        let lost = lost.collect();
        self.memory.forgets(now, lost);
    }

    /// Its databases are swapped, at that true time. What it knew before it
    /// was swapped the last time it knows again, unless it was admitted since.
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

    /// Nothing is left to be swapped back.
    pub fn forgets_both(&mut self, now: Moment) {
        self.forgets(now);
        self.hidden = None;
    }

    /// The keys that are alive at that true time.
    pub fn keys(
        &self,
        now: Moment,
    ) -> impl Iterator<Item = (&redlatch_core::Resource, &node::Key)> {
        let now = self.clock.read(now);
        self.node.keys().filter(move |(_, key)| now < key.dies)
    }

    /// Slower from now on, or as fast as before.
    pub fn slow_down(&mut self, by: Span) {
        self.slow += by.get();
    }

    /// The end of [`slow_down`](Self::slow_down).
    pub fn speed_up(&mut self, by: Span) {
        self.slow = self.slow.saturating_sub(by.get());
    }
}
