//! One client: a machine, what it sent and what it said.

use super::{Luck, channel::Channel};
use core::time::Duration;
use redlatch_core::{Command, Input, Machine, Moment, Now, Output, Steady};

#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) machine: Machine<Luck>,
    pub(crate) channels: Vec<Channel>,
    /// Which node each line leads to.
    pub(crate) routes: Vec<usize>,
    /// Every command, in the order sent.
    pub(crate) sent: Vec<(Moment, usize, Command)>,
    /// Everything else the machine said, in order.
    pub(crate) said: Vec<(Moment, Output)>,
    pub(crate) ops: u64,
    /// How far its wall clock has stepped forward, and so its lease clock.
    pub(crate) ahead: Duration,
    /// How far its wall clock is ahead of the nodes'.
    pub(crate) wall_ahead: Duration,
}

impl Client {
    pub(crate) fn new(number: usize, nodes: usize) -> Self {
        Client {
            machine: Machine::new(nodes, Luck::of(number)),
            channels: vec![Channel::open(); nodes],
            routes: (0..nodes).collect(),
            sent: Vec::new(),
            said: Vec::new(),
            ops: 0,
            ahead: Duration::ZERO,
            wall_ahead: Duration::ZERO,
        }
    }

    pub(crate) fn is_due(&self, now: Moment) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    /// When it wants to be called, in the world's time.
    pub(crate) fn due(&self) -> Option<Moment> {
        self.machine.due().map(|due| due.before(self.ahead))
    }

    pub(crate) fn handle(&mut self, now: Moment, input: Input) {
        let steady = Steady::from_nanos(now.as_nanos());
        self.machine.handle(Now { lease: now.after(self.ahead), steady }, input);
    }

    /// Hands in the time, and holds the machine to what `due` promises: what
    /// was due is done, so that a driver which sleeps until `due` never spins.
    pub(crate) fn tick(&mut self, now: Moment) {
        self.handle(now, Input::Tick);
        assert!(!self.is_due(now), "still due after a tick");
    }
}
