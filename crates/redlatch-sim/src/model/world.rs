//! One state: machines, connections, nodes, callers, the time and the faults left.
//!
//! Equal states have the same future. A step changes one machine, connection or
//! node; the next state shares the rest.

use super::{
    caller::{Caller, Stage},
    channel::Channel,
    check::Mistake,
    foreign::Foreign,
    hash::{Mixer, Shared},
    memo::Memo,
    scenario::{Faults, NODES, Scenario, Script, ms, resource},
};
use crate::node::{Habits, Node};
use redlatch_core::{
    Admission, Entropy, InLine, Machine, Moment, Now, OpId, Owner, Resource, Resources, Steady,
    Terms, WallClock, machine::Order,
};
use std::{
    collections::BTreeSet,
    hash::{Hash, Hasher},
    rc::Rc,
    time::Duration,
};

/// Every history begins here; the nodes started long before.
pub(super) const BEGIN: Moment = Moment::from_nanos(10_000_000_000);

/// What stays the same throughout a scenario.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) scenario: Scenario,
    pub(super) resources: Resources,
    pub(super) name: Resource,
    pub(super) habits: Habits,
    /// Mutant: the driver lets an undo overtake its take.
    pub(super) undos_overtake: bool,
    pub(super) memo: Memo,
    pub(super) guard: Option<Admission>,
    /// Mutant: the driver has only the lease clock.
    one_clock: bool,
    terms: Vec<Terms>,
    owners: Vec<Owner>,
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) setting: Rc<Setting>,
    pub(super) now: Moment,
    pub(super) machines: Vec<Shared<Machine<Sequence>>>,
    pub(super) callers: Vec<Caller>,
    /// From each client to each node.
    pub(super) channels: Vec<Shared<Channel>>,
    pub(super) nodes: Vec<Shared<Node>>,
    pub(super) foreign: Foreign,
    /// What may still go wrong.
    pub(super) faults: Faults,
    /// Every fencing token that was granted, in order.
    pub(super) granted: Vec<u64>,
    /// Nodes that have not handled the first client's first take, one bit each.
    pub(super) untouched: u8,
}

impl Setting {
    pub(super) fn new(scenario: Scenario, mistake: Mistake) -> Self {
        let resources = resource();
        let name = resources.single().expect("one name").clone();
        let clients = 1..=scenario.scripts.len();
        // Only waiters in line use who holds the lock, and for how long.
        let has_lines = scenario.scripts.iter().any(|script| script.line.is_some());
        let owner = |number| Owner::new(format!("c{number}")).expect("a good label");
        Setting {
            terms: scenario.scripts.iter().map(|script| script.terms(&scenario.times)).collect(),
            owners: clients.map(owner).collect(),
            habits: Habits { flaw: mistake.flaw, discreet: !has_lines, stands_still: true },
            guard: guard(&scenario),
            undos_overtake: mistake.undos_overtake,
            one_clock: mistake.one_clock,
            memo: Memo::default(),
            resources,
            name,
            scenario,
        }
    }

    fn guard_of(&self, client: usize) -> Option<Admission> {
        self.scenario.guard?;
        let passing = client + 1 < self.scenario.scripts.len();
        let guard = if self.scenario.scripts[client].disagrees {
            Some(self.stranger()?)
        } else {
            self.guard.clone()
        };
        guard.map(|guard| if passing { guard.passing() } else { guard })
    }

    /// The guard of clients that agree with nobody: other times, same nodes.
    pub(super) fn stranger(&self) -> Option<Admission> {
        let guard = self.guard.as_ref()?;
        let (names, max_ttl) = (guard.agreement.nodes().iter().cloned(), guard.agreement.max_ttl());
        Some(Admission::new(names, max_ttl, Duration::from_millis(1), guard.strict))
    }

    /// A client's request. Wall clocks stand still: only the registers order
    /// grants.
    pub(super) fn order(&self, client: usize, now: Moment, arrived: u8) -> Order {
        let script = &self.scenario.scripts[client];
        let skew = Duration::from_micros(self.scenario.times.skew_us.into());
        let clock = WallClock { read_at: Moment::NEVER, micros: script.ahead, skew };
        Order {
            resources: self.resources.clone(),
            terms: self.terms[client].clone(),
            owner: self.owners[client].clone(),
            wait_until: now.after(ms(script.wait_ms)),
            fencing: script.fenced.then_some(clock),
            line: script
                .line
                .map(|local_batch| InLine { local_batch, ..InLine::at(arrived.into()) }),
        }
    }
}

/// The guard of all clients that agree.
fn guard(scenario: &Scenario) -> Option<Admission> {
    let guarded = scenario.guard?;
    let names = ["A", "B", "C"].map(Into::into);
    Some(Admission::new(names, ms(scenario.times.ttl_ms), Duration::ZERO, guarded.strict))
}

impl World {
    pub(super) fn new(setting: &Rc<Setting>) -> Self {
        let mut world = World::empty(setting);
        world.settle_first();
        world
    }

    fn empty(setting: &Rc<Setting>) -> Self {
        let scenario = &setting.scenario;
        let clients = scenario.scripts.len();
        let sequence = |client| Sequence { client, attempts: 0 };
        let machine = |client| {
            let machine = Machine::new(NODES, sequence(client));
            let guard = setting.guard_of(client.into());
            Shared::new(guard.map_or(machine.clone(), |guard| machine.admitting(guard)))
        };
        let node = |(at, number): (usize, &u64)| {
            let mut node = Node::server(at);
            if *number > 0 {
                node.set_register(&setting.resources, *number);
            }
            // Elsewhere every client can always be woken, and this would make equal
            // states differ.
            if scenario.faults.deaf > 0 {
                node.listening = Some(BTreeSet::new());
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
            channels: vec![Shared::new(Channel::default()); clients * NODES],
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

    pub(super) fn channel(&self, client: usize, node: usize) -> &Channel {
        &self.channels[client * NODES + node]
    }

    pub(super) fn channel_mut(&mut self, client: usize, node: usize) -> &mut Shared<Channel> {
        &mut self.channels[client * NODES + node]
    }

    pub(super) fn op(&self, caller: usize) -> OpId {
        OpId::new(self.callers[caller].op.into())
    }

    /// The client that a caller belongs to.
    pub(super) fn home(&self, caller: usize) -> usize {
        let scripts = &self.setting.scenario.scripts;
        (0..=caller).rev().find(|at| !scripts[*at].joins).unwrap_or(caller)
    }

    /// All callers of a client.
    pub(super) fn callers_of(&self, client: usize) -> impl Iterator<Item = usize> {
        let scripts = self.setting.scenario.scripts;
        let others = (client + 1..scripts.len()).take_while(move |at| scripts[*at].joins);
        std::iter::once(client).chain(others)
    }

    pub(super) fn is_due(&self, client: usize) -> bool {
        self.machines[client].due().is_some_and(|due| due <= self.clock(client).lease)
    }

    /// How far the client's lease clock is ahead of true time.
    pub(super) fn ahead(&self, client: usize) -> Duration {
        ms(self.callers[client].ahead_ms)
    }

    /// The time on both clocks of a client. Setting a clock does not move the
    /// steady one, except in a mutant.
    pub(super) fn clock(&self, client: usize) -> Now {
        let lease = self.now.after(self.ahead(client));
        let steady = if self.setting.one_clock { lease } else { self.now };
        Now { lease, steady: Steady::from_nanos(steady.as_nanos()) }
    }

    /// The next moment at which anything can change just because time passes.
    pub(super) fn next_moment(&self) -> Option<Moment> {
        let horizon = BEGIN.after(ms(self.setting.scenario.times.horizon_ms));
        self.next_moment_before(horizon)
    }

    /// The same, however far away the horizon is.
    pub(super) fn next_moment_before(&self, horizon: Moment) -> Option<Moment> {
        let times = &self.setting.scenario.times;
        let due = |client: usize| Some(self.machines[client].due()?.before(self.ahead(client)));
        let dues = (0..self.clients()).filter_map(due);
        let keys =
            self.nodes.iter().flat_map(|node| node.contents.keys.values().map(|key| key.dies));
        let leases = self.callers.iter().filter_map(|caller| caller.lease().map(|l| l.until));
        let starts = self.setting.scenario.scripts.iter().map(Script::begins);
        let beat = (times.beat_ms > 0).then(|| next_beat(self.now, times.beat_ms));
        let moments = dues.chain(keys).chain(leases).chain(self.foreign.holds_until());
        let moments = moments.chain(starts).chain(beat);
        let next = moments.filter(|moment| *moment > self.now).min()?;
        (next <= horizon).then_some(next)
    }

    /// Whether the client has nothing under way.
    pub(super) fn is_quiet(&self, client: usize) -> bool {
        let home = self.home(client);
        self.machines[home].is_idle()
            && (0..NODES).all(|node| self.channel(home, node).is_empty())
            && self.callers[client].stage == Stage::Idle
    }

    pub(super) fn fingerprint(&self) -> u64 {
        let mut mixer = Mixer::default();
        (self.now, &self.callers, self.foreign, self.faults).hash(&mut mixer);
        (&self.granted, self.untouched).hash(&mut mixer);
        self.machines.iter().for_each(|part| mixer.write_u64(part.hash()));
        self.channels.iter().for_each(|part| mixer.write_u64(part.hash()));
        self.nodes.iter().for_each(|part| mixer.write_u64(part.hash()));
        mixer.finish()
    }
}

fn next_beat(now: Moment, beat_ms: u32) -> Moment {
    let beat = u64::from(beat_ms) * 1_000_000;
    Moment::from_nanos((now.as_nanos() / beat + 1) * beat)
}

/// Replaces the dice, to keep states few and readable: tokens made of client and
/// attempt, and pauses of medium length.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sequence {
    client: u8,
    attempts: u8,
}

impl Entropy for Sequence {
    fn fill(&mut self, bytes: &mut [u8]) {
        // Eight bytes are for a pause, or for a mark of the restart guard. Equal
        // marks do no harm: each life of a node has one at most.
        if bytes.len() == 8 {
            return bytes.fill(128);
        }
        // Six are for the client's name in tickets.
        if bytes.len() == 6 {
            bytes.fill(0);
            bytes[0] = self.client;
            return;
        }
        self.attempts += 1;
        bytes.fill(0);
        bytes[0] = self.client;
        bytes[1] = self.attempts;
    }
}

/// The number of the attempt that a token was made for.
pub(super) fn attempt_of(token: &[u8]) -> u8 {
    let digits = token.get(2..4).and_then(|digits| str::from_utf8(digits).ok());
    digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

/// Names a key by its value: `c1.2` is the first client's second attempt.
pub(super) fn name_of(value: &[u8]) -> String {
    let hex = |at: usize| value.get(at..at + 2).and_then(|digits| str::from_utf8(digits).ok());
    let number = |at| hex(at).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    match (number(0), number(2)) {
        (Some(client), Some(attempt)) => format!("c{}.{attempt}", client + 1),
        _ => String::from_utf8_lossy(value).into_owned(),
    }
}
