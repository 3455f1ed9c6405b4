//! One caller of the floor, as a state machine.

use crate::{
    wire::{Order, Turn, now_ns},
    worker::floor::{
        command::{PLACE, Template, Tokens},
        node::{Node, Reply, Ticket},
    },
};
use anyhow::bail;

pub(super) struct One {
    order: Order,
    /// The number of the turn that is under way or awaited.
    number: u64,
    ticket: Ticket,
    yes: usize,
    no: usize,
    /// How many nodes have announced our turn.
    heard: usize,
    token: [u8; 20],
    turn: Turn,
    turns: Vec<Turn>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    /// Its turn has come.
    Woken,
    Taking,
    Holding {
        until: u64,
    },
    Releasing,
    Done,
}

impl One {
    pub(super) fn new(number: u64, order: &Order) -> Self {
        let caller = u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            order: order.clone(),
            number,
            ticket: Ticket { caller, command: 0 },
            yes: 0,
            no: 0,
            heard: 0,
            token: [0; 20],
            turn: [order.begin_ns, 0, 0, 0, 0].into(),
            turns: Vec::new(),
            // The first one finds the lock free.
            stage: if number == 0 { Stage::Woken } else { Stage::Waiting },
        }
    }

    pub(super) fn channel(&self) -> String {
        self.channel_of(self.number)
    }

    /// The number of the caller whose turn is next.
    pub(super) fn next_channel(&self) -> String {
        self.channel_of(self.number + 1)
    }

    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    pub(super) fn into_turns(self) -> Vec<Turn> {
        self.turns
    }

    pub(super) fn holds_until(&self) -> Option<u64> {
        match self.stage {
            Stage::Holding { until } => Some(until),
            _ => None,
        }
    }

    /// Whether the ticket is of the command under way.
    pub(super) fn sent(&self, ticket: Ticket) -> bool {
        self.ticket == ticket && matches!(self.stage, Stage::Taking | Stage::Releasing)
    }

    /// Sends what is due.
    pub(super) fn go_on(&mut self, script: &str, tokens: &mut Tokens, nodes: &mut [Node]) {
        match self.stage {
            Stage::Woken => {
                self.token = tokens.next();
                self.stage = Stage::Taking;
                self.send(Template::take(&self.order.key), nodes);
            }
            Stage::Holding { until } if now_ns() >= until => {
                let next = self.number + 1;
                let (channel, news) = (self.channel_of(next), format!("{next:08}"));
                let command = ["EVALSHA", script, "1", &self.order.key, PLACE, &channel, &news];
                self.stage = Stage::Releasing;
                self.turn.releasing = now_ns();
                self.send(Template::new(&command), nodes);
            }
            _ => {}
        }
    }

    pub(super) fn count(&mut self, reply: Reply, majority: usize) -> anyhow::Result<()> {
        match reply {
            Reply::Yes => self.yes += 1,
            Reply::No => self.no += 1,
        }
        if self.no >= majority {
            bail!("floor: the lock is not free in turn {}", self.number);
        }
        if self.yes < majority {
            return Ok(());
        }
        let now = now_ns();
        if self.stage == Stage::Taking {
            self.turn.granted = now;
            self.stage = Stage::Holding { until: now + 1_000 * self.order.hold_us };
            return Ok(());
        }
        self.turn.released = now;
        self.turns.push(self.turn);
        self.turn = [now, 0, 0, 0, 0].into();
        self.number += self.order.callers as u64;
        self.heard = 0;
        self.stage = if now < self.order.end_ns { Stage::Waiting } else { Stage::Done };
        Ok(())
    }

    /// A node says whose turn it is.
    pub(super) fn hear(&mut self, turn: u64, majority: usize) {
        if self.stage == Stage::Waiting && turn == self.number {
            self.heard += 1;
            if self.heard >= majority {
                self.stage = Stage::Woken;
            }
        }
    }

    fn send(&mut self, mut command: Template, nodes: &mut [Node]) {
        (self.yes, self.no) = (0, 0);
        self.ticket.command = self.ticket.command.wrapping_add(1);
        command.sign(self.token);
        for node in nodes {
            node.queue(self.ticket, command.bytes());
        }
    }

    fn channel_of(&self, turn: u64) -> String {
        format!("{}:{}", self.order.key, turn % self.order.callers as u64)
    }
}
