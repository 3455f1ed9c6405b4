//! Wakes in transit: a node tells a client that it has reserved a key for it.
//!
//! A wake is as slow as any message, and may overtake replies or come after them: some
//! servers push it on a separate connection. It is lost with its connection and, until
//! the calm, also by itself.

use super::World;
use crate::search::event::{Event, Wire};
use redlatch_core::{Command, Input, Moment, Reply, Tag, Wake};

impl World<'_> {
    /// A node learns from a ticket over which connection to wake its client.
    pub(super) fn listens(&mut self, wire: Wire, command: &Command) {
        let link = &self.clients[wire.client].links[wire.node];
        if let Some(ticket) = command.ticket().filter(|_| link.epoch == wire.epoch) {
            self.servers[wire.server].listens(ticket.waiter.client(), wire);
        }
    }

    /// Sends the wakes that a command has caused.
    pub(super) fn wake_clients(&mut self, node: usize) {
        let server = &mut self.servers[node];
        let (wakes, slow) = (std::mem::take(&mut server.node.wakes), server.slow);
        let network = &self.schedule.network;
        let is_calm = self.now >= self.schedule.calm_at.in_true_time();
        for wake in wakes {
            let Some(wire) = self.servers[node].listeners.get(&wake.ticket.waiter.client()) else {
                continue;
            };
            let wire = *wire;
            let link = &mut self.clients[wire.client].links[wire.node];
            let at = self.now.after(link.delay(network, slow));
            if is_calm || !link.loses(network.wakes_lost) {
                self.queue.push(at, Event::Woken { wire, sent: self.now, wake });
            }
        }
    }

    /// A wake reaches its client, or is held up.
    pub(super) fn woken(&mut self, wire: Wire, sent: Moment, wake: Wake) {
        let process = &mut self.clients[wire.client];
        let link = &mut process.links[wire.node];
        if link.epoch != wire.epoch || process.down > 0 {
            return;
        }
        if link.back.cut > 0 {
            return link.back.held.push_back(Event::Woken { wire, sent, wake });
        }
        if process.paused > 0 {
            return process.mail[wire.node].push_back(Event::Woken { wire, sent, wake });
        }
        self.counts.woken += 1;
        let node = process.list.iter().position(|node| *node == wire.node);
        let reply = Reply::Woken(wake);
        self.replied(wire, sent, &reply);
        if let Some(node) = node {
            self.hand_in(wire.client, Input::Reply { node, tag: Tag::WAKE, reply });
        }
    }
}
