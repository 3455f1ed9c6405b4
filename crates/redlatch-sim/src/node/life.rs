//! The lives of a node: starts, failovers, swapped databases.

use super::Node;
use redlatch_core::{
    Cause, Fingerprint, Identity, Marker, Moment,
    reference::{Contents, ReferenceNode},
};
use std::{collections::BTreeMap, mem, sync::Arc};

impl Node {
    pub fn server(number: usize) -> Self {
        Node::in_life(number, 0)
    }

    fn in_life(number: usize, run: u32) -> Self {
        let identity = Identity { run: run_id(number, run), version: "virtual 1".into() };
        let inner = ReferenceNode::new(identity);
        Node { inner, number, run, started: None, hidden: None, told_early: None }
    }

    fn live_on(&mut self) {
        self.run += 1;
        self.identity.run = run_id(self.number, self.run);
    }

    /// Restarts without its memory, like a server without a disk.
    pub fn forget(&mut self, now: Moment) {
        *self = Node { started: Some(now), ..Node::in_life(self.number, self.run + 1) };
    }

    /// Becomes another server, which has been up all the time.
    pub fn has_been_up(&mut self) {
        self.started = None;
    }

    /// Restarts with its memory.
    pub fn restart(&mut self, now: Moment) {
        self.live_on();
        self.started = Some(now);
        self.flushed = false;
    }

    /// `FLUSHALL`: loses its keys and registers, but keeps running.
    pub fn flush(&mut self) {
        self.inner.flush();
        (self.hidden, self.told_early) = (None, None);
    }

    /// `SWAPDB`: serves its other database from now on, which is empty at first.
    pub fn swap(&mut self) {
        let hidden = self.hidden.get_or_insert_default();
        mem::swap(&mut **hidden, &mut self.inner.contents);
        self.flushed = true;
    }

    /// A replica takes its place. It has been up for as long, and has these registers
    /// but none of the keys.
    pub fn fail_over(&mut self, registers: BTreeMap<u32, u64>) {
        self.live_on();
        self.promoted = true;
        let Contents { floor, ledger, .. } = mem::take(&mut self.contents);
        self.contents = Contents { registers, floor, ledger, ..Contents::default() };
        self.hidden = None;
    }

    /// Admits it at once, as before the history begins.
    pub fn admit_now(&mut self, fingerprint: Fingerprint, agreement: &str) {
        let marker = Marker { run: self.identity.run.clone(), fingerprint };
        self.contents.ledger.admitted = Some(marker.to_string().into());
        self.contents.ledger.agreement = Some(agreement.into());
    }

    pub fn run(&self) -> u32 {
        self.run
    }

    pub fn is_admitted(&self, fingerprint: Fingerprint) -> bool {
        self.cause(fingerprint).is_none()
    }

    /// Why it may not vote under this agreement, if it may not.
    pub fn cause(&self, fingerprint: Fingerprint) -> Option<Cause> {
        let objection = self.contents.ledger.objection(&self.identity.run, fingerprint);
        objection.map(|objection| objection.cause)
    }

    /// The database that was swapped away must not come back admitted, nor with an
    /// old mark: it does not have what was put on the node since.
    pub(super) fn disown_hidden(&mut self, fingerprint: Fingerprint) {
        if let Some(Contents { ledger, .. }) = self.hidden.as_deref_mut() {
            let admitted = ledger.admitted.as_deref().and_then(Marker::parse);
            if admitted.is_none_or(|marker| marker.fingerprint == fingerprint) {
                (ledger.admitted, ledger.watched) = (None, None);
            }
        }
    }
}

fn run_id(number: usize, run: u32) -> Arc<str> {
    format!("run-{number}-{run}").into()
}
