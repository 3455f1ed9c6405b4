//! What connections and nodes do, and what happens to them.

use super::{
    act::Heard,
    channel::Channel,
    foreign::Foreign,
    hash::Shared,
    properties::Mark,
    scenario::{NODES, ms},
    world::World,
};
use crate::node::{Clock, Node};
use redlatch_core::{Command, Input, Moment, Reply};

impl World {
    pub(super) fn carry_out_next(&mut self, client: usize, node: usize) {
        self.touch(client, node);
        let Some(next) = self.channel(client, node).next() else { return };
        let command = next.command.clone();
        self.listen(node, &command);
        let reply = self.execute(node, &command);
        let now = self.now;
        self.channel_mut(client, node).change(|line| line.carried_out_with(now, reply));
        self.drop_dead_replies(client);
    }

    /// Carries out at once what need not be delayed: replies to undos, looks at
    /// nodes that are quarantined and, if the scenario says so, every reply.
    pub(super) fn hurry(&mut self, client: usize, heard: &mut Heard) {
        while let Some((node, answer)) = self.next_in_a_hurry(client) {
            if answer {
                self.answer_first(client, node, heard);
            } else {
                self.carry_out_next(client, node);
            }
        }
    }

    /// The first node whose next reply (true) or command (false) happens at once.
    pub(super) fn next_in_a_hurry(&self, client: usize) -> Option<(usize, bool)> {
        let scenario = &self.setting.scenario;
        let slow = scenario.guard.is_some_and(|guarded| guarded.slow);
        let reply = |command: &Command| {
            let undo = matches!(command, Command::Release { .. });
            undo || !scenario.late_replies || is_quick(command, slow)
        };
        (0..NODES).find_map(|node| {
            let line = self.channel(client, node);
            if line.answer().is_some_and(|waiting| reply(&waiting.command)) {
                return Some((node, true));
            }
            let next = line.next().filter(|waiting| is_quick(&waiting.command, slow));
            next.map(|_| (node, false))
        })
    }

    pub(super) fn answer_first(&mut self, client: usize, node: usize, heard: &mut Heard) {
        let answered = self.channel_mut(client, node).change(Channel::pop_answer);
        let Some((tag, reply)) =
            answered.and_then(|answered| Some((answered.tag, Reply::clone(&*answered.reply?))))
        else {
            return;
        };
        self.hand_in(client, Input::Reply { node, tag, reply }, heard);
    }

    pub(super) fn cut(&mut self, client: usize, node: usize, heard: &mut Heard) {
        self.touch(client, node);
        let stragglers = self.faults.stragglers;
        let failed = self.channel_mut(client, node).change(|line| line.cut(stragglers));
        for (tag, reply) in failed {
            self.hand_in(client, Input::Reply { node, tag, reply }, heard);
        }
        self.hang_up(client, node, heard);
    }

    pub(super) fn refuse(&mut self, client: usize, node: usize, heard: &mut Heard) {
        self.touch(client, node);
        self.faults.refusals -= 1;
        let refused = self.channel_mut(client, node).change(Channel::refuse);
        if let Some((tag, reply)) = refused {
            self.hand_in(client, Input::Reply { node, tag, reply }, heard);
        }
    }

    pub(super) fn repeat(&mut self, client: usize, node: usize) {
        self.touch(client, node);
        self.faults.repeats -= 1;
        let next = self.channel(client, node).next().map(|next| next.command.clone());
        if let Some(command) = next {
            self.execute(node, &command);
        }
    }

    pub(super) fn echo(&mut self, client: usize, node: usize) {
        self.faults.echoes -= 1;
        self.channel_mut(client, node).change(Channel::echo);
        self.carry_out_next(client, node);
    }

    pub(super) fn remove_key(&mut self, node: usize) {
        self.nodes[node].change(|node| node.expire(Moment::NEVER));
    }

    pub(super) fn straggle(&mut self, client: usize, node: usize) {
        let straggler = self.channel_mut(client, node).change(Channel::pop_straggler);
        if let Some(command) = straggler {
            self.execute(node, &command);
        }
    }

    pub(super) fn restart(&mut self, node: usize, heard: &mut Heard) {
        self.faults.restarts -= 1;
        let now = self.now;
        self.nodes[node].change(|node| node.forget(now));
        self.cut_all(node, heard);
    }

    pub(super) fn flush_all(&mut self) {
        self.faults.flushes -= 1;
        self.nodes.iter_mut().for_each(|node| node.change(Node::flush));
    }

    /// Sets the client's wall clock forward by one TTL: its leases end that much
    /// earlier.
    pub(super) fn jump(&mut self, client: usize) {
        self.faults.jumps -= 1;
        let by = self.setting.scenario.times.ttl_ms;
        self.callers[client].ahead_ms += by;
        if let Some(lease) = self.callers[client].lease_mut() {
            lease.until = lease.until.before(ms(by));
        }
    }

    /// The replica knows nothing of this history.
    pub(super) fn fail_over(&mut self, node: usize, heard: &mut Heard) {
        self.faults.failovers -= 1;
        let first = World::new(&self.setting);
        let registers = first.nodes[node].contents.registers.clone();
        self.nodes[node].change(|node| node.fail_over(registers));
        self.cut_all(node, heard);
    }

    pub(super) fn cut_all(&mut self, node: usize, heard: &mut Heard) {
        for client in 0..self.clients() {
            self.cut(client, node, heard);
        }
    }

    pub(super) fn execute(&mut self, node: usize, command: &Shared<Command>) -> Shared<Reply> {
        let clock = Clock { now: self.now, wall: self.now.as_nanos() / 1000 };
        let habits = self.setting.habits;
        let memo = &self.setting.memo;
        let (next, reply, wakes) = memo.execute(clock, &self.nodes[node], command, habits);
        self.nodes[node] = next;
        for wake in wakes.iter() {
            self.send_wake(node, wake.clone());
        }
        reply
    }

    pub(super) fn touch(&mut self, client: usize, node: usize) {
        if client == 0 {
            self.untouched &= !(1 << node);
        }
    }

    /// Drops replies to operations that have ended: they change nothing now or later,
    /// but would make equal states differ.
    pub(super) fn drop_dead_replies(&mut self, client: usize) {
        for node in 0..NODES {
            while self.has_dead_reply(client, node) {
                self.channel_mut(client, node).change(Channel::pop_answer);
            }
        }
    }

    pub(super) fn has_dead_reply(&self, client: usize, node: usize) -> bool {
        let Some(answer) = self.channel(client, node).answer() else { return false };
        let Some(reply) = answer.reply.as_deref().cloned() else {
            return false;
        };
        let input = Input::Reply { node, tag: answer.tag, reply };
        self.setting.memo.react(self.clock(client), &self.machines[client], input).is_nothing
    }
}

/// Whether it belongs to the restart guard and takes no time.
fn is_quick(command: &Command, slow: bool) -> bool {
    match command {
        Command::Examine => true,
        Command::Watch { .. } | Command::Admit { .. } => !slow,
        _ => false,
    }
}

impl World {
    pub(super) fn foreign_takes(&mut self, node: usize, heard: &mut Heard) {
        let ttl = ms(self.setting.scenario.times.ttl_ms);
        let (now, name) = (self.now, self.setting.resources.clone());
        let foreign: &mut Foreign = &mut self.foreign;
        let won = self.nodes[node].change(|held| foreign.take(now, node, held, &name, ttl));
        if won {
            heard.marks.add(Mark::ForeignGrant);
            self.rival_to_others(usize::MAX, 0);
        }
    }

    pub(super) fn foreign_deletes(&mut self, node: usize) {
        let (now, name) = (self.now, self.setting.resources.clone());
        let foreign: &mut Foreign = &mut self.foreign;
        self.nodes[node].change(|held| foreign.delete(now, node, held, &name));
    }

    pub(super) fn pass(&mut self) {
        let overdue = (0..self.clients()).any(|client| self.is_due(client));
        self.faults.lags -= u8::from(overdue);
        let Some(next) = self.next_moment() else { return };
        self.move_to(next);
    }
}
