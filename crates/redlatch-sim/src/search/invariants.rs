//! What must never happen, one file each.
//!
//! In:  what was seen to happen, and everything there is to see at that moment.
//! Out: nothing, or one sentence that says which promise was broken and how.

mod admission;
mod answers;
mod carried;
mod exclusion;
mod fencing;
mod honesty;
mod liveness;
mod no_part;
mod nothing_left;
mod survival;
mod window;

use super::{
    client::Client,
    ledger::{LeaseId, Ledger},
    schedule::{Claims, Schedule},
    server::Server,
};
use redlatch_core::{Command, Moment, OpId, Reply, lease::Loss};

/// Something that was seen.
#[derive(Debug, Clone)]
pub enum Seen<'a> {
    /// A lease was granted.
    Granted(LeaseId),
    /// It was extended.
    Kept(LeaseId),
    /// Its loss was signalled; it ends with this.
    Lost(LeaseId, Loss),
    /// Its end came by its owner's clock, and nobody had ended it.
    RanOut(LeaseId),
    /// A client tells a node something for the restart guard.
    Sent {
        /// Which client.
        client: usize,
        /// Which node.
        node: usize,
        /// What it tells it.
        command: &'a Command,
    },
    /// A node did what it was asked, or did not.
    Served {
        /// Which client's command.
        client: usize,
        /// Which node.
        node: usize,
        /// What it was asked.
        command: &'a Command,
        /// What it answered, before anything happened to that.
        reply: &'a Reply,
    },
    /// A job's request for a lock came to nothing, with that error.
    Failed(usize, String),
    /// A caller that waits for an answer should have had it by now.
    Unanswered(usize, OpId),
    /// There was an answer that nobody waited for.
    Unasked(usize, OpId, &'static str),
    /// A client has nothing under way any more, neither here nor on the network.
    Quiet(usize),
    /// Nothing will happen any more.
    Over,
}

/// All there is to see.
pub struct Site<'a> {
    /// The true time.
    pub now: Moment,
    /// The run.
    pub schedule: &'a Schedule,
    /// What must hold in it.
    pub claims: Claims,
    /// The nodes.
    pub servers: &'a [Server],
    /// The clients.
    pub clients: &'a [Client],
    /// The leases.
    pub ledger: &'a Ledger,
}

impl Site<'_> {
    /// The true time at which a lease ends by its owner's clock.
    #[must_use]
    pub fn ends(&self, lease: LeaseId) -> Moment {
        let Some(known) = self.ledger.get(lease) else { return Moment::START };
        match lease {
            LeaseId::Ours(client, ..) => self.clients[client].clock.when(known.until),
            LeaseId::Foreign(_) => known.until,
        }
    }
}

/// One promise.
pub trait Invariant {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Looks at what happened; what is wrong with it, if anything is.
    fn see(&mut self, site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String>;
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: &'static str,
    /// When, in true time.
    pub at: Moment,
    /// How.
    pub what: String,
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(exclusion::Exclusion),
        Box::new(fencing::Fencing::default()),
        Box::new(honesty::Honesty),
        Box::new(nothing_left::NothingLeft),
        Box::new(answers::Answers),
        Box::new(liveness::Liveness),
        Box::new(window::Window),
        Box::new(no_part::NoPart),
        Box::new(carried::Carried),
        Box::new(survival::Survival),
        Box::new(admission::Admission::default()),
    ]
}

/// A lease in words.
fn name(id: LeaseId) -> String {
    match id {
        LeaseId::Ours(client, life, op) => format!("client {client} (life {life}, {op:?})"),
        LeaseId::Foreign(trouble) => format!("the other library (trouble {trouble})"),
    }
}
