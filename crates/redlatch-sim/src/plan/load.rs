//! Callers that want locks again and again, and what they get.
//!
//! In:  a plan and the places.
//! Out: how long each lock took, who got it after whom, and what was sent.
//!
//! Each caller thinks, wants one of the locks, holds it, gives it back. The
//! callers live in up to a hundred processes, each with one machine and one
//! connection per node, spread over the places like the nodes are. A node carries
//! out one command at a time; each takes it as long as it was measured to take
//! Redis.

use super::{Plan, store::Store, topology::Topology};
use crate::search::dice::Dice;
use redlatch_core::{
    Command, Fault, Input, Machine, Moment, Now, OpId, Output, Owner, Reply, Resources, Steady,
    Tag, Token, WallClock, fence::DEFAULT_SKEW, machine::Order,
};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
    time::Duration,
};

const MOST_PROCESSES: usize = 100;
/// The wall clock when it begins, in microseconds.
const EPOCH: u64 = 1_770_000_000_000_000;

/// What was measured.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) asked: u64,
    /// From asking to the grant, in microseconds.
    pub(super) waits: Vec<u32>,
    /// From a release to the next grant, where somebody waited, in microseconds.
    pub(super) hand_overs: Vec<u32>,
    /// Grants whose numbers took a second round.
    pub(super) raised: u64,
    /// Commands and replies.
    pub(super) messages: u64,
    pub(super) events: u64,
    /// How long it lasted in there.
    pub(super) lasted: Duration,
}

pub(super) fn run(plan: &Plan, topology: Topology) -> Measured {
    let mut load = Load::new(plan, topology);
    while let Some(Reverse(next)) = load.queue.pop() {
        load.now = Moment::from_nanos(next.at);
        load.measured.events += 1;
        let happens = load.happenings.take(next.place);
        load.happen(happens);
    }
    load.measured.lasted = load.now.since(Moment::START);
    load.measured
}

/// Where in the queue something is: the heap moves these, not what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    at: u64,
    turn: u64,
    place: usize,
}

enum Happens {
    Wants(usize),
    Leaves(usize, OpId),
    Arrives { process: usize, node: usize, tag: Tag, command: Command },
    Answers { process: usize, node: usize, tag: Tag, reply: Reply },
    Wakes(usize),
}

/// What is to happen, in places that are used again.
#[derive(Default)]
struct Happenings {
    slots: Vec<Option<Happens>>,
    free: Vec<usize>,
}

impl Happenings {
    fn put(&mut self, happens: Happens) -> usize {
        let Some(slot) = self.free.pop() else {
            self.slots.push(Some(happens));
            return self.slots.len() - 1;
        };
        self.slots[slot] = Some(happens);
        slot
    }

    fn take(&mut self, slot: usize) -> Option<Happens> {
        self.free.push(slot);
        self.slots[slot].take()
    }
}

struct Process {
    machine: Machine<Dice>,
    ops: HashMap<OpId, Caller>,
    wakes: Option<Moment>,
    /// When the last message got to each node, and back: they keep their order.
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
    turn: u64,
    queue: BinaryHeap<Reverse<Slot>>,
    happenings: Happenings,
    processes: Vec<Process>,
    nodes: Vec<(Store, Moment)>,
    locks: Vec<Lock>,
    names: Vec<Resources>,
    dice: Dice,
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
            turn: 0,
            queue: BinaryHeap::new(),
            happenings: Happenings::default(),
            processes: (0..processes).map(process).collect(),
            nodes: (0..plan.nodes).map(|_| (Store::default(), Moment::START)).collect(),
            locks: vec![Lock::default(); plan.locks],
            names: (0..plan.locks).map(name).collect(),
            dice: Dice::of(plan.seed, &[2]),
            ops: 0,
            measured: Measured::default(),
        };
        for client in 0..plan.clients {
            let at = load.think();
            load.push(at, Happens::Wants(client));
        }
        load
    }

    fn push(&mut self, at: Moment, happens: Happens) {
        self.turn += 1;
        let place = self.happenings.put(happens);
        self.queue.push(Reverse(Slot { at: at.as_nanos(), turn: self.turn, place }));
    }

    /// When a caller has thought: as if nobody knew of the others (exponential).
    fn think(&mut self) -> Moment {
        let part = -(1.0 - self.dice.fraction()).ln();
        self.now.after(self.plan.think.mul_f64(part))
    }

    fn happen(&mut self, happens: Option<Happens>) {
        match happens {
            None => {}
            Some(Happens::Wants(client)) => self.wants(client),
            Some(Happens::Leaves(process, op)) => self.leaves(process, op),
            Some(Happens::Arrives { process, node, tag, command }) => {
                self.arrives(process, node, tag, &command);
            }
            Some(Happens::Answers { process, node, tag, reply }) => {
                self.hand_in(process, Input::Reply { node, tag, reply });
            }
            Some(Happens::Wakes(process)) => self.wakes(process),
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
        self.push(at, Happens::Wants(caller.client));
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
            self.push(due, Happens::Wakes(process));
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
                self.push(self.now.after(self.plan.hold), Happens::Leaves(process, op));
            }
            Output::Acquired(op, Err(_)) => {
                let Some(caller) = self.processes[process].ops.remove(&op) else { return };
                self.locks[caller.lock].waiting -= 1;
                let at = self.think();
                self.push(at, Happens::Wants(caller.client));
            }
            _ => {}
        }
    }

    fn send(&mut self, process: usize, node: usize, tag: Tag, command: Command) {
        if node >= self.plan.nodes - self.plan.failing {
            let reply = Reply::failed(Fault::Unreachable("refused".into()));
            return self.push(self.now, Happens::Answers { process, node, tag, reply });
        }
        self.measured.messages += 2; // it will be answered
        if let Command::Raise { token, .. } = &command {
            self.processes[process].raised.insert(token.clone());
        }
        let delay = self.topology.delay(process, node, &mut self.dice);
        let at = self.in_order(process, node, 0, self.now.after(delay));
        self.push(at, Happens::Arrives { process, node, tag, command });
    }

    fn arrives(&mut self, process: usize, node: usize, tag: Tag, command: &Command) {
        let (store, busy_until) = &mut self.nodes[node];
        let done = self.now.max(*busy_until).after(work(command));
        *busy_until = done;
        let reply = store.carry_out(self.now, EPOCH + self.now.as_nanos() / 1000, command);
        let delay = self.topology.delay(process, node, &mut self.dice);
        let at = self.in_order(process, node, 1, done.after(delay));
        self.push(at, Happens::Answers { process, node, tag, reply });
    }

    fn in_order(&mut self, process: usize, node: usize, way: usize, at: Moment) -> Moment {
        let last = &mut self.processes[process].last[node][way];
        *last = at.max(*last);
        *last
    }
}

/// What a command costs a server, as it was measured on Redis 7.
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
