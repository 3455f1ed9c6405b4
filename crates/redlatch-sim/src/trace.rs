//! A recorded history that a person can read: who did what, and what it changed.
//!
//! In:  participants, then steps in the order in which they happened.
//! Out: a text table, one row per step and one column per participant; diagrams
//!      are drawn from the same value.
//!
//! Promise: rendering depends only on the trace, so the same history gives the same
//! text.

mod table;

use std::{fmt, time::Duration};

/// A history of clients and nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// What the history shows, in one sentence.
    pub title: String,
    /// The columns of the table.
    pub participants: Vec<Participant>,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// What lasted: leases and troubles. Only diagrams show them.
    pub bars: Vec<Bar>,
}

/// Something that lasts, for one participant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    pub who: usize,
    pub kind: BarKind,
    pub from: Duration,
    pub until: Duration,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarKind {
    /// A guard says "held".
    Lease,
    /// Down, paused, cut off.
    Trouble,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    /// A short name: `c1`, `A`.
    pub name: String,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Client,
    Node,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When, from the start of the history.
    pub at: Duration,
    pub event: Event,
    /// The new state, in a few words, of some participants (indices into
    /// [`Trace::participants`]).
    pub notes: Vec<(usize, String)>,
}

/// What kind of thing happened. Participants by their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Message {
        from: usize,
        to: usize,
        sent: Duration,
        text: String,
        fate: Fate,
    },
    /// Something one participant did, or that happened to it.
    Local {
        who: usize,
        text: String,
    },
    /// Something that concerns everyone: time passes, a promise is broken.
    World {
        text: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrived at the time of its step.
    Arrived,
    Lost,
}

impl Trace {
    pub fn new(title: impl Into<String>, participants: Vec<Participant>) -> Self {
        Trace { title: title.into(), participants, steps: Vec::new(), bars: Vec::new() }
    }

    pub fn push(&mut self, at: Duration, event: Event, notes: Vec<(usize, String)>) {
        self.steps.push(Step { at, event, notes });
    }

    pub fn name(&self, participant: usize) -> &str {
        &self.participants[participant].name
    }
}

impl Participant {
    pub fn client(name: impl Into<String>) -> Self {
        Participant { name: name.into(), kind: Kind::Client }
    }

    pub fn node(name: impl Into<String>) -> Self {
        Participant { name: name.into(), kind: Kind::Node }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        table::write(self, f)
    }
}
