//! The world itself: clients, nodes, lines and the time.

use super::{
    Luck, MS, TTL, WINDOW, at, channel::Cut, channel::Mode, client::Client, node::Node, plain,
    renewed, resource, watchdog,
};
use core::time::Duration;
use redlatch_core::{
    Admission, Command, Fault, InLine, Input, Machine, Moment, OpId, Output, Owner, Reply,
    Resources, Tag, Terms, Token, WallClock,
    fence::DEFAULT_SKEW,
    lease,
    machine::{Adopted, Order, Vouch},
};
use std::sync::Arc;

/// No test needs more steps in one call: a machine that does is in a loop, which
/// the test says rather than hang.
const MOST_STEPS: u32 = 100_000;

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) now: Moment,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clients: Vec<Client>,
    /// Wakes are lost on their way.
    pub(crate) deaf: bool,
}

/// One operation of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Lock {
    pub(crate) client: usize,
    pub(crate) op: OpId,
}

impl World {
    /// One client and that many nodes, at 10 s on the client's clock.
    pub(crate) fn of(nodes: usize) -> Self {
        World::with(1, nodes)
    }

    pub(crate) fn with(clients: usize, nodes: usize) -> Self {
        watchdog();
        let clients = 0..clients;
        World {
            now: at(10_000),
            nodes: (0..nodes).map(Node::server).collect(),
            clients: clients.map(|number| Client::new(number, nodes)).collect(),
            deaf: false,
        }
    }

    /// Three nodes, and a client that holds a lock without renewal.
    pub(crate) fn holding() -> (Self, Lock) {
        let mut world = World::of(3);
        let lock = world.acquire();
        (world, lock)
    }

    /// Three nodes, and a client that renews its lock forever.
    pub(crate) fn renewing() -> (Self, Lock) {
        let mut world = World::of(3);
        let lock = world.acquire_on(renewed(Duration::MAX));
        (world, lock)
    }

    /// The same with the restart guard, its window being [`WINDOW`]. All nodes
    /// are new.
    pub(crate) fn guarded(clients: usize, nodes: usize, strict: bool) -> Self {
        let mut world = World::with(clients, nodes);
        for client in 0..clients {
            world.guard(client, &["a", "b", "c", "d", "e"][..nodes], strict);
        }
        world
    }

    /// The same, with all nodes admitted.
    pub(crate) fn admitted(clients: usize, nodes: usize) -> Self {
        let mut world = World::guarded(clients, nodes, false);
        world.vouch(0, Vouch { remembers: (0..nodes).collect(), ..Vouch::default() });
        assert_eq!(world.admissions().len(), nodes);
        world
    }

    /// Three admitted nodes, of which some have forgotten everything since.
    pub(crate) fn with_forgetful<const N: usize>(nodes: [usize; N]) -> Self {
        let mut world = World::admitted(1, 3);
        world.nodes_forget(nodes);
        world
    }

    /// Three nodes behind lines of one kind.
    pub(crate) fn behind(mode: Mode) -> Self {
        let mut world = World::of(3);
        world.all_lines(mode);
        world
    }

    /// Gives one client the guard, with this list of nodes.
    pub(crate) fn guard(&mut self, client: usize, names: &[&str], strict: bool) {
        self.guard_for(client, names, strict, WINDOW);
    }

    /// The same, with another window.
    pub(crate) fn guard_for(
        &mut self,
        client: usize,
        names: &[&str],
        strict: bool,
        window: Duration,
    ) {
        let nodes = names.len().min(self.nodes.len());
        let names = names.iter().map(|name| Arc::from(*name));
        let guard = Admission::new(names, TTL, window - TTL, strict);
        let machine = Machine::new(nodes, Luck::of(client));
        self.clients[client].machine = machine.admitting(guard);
    }

    /// Fixes the pauses between attempts: 0 for the shortest, 255 the longest.
    pub(crate) fn pauses_of(&mut self, byte: u8) {
        for (number, client) in self.clients.iter_mut().enumerate() {
            let mut dice = Luck::of(number);
            dice.pauses = Some(byte);
            client.machine = Machine::new(self.nodes.len(), dice);
        }
    }
}

/// What clients want.
impl World {
    /// The first client wants the lock, tries once and does not renew it.
    pub(crate) fn acquire(&mut self) -> Lock {
        self.acquire_as(0, plain(), Duration::ZERO)
    }

    pub(crate) fn acquire_on(&mut self, terms: Terms) -> Lock {
        self.acquire_as(0, terms, Duration::ZERO)
    }

    pub(crate) fn acquire_as(&mut self, client: usize, terms: Terms, wait: Duration) -> Lock {
        let order = Order {
            resources: resource(),
            terms,
            owner: Owner::new(format!("client/{client}")).expect("a good label"),
            wait_until: self.now.after(wait),
            fencing: None,
            line: None,
        };
        self.start(client, |op| Input::Acquire(op, order))
    }

    /// A client wants the lock and waits in line for it.
    pub(crate) fn wait_for(&mut self, client: usize, wait: Duration) -> Lock {
        self.wait_for_one_of(client, resource(), wait)
    }

    pub(crate) fn wait_for_one_of(
        &mut self,
        client: usize,
        resources: Resources,
        wait: Duration,
    ) -> Lock {
        let order = Order {
            resources,
            terms: plain(),
            owner: Owner::new(format!("client/{client}")).expect("a good label"),
            wait_until: self.now.after(wait),
            fencing: None,
            line: Some(InLine::at(self.now.as_nanos() / 1000)),
        };
        self.start(client, |op| Input::Acquire(op, order))
    }

    /// A client wants the lock with a fencing token.
    pub(crate) fn acquire_fenced(&mut self, client: usize, terms: Terms) -> Lock {
        let shown = self.now.after(self.clients[client].wall_ahead);
        let micros = shown.as_nanos() / 1000;
        let order = Order {
            resources: resource(),
            terms,
            owner: Owner::new(format!("client/{client}")).expect("a good label"),
            wait_until: self.now,
            fencing: Some(WallClock { read_at: self.now, micros, skew: DEFAULT_SKEW }),
            line: None,
        };
        self.start(client, |op| Input::Acquire(op, order))
    }

    pub(crate) fn adopt(&mut self, terms: Terms, token: &Token, usable_until: Moment) -> Lock {
        self.adopt_as(true, terms, token, usable_until)
    }

    /// The same for a place that neither renews it nor puts its key back.
    pub(crate) fn adopt_elsewhere(
        &mut self,
        terms: Terms,
        token: &Token,
        usable_until: Moment,
    ) -> Lock {
        self.adopt_as(false, terms, token, usable_until)
    }

    fn adopt_as(&mut self, keeps: bool, terms: Terms, token: &Token, usable_until: Moment) -> Lock {
        let adopted = Adopted {
            resources: resource(),
            token: token.clone(),
            usable_until,
            hold_until: lease::hold_until(self.now, &terms),
            keeps,
            fence: None,
            terms,
        };
        self.start(0, |op| Input::Adopt(op, adopted))
    }

    pub(crate) fn survey(&mut self, command: Command, timeout: Duration) -> Lock {
        self.start(0, |op| Input::Survey(op, command, timeout))
    }

    /// A client checks which nodes may vote.
    pub(crate) fn look(&mut self, client: usize) -> Lock {
        self.vouch(client, Vouch::default())
    }

    pub(crate) fn vouch(&mut self, client: usize, vouch: Vouch) -> Lock {
        self.start(client, |op| Input::Admit(op, vouch))
    }

    pub(crate) fn release(&mut self, lock: Lock) {
        self.hand_in(lock.client, Input::Release(lock.op));
    }

    pub(crate) fn cancel(&mut self, lock: Lock) {
        self.hand_in(lock.client, Input::Cancel(lock.op));
    }

    pub(crate) fn extend(&mut self, lock: Lock, ttl: Duration) {
        self.hand_in(lock.client, Input::Extend(lock.op, ttl));
    }

    pub(crate) fn forget(&mut self, lock: Lock) {
        self.hand_in(lock.client, Input::Forget(lock.op));
    }

    pub(crate) fn extended_elsewhere(&mut self, lock: Lock, until: Moment) {
        self.hand_in(lock.client, Input::Extended(lock.op, until));
    }

    fn start(&mut self, client: usize, input: impl FnOnce(OpId) -> Input) -> Lock {
        let op = OpId::new(self.clients[client].ops);
        self.clients[client].ops += 1;
        self.hand_in(client, input(op));
        Lock { client, op }
    }

    pub(crate) fn hand_in(&mut self, client: usize, input: Input) {
        self.clients[client].handle(self.now, input);
        self.settle();
    }
}

/// What happens to lines and nodes.
impl World {
    /// From now on every client's line to the node is like that. What waits
    /// on a line that opens is delivered.
    pub(crate) fn channel(&mut self, node: usize, mode: Mode) {
        for client in 0..self.clients.len() {
            self.line_of(client, node, mode);
        }
    }

    pub(crate) fn channels(&mut self, nodes: impl IntoIterator<Item = usize>, mode: Mode) {
        nodes.into_iter().for_each(|node| self.channel(node, mode));
    }

    pub(crate) fn all_lines(&mut self, mode: Mode) {
        self.channels(0..self.nodes.len(), mode);
    }

    pub(crate) fn line_of(&mut self, client: usize, node: usize, mode: Mode) {
        self.clients[client].channels[node].mode = mode;
        if mode == Mode::Open {
            self.deliver(client, node);
        }
    }

    /// Carries out and answers what waits on the first client's line.
    pub(crate) fn let_through(&mut self, node: usize) {
        self.deliver(0, node);
    }

    pub(crate) fn carry_out(&mut self, client: usize, node: usize) {
        let client = &mut self.clients[client];
        client.channels[node].carry_out(self.now, &mut self.nodes[client.routes[node]]);
    }

    pub(crate) fn carry_out_one(&mut self, client: usize, node: usize) {
        let client = &mut self.clients[client];
        client.channels[node].carry_out_one(self.now, &mut self.nodes[client.routes[node]]);
    }

    /// Hands the oldest reply over.
    pub(crate) fn answer_one(&mut self, client: usize, node: usize) {
        if let Some((tag, reply)) = self.clients[client].channels[node].answer() {
            self.hand_in(client, Input::Reply { node, tag, reply });
        }
    }

    /// Breaks every client's connection to the node; the next command finds a
    /// new one.
    pub(crate) fn cut(&mut self, node: usize, cut: Cut) {
        for client in 0..self.clients.len() {
            let Client { channels, routes, .. } = &mut self.clients[client];
            let cut = channels[node].cut(self.now, cut, &mut self.nodes[routes[node]]);
            for (tag, reply) in cut {
                self.hand_in(client, Input::Reply { node, tag, reply });
            }
        }
    }

    /// The first client's oldest command to the node is lost, or its reply is,
    /// if it was carried out.
    pub(crate) fn lose(&mut self, node: usize) {
        self.clients[0].channels[node].drop_first();
    }

    /// The first client's oldest command finds no connection after all.
    pub(crate) fn refuse(&mut self, node: usize) {
        if let Some(tag) = self.clients[0].channels[node].drop_first() {
            let reply = Reply::failed(Fault::Unreachable("refused".into()));
            self.hand_in(0, Input::Reply { node, tag, reply });
        }
    }

    /// From now on the client's line leads to another node.
    pub(crate) fn reroute(&mut self, client: usize, node: usize, to: usize) {
        self.clients[client].routes[node] = to;
    }

    /// The node restarts without anything it had.
    pub(crate) fn node_forgets(&mut self, node: usize) {
        self.nodes[node].forget(self.now);
    }

    pub(crate) fn nodes_forget(&mut self, nodes: impl IntoIterator<Item = usize>) {
        nodes.into_iter().for_each(|node| self.node_forgets(node));
    }

    /// The first client's oldest command is carried out, and answered with
    /// something that makes no sense.
    pub(crate) fn garble(&mut self, node: usize) {
        self.carry_out_one(0, node);
        if let Some(tag) = self.clients[0].channels[node].drop_first() {
            let reply = Reply::failed(Fault::Nonsense("an array".into()));
            self.hand_in(0, Input::Reply { node, tag, reply });
        }
    }

    /// A stranger takes the lock on that node for a minute.
    pub(crate) fn occupy(&mut self, node: usize) {
        let dies = self.now.after(60_000 * MS);
        self.nodes[node].occupy(&resource(), dies);
    }

    pub(crate) fn occupy_all(&mut self, nodes: impl IntoIterator<Item = usize>) {
        nodes.into_iter().for_each(|node| self.occupy(node));
    }

    fn deliver(&mut self, client: usize, node: usize) {
        self.carry_out(client, node);
        let mut steps = 0;
        while self.clients[client].channels[node].has_answer() {
            self.answer_one(client, node);
            steps += 1;
            assert!(steps < MOST_STEPS, "node {node} answered {steps} times, and goes on");
        }
    }

    /// Sends what the machines want sent and hands in what comes back at once,
    /// until nothing moves any more.
    fn settle(&mut self) {
        let mut steps = 0;
        while self.send() || self.answer() || self.wake() {
            steps += 1;
            assert!(steps < MOST_STEPS, "after {steps} steps at {:?} nothing is settled", self.now);
        }
    }

    fn send(&mut self) -> bool {
        let mut moved = false;
        for client in &mut self.clients {
            while let Some(output) = client.machine.poll() {
                moved = true;
                let Output::Send { node, tag, command } = output else {
                    client.said.push((self.now, output));
                    continue;
                };
                client.sent.push((self.now, node, command.clone()));
                let server = &mut self.nodes[client.routes[node]];
                client.channels[node].send(self.now, tag, command, server);
            }
        }
        moved
    }

    fn answer(&mut self) -> bool {
        let mut moved = false;
        for client in &mut self.clients {
            for node in 0..client.channels.len() {
                if let Some((tag, reply)) = client.channels[node].due() {
                    moved = true;
                    client.handle(self.now, Input::Reply { node, tag, reply });
                }
            }
        }
        moved
    }
}

/// Wakes.
impl World {
    /// Tells the clients what nodes have reserved for them, over lines that are open.
    fn wake(&mut self) -> bool {
        let mut moved = false;
        for server in 0..self.nodes.len() {
            for wake in std::mem::take(&mut self.nodes[server].wakes) {
                for client in &mut self.clients {
                    let node = client.routes.iter().position(|to| *to == server);
                    let open = |node: &usize| client.channels[*node].mode == Mode::Open;
                    if let Some(node) = node.filter(open).filter(|_| !self.deaf) {
                        let reply = Reply::Woken(wake.clone());
                        client.handle(self.now, Input::Reply { node, tag: Tag::WAKE, reply });
                        moved = true;
                    }
                }
            }
        }
        moved
    }
}

/// Time.
impl World {
    /// Lets time pass. Every client is ticked when it is due, and only then.
    pub(crate) fn pass(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        let mut steps = 0;
        while let Some(due) = self.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.tick();
            steps += 1;
            assert!(steps < MOST_STEPS, "after {steps} ticks it is only {:?}", self.now);
        }
        self.now = end;
    }

    pub(crate) fn pass_until(&mut self, moment: Moment) {
        self.pass(moment.since(self.now));
    }

    /// Lets time pass while every client is paused: nothing is ticked.
    pub(crate) fn freeze(&mut self, duration: Duration) {
        self.now = self.now.after(duration);
    }

    /// When the first client wants to be called.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        let dues = self.clients.iter().filter_map(Client::due);
        dues.min()
    }

    /// Ticks every client that is due.
    pub(crate) fn tick(&mut self) {
        for client in 0..self.clients.len() {
            if self.clients[client].is_due(self.now) {
                self.clients[client].tick(self.now);
                self.settle();
            }
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.clients.iter().all(|client| client.machine.is_idle())
    }

    /// No node has a key of ours, and no client has anything to do.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        assert_eq!(self.locked(), [0; 0]);
        assert!(self.is_idle());
    }
}
