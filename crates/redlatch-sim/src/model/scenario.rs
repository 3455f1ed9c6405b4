//! What a scenario is: who wants what, what may go wrong, and what must come out.

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

/// The most states of a scenario that is part of `prove --short`.
const MOST_FOR_SHORT: u64 = 900_000;

/// One small world and what is known of it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// For the command line and the report.
    pub name: &'static str,
    /// What it is about, in one line.
    pub about: &'static str,
    /// What each client does. The first begins.
    pub scripts: &'static [Script],
    /// What may go wrong, and how often.
    pub faults: Faults,
    /// When things happen.
    pub times: Times,
    /// Whether replies may wait on their way, as commands always may.
    pub late_replies: bool,
    /// The restart guard, if there is one.
    pub guard: Option<Guarded>,
    /// Where the fencing registers stand at the start.
    pub registers: [u64; NODES],
    /// What must hold in every state.
    pub promises: &'static [Property],
    /// What must happen in some history.
    pub must_happen: &'static [Mark],
    /// What is known to come out.
    pub expect: Expect,
    /// About how many states there are (until the violation, where one is
    /// expected): says what belongs to a short run, and proves nothing.
    pub states: u64,
}

/// What one client does. Each step comes whenever it likes, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that the client does or not")]
pub struct Script {
    /// How many locks it wants, one after the other.
    pub locks: u8,
    /// When it begins, at the earliest.
    pub after_ms: u32,
    /// How often it looks which nodes may vote, and admits those that may.
    pub looks: u8,
    /// How long it tries, from when it begins to want one: zero is one attempt.
    pub wait_ms: u32,
    /// Whether it wants a fencing token.
    pub fenced: bool,
    /// How far its wall clock is ahead, in numbers it proposes too high.
    pub ahead: u64,
    /// Whether its machine renews the lease, and until when at most.
    pub renewal: Option<Renewed>,
    /// How often it extends a lease by hand, and by how much.
    pub extends: u8,
    /// The TTL of an extension by hand.
    pub extend_ms: u32,
    /// Whether it gives the lock back.
    pub releases: bool,
    /// Whether it may stop wanting a lock in the middle of an attempt.
    pub cancels: bool,
    /// Whether its wall clock may be set forward: see [`Faults::jumps`].
    pub jumps: bool,
    /// Whether it agrees with nobody: the nodes serve the others.
    pub disagrees: bool,
}

/// Renewal by the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewed {
    /// How often.
    pub every_ms: u32,
    /// The longest that the lock is held.
    pub max_hold_ms: u32,
}

/// What may go wrong, and how often in one history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A connection breaks: what was not carried out is lost.
    pub cuts: u8,
    /// What was not carried out when a connection broke still is, later on.
    pub stragglers: bool,
    /// A command finds no connection.
    pub refusals: u8,
    /// The network carries a command twice at once.
    pub repeats: u8,
    /// The network carries a command again, much later.
    pub echoes: u8,
    /// A key dies before its time: a wall clock jumped, memory was short.
    pub expiries: u8,
    /// Somebody removes a lock that is held by hand, from all nodes at once.
    pub removals: u8,
    /// Time passes a client that has a timer due: it is paused.
    pub lags: u8,
    /// A node restarts and has forgotten everything.
    pub restarts: u8,
    /// A replica that has no keys takes a node's place.
    pub failovers: u8,
    /// How many locks a client of another library wants.
    pub foreign: u8,
    /// All nodes are flushed at once.
    pub flushes: u8,
    /// A client's wall clock is set forward by a TTL.
    pub jumps: u8,
}

/// The restart guard of all clients. All nodes are admitted at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarded {
    /// Whether clients trust only what they have watched themselves.
    pub strict: bool,
    /// How many of the clients admit nodes: the last ones.
    pub admitting: usize,
    /// Whether reading and admitting take time. Looking never does.
    pub slow: bool,
}

/// When things happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How long a key lives.
    pub ttl_ms: u32,
    /// How long a client waits for a node.
    pub node_timeout_ms: u32,
    /// Time does not pass this.
    pub horizon_ms: u32,
    /// Also stop at multiples of this, where it is not zero.
    pub beat_ms: u32,
    /// How far a client's wall clock may be ahead of a node's, in the numbers
    /// that it proposes.
    pub skew_us: u32,
}

/// What is known to come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Every promise holds in every state.
    Holds,
    /// This one is broken: the scenario takes away what it needs.
    Broken(Property),
}

impl Scenario {
    /// Whether it is small enough for `prove --short`.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.states <= MOST_FOR_SHORT
    }
}

impl Script {
    /// From when on it does anything.
    pub(super) fn begins(&self) -> Moment {
        BEGIN.after(ms(self.after_ms))
    }

    /// The times of this client's locks.
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

/// What every client wants.
pub(super) fn resource() -> Resources {
    Resources::new(["lock"]).expect("a good name")
}

pub(super) fn ms(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}
