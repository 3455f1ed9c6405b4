//! Waiting in line: wakes, who overtakes whom, and lines that go wrong.

use super::{
    act::Heard, caller::Stage, channel::Channel, scenario::NODES, words::waiter_text, world::World,
};
use redlatch_core::{
    Command, Input, Moment, OpId, Output, Reply, Tag, Ticket, Waiter, Wake, reference::Key,
    token::owner_of,
};
use std::{fmt, time::Duration};

/// How a line goes wrong on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mislaid {
    /// The first ticket is lost.
    Ticket,
    /// The reservation is deleted.
    Reservation,
    /// The key is reserved for this line, which may not exist.
    GivenTo(Waiter),
    /// The client is woken for this line, for nothing or once more.
    Woken(Waiter),
}

impl fmt::Display for Mislaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mislaid::Ticket => write!(f, "the first ticket is lost"),
            Mislaid::Reservation => write!(f, "the reservation is lost"),
            Mislaid::GivenTo(waiter) => write!(f, "reserved for {}", waiter_text(*waiter)),
            Mislaid::Woken(waiter) => write!(f, "{} is woken for nothing", waiter_text(*waiter)),
        }
    }
}

/// Wakes.
impl World {
    pub(super) fn send_wake(&mut self, node: usize, wake: Wake) {
        let client = usize::try_from(wake.ticket.waiter.client()).unwrap_or(usize::MAX);
        if client < self.clients() {
            self.channel_mut(client, node).change(|line| line.push_wake(wake));
        }
    }

    pub(super) fn wake(&mut self, client: usize, node: usize, heard: &mut Heard) {
        let wake = self.channel_mut(client, node).change(Channel::pop_wake);
        if let Some(wake) = wake {
            let reply = Reply::Woken(wake);
            self.hand_in(client, Input::Reply { node, tag: Tag::WAKE, reply }, heard);
        }
    }

    /// A node learns from a ticket which client it can wake, if that matters in the
    /// scenario.
    pub(super) fn listen(&mut self, node: usize, command: &Command) {
        let Some(listening) = &self.nodes[node].listening else { return };
        if let Some(client) = command.ticket().map(|ticket| ticket.waiter.client())
            && !listening.contains(&client)
        {
            self.nodes[node].change(|node| node.listening.get_or_insert_default().insert(client));
        }
    }

    /// A node can no longer wake a client, which learns that.
    pub(super) fn hang_up(&mut self, client: usize, node: usize, heard: &mut Heard) {
        if self.nodes[node].listening.is_some() && self.hears(client, node) {
            let id = client as u64;
            self.nodes[node].change(|node| node.listening.get_or_insert_default().remove(&id));
            self.hand_in(client, Input::Reply { node, tag: Tag::WAKE, reply: Reply::Deaf }, heard);
        }
    }

    /// Whether a node can wake a client.
    pub(super) fn hears(&self, client: usize, node: usize) -> bool {
        let listening = self.nodes[node].listening.as_ref();
        listening.is_none_or(|clients| clients.contains(&(client as u64)))
    }

    /// The same state, with every wake lost.
    pub(super) fn without_wakes(&self) -> World {
        let mut world = self.clone();
        for line in &mut world.channels {
            while line.wake().is_some() {
                line.change(Channel::pop_wake);
            }
        }
        world
    }
}

/// Who waits, and who overtakes whom.
impl World {
    pub(super) fn arrive(&mut self, caller: usize) {
        if self.setting.scenario.scripts[caller].line.is_some() {
            let last = self.callers.iter().map(|caller| caller.arrived).max();
            self.callers[caller].arrived = last.unwrap_or(0) + 1;
        }
    }

    pub(super) fn leaves_line(&mut self, caller: usize) {
        let caller = &mut self.callers[caller];
        (caller.in_line, caller.overtaken) = (false, 0);
    }

    pub(super) fn overtakes(&mut self, caller: usize) {
        self.leaves_line(caller);
        let (home, arrived) = (self.home(caller), self.callers[caller].arrived);
        for other in
            (0..self.callers.len()).filter(|other| self.home(*other) != home).collect::<Vec<_>>()
        {
            let theirs = self.home(other);
            if (0..NODES).filter(|node| self.hears(theirs, *node)).count() <= NODES / 2 {
                continue;
            }
            let other = &mut self.callers[other];
            if other.in_line && other.stage == Stage::Wanting && other.arrived < arrived {
                other.overtaken += 1;
            }
        }
    }

    /// Notes who stands in line, or has the key reserved for it, on a majority.
    pub(super) fn note_lines(&mut self) {
        for caller in 0..self.callers.len() {
            let it = &self.callers[caller];
            let waits = it.stage == Stage::Wanting && it.arrived > 0 && !it.in_line;
            if waits {
                let (home, arrived) = (self.home(caller), u64::from(it.arrived));
                let nodes = (0..NODES).filter(|node| self.stands_in_line(home, arrived, *node));
                self.callers[caller].in_line = nodes.count() > NODES / 2;
            }
        }
    }

    fn stands_in_line(&self, client: usize, arrived: u64, node: usize) -> bool {
        let whose = |ticket: &Ticket| usize::try_from(ticket.waiter.client()) == Ok(client);
        self.tickets(node).any(|ticket| whose(&ticket) && ticket.arrived <= arrived)
    }

    /// The tickets in line on a node, and the one for which the key is reserved.
    pub(super) fn tickets(&self, node: usize) -> impl Iterator<Item = Ticket> {
        let (node, name) = (&self.nodes[node], &self.setting.name);
        let key = node.key(self.now, name);
        let reserved = key.and_then(|key| Ticket::reserved_in(&key.value));
        let line = node.contents.lines.get(name);
        line.into_iter().flat_map(|(line, _)| line.tickets()).copied().chain(reserved)
    }

    /// The caller that the machine of a client answers.
    pub(super) fn who_asked(&self, client: usize, output: &Output) -> usize {
        let id = match output {
            Output::Acquired(id, _)
            | Output::Extended(id, _)
            | Output::Released(id, _)
            | Output::Kept(id, _)
            | Output::NotKept(id, _)
            | Output::Retrying(id, ..)
            | Output::Lost(id, _) => *id,
            _ => return client,
        };
        let asked = |caller: &usize| OpId::new(self.callers[*caller].op.into()) == id;
        self.callers_of(client).find(asked).unwrap_or(client)
    }

    /// The caller for which the machine of a client sends a command.
    pub(super) fn who_signed(&self, client: usize, command: &Command) -> usize {
        let (Command::Take { token, .. }
        | Command::Raise { token, .. }
        | Command::Extend { token, .. }) = command
        else {
            return client;
        };
        let owner = owner_of(token.as_bytes());
        let signed = |caller: &usize| owner.as_deref() == Some(&format!("c{}", caller + 1));
        self.callers_of(client).find(signed).unwrap_or(client)
    }
}

/// What goes wrong.
impl World {
    /// How the line on a node may go wrong.
    pub(super) fn mislayable(&self, node: usize) -> Vec<Mislaid> {
        let mut ways = Vec::new();
        let (at, name) = (&self.nodes[node], &self.setting.name);
        if at.contents.lines.get(name).is_some_and(|(line, _)| !line.is_empty()) {
            ways.push(Mislaid::Ticket);
        }
        let reserved = at.key(self.now, name).map(|key| Ticket::reserved_in(&key.value));
        if let Some(Some(_)) = reserved {
            ways.push(Mislaid::Reservation);
        }
        for client in (0..self.clients()).filter(|client| self.home(*client) == *client) {
            let waiter = Waiter::new(client as u64, 1);
            let is_its_own = |ticket: Ticket| ticket.waiter == waiter;
            // A key that somebody holds is never reserved.
            if reserved.is_none_or(|ticket| ticket.is_some_and(|ticket| !is_its_own(ticket))) {
                ways.push(Mislaid::GivenTo(waiter));
            }
            ways.push(Mislaid::Woken(waiter));
        }
        ways
    }

    pub(super) fn mislay(&mut self, node: usize, how: Mislaid) {
        self.faults.mislaid -= 1;
        self.touch(0, node);
        let (now, name) = (self.now, self.setting.name.clone());
        let ticket = |waiter| Ticket { arrived: 0, waiter, patience: 500 };
        match how {
            Mislaid::Ticket => self.nodes[node].change(|node| {
                if let Some((line, _)) = node.contents.lines.get_mut(&name) {
                    line.take_first();
                }
                node.expire(now);
            }),
            Mislaid::Reservation => self.nodes[node].change(|node| {
                node.contents.keys.remove(&name);
            }),
            Mislaid::GivenTo(waiter) => self.nodes[node].change(|node| {
                let value = ticket(waiter).reservation().into_bytes().into();
                let dies = now.after(ticket(waiter).patience());
                node.contents.keys.insert(name, Key { value, dies });
            }),
            Mislaid::Woken(waiter) => {
                self.send_wake(node, Wake { resource: name, ticket: ticket(waiter) });
            }
        }
    }
}

/// What happens if every message arrives at once.
impl World {
    /// Lets the first clients begin, one after the other.
    pub(super) fn settle_first(&mut self) {
        for &caller in self.setting.scenario.settled {
            let mut heard = Heard::default();
            self.start(caller, &mut heard);
            self.deliver_all(&mut heard);
            self.note_lines();
            self.untouched = 0b111;
        }
    }

    /// Whether the lock is free, somebody waits for it, and no command or reply is on
    /// its way; with `woken`, no wake either.
    pub(super) fn is_up_for_grabs(&self, woken: bool) -> bool {
        let waits = |caller: usize| {
            self.callers[caller].stage == Stage::Wanting
                && self.setting.scenario.scripts[caller].line.is_some()
        };
        let name = &self.setting.name;
        let is_free = |node: &usize| {
            let key = self.nodes[*node].key(self.now, name);
            key.is_none_or(|key| Ticket::reserved_in(&key.value).is_some())
        };
        let is_held = self.callers.iter().any(|caller| caller.holds(self.now));
        !is_held
            && (0..self.callers.len()).any(waits)
            && self.channels.iter().all(|line| line.is_empty() && !(woken && line.wake().is_some()))
            && (0..NODES).filter(is_free).count() > NODES / 2
    }

    /// Whether anyone is granted the lock within that time if every message arrives at
    /// once and nothing more goes wrong.
    pub(super) fn is_granted_within(&self, bound: Duration) -> bool {
        let (mut world, end) = (self.clone(), self.now.after(bound));
        loop {
            let mut heard = Heard::default();
            world.deliver_all(&mut heard);
            while let Some(client) = (0..world.clients()).find(|client| world.is_due(*client)) {
                world.hand_in(client, Input::Tick, &mut heard);
                world.deliver_all(&mut heard);
            }
            let is_grant = |output: &Output| matches!(output, Output::Acquired(_, Ok(_)));
            if heard.said.iter().any(|(_, output)| is_grant(output)) {
                return true;
            }
            let Some(next) = world.next_moment_before(end) else { return false };
            world.move_to(next);
        }
    }

    fn deliver_all(&mut self, heard: &mut Heard) {
        while let Some((client, node)) = self.next_message() {
            let line = self.channel(client, node);
            if line.answer().is_some() {
                self.answer_first(client, node, heard);
            } else if line.next().is_some() {
                self.carry_out_next(client, node);
            } else {
                self.wake(client, node, heard);
            }
        }
    }

    fn next_message(&self) -> Option<(usize, usize)> {
        let lines =
            (0..self.clients()).flat_map(|client| (0..NODES).map(move |node| (client, node)));
        let mut busy = lines.filter(|(client, node)| {
            let line = self.channel(*client, *node);
            line.answer().is_some() || line.next().is_some() || line.wake().is_some()
        });
        busy.next()
    }

    pub(super) fn move_to(&mut self, next: Moment) {
        self.now = next;
        for node in &mut self.nodes {
            if node.contents.keys.values().any(|key| key.dies <= next) {
                node.change(|node| node.expire(next));
            }
        }
        for caller in &mut self.callers {
            caller.forget_what_is_over(next);
        }
    }
}
