//! The line between one client and one node: commands in order, and trouble.
//!
//! Not the model checker's channel: this one does by itself what its [`Mode`] says,
//! so that a test tells only what is unusual; that one does nothing by itself, since
//! every order is tried, and is compared by its hash.

use super::node::Node;
use redlatch_core::{Command, Fault, Moment, Reply, Tag};
use std::collections::VecDeque;

/// What the line does with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// Carried out and answered at once.
    Open,
    /// Kept until the test delivers it.
    Held,
    /// Carried out at once, but the reply does not come.
    Mute,
    /// Lost on the way: not carried out, not answered.
    Lossy,
    /// There is no connection: it is never sent, and the client learns that.
    Down,
}

/// How far the commands under way had come when the connection broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Cut {
    CarriedOut,
    NotCarriedOut,
}

#[derive(Debug, Clone, Hash)]
pub(crate) struct Channel {
    pub(crate) mode: Mode,
    waiting: VecDeque<Waiting>,
}

/// A command that was not answered yet; with its reply, it was carried out.
#[derive(Debug, Clone, Hash)]
struct Waiting {
    tag: Tag,
    command: Command,
    reply: Option<Reply>,
}

pub(crate) type Answer = (Tag, Reply);

impl Channel {
    pub(crate) fn open() -> Self {
        Channel { mode: Mode::Open, waiting: VecDeque::new() }
    }

    /// Takes in one command; what comes back at once, comes back.
    pub(crate) fn send(&mut self, now: Moment, tag: Tag, command: Command, node: &mut Node) {
        match self.mode {
            Mode::Lossy => return,
            Mode::Down => {
                let reply = Some(Reply::failed(Fault::Unreachable("refused".into())));
                return self.push(tag, command, reply);
            }
            Mode::Open | Mode::Held | Mode::Mute => self.push(tag, command, None),
        }
        if self.mode != Mode::Held {
            self.carry_out(now, node);
        }
    }

    /// The next answer that is due by itself.
    pub(crate) fn due(&mut self) -> Option<Answer> {
        match self.mode {
            Mode::Open | Mode::Down => self.answer(),
            Mode::Held | Mode::Mute | Mode::Lossy => None,
        }
    }

    /// Carries out all commands that wait, without answering.
    pub(crate) fn carry_out(&mut self, now: Moment, node: &mut Node) {
        while self.carry_out_one(now, node) {}
    }

    /// Carries out the first command that was not yet.
    pub(crate) fn carry_out_one(&mut self, now: Moment, node: &mut Node) -> bool {
        let next = self.waiting.iter_mut().find(|next| next.reply.is_none());
        let Some(next) = next else { return false };
        next.reply = Some(node.carry_out(now, &next.command));
        true
    }

    /// The reply to the oldest command, if it was carried out.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let Waiting { tag, reply, .. } = self.waiting.front()?;
        let answer = (*tag, reply.clone()?);
        self.waiting.pop_front();
        Some(answer)
    }

    /// Breaks the connection: whatever waits is answered with that.
    pub(crate) fn cut(&mut self, now: Moment, cut: Cut, node: &mut Node) -> Vec<Answer> {
        if cut == Cut::CarriedOut {
            self.carry_out(now, node);
        }
        let broken = || Reply::failed(Fault::Disconnected("reset".into()));
        let waiting = self.waiting.drain(..);
        waiting.map(|waiting| (waiting.tag, broken())).collect()
    }

    /// The first command waits no more: nobody will answer it.
    pub(crate) fn drop_first(&mut self) -> Option<Tag> {
        Some(self.waiting.pop_front()?.tag)
    }

    /// The next command to be carried out.
    pub(crate) fn next(&self) -> Option<&Command> {
        let next = self.waiting.iter().find(|next| next.reply.is_none());
        next.map(|waiting| &waiting.command)
    }

    pub(crate) fn has_answer(&self) -> bool {
        let first = self.waiting.front();
        first.is_some_and(|waiting| waiting.reply.is_some())
    }

    fn push(&mut self, tag: Tag, command: Command, reply: Option<Reply>) {
        self.waiting.push_back(Waiting { tag, command, reply });
    }
}
