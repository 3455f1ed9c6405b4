//! What must never happen, one file per promise.
//!
//! In:  what just happened, and everything that is visible at that moment.
//! Out: nothing, or a sentence that says how a promise was broken.

mod admission;
mod answers;
mod carried;
mod dead_drop_out;
mod exclusion;
mod fencing;
mod first_come;
mod honesty;
mod in_turn;
mod lines_end;
mod liveness;
mod no_part;
mod nothing_left;
mod survival;
mod window;

use super::{
    client::Client,
    leases::{LeaseId, Leases},
    schedule::{Claims, Schedule},
    server::Server,
};
use admission::Admission;
use dead_drop_out::DeadDropOut;
use fencing::Fencing;
use in_turn::InTurn;
use redlatch_core::{Command, Moment, OpId, Reply, lease::Loss};

#[derive(Debug, Clone, PartialEq)]
pub enum Seen<'a> {
    Granted(LeaseId),
    Kept(LeaseId),
    /// Its loss was signalled, which ends it.
    Lost(LeaseId, Loss),
    /// It ended by its owner's clock, and nobody had ended it before.
    RanOut(LeaseId),
    /// A client sent a command of the restart guard.
    Sent {
        client: usize,
        node: usize,
        command: &'a Command,
    },
    /// A node carried out a command, or refused to.
    Served {
        client: usize,
        node: usize,
        command: &'a Command,
        /// Before it could be garbled.
        reply: &'a Reply,
    },
    /// A job's request for a lock failed with this error.
    Failed(usize, String),
    /// A caller should have had its answer by now.
    Unanswered(usize, OpId),
    /// An answer came that nobody waited for.
    Unasked(usize, OpId, &'static str),
    /// A client has nothing under way, neither locally nor on the network.
    Quiet(usize),
    /// Nothing more will happen.
    Over,
}

/// Everything an invariant can see.
pub struct Site<'a> {
    /// True time.
    pub now: Moment,
    pub schedule: &'a Schedule,
    pub claims: Claims,
    pub servers: &'a [Server],
    pub clients: &'a [Client],
    pub leases: &'a Leases,
}

impl Site<'_> {
    /// When a lease ends by its owner's clock, in true time.
    pub fn ends(&self, lease: LeaseId) -> Moment {
        let Some(known) = self.leases.get(lease) else { return Moment::START };
        match lease {
            LeaseId::Ours(client, ..) => self.clients[client].clock.when(known.until),
            LeaseId::Foreign(_) => known.until,
        }
    }
}

/// Checks one promise; returns how it was broken, if it was.
pub type Check = Box<dyn FnMut(&Site<'_>, &Seen<'_>) -> Result<(), String>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    /// In true time.
    pub at: Moment,
    pub what: String,
}

pub fn all() -> Vec<(&'static str, Check)> {
    let (mut fencing, mut admission) = (Fencing::default(), Admission::default());
    let (mut in_turn, mut dead) = (InTurn::default(), DeadDropOut::default());
    vec![
        ("exclusion", Box::new(exclusion::see)),
        ("fencing", Box::new(move |site, seen| fencing.see(site, seen))),
        ("honesty", Box::new(honesty::see)),
        ("nothing left behind", Box::new(nothing_left::see)),
        ("answers", Box::new(answers::see)),
        ("liveness", Box::new(liveness::see)),
        ("a node that forgot does not vote", Box::new(window::see)),
        ("who is refused takes no part", Box::new(no_part::see)),
        ("an extension carries the number", Box::new(carried::see)),
        ("a renewed lease survives", Box::new(survival::see)),
        ("a node is admitted with care", Box::new(move |site, seen| admission.see(site, seen))),
        ("first come, first served", Box::new(first_come::see)),
        ("nobody starves", Box::new(move |site, seen| in_turn.see(site, seen))),
        ("lines are empty in the end", Box::new(lines_end::see)),
        ("the dead drop out of line", Box::new(move |site, seen| dead.see(site, seen))),
    ]
}

fn name(id: LeaseId) -> String {
    match id {
        LeaseId::Ours(client, life, op) => format!("client {client} (life {life}, {op:?})"),
        LeaseId::Foreign(trouble) => format!("the other library (trouble {trouble})"),
    }
}
