//! A node and the machine it runs on: its clock, and whether it runs at all.

use super::{
    clock::Clock,
    event::Wire,
    schedule::{Schedule, Span, resources},
};
use crate::node;
use redlatch_core::{Command, Fingerprint, Moment, Reply, Tag};
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
    /// By what it is admitted, with the restart guard.
    guard: Option<Fingerprint>,
    /// It has forgotten something, and nobody has admitted it since.
    pub amnesia: bool,
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
        let guard = schedule.agreement().map(|agreement| agreement.fingerprint());
        let mut node = node::Node::default();
        if let Some(guard) = guard.filter(|_| !schedule.fresh) {
            node.admit_now(guard);
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
            guard,
            amnesia: false,
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
        if matches!(command, Command::Admit { .. }) {
            self.amnesia &= !self.guard.is_some_and(|guard| self.node.is_admitted(guard));
        }
        reply
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
