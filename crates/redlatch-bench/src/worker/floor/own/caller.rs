//! One simulated caller: takes, waits for a majority, releases, waits again.

use crate::{
    wire::{Turn, now_ns},
    worker::floor::{
        command::{Template, Tokens},
        node::{Node, Reply, Ticket},
    },
};

pub(super) struct Caller {
    /// Belongs to the command under way; replies with another ticket are late.
    ticket: Ticket,
    take: Template,
    release: Template,
    yes: usize,
    no: usize,
    asked: u64,
    stage: Stage,
}

enum Stage {
    Taking,
    Releasing {
        granted: u64,
    },
    /// The take failed; its release tidies up.
    Undoing,
}

/// What a reply brought the caller.
pub(super) enum Outcome {
    Open,
    Done(Turn),
    Failed,
}

impl Caller {
    pub(super) fn new(index: u32, script: &str) -> Self {
        let key = format!("floor:{index}");
        Self {
            ticket: Ticket { caller: index, command: 0 },
            take: Template::take(&key),
            release: Template::release(&key, script),
            yes: 0,
            no: 0,
            asked: 0,
            stage: Stage::Taking,
        }
    }

    pub(super) fn take(&mut self, now: u64, tokens: &mut Tokens, nodes: &mut [Node]) {
        let token = tokens.next();
        self.take.sign(token);
        self.release.sign(token);
        self.asked = now;
        self.stage = Stage::Taking;
        self.send(nodes);
    }

    /// Counts a reply and, once a take is decided, releases on all nodes.
    pub(super) fn count(&mut self, ticket: Ticket, reply: Reply, nodes: &mut [Node]) -> Outcome {
        if ticket != self.ticket {
            return Outcome::Open;
        }
        match reply {
            Reply::Yes => self.yes += 1,
            Reply::No => self.no += 1,
        }
        let majority = nodes.len() / 2 + 1;
        let won = self.yes >= majority;
        if !won && self.no + majority <= nodes.len() {
            return Outcome::Open;
        }
        // Between two commands no ticket fits: what comes now is counted no more.
        self.ticket.command = self.ticket.command.wrapping_add(1);
        match self.stage {
            Stage::Taking => {
                self.stage =
                    if won { Stage::Releasing { granted: now_ns() } } else { Stage::Undoing };
                self.send(nodes);
                Outcome::Open
            }
            Stage::Releasing { granted } if won => {
                Outcome::Done([self.asked, granted, granted, now_ns(), 0].into())
            }
            Stage::Releasing { .. } | Stage::Undoing => Outcome::Failed,
        }
    }

    fn send(&mut self, nodes: &mut [Node]) {
        self.yes = 0;
        self.no = 0;
        let command = match self.stage {
            Stage::Taking => &self.take,
            Stage::Releasing { .. } | Stage::Undoing => &self.release,
        };
        for node in nodes {
            node.queue(self.ticket, command.bytes());
        }
    }
}
