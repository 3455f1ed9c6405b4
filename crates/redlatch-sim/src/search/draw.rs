//! Draws a schedule from a seed.
//!
//! In:  a number.
//! Out: a [`Schedule`]: always the same one for the same number.
//!
//! Times are drawn relative to the TTL, so that what goes wrong overlaps with
//! what it can hurt: retries, renewals, expiry.

mod jobs;
mod troubles;

use super::{
    clock::MOST_DRIFT,
    dice::Dice,
    schedule::{Guard, Network, Place, Schedule, Span},
};
use std::time::Duration;

/// What kind of run it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mood {
    /// How many troubles of each kind, at most.
    pub(super) network: u64,
    pub(super) node_crashes: u64,
    /// How many of a hundred node crashes lose the memory.
    pub(super) forgetting: u64,
    pub(super) pauses: u64,
    pub(super) client_crashes: u64,
    pub(super) steps: u64,
    pub(super) foreign: u64,
    /// Thousands of clients with little to do each.
    pub(super) crowd: bool,
    /// A few clients that all want one lock with a number, all the time, on nodes
    /// whose clocks jump: what fencing is for.
    pub(super) storm: bool,
}

const CALM: Mood = Mood {
    network: 0,
    node_crashes: 0,
    forgetting: 0,
    pauses: 0,
    client_crashes: 0,
    steps: 0,
    foreign: 0,
    crowd: false,
    storm: false,
};

/// What the parts of a schedule are drawn from.
pub(super) struct Draw {
    pub(super) dice: Dice,
    pub(super) mood: Mood,
    pub(super) nodes: usize,
    pub(super) clients: usize,
    pub(super) resources: u32,
    pub(super) ttl: Duration,
    pub(super) calm_at: Duration,
    pub(super) guard: Guard,
}

impl Schedule {
    /// The schedule of that seed.
    #[must_use]
    pub fn of(seed: u64) -> Schedule {
        let mut dice = Dice::of(seed, &[0]);
        let ttl = ttl(&mut dice);
        let nodes = dice.pick(&[1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 5, 5]);
        let guard = guard(&mut dice, nodes);
        let mood = mood(&mut dice, guard);
        // A node that is out stays out for up to three TTLs.
        let lasts = if guard == Guard::Off { dice.between(3, 12) } else { dice.between(6, 24) };
        let mut draw = Draw {
            nodes,
            clients: clients(&mut dice, mood),
            resources: if mood.storm { 1 } else { dice.pick(&[1, 2, 3]) },
            calm_at: ttl * u32::try_from(lasts).unwrap_or(3),
            ttl,
            mood,
            guard,
            dice,
        };
        Schedule {
            seed,
            nodes: (0..draw.nodes).map(|_| draw.place()).collect(),
            registers: draw.registers(),
            clients: (0..draw.clients).map(|_| draw.place()).collect(),
            network: draw.network(),
            guard,
            fresh: draw.dice.percent(10),
            max_ttl: (draw.ttl * 2).into(),
            skew: draw.skew(),
            calm_at: draw.calm_at.into(),
            troubles: draw.troubles(),
            jobs: draw.jobs(),
        }
    }
}

/// Off where it is by default: with fewer than three nodes.
fn guard(dice: &mut Dice, nodes: usize) -> Guard {
    match dice.below(100) {
        _ if nodes < 3 => Guard::Off,
        0..55 => Guard::Off,
        55..75 => Guard::On,
        _ => Guard::Strict,
    }
}

fn mood(dice: &mut Dice, guard: Guard) -> Mood {
    let mood = any_mood(dice);
    match guard {
        Guard::Off if mood.node_crashes > 0 && dice.percent(10) => Mood { forgetting: 50, ..mood },
        Guard::Off => mood,
        // What the guard is for.
        _ if dice.percent(70) => Mood { node_crashes: 5, forgetting: 75, steps: 0, ..mood },
        _ => Mood { node_crashes: mood.node_crashes.max(3), forgetting: 75, ..mood },
    }
}

fn any_mood(dice: &mut Dice) -> Mood {
    let everything = Mood {
        network: 8,
        node_crashes: 3,
        forgetting: 0,
        pauses: 4,
        client_crashes: 2,
        steps: 2,
        foreign: 2,
        crowd: false,
        storm: false,
    };
    match dice.below(100) {
        0..6 => CALM,
        6..30 => Mood { network: 12, ..CALM },
        30..45 => Mood { network: 4, pauses: 6, ..CALM },
        45..58 => Mood { network: 4, node_crashes: 4, client_crashes: 2, ..CALM },
        58..68 => Mood { network: 2, steps: 5, pauses: 2, ..CALM },
        68..74 => Mood { foreign: 6, network: 4, ..CALM },
        74..90 => everything,
        90..98 => Mood { network: 10, steps: 24, pauses: 2, storm: true, ..CALM },
        _ => Mood { network: 6, crowd: true, ..CALM },
    }
}

fn ttl(dice: &mut Dice) -> Duration {
    let millis = dice.pick(&[40, 100, 250, 500, 1_000, 2_000, 5_000, 10_000]);
    Duration::from_millis(millis)
}

fn clients(dice: &mut Dice, mood: Mood) -> usize {
    let (least, most) = match dice.below(10) {
        _ if mood.crowd => (1_000, 3_000),
        _ if mood.storm => (2, 5),
        0..6 => (2, 4),
        6..9 => (5, 12),
        _ => (13, 50),
    };
    usize::try_from(dice.between(least, most)).unwrap_or(2)
}

impl Draw {
    /// A part of the TTL, from `least` to `most` percent.
    pub(super) fn of_ttl(&mut self, least: u64, most: u64) -> Span {
        let percent = self.dice.between(least * 100, most * 100);
        Span::from(self.ttl.mul_f64(f64::from(u32::try_from(percent).unwrap_or(0)) / 10_000.0))
    }

    /// Any time before the calm.
    pub(super) fn any_time(&mut self) -> Span {
        self.dice.time(Duration::ZERO, self.calm_at).into()
    }

    pub(super) fn node(&mut self) -> usize {
        self.dice.index(self.nodes)
    }

    pub(super) fn client(&mut self) -> usize {
        self.dice.index(self.clients)
    }

    pub(super) fn resource(&mut self) -> u32 {
        u32::try_from(self.dice.below(self.resources.into())).unwrap_or(0)
    }

    fn registers(&mut self) -> Vec<u64> {
        let ahead = if self.mood.storm || self.dice.percent(40) { 1 << 51 } else { 0 };
        (0..self.nodes).map(|_| ahead + self.dice.below(3)).collect()
    }

    /// In whole milliseconds, as the agreement has it.
    fn skew(&mut self) -> Span {
        let span = self.of_ttl(10, 100);
        Span((span.0 / 1000).max(1) * 1000)
    }

    fn place(&mut self) -> Place {
        let drift = self.dice.pick(&[0, 50, 500, MOST_DRIFT]);
        let drift = if self.dice.percent(50) { drift } else { -drift };
        let hours = 3_600_000_000;
        let wall = match self.dice.below(10) {
            0..5 => i64::try_from(self.dice.below(20_000)).unwrap_or(0) - 10_000,
            5..8 => i64::try_from(self.dice.below(60_000_000)).unwrap_or(0) - 30_000_000,
            8 => 20 * hours,
            _ => -300 * hours,
        };
        Place { drift, wall }
    }

    fn network(&mut self) -> Network {
        // The default node timeout is a twentieth of the TTL.
        let most = match self.dice.below(10) {
            0..6 => self.ttl / 200,
            6..9 => self.ttl / 60,
            _ => self.ttl / 30,
        };
        let straggle = self.of_ttl(3, 60);
        Network {
            least: (most / 8).into(),
            most: most.into(),
            stragglers: self.dice.pick(&[0, 2, 10, 50]),
            straggle,
        }
    }
}
