//! Simulates callers that want locks again and again.
//!
//! In:  a plan and a topology.
//! Out: how long each lock and each hand-over took, and how much was sent.
//!
//! Each caller thinks, acquires one of the locks, holds it and releases it. The callers
//! live in up to a hundred processes, each with one machine and one connection per
//! node, spread over the places like the nodes. A node carries out one command at a
//! time, at the measured speed of Redis.

use super::{Plan, topology::Topology};
use crate::queue::Queue;
use redlatch_core::{
    Command, Fault, Identity, InLine, Input, Machine, Moment, Now, OpId, Output, Owner, Reply,
    Resources, Steady, Tag, Token, WallClock,
    dice::Dice,
    fence::DEFAULT_SKEW,
    machine::Order,
    reference::{Reading, ReferenceNode},
};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

const MOST_PROCESSES: usize = 100;
/// The wall clock at the start, in microseconds.
const EPOCH: u64 = 1_770_000_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) asked: u64,
    /// From request to grant, in microseconds.
    pub(super) waits: Vec<u32>,
    /// From a release to the next grant, if someone waited, in microseconds.
    pub(super) hand_overs: Vec<u32>,
    /// Grants that took a second round of fencing.
    pub(super) raised: u64,
    pub(super) messages: u64,
    pub(super) events: u64,
    /// In simulated time.
    pub(super) lasted: Duration,
}

pub(super) fn run(plan: &Plan, topology: Topology) -> Measured {
    let mut load = Load::new(plan, topology);
    while let Some((at, happens)) = load.queue.pop() {
        load.now = at;
        load.measured.events += 1;
        load.happen(happens);
    }
    load.measured.lasted = load.now.since(Moment::START);
    load.measured
}

enum Happens {
    Wants(usize),
    Leaves(usize, OpId),
    Arrives { process: usize, node: usize, tag: Tag, command: Command },
    Answers { process: usize, node: usize, tag: Tag, reply: Reply },
    Wakes(usize),
}

struct Process {
    machine: Machine<Dice>,
    ops: HashMap<OpId, Caller>,
    wakes: Option<Moment>,
    /// When the last message reached each node, and the client: messages keep their order.
    last: Vec<[Moment; 2]>,
    raised: HashSet<Token>,
}

struct Caller {
    client: usize,
    lock: usize,
    asked: Moment,
}

#[derive(Clone, Default)]
struct Lock {
    waiting: u32,
    freed: Option<Moment>,
}

struct Load<'a> {
    plan: &'a Plan,
    topology: Topology,
    now: Moment,
    queue: Queue<Happens>,
    processes: Vec<Process>,
    nodes: Vec<(ReferenceNode, Moment)>,
    locks: Vec<Lock>,
    names: Vec<Resources>,
    dice: Dice,
    /// Which process to wake, by the id in its tickets.
    listeners: HashMap<u64, usize>,
    ops: u64,
    measured: Measured,
}

impl<'a> Load<'a> {
    fn new(plan: &'a Plan, topology: Topology) -> Self {
        let processes = plan.clients.min(MOST_PROCESSES);
        let process = |number: usize| Process {
            machine: Machine::new(plan.nodes, Dice::of(plan.seed, &[1, wide(number)])),
            ops: HashMap::new(),
            wakes: None,
            last: vec![[Moment::START; 2]; plan.nodes],
            raised: HashSet::new(),
        };
        let name = |lock: usize| Resources::new([format!("lock-{lock}")]).expect("a good name");
        let mut load = Load {
            plan,
            topology,
            now: Moment::START,
            queue: Queue::new(),
            processes: (0..processes).map(process).collect(),
            nodes: (0..plan.nodes).map(|_| (ReferenceNode::new(nobody()), Moment::START)).collect(),
            locks: vec![Lock::default(); plan.locks],
            names: (0..plan.locks).map(name).collect(),
            dice: Dice::of(plan.seed, &[2]),
            listeners: HashMap::new(),
            ops: 0,
            measured: Measured::default(),
        };
        for client in 0..plan.clients {
            let at = load.think();
            load.queue.push(at, Happens::Wants(client));
        }
        load
    }

    /// When a caller has finished thinking: exponentially distributed.
    fn think(&mut self) -> Moment {
        let part = -(1.0 - self.dice.fraction()).ln();
        self.now.after(self.plan.think.mul_f64(part))
    }

    fn happen(&mut self, happens: Happens) {
        match happens {
            Happens::Wants(client) => self.wants(client),
            Happens::Leaves(process, op) => self.leaves(process, op),
            Happens::Arrives { process, node, tag, command } => {
                self.arrives(process, node, tag, &command);
            }
            Happens::Answers { process, node, tag, reply } => {
                self.hand_in(process, Input::Reply { node, tag, reply });
            }
            Happens::Wakes(process) => self.wakes(process),
        }
    }

    fn wakes(&mut self, process: usize) {
        if self.processes[process].wakes == Some(self.now) {
            self.processes[process].wakes = None;
            self.hand_in(process, Input::Tick);
        }
    }

    fn wants(&mut self, client: usize) {
        if self.measured.asked >= self.plan.requests {
            return;
        }
        self.measured.asked += 1;
        self.ops += 1;
        let (op, lock) = (OpId::new(self.ops), self.dice.index(self.plan.locks));
        let process = client % self.processes.len();
        let micros = EPOCH + self.now.as_nanos() / 1000;
        let wall = WallClock { read_at: self.now, micros, skew: DEFAULT_SKEW };
        let order = Order {
            resources: self.names[lock].clone(),
            terms: self.plan.terms.clone(),
            owner: Owner::new(format!("p{process}")).expect("a good label"),
            wait_until: self.now.after(self.plan.wait),
            fencing: self.plan.fenced.then_some(wall),
            line: self.plan.fair.then(|| InLine::at(micros)),
        };
        self.locks[lock].waiting += 1;
        let caller = Caller { client, lock, asked: self.now };
        self.processes[process].ops.insert(op, caller);
        self.hand_in(process, Input::Acquire(op, order));
    }

    fn leaves(&mut self, process: usize, op: OpId) {
        let Some(caller) = self.processes[process].ops.remove(&op) else { return };
        let lock = &mut self.locks[caller.lock];
        lock.freed = (lock.waiting > 0).then_some(self.now);
        self.hand_in(process, Input::Release(op));
        let at = self.think();
        self.queue.push(at, Happens::Wants(caller.client));
    }

    fn hand_in(&mut self, process: usize, input: Input) {
        let steady = Steady::from_nanos(self.now.as_nanos());
        let now = Now { lease: self.now, steady };
        self.processes[process].machine.handle(now, input);
        while let Some(output) = self.processes[process].machine.poll() {
            self.carry_out(process, output);
        }
        let known = &mut self.processes[process];
        let Some(due) = known.machine.due().map(|due| due.max(self.now)) else { return };
        if known.wakes.is_none_or(|wakes| due < wakes) {
            known.wakes = Some(due);
            self.queue.push(due, Happens::Wakes(process));
        }
    }

    fn carry_out(&mut self, process: usize, output: Output) {
        match output {
            Output::Send { node, tag, command } => self.send(process, node, tag, command),
            Output::Acquired(op, Ok(grant)) => {
                let known = &mut self.processes[process];
                let raised = known.raised.remove(&grant.token);
                self.measured.raised += u64::from(raised);
                let Some(caller) = known.ops.get(&op) else { return };
                self.measured.waits.push(micros(self.now.since(caller.asked)));
                let lock = &mut self.locks[caller.lock];
                lock.waiting -= 1;
                if let Some(freed) = lock.freed.take() {
                    self.measured.hand_overs.push(micros(self.now.since(freed)));
                }
                self.queue.push(self.now.after(self.plan.hold), Happens::Leaves(process, op));
            }
            Output::Acquired(op, Err(_)) => {
                let Some(caller) = self.processes[process].ops.remove(&op) else { return };
                self.locks[caller.lock].waiting -= 1;
                let at = self.think();
                self.queue.push(at, Happens::Wants(caller.client));
            }
            _ => {}
        }
    }

    fn send(&mut self, process: usize, node: usize, tag: Tag, command: Command) {
        if node >= self.plan.nodes - self.plan.failing {
            let reply = Reply::failed(Fault::Unreachable("refused".into()));
            return self.queue.push(self.now, Happens::Answers { process, node, tag, reply });
        }
        self.measured.messages += 2; // it will be answered
        if let Command::Raise { token, .. } = &command {
            self.processes[process].raised.insert(token.clone());
        }
        let delay = self.topology.delay(process, node, &mut self.dice);
        let at = self.in_order(process, node, 0, self.now.after(delay));
        self.queue.push(at, Happens::Arrives { process, node, tag, command });
    }

    fn arrives(&mut self, process: usize, node: usize, tag: Tag, command: &Command) {
        if let Some(ticket) = command.ticket() {
            self.listeners.insert(ticket.waiter.client(), process);
        }
        let (server, busy_until) = &mut self.nodes[node];
        let done = self.now.max(*busy_until).after(work(command));
        *busy_until = done;
        let wall = Duration::from_micros(EPOCH + self.now.as_nanos() / 1000);
        let reply = server.carry_out(Reading { now: self.now, wall, uptime: None }, command);
        let delay = self.topology.delay(process, node, &mut self.dice);
        let at = self.in_order(process, node, 1, done.after(delay));
        self.queue.push(at, Happens::Answers { process, node, tag, reply });
        self.wake(node, done);
    }

    /// Sends the wakes that a command has caused, on the connections of their clients.
    fn wake(&mut self, node: usize, done: Moment) {
        for wake in std::mem::take(&mut self.nodes[node].0.wakes) {
            let Some(process) = self.listeners.get(&wake.ticket.waiter.client()) else { continue };
            let process = *process;
            self.measured.messages += 1;
            let delay = self.topology.delay(process, node, &mut self.dice);
            let at = self.in_order(process, node, 1, done.after(delay));
            let (tag, reply) = (Tag::WAKE, Reply::Woken(wake));
            self.queue.push(at, Happens::Answers { process, node, tag, reply });
        }
    }

    fn in_order(&mut self, process: usize, node: usize, way: usize, at: Moment) -> Moment {
        let last = &mut self.processes[process].last[node][way];
        *last = at.max(*last);
        *last
    }
}

/// Nobody asks these nodes for their identity.
fn nobody() -> Identity {
    Identity { run: "".into(), version: "".into() }
}

/// What a command costs a server, measured on Redis 7.
fn work(command: &Command) -> Duration {
    Duration::from_micros(match command {
        Command::Take { fence: None, .. } => 1,
        Command::Take { .. } => 9,
        Command::Release { .. } => 3,
        _ => 5,
    })
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
