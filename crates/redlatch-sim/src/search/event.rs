//! What happens in a run.

use super::{leases::LeaseId, schedule::Span};
use redlatch_core::{Command, Moment, OpId, Reply, Tag, Wake};

#[derive(Debug, Clone)]
pub enum Event {
    /// A caller does the next thing of a job.
    Job(usize, Act),
    Begins(usize),
    Ends(usize),
    /// A connect succeeds, fails or times out.
    Connects(Wire, Moment),
    Command {
        wire: Wire,
        sent: Moment,
        tag: Tag,
        command: Command,
    },
    Reply {
        wire: Wire,
        sent: Moment,
        tag: Tag,
        reply: Reply,
    },
    /// A node wakes a client that waits in line.
    Woken {
        wire: Wire,
        sent: Moment,
        wake: Wake,
    },
    /// A client learns the outcome of a command without the node, or that the node can no
    /// longer wake it.
    Refused {
        /// Its `epoch` is the client's life here.
        wire: Wire,
        tag: Tag,
        reply: Reply,
    },
    Wakes(usize),
    /// A lease ends by its owner's clock.
    RunsOut(LeaseId, Moment),
    /// A caller should have its answer by now.
    AnswerDue(usize, OpId),
    /// Another library's next step.
    Foreign(usize, ForeignStep),
}

/// One connection of a client to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    pub client: usize,
    /// The node, as the client names it.
    pub node: usize,
    /// The server it really leads to.
    pub server: usize,
    /// Counts the link's connections: messages of earlier ones are stale.
    pub epoch: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Ask,
    Extend(Span),
    /// Leaves the lock as the job says.
    End,
    /// Stops waiting, or drops the guard.
    Cancel,
    HandOver(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignStep {
    Set(usize),
    Count,
    Delete(usize),
}
