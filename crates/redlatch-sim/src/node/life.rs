//! The lives of a node: starts, failovers, and what the restart guard keeps.

use super::{Clock, Flaw, Habits, Node};
use redlatch_core::{Cause, Facts, FencingToken, Fingerprint, Identity, Marker, Moment, Vote};
use std::{sync::Arc, time::Duration};

impl Node {
    /// The server of that number, with empty memory.
    #[must_use]
    pub fn server(number: usize) -> Self {
        Node { number, ..Node::default() }
    }

    /// Forgets everything, as a server without a disk does when it restarts.
    pub fn forget(&mut self, now: Moment) {
        *self = Node { run: self.run + 1, started: Some(now), ..Node::server(self.number) };
    }

    /// It is another server than before, which was up all the time.
    pub fn has_been_up(&mut self) {
        self.started = None;
    }

    /// Restarts with all that it had.
    pub fn restart(&mut self, now: Moment) {
        self.run += 1;
        self.started = Some(now);
        self.flushed = false;
    }

    /// Its keys and registers vanish, but it runs on: `FLUSHALL`.
    pub fn flush(&mut self) {
        *self = Node {
            run: self.run,
            started: self.started,
            promoted: self.promoted,
            flushed: true,
            ..Node::server(self.number)
        };
    }

    /// Serves its other database, which is empty at first, from now on: `SWAPDB`.
    pub fn swap(&mut self) {
        let mut hidden = self.hidden.take().unwrap_or_default();
        std::mem::swap(&mut hidden.keys, &mut self.keys);
        std::mem::swap(&mut hidden.registers, &mut self.registers);
        std::mem::swap(&mut hidden.floor, &mut self.floor);
        std::mem::swap(&mut hidden.ledger, &mut self.ledger);
        self.hidden = Some(hidden);
        self.flushed = true;
    }

    /// A replica takes its place. It has been up as long, but what it was told
    /// of last are these registers, and none of the keys.
    pub fn fail_over(&mut self, registers: &[(u32, u64)]) {
        self.run += 1;
        self.promoted = true;
        self.keys.clear();
        self.registers = registers.to_vec();
        self.hidden = None;
    }

    /// Is admitted without further ado, as it was before the history begins.
    pub fn admit_now(&mut self, guard: Fingerprint, agreement: &str) {
        let marker = Marker { run: self.identity().run, fingerprint: guard };
        self.ledger.admitted = Some(marker.to_string().into());
        self.ledger.agreement = Some(agreement.into());
    }

    /// Which life it is in.
    #[must_use]
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Whether it may vote by this agreement.
    #[must_use]
    pub fn is_admitted(&self, guard: Fingerprint) -> bool {
        self.ledger.objection(&self.identity().run, guard).is_none()
    }

    /// Why it may not vote by this agreement, if it may not.
    #[must_use]
    pub fn cause(&self, guard: Fingerprint) -> Option<Cause> {
        self.ledger.objection(&self.identity().run, guard).map(|objection| objection.cause)
    }

    /// Its registers that have ever moved.
    #[must_use]
    pub fn registers(&self) -> &[(u32, u64)] {
        &self.registers
    }

    pub(super) fn identity(&self) -> Identity {
        let run = format!("run-{}-{}", self.number, self.run).into();
        Identity { run, version: "virtual 1".into() }
    }

    pub(super) fn facts(&mut self, clock: Clock, habits: Habits) -> Facts {
        let mut highest = self.registers.iter().map(|(_, is)| *is).max().unwrap_or(0);
        highest = highest.max(self.floor);
        if habits.flaw == Some(Flaw::ReadsRegistersEarly) {
            highest = *self.told_early.get_or_insert(highest);
        }
        // Servers cut both times to whole seconds.
        let seconds = |at: Moment| at.as_nanos() / 1_000_000_000;
        let started = self.started.unwrap_or(Moment::START);
        Facts {
            clock: Some(Duration::from_micros(clock.wall)),
            uptime: Some(Duration::from_secs(seconds(clock.now).saturating_sub(seconds(started)))),
            promoted: self.promoted,
            intact: !self.flushed || habits.flaw == Some(Flaw::HidesFlushes),
            highest: FencingToken::new(highest),
            ..Facts::of(self.identity())
        }
    }

    pub(super) fn admit(
        &mut self,
        guard: Fingerprint,
        agreement: &Arc<str>,
        mark: &str,
        floor: Option<FencingToken>,
        habits: Habits,
    ) -> Vote {
        let run = self.identity().run;
        let own = format!("{run} any 0");
        let mark = if habits.flaw == Some(Flaw::IgnoresMark) {
            self.ledger.watched = Some(own.as_str().into());
            &own
        } else {
            mark
        };
        let reserved = self.ledger.reserved.clone();
        if !self.ledger.admit(&run, guard, agreement, mark) {
            return Vote::Gone;
        }
        if habits.flaw == Some(Flaw::StaysReserved) {
            self.ledger.reserved = reserved;
        }
        self.floor = self.floor.max(floor.map_or(0, FencingToken::get));
        self.disown_hidden(guard);
        Vote::Granted
    }

    /// What was swapped away must not come back admitted, nor with a mark that
    /// tells how long it has been out: whatever is put on a node that is out
    /// would be forgotten by it.
    pub(super) fn disown_hidden(&mut self, guard: Fingerprint) {
        if let Some(hidden) = &mut self.hidden {
            let admitted = hidden.ledger.admitted.as_deref().and_then(Marker::parse);
            if admitted.is_none_or(|marker| marker.fingerprint == guard) {
                hidden.ledger.admitted = None;
                hidden.ledger.watched = None;
            }
        }
    }
}
