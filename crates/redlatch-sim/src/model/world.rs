//! One state: machines, lines, nodes, callers, the time and what may still go wrong.
//!
//! States that are equal have the same future. What is shared is not copied:
//! a step changes one machine, one line or one node, and the next state keeps
//! the rest.

use super::{
    caller::{Caller, Stage},
    check::Mistake,
    foreign::Foreign,
    hash::{Mixer, Shared},
    line::Line,
    memo::Memo,
    scenario::{Faults, NODES, Scenario, Script, ms, resource},
};
use crate::node::{Habits, Node};
use redlatch_core::{
    Entropy, Guard, Machine, Moment, Now, OpId, Owner, Resource, Resources, Steady, Terms,
    WallClock, machine::Order,
};
use std::{
    hash::{Hash, Hasher},
    rc::Rc,
    time::Duration,
};

/// Every history begins here; the nodes were started long before.
pub(super) const BEGIN: Moment = Moment::from_nanos(10_000_000_000);

/// What does not change in a scenario.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) scenario: Scenario,
    pub(super) resources: Resources,
    pub(super) name: Resource,
    pub(super) habits: Habits,
    /// The mistake of a driver that lets an undo overtake its take.
    pub(super) undos_overtake: bool,
    pub(super) memo: Memo,
    pub(super) guard: Option<Guard>,
    /// The mistake of a driver that has no clock but that of leases.
    one_clock: bool,
    terms: Vec<Terms>,
    owners: Vec<Owner>,
}

/// One state.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) setting: Rc<Setting>,
    pub(super) now: Moment,
    pub(super) machines: Vec<Shared<Machine<Dice>>>,
    pub(super) callers: Vec<Caller>,
    /// Of each client to each node.
    pub(super) lines: Vec<Shared<Line>>,
    pub(super) nodes: Vec<Shared<Node>>,
    pub(super) foreign: Foreign,
    /// What may still go wrong.
    pub(super) faults: Faults,
    /// Every fencing token that was granted, in order.
    pub(super) granted: Vec<u64>,
    /// The nodes that have not dealt with the first client's first take.
    pub(super) untouched: u8,
}

impl Setting {
    pub(super) fn new(scenario: Scenario, mistake: Mistake) -> Self {
        let resources = resource();
        let name = resources.single().expect("one name").clone();
        let clients = 1..=scenario.scripts.len();
        let owner = |number| Owner::new(format!("c{number}")).expect("a good label");
        Setting {
            terms: scenario.scripts.iter().map(|script| script.terms(&scenario.times)).collect(),
            owners: clients.map(owner).collect(),
            habits: Habits { flaw: mistake.flaw, discreet: true, stands_still: true },
            guard: guard(&scenario),
            undos_overtake: mistake.undos_overtake,
            one_clock: mistake.one_clock,
            memo: Memo::default(),
            resources,
            name,
            scenario,
        }
    }

    fn guard_of(&self, client: usize) -> Option<Guard> {
        let guarded = self.scenario.guard?;
        let passing = client + guarded.admitting < self.scenario.scripts.len();
        let guard = if self.scenario.scripts[client].disagrees {
            Some(self.stranger()?)
        } else {
            self.guard.clone()
        };
        guard.map(|guard| if passing { guard.passing() } else { guard })
    }

    /// The guard of clients that agree with nobody: other times, the same nodes.
    pub(super) fn stranger(&self) -> Option<Guard> {
        let guard = self.guard.as_ref()?;
        let (names, max_ttl) = (guard.agreement.nodes().iter().cloned(), guard.agreement.max_ttl());
        Some(Guard::new(names, max_ttl, Duration::from_millis(1), guard.strict))
    }

    /// What a client asks for when it begins to want the lock. The wall clocks
    /// stand still: only the registers tell grants apart.
    pub(super) fn order(&self, client: usize, now: Moment) -> Order {
        let script = &self.scenario.scripts[client];
        let skew = Duration::from_micros(self.scenario.times.skew_us.into());
        let clock = WallClock { read_at: Moment::NEVER, micros: script.ahead, skew };
        Order {
            resources: self.resources.clone(),
            terms: self.terms[client].clone(),
            owner: self.owners[client].clone(),
            wait_until: now.after(ms(script.wait_ms)),
            fencing: script.fenced.then_some(clock),
        }
    }
}

/// The guard of all clients that have one.
fn guard(scenario: &Scenario) -> Option<Guard> {
    let guarded = scenario.guard?;
    let names = ["A", "B", "C"].map(Into::into);
    Some(Guard::new(names, ms(scenario.times.ttl_ms), Duration::ZERO, guarded.strict))
}

impl World {
    pub(super) fn new(setting: &Rc<Setting>) -> Self {
        let scenario = &setting.scenario;
        let clients = scenario.scripts.len();
        let dice = |client| Dice { client, attempts: 0 };
        let machine = |client| {
            let machine = Machine::new(NODES, dice(client));
            let guard = setting.guard_of(client.into());
            Shared::new(guard.map_or(machine.clone(), |guard| machine.guarded(guard)))
        };
        let node = |(at, number): (usize, &u64)| {
            let mut node = Node::server(at);
            if *number > 0 {
                node.set_register(&setting.resources, *number);
            }
            if let Some(guard) = &setting.guard {
                node.admit_now(guard.fingerprint(at), &guard.agreement_at(at).to_string());
            }
            Shared::new(node)
        };
        World {
            now: BEGIN,
            machines: (0..=255).take(clients).map(machine).collect(),
            callers: scenario.scripts.iter().map(|s| Caller::new(s.extends, s.looks)).collect(),
            lines: vec![Shared::new(Line::default()); clients * NODES],
            nodes: scenario.registers.iter().enumerate().map(node).collect(),
            foreign: Foreign::new(scenario.faults.foreign),
            faults: scenario.faults,
            granted: Vec::new(),
            untouched: if scenario.registers == [scenario.registers[0]; NODES] { 0b111 } else { 0 },
            setting: Rc::clone(setting),
        }
    }

    pub(super) fn clients(&self) -> usize {
        self.machines.len()
    }

    pub(super) fn line(&self, client: usize, node: usize) -> &Line {
        &self.lines[client * NODES + node]
    }

    pub(super) fn line_mut(&mut self, client: usize, node: usize) -> &mut Shared<Line> {
        &mut self.lines[client * NODES + node]
    }

    /// The operation that the caller is at.
    pub(super) fn op(&self, client: usize) -> OpId {
        OpId::new(u64::from(self.callers[client].started))
    }

    pub(super) fn is_due(&self, client: usize) -> bool {
        self.machines[client].due().is_some_and(|due| due <= self.clock(client).lease)
    }

    /// How far the client's clock of leases is ahead of true time.
    pub(super) fn ahead(&self, client: usize) -> Duration {
        ms(self.callers[client].ahead_ms)
    }

    /// The time on both clocks of a client. No step moves the slow one, unless
    /// the driver makes that mistake.
    pub(super) fn clock(&self, client: usize) -> Now {
        let lease = self.now.after(self.ahead(client));
        let steady = if self.setting.one_clock { lease } else { self.now };
        Now { lease, steady: Steady::from_nanos(steady.as_nanos()) }
    }

    /// The next moment at which anything can change by time alone.
    pub(super) fn next_moment(&self) -> Option<Moment> {
        let times = &self.setting.scenario.times;
        let due = |client: usize| Some(self.machines[client].due()?.before(self.ahead(client)));
        let dues = (0..self.clients()).filter_map(due);
        let keys = self.nodes.iter().flat_map(|node| node.keys().map(|(_, key)| key.dies));
        let leases = self.callers.iter().filter_map(|caller| caller.lease().map(|l| l.until));
        let starts = self.setting.scenario.scripts.iter().map(Script::begins);
        let beat = (times.beat_ms > 0).then(|| next_beat(self.now, times.beat_ms));
        let moments = dues.chain(keys).chain(leases).chain(self.foreign.holds_until());
        let moments = moments.chain(starts).chain(beat);
        let next = moments.filter(|moment| *moment > self.now).min()?;
        (next <= BEGIN.after(ms(times.horizon_ms))).then_some(next)
    }

    /// Whether nothing of this client's is under way any more.
    pub(super) fn is_quiet(&self, client: usize) -> bool {
        self.machines[client].is_idle()
            && (0..NODES).all(|node| self.line(client, node).is_empty())
            && self.callers[client].stage == Stage::Idle
    }

    /// The state's number.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut mixer = Mixer::default();
        (self.now, &self.callers, self.foreign, self.faults).hash(&mut mixer);
        (&self.granted, self.untouched).hash(&mut mixer);
        self.machines.iter().for_each(|part| mixer.write_u64(part.hash()));
        self.lines.iter().for_each(|part| mixer.write_u64(part.hash()));
        self.nodes.iter().for_each(|part| mixer.write_u64(part.hash()));
        mixer.finish()
    }
}

fn next_beat(now: Moment, beat_ms: u32) -> Moment {
    let beat = u64::from(beat_ms) * 1_000_000;
    Moment::from_nanos((now.as_nanos() / beat + 1) * beat)
}

/// Tokens that tell client and attempt, and pauses of middling length.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Dice {
    client: u8,
    attempts: u8,
}

impl Entropy for Dice {
    fn fill(&mut self, bytes: &mut [u8]) {
        // Eight bytes are for a pause, or for a mark of the restart guard. Marks
        // differ all the same: there is one at most in each life of a node.
        if bytes.len() == 8 {
            return bytes.fill(128);
        }
        self.attempts += 1;
        bytes.fill(0);
        bytes[0] = self.client;
        bytes[1] = self.attempts;
    }
}

/// The name of what stands on a node: `c1.2` is of the first client's second attempt.
pub(super) fn name_of(value: &[u8]) -> String {
    let hex = |at: usize| value.get(at..at + 2).and_then(|digits| str::from_utf8(digits).ok());
    let number = |at| hex(at).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    match (number(0), number(2)) {
        (Some(client), Some(attempt)) => format!("c{}.{attempt}", client + 1),
        _ => String::from_utf8_lossy(value).into_owned(),
    }
}
