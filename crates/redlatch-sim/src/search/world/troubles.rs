//! What goes wrong, and how it ends.

use super::{Slip, World};
use crate::search::{
    event::Event,
    schedule::{Span, Way, Wrong},
};
use redlatch_core::{Input, Moment, machine::Vouch};

impl World<'_> {
    pub(super) fn begins(&mut self, number: usize) {
        let trouble = self.trouble(number);
        self.record_trouble(&trouble.what);
        match trouble.what {
            Wrong::Break { client, node, late } => {
                let late = late.map(|late| self.before_calm(late));
                if client < self.clients.len() {
                    self.sever(client, node, late);
                }
            }
            Wrong::Cut { client, node, way, lasts } => {
                self.each_link(client, node, way, |direction| direction.cut += 1);
                self.ends_after(number, lasts);
            }
            Wrong::Reroute { client, node, to, lasts } => {
                self.reroute(client, node, to);
                self.ends_after(number, lasts);
            }
            Wrong::Slow { node, by, lasts } => {
                self.servers[node].slow_down(by);
                self.ends_after(number, lasts);
            }
            Wrong::CrashNode { node, forgets, silent, lasts, .. } => {
                self.crash_node(node, silent);
                if forgets {
                    self.forgets(node, true);
                }
                self.ends_after(number, lasts);
            }
            Wrong::Flush { node } => {
                self.forgets(node, false);
                self.servers[node].node.flush();
            }
            Wrong::FlushAll => {
                for node in 0..self.servers.len() {
                    self.forgets(node, false);
                    self.servers[node].node.flush();
                }
            }
            Wrong::Swap { node, lasts } => {
                self.servers[node].swaps += 1;
                if self.servers[node].swaps == 1 {
                    self.swap(node);
                }
                self.ends_after(number, lasts);
            }
            Wrong::Garble { node, percent, lasts } => {
                self.servers[node].garbled = percent;
                self.ends_after(number, lasts);
            }
            Wrong::Vouch { client, node } => self.vouch(client, node),
            Wrong::Replace { client, node } => {
                let (new, old) = (self.schedule.party(client), &self.schedule.parties[0]);
                // Like the command, which names the nodes one after the other.
                let may = new.agreement().may_follow(&old.agreement());
                if may || self.slip == Some(Slip::ExchangesNodes) {
                    let vouch = |node| Vouch { replace: [node].into(), ..Vouch::default() };
                    self.operator_says(client, node, vouch);
                }
            }
            Wrong::FailOver { node, registers } => {
                self.forgets(node, false);
                let server = &mut self.servers[node].node;
                let told = registers.then(|| server.contents.registers.clone());
                server.fail_over(told.unwrap_or_default());
                self.sever_all(node);
            }
            Wrong::PauseNode { node, lasts } => {
                self.servers[node].paused += 1;
                self.ends_after(number, lasts);
            }
            Wrong::StepNode { node, by } => self.servers[node].clock.step(by),
            Wrong::CrashClient { client, late, lasts } => {
                let late = late.map(|late| self.before_calm(late));
                self.crash_client(client, late);
                self.ends_after(number, lasts);
            }
            Wrong::PauseClient { client, lasts, .. } => {
                self.clients[client].paused += 1;
                self.ends_after(number, lasts);
            }
            Wrong::StepClient { client, by } => self.step_client(client, by),
            Wrong::Foreign { .. } => self.foreign_begins(number),
        }
    }

    pub(super) fn ends(&mut self, number: usize) {
        let trouble = self.trouble(number);
        self.record_relief(&trouble.what);
        match trouble.what {
            Wrong::Cut { client, node, way, .. } => {
                self.each_link(client, node, way, |direction| direction.cut -= 1);
                self.flush(client, node);
            }
            Wrong::Reroute { client, node, .. } => self.reroute(client, node, node),
            Wrong::Slow { node, by, .. } => self.servers[node].speed_up(by),
            Wrong::Swap { node, .. } => {
                self.servers[node].swaps -= 1;
                if self.servers[node].swaps == 0 {
                    self.swap(node);
                }
            }
            Wrong::Garble { node, .. } => self.servers[node].garbled = 0,
            Wrong::CrashNode { node, forgets, spare, silent, .. } => {
                self.node_is_back(node, forgets, silent);
                if spare {
                    self.servers[node].node.has_been_up();
                }
            }
            Wrong::PauseNode { node, .. } => {
                self.servers[node].paused -= 1;
                self.serve_backlog(node);
            }
            Wrong::CrashClient { client, .. } => self.clients[client].down -= 1,
            Wrong::PauseClient { client, keeper_first, .. } => {
                self.clients[client].paused -= 1;
                if self.clients[client].runs() {
                    self.catch_up(client, keeper_first);
                }
            }
            _ => {}
        }
    }

    /// No trouble outlasts the first phase.
    fn before_calm(&self, lasts: Span) -> Moment {
        let calm = self.schedule.calm_at.in_true_time();
        self.now.after(lasts.get()).min(calm).max(self.now)
    }

    fn ends_after(&mut self, number: usize, lasts: Span) {
        let at = self.before_calm(lasts);
        self.queue.push(at, Event::Ends(number));
    }

    fn each_link(
        &mut self,
        client: Option<usize>,
        node: usize,
        way: Way,
        mut change: impl FnMut(&mut crate::search::link::Direction),
    ) {
        for (number, process) in self.clients.iter_mut().enumerate() {
            if client.is_some_and(|client| client != number) {
                continue;
            }
            let link = &mut process.links[node];
            if way != Way::ToClient {
                change(&mut link.out);
            }
            if way != Way::ToNode {
                change(&mut link.back);
            }
        }
    }

    /// Delivers what a cut held up, in order, and before what was sent meanwhile.
    fn flush(&mut self, client: Option<usize>, node: usize) {
        let mut held = Vec::new();
        for (number, process) in self.clients.iter_mut().enumerate() {
            if client.is_some_and(|client| client != number) {
                continue;
            }
            let link = &mut process.links[node];
            for direction in [&mut link.out, &mut link.back] {
                if direction.cut == 0 {
                    held.extend(direction.held.drain(..));
                }
            }
        }
        for event in held {
            self.happen(event);
        }
    }

    fn crash_node(&mut self, node: usize, silent: bool) {
        let server = &mut self.servers[node];
        server.down += 1;
        server.silent += u32::from(silent);
        server.backlog.clear();
        if !silent {
            self.sever_all(node);
        }
    }

    /// Peers that had not noticed now learn that their connections are gone.
    fn node_is_back(&mut self, node: usize, forgets: bool, silent: bool) {
        let server = &mut self.servers[node];
        let now = server.clock.read(self.now);
        if forgets {
            server.node.forget(now);
        } else {
            server.node.restart(now);
        }
        server.down -= 1;
        server.silent -= u32::from(silent);
        server.starts();
        self.sever_all(node);
    }

    fn forgets(&mut self, node: usize, restarts: bool) {
        self.believed(node, restarts);
        self.servers[node].forgets_both(self.now);
        self.count_amnesia();
    }

    fn swap(&mut self, node: usize) {
        self.believed(node, false);
        self.servers[node].swap(self.now);
        self.count_amnesia();
    }

    /// A node forgets right after an operator has vouched for it.
    fn believed(&mut self, node: usize, restarts: bool) {
        if self.servers[node].memory.belies(self.now, restarts) {
            self.claims = self.claims.after_untruth();
        }
    }

    /// If fewer than a majority remember, we claim less.
    fn count_amnesia(&mut self) {
        let list = &self.schedule.parties[0].list;
        let forgot = |node: &&usize| self.servers[**node].memory.forgot.is_some();
        if list.iter().filter(forgot).count() > (list.len() - 1) / 2 {
            self.claims = self.claims.after_amnesia(self.schedule);
        }
    }

    /// An operator who knows what only the simulator can know, and tells the truth.
    fn vouch(&mut self, client: usize, node: usize) {
        let memory = &mut self.servers[node].memory;
        let forgot = memory.forgot.is_some();
        if !memory.vouch(self.now, client) {
            return;
        }
        if forgot {
            self.claims = self.claims.after_word();
        }
        let vouch = |node| Vouch { remembers: [node].into(), ..Vouch::default() };
        self.operator_says(client, node, vouch);
    }

    /// Speaks to a running client about a node on its list.
    fn operator_says(&mut self, client: usize, node: usize, say: impl FnOnce(usize) -> Vouch) {
        let Some(process) = self.clients.get_mut(client).filter(|process| process.runs()) else {
            return;
        };
        if let Some(known) = process.list.iter().position(|known| *known == node) {
            let op = process.next_op();
            self.hand_in(client, Input::Admit(op, say(known)));
        }
    }

    /// Breaks every connection to the node, whatever its name.
    fn sever_all(&mut self, node: usize) {
        for client in 0..self.clients.len() {
            for link in 0..self.servers.len() {
                if self.clients[client].links[link].leads_to == node {
                    self.sever(client, link, None);
                }
            }
        }
    }

    /// Makes the address of a node lead elsewhere for one client, also for a
    /// connect under way.
    fn reroute(&mut self, client: usize, node: usize, to: usize) {
        if client < self.clients.len() {
            self.sever(client, node, None);
            self.clients[client].links[node].leads_to = to;
        }
    }

    fn serve_backlog(&mut self, node: usize) {
        while self.servers[node].runs()
            && let Some(arrived) = self.servers[node].backlog.pop_front()
        {
            self.serve(arrived);
        }
    }

    fn crash_client(&mut self, client: usize, late: Option<Moment>) {
        let leases: Vec<_> = self.leases.of(client).map(|lease| lease.id).collect();
        for id in leases {
            self.leases.end(id);
            self.end_bar(id, "its owner died");
        }
        for node in 0..self.servers.len() {
            self.sever(client, node, late);
            let link = &mut self.clients[client].links[node];
            link.waiting.clear();
            link.state = crate::search::link::State::Idle;
            link.epoch += 1;
        }
        let process = &mut self.clients[client];
        process.down += 1;
        process.restart(self.schedule, client);
    }

    /// Its lease clock only moves forward, whatever its wall clock does.
    fn step_client(&mut self, client: usize, by: i64) {
        let process = &mut self.clients[client];
        process.wall.step(by);
        if by > 0 {
            process.clock.step(by);
            process.woke = self.now;
            if process.runs() {
                self.catch_up(client, false);
            }
        }
    }
}
