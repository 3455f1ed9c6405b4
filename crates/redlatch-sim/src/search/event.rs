//! What happens, in the order of true time; at one time, in the order decided.

use super::{ledger::LeaseId, schedule::Span};
use redlatch_core::{Command, Moment, OpId, Reply, Tag};
use std::{cmp::Ordering, collections::BinaryHeap};

/// Something that happens at some time.
#[derive(Debug, Clone)]
pub enum Event {
    /// A caller does the next thing of a job.
    Job(usize, Act),
    /// A trouble begins.
    Begins(usize),
    /// A trouble ends.
    Ends(usize),
    /// A client's connect comes to an end, one way or the other.
    Connects(Wire, Moment),
    /// A command reaches its node.
    Command {
        /// On which wire.
        wire: Wire,
        /// When it was sent.
        sent: Moment,
        /// Which question it is.
        tag: Tag,
        /// What it says.
        command: Command,
    },
    /// A reply reaches its client.
    Reply {
        /// On which wire.
        wire: Wire,
        /// When it was sent.
        sent: Moment,
        /// Which question it answers.
        tag: Tag,
        /// What it says.
        reply: Reply,
    },
    /// A client learns, without the node, what became of a command.
    Refused {
        /// On which wire; its epoch is the client's life here.
        wire: Wire,
        /// Which question it answers.
        tag: Tag,
        /// What became of it.
        reply: Reply,
    },
    /// A client's timer goes off.
    Wakes(usize),
    /// The clock of a lease's owner shows its end.
    RunsOut(LeaseId, Moment),
    /// A caller should have its answer by now.
    AnswerDue(usize, OpId),
    /// Another library's turn at the next node.
    Foreign(usize, Turn),
}

/// A connection: whose, to which node, the how many-th.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// Whose.
    pub client: usize,
    /// To which node, as the client names it.
    pub node: usize,
    /// Which one it leads to.
    pub server: usize,
    /// The how many-th: what belongs to an earlier one is stale.
    pub epoch: u32,
}

/// What a caller does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Asks for the lock.
    Ask,
    /// Extends the lease by hand.
    Extend(Span),
    /// Leaves the lock as the job says.
    End,
    /// Gives up waiting, or drops the guard.
    Cancel,
    /// Hands the lease to another client.
    HandOver(usize),
}

/// What another library does at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Sets the key there.
    Set(usize),
    /// Counts what it got.
    Count,
    /// Deletes the key there.
    Delete(usize),
}

/// What is to happen, the next first.
#[derive(Debug, Default)]
pub struct Queue {
    heap: BinaryHeap<Entry>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry {
    at: Moment,
    turn: u64,
    event: Event,
}

impl Queue {
    /// Lets something happen then.
    pub fn push(&mut self, at: Moment, event: Event) {
        self.pushed += 1;
        self.heap.push(Entry { at, turn: self.pushed, event });
    }

    /// The next thing, and when.
    pub fn pop(&mut self) -> Option<(Moment, Event)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.turn).cmp(&(self.at, self.turn))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.turn == other.turn
    }
}

impl Eq for Entry {}
