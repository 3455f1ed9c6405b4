//! A recorded history that a person can read: who did what, and what it changed.
//!
//! In:  participants, then steps in the order in which they happened.
//! Out: a table of text, one row per step and one column per participant; the
//!      same value is what diagrams are drawn from.
//!
//! Promise: rendering depends on the trace alone, so that the same history is
//! the same text every time.

mod table;

use std::{fmt, time::Duration};

/// A history of some clients and nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// What the history shows, in one sentence.
    pub title: String,
    /// Who takes part: the columns of the table.
    pub participants: Vec<Participant>,
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// What lasted: leases and troubles. Diagrams show them; the table does not.
    pub bars: Vec<Bar>,
}

/// Something that lasts, for one participant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    /// For whom.
    pub who: usize,
    /// What it is.
    pub kind: BarKind,
    /// From when.
    pub from: Duration,
    /// Until when.
    pub until: Duration,
    /// In a few words.
    pub text: String,
}

/// What kind of thing lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarKind {
    /// A guard says "held".
    Lease,
    /// Down, paused, cut off.
    Trouble,
}

/// Somebody who acts or is acted upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    /// A short name: `c1`, `A`.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// What a participant is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Wants locks.
    Client,
    /// Votes.
    Node,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When, from the start of the history.
    pub at: Duration,
    /// What.
    pub event: Event,
    /// What is to be known of some participants after it: their number in
    /// [`Trace::participants`] and, in a few words, their state.
    pub notes: Vec<(usize, String)>,
}

/// What kind of thing happened. Participants by their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A message did, or did not, arrive.
    Message {
        /// Who sent it.
        from: usize,
        /// Who it was for.
        to: usize,
        /// When it was sent.
        sent: Duration,
        /// What it says.
        text: String,
        /// Whether it arrived.
        fate: Fate,
    },
    /// Something one participant did, or that befell it.
    Local {
        /// Whom it concerns.
        who: usize,
        /// What it is.
        text: String,
    },
    /// Something that concerns everybody: time passes, a promise is broken.
    World {
        /// What it is.
        text: String,
    },
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrived at the time of its step.
    Arrived,
    /// It was lost on the way.
    Lost,
}

impl Trace {
    /// An empty history of these.
    #[must_use]
    pub fn new(title: impl Into<String>, participants: Vec<Participant>) -> Self {
        Trace { title: title.into(), participants, steps: Vec::new(), bars: Vec::new() }
    }

    /// Writes down one more step.
    pub fn push(&mut self, at: Duration, event: Event, notes: Vec<(usize, String)>) {
        self.steps.push(Step { at, event, notes });
    }

    /// A participant's name.
    #[must_use]
    pub fn name(&self, participant: usize) -> &str {
        &self.participants[participant].name
    }
}

impl Participant {
    /// A client of that name.
    #[must_use]
    pub fn client(name: impl Into<String>) -> Self {
        Participant { name: name.into(), kind: Kind::Client }
    }

    /// A node of that name.
    #[must_use]
    pub fn node(name: impl Into<String>) -> Self {
        Participant { name: name.into(), kind: Kind::Node }
    }
}

/// The history as a table.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        table::write(self, f)
    }
}
