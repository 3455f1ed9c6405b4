//! A virtual node: the core's reference node, with restarts and flaws.
//!
//! In:  one command at a time, and the node's clocks.
//! Out: the reply, and the keys and registers after it.
//!
//! Promise: it is correct, unless it is given a [`Flaw`]: one known mistake.
//!
//! It extends the reference node because servers restart, fail over and swap
//! databases, and because the model compares states: expired keys must be gone, or
//! equal states would look different.

mod flaw;
mod life;

pub use flaw::Flaw;
pub use redlatch_core::reference::Key;

use redlatch_core::{
    Command, Fingerprint, Holder, Moment, Reply, Vote,
    reference::{Contents, Reading, ReferenceNode},
};
use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    inner: ReferenceNode,
    number: usize,
    /// Counts its lives; part of its run id.
    run: u32,
    /// When the serving process started; `None` if long before the history.
    started: Option<Moment>,
    /// The database that was swapped away.
    hidden: Option<Box<Contents>>,
    /// With [`Flaw::ReadsRegistersEarly`]: the register it keeps reporting.
    told_early: Option<u64>,
}

impl Deref for Node {
    type Target = ReferenceNode;

    fn deref(&self) -> &ReferenceNode {
        &self.inner
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut ReferenceNode {
        &mut self.inner
    }
}

/// A node's clocks when it carries out a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// The clock that keys expire by.
    pub now: Moment,
    /// The wall clock, in microseconds since 1970.
    pub wall: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Habits {
    pub flaw: Option<Flaw>,
    /// Whether a refusal hides the holder and the time left.
    pub discreet: bool,
    /// Whether its wall clock stands still for fencing and for tickets, so that only
    /// its registers order grants and only arrivals order waiters.
    pub stands_still: bool,
}

impl Node {
    /// Carries out one command atomically.
    pub fn carry_out(&mut self, clock: Clock, command: &Command, habits: Habits) -> Reply {
        self.expire(clock.now);
        let watched = self.contents.ledger.watched.clone();
        let mut reply = match habits.flaw {
            None => self.carry_out_right(clock, command, habits),
            Some(flaw) => self.carry_out_wrong(flaw, clock, command, habits),
        };
        if let Some(fingerprint) = self.put_while_quarantined(command, &reply, watched.as_deref()) {
            self.disown_hidden(fingerprint);
        }
        if let (Reply::Vote(Vote::Held(holder)), true) = (&mut reply, habits.discreet) {
            *holder = Holder::default();
        }
        reply
    }

    fn carry_out_right(&mut self, clock: Clock, command: &Command, habits: Habits) -> Reply {
        let settles = matches!(command, Command::Take { .. } | Command::Release { .. });
        let wall = if habits.stands_still && settles { 0 } else { clock.wall };
        // Servers truncate both times to whole seconds.
        let seconds = |at: Moment| at.as_nanos() / 1_000_000_000;
        let started = self.started.unwrap_or(Moment::START);
        let uptime = Duration::from_secs(seconds(clock.now).saturating_sub(seconds(started)));
        let (now, wall, uptime) = (clock.now, Duration::from_micros(wall), Some(uptime));
        self.inner.carry_out(Reading { now, wall, uptime }, command)
    }

    /// The agreement for which this command just changed a node that is, or was, quarantined.
    fn put_while_quarantined(
        &self,
        command: &Command,
        reply: &Reply,
        watched: Option<&str>,
    ) -> Option<Fingerprint> {
        match command {
            Command::Plant { fingerprint: Some(fingerprint), .. } => {
                let planted = !matches!(reply, Reply::Vote(Vote::Quarantined(_)));
                (planted && !self.is_admitted(*fingerprint)).then_some(*fingerprint)
            }
            Command::Watch { fingerprint, .. } => {
                (self.contents.ledger.watched.as_deref() != watched).then_some(*fingerprint)
            }
            Command::Admit { fingerprint, .. } => {
                (*reply == Reply::Vote(Vote::Granted)).then_some(*fingerprint)
            }
            _ => None,
        }
    }
}
