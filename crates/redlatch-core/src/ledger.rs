//! What a node keeps for the restart guard, and how it uses it.
//!
//! In:  the commands to a node.
//! Out: its answers.
//!
//! Every kind of node keeps the same four texts and treats them the same way.
//! Nodes that run a script do so in the script.

use crate::{
    agreement::Fingerprint,
    command::{Facts, Identity},
    quarantine::{Cause, Mark, Marker, Quarantine},
};
use alloc::{format, string::ToString, sync::Arc};
use core::time::Duration;

/// The four texts that a node keeps for admission.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    /// The [`Marker`]: run and fingerprint.
    pub admitted: Option<Arc<str>>,
    /// The last agreement by which the node was admitted.
    pub agreement: Option<Arc<str>>,
    /// The fingerprint of the clients for which the node was taken over from others.
    pub reserved: Option<Arc<str>>,
    /// The [`Mark`]: run, nonce, start time by the node's clock in µs, and the
    /// fingerprint of the client that left it.
    pub watched: Option<Arc<str>>,
}

impl Ledger {
    /// The names of the texts, in field order.
    pub const NAMES: [&'static str; 4] = ["admitted", "agreement", "reserved", "watched"];

    /// Returns why the node may not even keep a lease by this agreement: it serves another
    /// one, or is quarantined without a mark of this one. With a mark it keeps the locks it
    /// has, since losing them would mean losing the mark.
    #[must_use]
    pub fn refusal(&self, run: &str, fingerprint: Fingerprint) -> Option<Quarantine> {
        // Its clients, according to its last marker, an operator's reservation or the mark left
        // on it. If it were asked under another name, the lock on it would count twice.
        let reserved = self.reserved.as_deref().and_then(Fingerprint::parse);
        let marker = self.marker().map(|marker| marker.fingerprint);
        let ours = self.watched.as_ref().is_some_and(|text| {
            let left_by = text.rsplit(' ').next().and_then(Fingerprint::parse);
            text.split(' ').next() == Some(run)
                && marker.or(reserved).or(left_by) == Some(fingerprint)
        });
        self.objection(run, fingerprint).filter(|out| out.cause != Cause::Forgot || !ours)
    }

    /// Returns why the node may not vote in its current run by this agreement.
    #[must_use]
    pub fn objection(&self, run: &str, fingerprint: Fingerprint) -> Option<Quarantine> {
        let facts = Identity { run: run.into(), version: "".into() };
        let mut facts = Facts::of(facts);
        self.tell(&mut facts);
        facts.objection(fingerprint).map(Quarantine::new)
    }

    /// Executes [`Command::Watch`](crate::Command::Watch). Adds what is recorded here to
    /// the node's `facts`.
    pub fn watch(
        &mut self,
        facts: &mut Facts,
        fingerprint: Fingerprint,
        nonce: u64,
        replace: bool,
    ) {
        let run = facts.identity.run.clone();
        let marker = self.marker();
        let disagrees =
            marker.as_ref().is_some_and(|marker| marker.is_of_others(&run, fingerprint));
        let present = marker.as_ref().is_some_and(|marker| marker.run == run);
        if replace && (disagrees || marker.is_none()) {
            self.reserved = Some(fingerprint.to_string().into());
        }
        if disagrees && replace {
            self.admitted = None;
        }
        if (disagrees && replace) || (!disagrees && !present) {
            let watched = self.watched.as_ref().and_then(|text| text.split(' ').next());
            if disagrees || watched != Some(&run) {
                let since = facts.clock.unwrap_or_default();
                self.watched =
                    Some(format!("{run} {nonce:016x} {} {fingerprint}", since.as_micros()).into());
            }
        }
        self.tell(facts);
    }

    /// Executes [`Command::Admit`](crate::Command::Admit), except for the registers.
    /// Returns whether the node is now admitted: the mark was there and of this run, and
    /// the node was not reserved for others.
    pub fn admit(
        &mut self,
        run: &str,
        fingerprint: Fingerprint,
        agreement: &Arc<str>,
        mark: &str,
    ) -> bool {
        let watched = self.watched.as_deref();
        let theirs = self.reserved.as_deref().and_then(Fingerprint::parse);
        let ours = theirs.is_none_or(|reserved| reserved == fingerprint);
        if watched != Some(mark) || mark.split(' ').next() != Some(run) || !ours {
            return false;
        }
        let admitted = Marker { run: run.into(), fingerprint }.to_string().into();
        let (admitted, agreement) = (Some(admitted), Some(agreement.clone()));
        *self = Ledger { admitted, agreement, reserved: None, watched: None };
        true
    }

    /// Adds what is recorded here to `facts`.
    pub fn tell(&self, facts: &mut Facts) {
        facts.marker = self.marker();
        facts.agreement.clone_from(&self.agreement);
        facts.reserved = self.reserved.as_deref().and_then(Fingerprint::parse);
        facts.mark = self.watched.as_ref().and_then(|text| {
            let mut words = text.split(' ');
            let (run, _, since) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
            let age = facts.clock.unwrap_or_default().saturating_sub(Duration::from_micros(since));
            (*run == *facts.identity.run).then(|| Mark { id: text.clone(), age })
        });
    }

    fn marker(&self) -> Option<Marker> {
        self.admitted.as_deref().and_then(Marker::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::Agreement;

    fn fingerprint(name: &str) -> Fingerprint {
        Agreement::new([name.into()], Duration::ZERO, Duration::ZERO).fingerprint()
    }

    fn facts(run: &str) -> Facts {
        let clock = Some(Duration::from_secs(1000));
        let uptime = Some(Duration::from_secs(60));
        let identity = Identity { run: run.into(), version: "".into() };
        Facts { clock, uptime, ..Facts::of(identity) }
    }

    /// Returns a node that is quarantined, and its mark.
    fn out() -> (Ledger, Arc<str>) {
        let (mut ledger, mut facts) = (Ledger::default(), facts("one"));
        ledger.watch(&mut facts, fingerprint("us"), 7, false);
        (ledger, facts.mark.unwrap().id)
    }

    #[test]
    fn only_who_names_the_mark_admits() {
        let (mut ledger, mark) = out();

        assert!(!ledger.admit("one", fingerprint("us"), &"".into(), "one 0000000000000008 5"));
        assert!(ledger.admit("one", fingerprint("us"), &"".into(), &mark));
        assert_eq!(ledger.objection("one", fingerprint("us")), None);
        assert!(!ledger.admit("one", fingerprint("us"), &"".into(), &mark), "it is gone now");
    }

    #[test]
    fn a_mark_is_of_one_run() {
        let (mut ledger, mark) = out();
        assert!(!ledger.admit("two", fingerprint("us"), &"".into(), &mark));

        let mut after = facts("two");
        ledger.tell(&mut after);
        assert_eq!(after.mark, None);
        ledger.watch(&mut after, fingerprint("us"), 8, false);

        assert_ne!(after.mark.unwrap().id, mark);
    }

    #[test]
    fn a_node_that_is_reserved_is_admitted_for_nobody_else() {
        let (mut ledger, mark) = out();
        ledger.watch(&mut facts("one"), fingerprint("others"), 9, true);

        assert!(!ledger.admit("one", fingerprint("us"), &"".into(), &mark));
        assert!(ledger.admit("one", fingerprint("others"), &"".into(), &mark));
    }

    /// Without a mark it could forget the lease unnoticed: a database that is swapped back
    /// has its old marker.
    #[test]
    fn a_quarantined_node_keeps_leases_only_once_it_is_marked() {
        let (marked, _) = out();

        assert!(Ledger::default().refusal("one", fingerprint("us")).is_some());
        assert_eq!(marked.refusal("one", fingerprint("us")), None);
        assert!(marked.refusal("two", fingerprint("us")).is_some(), "the mark is of another run");
    }
}
