//! Draws a schedule from a seed.
//!
//! In:  a number.
//! Out: a [`Schedule`]: the same one for the same number.
//!
//! Times are drawn relative to the TTL, so that troubles overlap with what they can
//! hurt: retries, renewals, expiry.

mod clocks;
mod jobs;
mod lines;
mod parties;
mod troubles;

use super::schedule::{Network, Party, RestartGuard, Schedule, Span};
use redlatch_core::dice::Dice;
use std::time::Duration;

/// What kind of run it is; calm by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a kind of its own")]
pub(super) struct Mood {
    /// The most troubles of each kind.
    pub(super) network: u64,
    pub(super) node_crashes: u64,
    /// The percentage of node crashes that lose the memory.
    pub(super) forgetting: u64,
    pub(super) pauses: u64,
    pub(super) client_crashes: u64,
    pub(super) steps: u64,
    /// Steps of clients' clocks only.
    pub(super) client_steps: u64,
    pub(super) garbled: u64,
    pub(super) foreign: u64,
    /// How many times an operator vouches for a node.
    pub(super) words: u64,
    /// The percentage of runs in which all nodes are flushed once.
    pub(super) flush_all: u64,
    /// All nodes restart one after the other, under a renewed lease.
    pub(super) rolling: bool,
    /// Thousands of clients with little to do each.
    pub(super) crowd: bool,
    /// One client wants hundreds of locks at once: more than may be under way.
    pub(super) flood: bool,
    /// A few clients that all want one lock with a fencing token, all the time, on
    /// nodes whose clocks jump: what fencing is for.
    pub(super) storm: bool,
}

/// Clients other than those that agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    Nobody,
    /// Clients with other times.
    Strangers,
    /// A client without a guard that names a minority.
    Loner,
    /// Clients whose list differs by one node; the nodes move over one by one.
    Successors,
}

/// What the parts of a schedule are drawn from.
pub(super) struct Draw {
    pub(super) dice: Dice,
    pub(super) mood: Mood,
    pub(super) others: Others,
    pub(super) parties: Vec<Party>,
    pub(super) nodes: usize,
    pub(super) clients: usize,
    pub(super) resources: u32,
    pub(super) ttl: Duration,
    pub(super) calm_at: Duration,
    pub(super) guard: RestartGuard,
    /// See [`Draw::deafen`].
    pub(super) deaf: bool,
}

impl Schedule {
    pub fn of(seed: u64) -> Schedule {
        let mut dice = Dice::of(seed, &[0]);
        let ttl = ttl(&mut dice);
        let nodes = dice.pick(&[1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 5, 5]);
        let guard = guard(&mut dice, nodes);
        let mood = mood(&mut dice, guard);
        let others = others(&mut dice, guard, mood);
        let calm = others == Others::Nobody && !mood.rolling && !mood.crowd;
        let deaf = matches!(nodes, 3 | 5) && guard != RestartGuard::Off && calm && dice.percent(12);
        // Nothing else goes wrong: one coincidence is enough.
        let mood = if deaf { Mood { storm: true, ..Mood::default() } } else { mood };
        let mut draw = Draw {
            deaf,
            nodes,
            clients: clients(&mut dice, mood, others),
            resources: if mood.storm || deaf { 1 } else { dice.pick(&[1, 2, 3]) },
            calm_at: Duration::ZERO,
            parties: Vec::new(),
            ttl,
            mood: calmer(mood, others),
            others,
            guard,
            dice,
        };
        draw.draw_parties();
        draw.calm_at = draw.lasts();
        let registers = draw.registers();
        let mut schedule = Schedule {
            seed,
            nodes: draw.node_clocks(registers.iter().all(|register| *register < 3)),
            registers,
            clients: (0..draw.clients).map(|client| draw.process(client)).collect(),
            parties: draw.parties.clone(),
            network: draw.network(),
            fresh: others == Others::Nobody && !mood.rolling && draw.dice.percent(10),
            calm_at: draw.calm_at.into(),
            troubles: draw.troubles(),
            jobs: draw.jobs(),
        };
        // With separate dice, so that the rest of a seed's schedule does not change.
        draw.dice = Dice::of(seed, &[4]);
        draw.reroutes(&mut schedule.troubles);
        draw.dice = Dice::of(seed, &[5]);
        draw.lines(&mut schedule);
        schedule
    }
}

/// Off with fewer than three nodes, as by default.
fn guard(dice: &mut Dice, nodes: usize) -> RestartGuard {
    match dice.below(100) {
        _ if nodes < 3 => RestartGuard::Off,
        0..30 => RestartGuard::Off,
        30..65 => RestartGuard::On,
        _ => RestartGuard::Strict,
    }
}

fn mood(dice: &mut Dice, guard: RestartGuard) -> Mood {
    let mood = any_mood(dice);
    match guard {
        RestartGuard::Off if mood.node_crashes > 0 && dice.percent(30) => {
            Mood { forgetting: 50, ..mood }
        }
        RestartGuard::Off => mood,
        // What the guard is for.
        _ => match dice.below(100) {
            0..20 => Mood { rolling: true, ..Mood::default() },
            20..60 => Mood {
                node_crashes: 6,
                forgetting: 75,
                steps: 0,
                client_steps: 3,
                words: 2,
                flush_all: 15,
                ..mood
            },
            60..80 => Mood { node_crashes: 3, forgetting: 75, steps: 0, network: 8, ..mood },
            _ => Mood { node_crashes: mood.node_crashes.max(3), forgetting: 75, ..mood },
        },
    }
}

fn others(dice: &mut Dice, guard: RestartGuard, mood: Mood) -> Others {
    match dice.below(100) {
        _ if guard == RestartGuard::Off || mood.crowd => Others::Nobody,
        0..15 => Others::Strangers,
        15..20 => Others::Loner,
        20..32 if !mood.rolling => Others::Successors,
        _ => Others::Nobody,
    }
}

/// Fewer troubles where the list changes or a loner takes part.
fn calmer(mood: Mood, others: Others) -> Mood {
    match others {
        Others::Successors => {
            let network = mood.network.min(2);
            Mood { network, node_crashes: 0, steps: 0, words: 0, flush_all: 0, ..Mood::default() }
        }
        Others::Loner => Mood { node_crashes: 0, flush_all: 0, words: 0, steps: 0, ..mood },
        _ => mood,
    }
}

fn any_mood(dice: &mut Dice) -> Mood {
    let everything = Mood {
        network: 8,
        node_crashes: 3,
        pauses: 4,
        client_crashes: 2,
        steps: 2,
        garbled: 2,
        foreign: 2,
        ..Mood::default()
    };
    match dice.below(100) {
        0..6 => Mood::default(),
        6..26 => Mood { network: 12, ..Mood::default() },
        26..30 => Mood { network: 4, garbled: 4, ..Mood::default() },
        30..45 => Mood { network: 4, pauses: 6, ..Mood::default() },
        45..58 => Mood { network: 4, node_crashes: 4, client_crashes: 2, ..Mood::default() },
        58..68 => Mood { network: 2, steps: 5, pauses: 2, ..Mood::default() },
        68..74 => Mood { foreign: 6, network: 4, ..Mood::default() },
        74..90 => everything,
        90..96 => Mood { network: 10, steps: 24, pauses: 2, storm: true, ..Mood::default() },
        96..98 => Mood { network: 6, pauses: 2, flood: true, ..Mood::default() },
        _ => Mood { network: 6, client_crashes: 60, pauses: 10, crowd: true, ..Mood::default() },
    }
}

fn ttl(dice: &mut Dice) -> Duration {
    let millis = dice.pick(&[40, 100, 250, 500, 1_000, 2_000, 5_000, 10_000]);
    Duration::from_millis(millis)
}

fn clients(dice: &mut Dice, mood: Mood, others: Others) -> usize {
    let (least, most) = match dice.below(10) {
        _ if mood.crowd => (1_000, 3_000),
        _ if mood.storm || mood.rolling => (2, 5),
        _ if others != Others::Nobody => (3, 8),
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

    /// Any time in the first phase.
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

    fn lasts(&mut self) -> Duration {
        let ttl = self.ttl;
        let turns = u32::try_from(self.nodes).unwrap_or(5) + 1;
        match (self.others, self.mood.rolling) {
            (Others::Successors, _) | (_, true) => self.pace() * turns + ttl * 2,
            // A quarantined node stays so for a whole window.
            _ if self.guard == RestartGuard::Off => ttl * self.times(3, 12),
            _ => ttl * self.times(8, 30),
        }
    }

    fn times(&mut self, least: u64, most: u64) -> u32 {
        u32::try_from(self.dice.between(least, most)).unwrap_or(3)
    }

    fn registers(&mut self) -> Vec<u64> {
        let ahead = if self.mood.storm || self.deaf || self.dice.percent(40) { 1 << 51 } else { 0 };
        (0..self.nodes).map(|_| ahead + self.dice.below(3)).collect()
    }

    fn network(&mut self) -> Network {
        // The default node timeout is a twentieth of the TTL.
        let most = match self.dice.below(10) {
            0..6 => self.ttl / 200,
            6..9 => self.ttl / 60,
            _ => self.ttl / 30,
        };
        // A message waits for the messages ahead of it: among hundreds the slowest
        // decides, and no attempt would be answered in time.
        let most = if self.mood.flood { self.ttl / 200 } else { most };
        let straggle = self.of_ttl(3, 60);
        let stragglers = self.dice.pick(&[0, 2, 10, 50]);
        Network {
            least: (most / 8).into(),
            most: most.into(),
            stragglers: if self.mood.rolling || self.mood.flood { 0 } else { stragglers },
            straggle,
            wakes_lost: 0,
        }
    }
}
