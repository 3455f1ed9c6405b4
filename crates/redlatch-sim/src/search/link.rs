//! One client's way to one node: at most one connection, in order both ways.
//!
//! It is what the library's connection is: made when it is needed, kept after a
//! time-out, never sending a command twice. After a failed connect commands fail
//! at once for a while that grows. TCP loses, repeats and reorders nothing inside
//! a connection; whatever it cannot deliver waits, or the connection breaks.

use super::{
    dice::Dice,
    event::{Event, Wire},
    schedule::Network,
};
use redlatch_core::{Command, Moment, Tag};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

const FIRST_REST: Duration = Duration::from_millis(20);
const LONGEST_REST: Duration = Duration::from_secs(1);
/// How long a connect may take.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// A connection on which nothing was answered for so long is given up.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(30);

/// One way, both directions.
#[derive(Debug)]
pub struct Link {
    /// The connection.
    pub state: State,
    /// Which node it leads to.
    pub leads_to: usize,
    /// The how many-th connection it is.
    pub epoch: u32,
    /// Handed over, not yet sent.
    pub waiting: VecDeque<Waiting>,
    /// Sent and not answered, the oldest first.
    pub under_way: VecDeque<Tag>,
    /// When there was last an answer, or nothing to answer.
    pub quiet_since: Moment,
    /// Messages to the node.
    pub out: Direction,
    /// Messages to the client.
    pub back: Direction,
    /// When what was on its way in a broken connection gets there; what is not
    /// here never does.
    pub late: BTreeMap<u32, Moment>,
    rest: Duration,
    dice: Dice,
}

/// A command that waits for a connection.
#[derive(Debug)]
pub struct Waiting {
    /// Since when.
    pub since: Moment,
    /// Which question it is.
    pub tag: Tag,
    /// What it says.
    pub command: Command,
}

/// What the connection is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// None; the next command makes one.
    Idle,
    /// Being made.
    Connecting,
    /// There.
    Ready,
    /// The last connect failed: so does every command until then.
    Resting(Moment),
}

/// One direction of a link.
#[derive(Debug, Default)]
pub struct Direction {
    /// How many troubles cut it.
    pub cut: u32,
    /// What waits for the end of the cut.
    pub held: VecDeque<Event>,
    /// When the last message got, or gets, there: the next one is not earlier.
    last: Option<Moment>,
}

impl Link {
    /// No connection yet.
    #[must_use]
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
            rest: FIRST_REST,
            dice,
        }
    }

    /// Whether nothing is on its way to or from the client.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }

    /// The wire that this connection is.
    #[must_use]
    pub fn wire(&self, client: usize, node: usize) -> Wire {
        Wire { client, node, server: self.leads_to, epoch: self.epoch }
    }

    /// How long one message takes.
    pub fn delay(&mut self, network: &Network, slow: Duration) -> Duration {
        let usual = self.dice.time(network.least.get(), network.most.get());
        let straggles = self.dice.below(1000) < network.stragglers;
        let straggle = if straggles { network.straggle.get() } else { Duration::ZERO };
        usual + self.dice.time(Duration::ZERO, straggle + slow)
    }

    /// When a message sent now gets to the node.
    pub fn reaches_node(&mut self, now: Moment, network: &Network, slow: Duration) -> Moment {
        let delay = self.delay(network, slow);
        self.out.arrival(now.after(delay))
    }

    /// When a message sent now gets to the client.
    pub fn reaches_client(&mut self, now: Moment, network: &Network, slow: Duration) -> Moment {
        let delay = self.delay(network, slow);
        self.back.arrival(now.after(delay))
    }

    /// A connect succeeded: what waited can be sent.
    pub fn connected(&mut self) -> VecDeque<Waiting> {
        self.state = State::Ready;
        self.rest = FIRST_REST;
        std::mem::take(&mut self.waiting)
    }

    /// A connect failed: what waited never left.
    pub fn connect_failed(&mut self, now: Moment) -> VecDeque<Waiting> {
        self.state = State::Resting(now.after(self.rest));
        self.rest = (self.rest * 2).min(LONGEST_REST);
        std::mem::take(&mut self.waiting)
    }

    /// Breaks the connection. What was on its way to the node gets there at
    /// `late`, or never. Out: the commands that nobody will answer.
    pub fn sever(&mut self, late: Option<Moment>) -> (VecDeque<Tag>, VecDeque<Event>) {
        if let Some(late) = late {
            self.late.insert(self.epoch, late);
        }
        self.epoch += 1;
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
