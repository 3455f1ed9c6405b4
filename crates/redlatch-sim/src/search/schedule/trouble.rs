//! What can go wrong in a run.

use super::Span;
use serde::{Deserialize, Serialize};

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    /// When.
    pub at: Span,
    /// What.
    pub what: Wrong,
}

/// What can go wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Wrong {
    /// A connection breaks. Commands on their way are lost, or reach the node so
    /// much later, behind what the next connection carries.
    Break {
        /// Whose.
        client: usize,
        /// To which node.
        node: usize,
        /// How late what was on its way gets there.
        late: Option<Span>,
    },
    /// No message gets through, one way or both; TCP brings it later.
    Cut {
        /// Whose messages; none for everybody's.
        client: Option<usize>,
        /// To or from which node.
        node: usize,
        /// Which direction.
        way: Way,
        /// For how long.
        lasts: Span,
    },
    /// The address of a node leads one client to another node of its list.
    Reroute {
        /// Which client.
        client: usize,
        /// Whose address.
        node: usize,
        /// To which other one.
        to: usize,
        /// For how long.
        lasts: Span,
    },
    /// Messages to and from a node take this much longer, each a random part of it.
    Slow {
        /// Which node.
        node: usize,
        /// How much longer at most.
        by: Span,
        /// For how long.
        lasts: Span,
    },
    /// A node dies and comes back.
    CrashNode {
        /// Which node.
        node: usize,
        /// Without its memory.
        forgets: bool,
        /// What comes back is another server, which has been up for long.
        #[serde(default)]
        spare: bool,
        /// Nobody says so to the other ends of its connections until it is back.
        silent: bool,
        /// After how long.
        lasts: Span,
    },
    /// A node's memory is emptied while it runs.
    Flush {
        /// Which node.
        node: usize,
    },
    /// The memory of all nodes is emptied at once.
    FlushAll,
    /// A node's database is swapped with an empty one, and later swapped back.
    Swap {
        /// Which node.
        node: usize,
        /// After how long.
        lasts: Span,
    },
    /// Some of a node's replies make no sense to whom they are for. The commands
    /// were carried out all the same.
    Garble {
        /// Which node.
        node: usize,
        /// How many of a hundred.
        percent: u64,
        /// For how long.
        lasts: Span,
    },
    /// An operator vouches for a node. A truthful one, who says nothing of a node
    /// that has forgotten locks that may still be held.
    Vouch {
        /// By which client.
        client: usize,
        /// For which node.
        node: usize,
    },
    /// An operator takes a node from its clients, for those of another party.
    Replace {
        /// By which client.
        client: usize,
        /// Which node.
        node: usize,
    },
    /// A replica takes a node's place: without its keys, and with or without its
    /// fencing registers.
    FailOver {
        /// Which node.
        node: usize,
        /// It has the registers.
        registers: bool,
    },
    /// A node stands still; what reaches it waits.
    PauseNode {
        /// Which node.
        node: usize,
        /// For how long.
        lasts: Span,
    },
    /// A node's wall clock is set, by so many microseconds.
    StepNode {
        /// Which node.
        node: usize,
        /// Forward or back.
        by: i64,
    },
    /// A client process dies and comes back, knowing nothing.
    CrashClient {
        /// Which client.
        client: usize,
        /// How late what was on its way gets there, if it does.
        late: Option<Span>,
        /// After how long it is back.
        lasts: Span,
    },
    /// A client process stands still; what reaches it waits.
    PauseClient {
        /// Which client.
        client: usize,
        /// For how long.
        lasts: Span,
        /// On waking, the keeper gets to run before the engine.
        keeper_first: bool,
    },
    /// A client's wall clock is set, by so many microseconds.
    StepClient {
        /// Which client.
        client: usize,
        /// Forward or back.
        by: i64,
    },
    /// Another library takes the lock, by `SET NX PX` on one node after another.
    Foreign {
        /// What.
        resource: u32,
        /// For how long its keys live.
        ttl: Span,
        /// How long until it deletes them, if it does.
        hold: Option<Span>,
        /// How long it needs from one node to the next.
        pace: Span,
    },
}

impl Wrong {
    /// Whether a node loses its memory.
    #[must_use]
    pub fn forgets(&self) -> bool {
        let crash = matches!(self, Wrong::CrashNode { forgets: true, .. });
        let flush = matches!(self, Wrong::Flush { .. } | Wrong::FlushAll | Wrong::Swap { .. });
        crash || flush || matches!(self, Wrong::FailOver { .. })
    }

    /// Whose trouble it is, if it is one client's.
    #[must_use]
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

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Commands.
    ToNode,
    /// Replies.
    ToClient,
    /// Both.
    Both,
}
