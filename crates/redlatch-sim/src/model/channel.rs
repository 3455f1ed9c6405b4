//! One client's connection to one node: first in, first out, and it can break.

use super::hash::Shared;
use redlatch_core::{Command, Fault, Moment, Reply, Tag, Wake};
use std::hash::{Hash, Hasher};

/// What is under way between one client and one node.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Channel {
    /// Commands on the current connection; those carried out come first.
    waiting: Vec<Waiting>,
    /// Commands from broken connections: carried out eventually, never answered.
    stragglers: Vec<Shared<Command>>,
    /// Wakes on their way to the client.
    wakes: Vec<Wake>,
}

/// An unanswered command; once it has a reply, it was carried out.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) tag: Tag,
    pub(super) command: Shared<Command>,
    pub(super) reply: Option<Shared<Reply>>,
    /// For the trace only; not part of the state.
    pub(super) sent: Moment,
    pub(super) answered: Moment,
}

impl Hash for Waiting {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tag.hash(state);
        match &self.reply {
            // Once carried out, only the reply matters.
            Some(reply) => state.write_u64(reply.hash()),
            None => state.write_u64(!self.command.hash()),
        }
    }
}

impl Channel {
    pub(super) fn push(
        &mut self,
        now: Moment,
        tag: Tag,
        command: Shared<Command>,
        overtakes: bool,
    ) {
        let waiting = Waiting { tag, command, reply: None, sent: now, answered: now };
        let place = if overtakes { self.carried_out() } else { self.waiting.len() };
        self.waiting.insert(place, waiting);
    }

    /// The next command to carry out.
    pub(super) fn next(&self) -> Option<&Waiting> {
        self.waiting.get(self.carried_out())
    }

    pub(super) fn answer(&self) -> Option<&Waiting> {
        self.waiting.first().filter(|waiting| waiting.reply.is_some())
    }

    pub(super) fn straggler(&self) -> Option<&Shared<Command>> {
        self.stragglers.first()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.stragglers.is_empty()
    }

    /// Whether only one command waits to be carried out.
    pub(super) fn has_one_command(&self) -> bool {
        self.waiting.len() == self.carried_out() + 1
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn carried_out_with(&mut self, now: Moment, reply: Shared<Reply>) {
        let next = self.carried_out();
        self.waiting[next].reply = Some(reply);
        self.waiting[next].answered = now;
    }

    pub(super) fn pop_answer(&mut self) -> Option<Waiting> {
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0))
    }

    pub(super) fn pop_straggler(&mut self) -> Option<Shared<Command>> {
        (!self.stragglers.is_empty()).then(|| self.stragglers.remove(0))
    }

    pub(super) fn push_wake(&mut self, wake: Wake) {
        self.wakes.push(wake);
    }

    /// The oldest wake.
    pub(super) fn wake(&self) -> Option<&Wake> {
        self.wakes.first()
    }

    pub(super) fn pop_wake(&mut self) -> Option<Wake> {
        (!self.wakes.is_empty()).then(|| self.wakes.remove(0))
    }

    /// Leaves a copy of the next command in the network.
    pub(super) fn echo(&mut self) {
        let next = self.next().map(|waiting| waiting.command.clone());
        self.stragglers.extend(next);
    }

    /// Drops the command sent last, which found no connection.
    pub(super) fn refuse(&mut self) -> Option<(Tag, Reply)> {
        let refused = || Reply::failed(Fault::Unreachable("refused".into()));
        self.waiting.pop().map(|waiting| (waiting.tag, refused()))
    }

    /// Breaks the connection and fails every unanswered command.
    pub(super) fn cut(&mut self, stragglers: bool) -> Vec<(Tag, Reply)> {
        let broken = || Reply::failed(Fault::Disconnected("reset".into()));
        let mut failed = Vec::with_capacity(self.waiting.len());
        self.wakes.clear();
        for Waiting { tag, command, reply, .. } in self.waiting.drain(..) {
            failed.push((tag, broken()));
            if stragglers && reply.is_none() {
                self.stragglers.push(command);
            }
        }
        failed
    }

    fn carried_out(&self) -> usize {
        self.waiting.iter().take_while(|waiting| waiting.reply.is_some()).count()
    }
}
