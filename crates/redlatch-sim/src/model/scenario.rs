//! A scenario: who wants what, what may go wrong, and the known outcome.

use super::{
    properties::{Mark, Property},
    world::BEGIN,
};
use redlatch_core::{
    Moment, Resources, Terms,
    config::{Wanted, WantedRenewal},
};
use std::time::Duration;

/// How many nodes there are in every scenario.
pub(super) const NODES: usize = 3;

/// Scenarios with more states are not part of `prove --short`.
const MOST_FOR_SHORT: u64 = 900_000;

/// A small world and its known outcome.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    /// What each client does; the first one begins.
    pub scripts: &'static [Script],
    pub faults: Faults,
    pub times: Times,
    /// Whether replies may be delayed, as commands always may.
    pub late_replies: bool,
    pub guard: Option<Guarded>,
    /// The clients that have begun, one after the other, and wait for no message any
    /// more when the history begins.
    pub settled: &'static [usize],
    /// What the fencing registers start with.
    pub registers: [u64; NODES],
    /// Must hold in every state.
    pub promises: &'static [Property],
    /// Must happen in some history.
    pub must_happen: &'static [Mark],
    pub expect: Expect,
    /// About how many states there are (until the violation, if one is expected).
    /// Decides what belongs to a short run; proves nothing.
    pub states: u64,
}

/// What one client does. Each step may come at any time, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that the client does or not")]
pub struct Script {
    /// How many locks it wants, one after the other.
    pub locks: u8,
    /// The earliest time at which it begins.
    pub after_ms: u32,
    /// How many times it checks which nodes may vote, and admits those that may.
    pub looks: u8,
    /// How long it keeps trying; zero means one attempt.
    pub wait_ms: u32,
    pub fenced: bool,
    /// How far its wall clock is ahead, in the numbers it proposes.
    pub ahead: u64,
    /// Renewal by the machine, if any.
    pub renewal: Option<Renewed>,
    /// How many times it extends a lease by hand.
    pub extends: u8,
    /// The TTL of an extension by hand.
    pub extend_ms: u32,
    pub releases: bool,
    /// Whether it may cancel in the middle of an attempt.
    pub cancels: bool,
    /// Whether its wall clock may be set forward: see [`Faults::jumps`].
    pub jumps: bool,
    /// Whether its agreement differs from that of the nodes and the other clients.
    pub disagrees: bool,
    /// Whether it waits in line, and how many times its client passes the lock on among
    /// its own callers.
    pub line: Option<u32>,
    /// Whether it is another caller of the client before it.
    pub joins: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewed {
    pub every_ms: u32,
    pub max_hold_ms: u32,
}

/// What may go wrong, and how many times in one history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A connection breaks; commands not yet carried out are lost.
    pub cuts: u8,
    /// A connection breaks while nothing is under way on it but wakes: the node can no
    /// longer wake its client.
    pub deaf: u8,
    /// Commands lost with their connection may still be carried out later.
    pub stragglers: bool,
    /// A command finds no connection.
    pub refusals: u8,
    /// The network delivers a command twice at once.
    pub repeats: u8,
    /// The network delivers a command again, much later.
    pub echoes: u8,
    /// A key expires early: a wall clock jumped, or memory ran short.
    pub expiries: u8,
    /// Someone deletes a held lock by hand, on all nodes at once.
    pub removals: u8,
    /// Time passes a client's due timer: the client is paused.
    pub lags: u8,
    /// A node restarts without its memory.
    pub restarts: u8,
    /// A replica without the keys takes a node's place.
    pub failovers: u8,
    /// How many locks a client of another library wants.
    pub foreign: u8,
    pub flushes: u8,
    /// A client's wall clock is set forward by one TTL.
    pub jumps: u8,
    /// A line goes wrong on a node: a ticket is lost, a reservation is deleted or
    /// given to anyone, or a client is woken for nothing.
    pub mislaid: u8,
}

/// The restart guard of all clients. All nodes are admitted at the start; only the
/// last client admits nodes later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarded {
    /// Whether clients trust only what they have watched themselves.
    pub strict: bool,
    /// Whether marking and admitting take time. Examining never does.
    pub slow: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    pub ttl_ms: u32,
    pub node_timeout_ms: u32,
    /// Time stops here.
    pub horizon_ms: u32,
    /// If not zero, time also stops at its multiples.
    pub beat_ms: u32,
    /// How far a client's wall clock may be ahead of a node's, in the numbers it
    /// proposes.
    pub skew_us: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Holds,
    /// This promise is broken: the scenario removes an assumption it needs.
    Broken(Property),
}

impl Scenario {
    /// Whether it is small enough for `prove --short`.
    pub fn is_short(&self) -> bool {
        self.states <= MOST_FOR_SHORT
    }
}

impl Script {
    pub(super) fn begins(&self) -> Moment {
        BEGIN.after(ms(self.after_ms))
    }

    pub(super) fn terms(&self, times: &Times) -> Terms {
        let renewal = self.renewal.map(|renewed| WantedRenewal {
            every: Some(ms(renewed.every_ms)),
            max_hold: ms(renewed.max_hold_ms),
        });
        let wanted = Wanted {
            ttl: ms(times.ttl_ms),
            node_timeout: Some(ms(times.node_timeout_ms)),
            min_validity: Some(Duration::ZERO),
            notice: Some(Duration::ZERO),
            renewal,
            ..Wanted::default()
        };
        Terms::check(&wanted).expect("the times of a scenario fit together")
    }
}

pub(super) fn resource() -> Resources {
    Resources::new(["lock"]).expect("a good name")
}

pub(super) fn ms(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}
