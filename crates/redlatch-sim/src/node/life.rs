//! The lives of a node: starts, failovers, and what the restart guard keeps.

use super::{Clock, Flaw, Habits, Node};
use redlatch_core::{Facts, FencingToken, Fingerprint, Identity, Marker, Moment, Reply, Vote};
use std::{sync::Arc, time::Duration};

impl Node {
    /// Forgets everything, as a server without a disk does when it restarts.
    pub fn forget(&mut self, now: Moment) {
        *self = Node { run: self.run + 1, started: Some(now), ..Node::default() };
    }

    /// Restarts with all that it had.
    pub fn restart(&mut self, now: Moment) {
        self.run += 1;
        self.started = Some(now);
    }

    /// Its keys and registers vanish, but it runs on: `FLUSHALL`.
    pub fn flush(&mut self) {
        *self = Node {
            run: self.run,
            started: self.started,
            promoted: self.promoted,
            ..Node::default()
        };
    }

    /// A replica takes its place. It has been up as long, but what it was told
    /// of last are these registers, and none of the keys.
    pub fn fail_over(&mut self, registers: &[(u32, u64)]) {
        self.run += 1;
        self.promoted = true;
        self.keys.clear();
        self.registers = registers.to_vec();
    }

    /// Is admitted without further ado, as it was before the history begins.
    pub fn admit_now(&mut self, guard: Fingerprint) {
        let marker = Marker { run: self.identity().run, fingerprint: guard };
        self.ledger.admitted = Some(marker.to_string().into());
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

    /// Its registers that have ever moved.
    #[must_use]
    pub fn registers(&self) -> &[(u32, u64)] {
        &self.registers
    }

    pub(super) fn identity(&self) -> Identity {
        Identity { run: format!("run-{}", self.run).into(), version: "virtual 1".into() }
    }

    pub(super) fn facts(&self, clock: Clock) -> Facts {
        Facts {
            clock: Some(Duration::from_micros(clock.wall)),
            uptime: Some(clock.now.since(self.started.unwrap_or(Moment::START))),
            promoted: self.promoted,
            ..Facts::of(self.identity())
        }
    }

    pub(super) fn watch(
        &mut self,
        clock: Clock,
        guard: Fingerprint,
        nonce: u64,
        replace: bool,
        habits: Habits,
    ) -> Reply {
        let mut facts = self.facts(clock);
        self.ledger.watch(&mut facts, guard, nonce, replace);
        if habits.flaw == Some(Flaw::ReadsRegistersEarly) && self.told_early.is_none() {
            self.told_early = Some(self.registers.clone());
        }
        Reply::Facts(facts.into())
    }

    pub(super) fn admit(
        &mut self,
        guard: Fingerprint,
        agreement: &Arc<str>,
        mark: &str,
        registers: &[(u32, FencingToken)],
    ) -> Vote {
        if !self.ledger.admit(&self.identity().run, guard, agreement, mark) {
            return Vote::Gone;
        }
        for (at, number) in registers {
            self.set_register_at(*at, self.register_at(*at).max(number.get()));
        }
        Vote::Granted
    }
}
