//! One client: a machine, what it sent and what it said.

use super::{Dice, line::Line};
use redlatch_core::{Command, Input, Machine, Moment, Output};

#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) machine: Machine<Dice>,
    pub(crate) lines: Vec<Line>,
    /// Every command, in the order sent.
    pub(crate) sent: Vec<(Moment, usize, Command)>,
    /// Everything else the machine said, in order.
    pub(crate) said: Vec<(Moment, Output)>,
    pub(crate) ops: u64,
}

impl Client {
    pub(crate) fn new(number: usize, nodes: usize) -> Self {
        Client {
            machine: Machine::new(nodes, Dice::of(number)),
            lines: vec![Line::open(); nodes],
            sent: Vec::new(),
            said: Vec::new(),
            ops: 0,
        }
    }

    pub(crate) fn is_due(&self, now: Moment) -> bool {
        self.machine.due().is_some_and(|due| due <= now)
    }

    /// Hands in the time, and holds the machine to what `due` promises: what
    /// was due is done, so that a driver which sleeps until `due` never spins.
    pub(crate) fn tick(&mut self, now: Moment) {
        self.machine.handle(now, Input::Tick);
        assert!(!self.is_due(now), "still due after a tick");
    }
}
