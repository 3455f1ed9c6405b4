//! What can go wrong in a run.

use super::Span;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    pub at: Span,
    pub what: Wrong,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Wrong {
    /// A connection breaks. Commands under way are lost, or reach the node much
    /// later, behind those of the next connection.
    Break {
        client: usize,
        node: usize,
        /// How late the commands under way arrive; `None` if they are lost.
        late: Option<Span>,
    },
    /// No message gets through one way or both; TCP delivers it later.
    Cut {
        /// Whose messages; `None` for everyone's.
        client: Option<usize>,
        node: usize,
        way: Way,
        lasts: Span,
    },
    /// The address of a node leads one client to another node of its list.
    Reroute { client: usize, node: usize, to: usize, lasts: Span },
    /// Messages to and from a node take longer, each by a random part of `by`.
    Slow { node: usize, by: Span, lasts: Span },
    /// A node dies and comes back.
    CrashNode {
        node: usize,
        forgets: bool,
        /// Another server comes back, which has been up for a long time.
        #[serde(default)]
        spare: bool,
        /// Its peers do not notice until it is back.
        silent: bool,
        lasts: Span,
    },
    /// A node is flushed while it runs.
    Flush { node: usize },
    /// All nodes are flushed at once.
    FlushAll,
    /// A node's database is swapped with an empty one, and later swapped back.
    Swap { node: usize, lasts: Span },
    /// Some of a node's replies are garbled; the commands were still carried out.
    Garble {
        node: usize,
        /// How many of a hundred.
        percent: u64,
        lasts: Span,
    },
    /// A truthful operator vouches for a node, but not for one that has forgotten locks
    /// that may still be held.
    Vouch { client: usize, node: usize },
    /// An operator takes a node from its clients for those of another party.
    Replace { client: usize, node: usize },
    /// A replica takes a node's place, without its keys and with or without its
    /// fencing registers.
    FailOver { node: usize, registers: bool },
    /// A node is paused; what arrives waits.
    PauseNode { node: usize, lasts: Span },
    /// A node's wall clock is set forward or back by this many microseconds.
    StepNode { node: usize, by: i64 },
    /// A client process dies and comes back without its memory.
    CrashClient {
        client: usize,
        /// How late its commands under way arrive; `None` if they are lost.
        late: Option<Span>,
        lasts: Span,
    },
    /// A client process is paused; what arrives waits.
    PauseClient {
        client: usize,
        lasts: Span,
        /// On resuming, the keeper runs before the engine.
        keeper_first: bool,
    },
    /// A client's wall clock is set forward or back by this many microseconds.
    StepClient { client: usize, by: i64 },
    /// Another library takes the lock, by `SET NX PX` on one node after another.
    Foreign {
        resource: u32,
        ttl: Span,
        /// When it deletes them, if it does.
        hold: Option<Span>,
        /// How long it takes from one node to the next.
        pace: Span,
    },
}

impl Wrong {
    pub fn forgets(&self) -> bool {
        let crash = matches!(self, Wrong::CrashNode { forgets: true, .. });
        let flush = matches!(self, Wrong::Flush { .. } | Wrong::FlushAll | Wrong::Swap { .. });
        crash || flush || matches!(self, Wrong::FailOver { .. })
    }

    /// The client concerned, if it is only one.
    pub fn client(&self) -> Option<usize> {
        match self {
            Wrong::Break { client, .. }
            | Wrong::Reroute { client, .. }
            | Wrong::CrashClient { client, .. }
            | Wrong::PauseClient { client, .. }
            | Wrong::StepClient { client, .. }
            | Wrong::Vouch { client, .. }
            | Wrong::Replace { client, .. } => Some(*client),
            Wrong::Cut { client, .. } => *client,
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Commands.
    ToNode,
    /// Replies.
    ToClient,
    Both,
}
