//! Commands and replies in transit.

use super::World;
use crate::search::{
    event::{Event, Wire},
    link::{State, Waiting},
    server::Arrived,
};
use redlatch_core::{
    Command, Fault, Input, Moment, Reply, Tag,
    link::{CONNECT_TIMEOUT, LONGEST_SILENCE},
};

impl World<'_> {
    /// A client hands a command to its connection.
    pub(super) fn send(&mut self, client: usize, node: usize, tag: Tag, command: Command) {
        self.counts.commands += 1;
        let link = &mut self.clients[client].links[node];
        let waiting = Waiting { since: self.now, tag, command };
        match link.state {
            State::Ready => self.transmit(client, node, waiting),
            State::Connecting => link.waiting.push_back(waiting),
            State::Resting(until) if self.now < until => {
                self.refuse(client, node, tag, &unreachable());
            }
            State::Idle | State::Resting(_) => {
                link.waiting.push_back(waiting);
                link.state = State::Connecting;
                let (network, slow) = (&self.schedule.network, self.servers[link.leads_to].slow);
                let mut at = self.now;
                for _ in 0..4 {
                    at = at.after(link.delay(network, slow));
                }
                let wire = link.wire(client, node);
                self.queue.push(at, Event::Connects(wire, self.now.after(CONNECT_TIMEOUT)));
            }
        }
    }

    /// A connect ends, if its process is there to see it.
    pub(super) fn connects(&mut self, wire: Wire, deadline: Moment) {
        let Wire { client, node, epoch, .. } = wire;
        let process = &mut self.clients[client];
        let link = &mut process.links[node];
        if link.epoch != epoch || link.state != State::Connecting {
            return;
        }
        if process.paused > 0 {
            return process.mail[node].push_back(Event::Connects(wire, deadline));
        }
        let server = &self.servers[link.leads_to];
        let refused = server.down > 0 && server.silent == 0;
        if server.runs() && link.out.cut == 0 && link.back.cut == 0 {
            for waiting in link.connected() {
                self.transmit(client, node, waiting);
            }
        } else if refused || self.now >= deadline {
            for waiting in link.connect_failed(self.now) {
                self.refuse(client, node, waiting.tag, &unreachable());
            }
        } else {
            self.queue.push(deadline, Event::Connects(wire, deadline));
        }
    }

    fn transmit(&mut self, client: usize, node: usize, waiting: Waiting) {
        let Waiting { since, tag, command } = waiting;
        let (now, network) = (self.now, &self.schedule.network);
        let link = &mut self.clients[client].links[node];
        if link.under_way.is_empty() {
            link.quiet_since = now;
        }
        link.under_way.push_back(tag);
        let at = link.reaches_node(now, network, self.servers[link.leads_to].slow);
        let wire = link.wire(client, node);
        self.queue.push(at, Event::Command { wire, sent: since, tag, command });
    }

    /// Tells the client the outcome of a command, without the node.
    fn refuse(&mut self, client: usize, node: usize, tag: Tag, fault: &Fault) {
        self.tell(client, node, tag, Reply::failed(fault.clone()));
    }

    fn tell(&mut self, client: usize, node: usize, tag: Tag, reply: Reply) {
        let life = self.clients[client].life;
        let wire = Wire { client, node, server: node, epoch: life };
        self.queue.push(self.now, Event::Refused { wire, tag, reply });
    }

    /// A command reaches its node, or is held up.
    pub(super) fn reaches_node(&mut self, wire: Wire, sent: Moment, tag: Tag, command: Command) {
        let link = &mut self.clients[wire.client].links[wire.node];
        let stale = link.epoch != wire.epoch;
        let late = link.late.get(&wire.epoch).copied();
        if stale {
            match late {
                None => return self.lost_on_the_way(wire, sent, &command),
                Some(at) if self.now < at => {
                    return self.queue.push(at, Event::Command { wire, sent, tag, command });
                }
                Some(_) => {}
            }
        } else if link.out.cut > 0 {
            let event = Event::Command { wire, sent, tag, command };
            return link.out.held.push_back(event);
        }
        let server = &mut self.servers[wire.server];
        if server.down > 0 {
            return self.lost_on_the_way(wire, sent, &command);
        }
        let arrived = Arrived { wire, sent, tag, command };
        if server.paused > 0 {
            return server.backlog.push_back(arrived);
        }
        self.serve(arrived);
    }

    /// A reply reaches its client, or is held up.
    pub(super) fn reaches_client(&mut self, event: Event) {
        let (Event::Reply { wire, .. } | Event::Refused { wire, .. }) = &event else { return };
        let wire = *wire;
        let process = &mut self.clients[wire.client];
        let link = &mut process.links[wire.node];
        let answer = matches!(event, Event::Reply { .. });
        let current = if answer { link.epoch } else { process.life };
        if current != wire.epoch || process.down > 0 {
            return;
        }
        if answer && link.back.cut > 0 {
            return link.back.held.push_back(event);
        }
        if process.paused > 0 {
            return process.mail[wire.node].push_back(event);
        }
        let (tag, reply) = match event {
            Event::Reply { sent, tag, reply, .. } => {
                let first = link.under_way.pop_front();
                debug_assert_eq!(first, Some(tag), "replies come in order");
                link.quiet_since = self.now;
                self.replied(wire, sent, &reply);
                (tag, reply)
            }
            Event::Refused { tag, reply, .. } => (tag, reply),
            _ => return,
        };
        self.looked_at(wire, tag, &reply);
        let list = &self.clients[wire.client].list;
        if let Some(node) = list.iter().position(|node| *node == wire.node) {
            self.hand_in(wire.client, Input::Reply { node, tag, reply });
        }
    }

    /// Breaks a connection. Commands under way arrive at `late`, or never.
    pub(super) fn sever(&mut self, client: usize, node: usize, late: Option<Moment>) {
        let link = &mut self.clients[client].links[node];
        if link.state != State::Ready {
            return;
        }
        let wire = link.wire(client, node);
        let (unanswered, held) = link.sever(late);
        for event in held {
            self.happen(event);
        }
        // A server does not notice at once that the other end is gone.
        if late.is_none() {
            self.servers[wire.server].backlog.retain(|arrived| arrived.wire != wire);
            self.servers[wire.server].hangs_up(wire);
        }
        for tag in unanswered {
            self.refuse(client, node, tag, &Fault::Disconnected("reset".into()));
        }
        self.tell(client, node, Tag::WAKE, Reply::Deaf);
    }

    /// Breaks connections that have not answered for very long.
    pub(super) fn break_silent_links(&mut self, client: usize) {
        for node in 0..self.servers.len() {
            let link = &self.clients[client].links[node];
            let silent = self.now.since(link.quiet_since) > LONGEST_SILENCE;
            if silent && !link.under_way.is_empty() {
                self.sever(client, node, Some(self.now));
            }
        }
    }
}

fn unreachable() -> Fault {
    Fault::Unreachable("refused".into())
}
