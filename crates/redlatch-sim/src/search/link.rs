//! One client's link to one node: at most one connection, in order both ways.
//!
//! Works like the library's link: it connects when needed, keeps the connection after a
//! time-out, and never sends a command twice. After a failed connect, commands fail at
//! once for a growing time. TCP loses, repeats and reorders nothing within a
//! connection; what it cannot deliver waits, or the connection breaks.

use super::{
    event::{Event, Wire},
    schedule::Network,
};
use redlatch_core::{Command, Moment, Tag, dice::Dice, link::Rest};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

#[derive(Debug)]
pub struct Link {
    pub state: State,
    pub leads_to: usize,
    /// Counts its connections.
    pub epoch: u32,
    /// Not sent yet.
    pub waiting: VecDeque<Waiting>,
    /// Sent and not answered, oldest first.
    pub under_way: VecDeque<Tag>,
    /// When an answer last came, or when nothing was under way.
    pub quiet_since: Moment,
    pub out: Direction,
    pub back: Direction,
    /// When commands of a broken connection arrive. Commands of connections that are
    /// not listed never arrive.
    pub late: BTreeMap<u32, Moment>,
    rest: Rest,
    dice: Dice,
    /// Whether a command was ever lost on its way, or may have been.
    pub failed: bool,
}

/// A command that waits for a connection.
#[derive(Debug)]
pub struct Waiting {
    pub since: Moment,
    pub tag: Tag,
    pub command: Command,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Idle,
    Connecting,
    Ready,
    /// The last connect failed, and so does every command until then.
    Resting(Moment),
}

#[derive(Debug, Default)]
pub struct Direction {
    pub cut: u32,
    /// Messages that wait for the cut to end.
    pub held: VecDeque<Event>,
    /// When the last message arrives: the next one is not earlier.
    last: Option<Moment>,
}

impl Link {
    pub fn new(leads_to: usize, dice: Dice) -> Self {
        Link {
            leads_to,
            state: State::Idle,
            epoch: 0,
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
            quiet_since: Moment::START,
            out: Direction::default(),
            back: Direction::default(),
            late: BTreeMap::new(),
            rest: Rest::default(),
            dice,
            failed: false,
        }
    }

    /// Whether nothing is on its way to or from the client.
    pub fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }

    pub fn wire(&self, client: usize, node: usize) -> Wire {
        Wire { client, node, server: self.leads_to, epoch: self.epoch }
    }

    pub fn delay(&mut self, network: &Network, slow: Duration) -> Duration {
        let usual = self.dice.time(network.least.get(), network.most.get());
        let straggles = self.dice.below(1000) < network.stragglers;
        let straggle = if straggles { network.straggle.get() } else { Duration::ZERO };
        usual + self.dice.time(Duration::ZERO, straggle + slow)
    }

    /// Whether a wake gets lost, with this chance in percent.
    pub fn loses(&mut self, percent: u64) -> bool {
        percent > 0 && self.dice.percent(percent)
    }

    /// When a message sent now reaches the node.
    pub fn reaches_node(&mut self, now: Moment, network: &Network, slow: Duration) -> Moment {
        let delay = self.delay(network, slow);
        self.out.arrival(now.after(delay))
    }

    /// When a message sent now reaches the client.
    pub fn reaches_client(&mut self, now: Moment, network: &Network, slow: Duration) -> Moment {
        let delay = self.delay(network, slow);
        self.back.arrival(now.after(delay))
    }

    /// A connect succeeded: the waiting commands can be sent.
    pub fn connected(&mut self) -> VecDeque<Waiting> {
        self.state = State::Ready;
        self.rest = Rest::default();
        std::mem::take(&mut self.waiting)
    }

    /// A connect failed: the waiting commands were never sent.
    pub fn connect_failed(&mut self, now: Moment) -> VecDeque<Waiting> {
        self.failed = true;
        self.state = State::Resting(now.after(self.rest.begin()));
        std::mem::take(&mut self.waiting)
    }

    /// Breaks the connection. Commands under way arrive at `late`, or never.
    /// Returns those that nobody will answer.
    pub fn sever(&mut self, late: Option<Moment>) -> (VecDeque<Tag>, VecDeque<Event>) {
        if let Some(late) = late {
            self.late.insert(self.epoch, late);
        }
        self.epoch += 1;
        self.failed = true;
        if self.state == State::Ready {
            self.state = State::Idle;
        }
        self.back.held.clear();
        let held = std::mem::take(&mut self.out.held);
        self.out.last = None;
        self.back.last = None;
        (std::mem::take(&mut self.under_way), held)
    }
}

impl Direction {
    fn arrival(&mut self, wanted: Moment) -> Moment {
        let at = self.last.map_or(wanted, |last| last.max(wanted));
        self.last = Some(at);
        at
    }
}
