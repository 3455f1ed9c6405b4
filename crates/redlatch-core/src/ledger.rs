//! What a node keeps of the restart guard, and what it does with it.
//!
//! In:  what a node is asked. Out: what it answers.
//!
//! Every kind of node keeps the same four texts and does the same with them.
//! Nodes that run a script do it there.

use crate::{
    command::{Facts, Identity},
    quarantine::{Cause, Fingerprint, Mark, Marker, Quarantine},
};
use alloc::{format, string::ToString, sync::Arc};
use core::time::Duration;

/// The four texts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    /// The [`Marker`]: run and fingerprint.
    pub admitted: Option<Arc<str>>,
    /// The last agreement by which the node was admitted.
    pub agreement: Option<Arc<str>>,
    /// The fingerprint of those for whom the node was taken from others.
    pub reserved: Option<Arc<str>>,
    /// The [`Mark`]: run, nonce, since when by the node's clock in µs, and the
    /// fingerprint of who left it.
    pub watched: Option<Arc<str>>,
}

impl Ledger {
    /// The names of the texts, in the order of the fields.
    pub const NAMES: [&'static str; 4] = ["admitted", "agreement", "reserved", "watched"];

    /// Why the node does not even keep a lease by this agreement: it serves
    /// another, or is out without a mark of this one. With a mark it keeps the
    /// locks that it has, since the mark is lost with them.
    #[must_use]
    pub fn refusal(&self, run: &str, guard: Fingerprint) -> Option<Quarantine> {
        // For whom it is: by its last marker, an operator, or else whoever left the
        // mark. Under another name the lock that is there would count twice.
        let reserved = self.reserved.as_deref().and_then(Fingerprint::parse);
        let marker = self.marker().map(|marker| marker.fingerprint);
        let ours = self.watched.as_ref().is_some_and(|text| {
            let left_by = text.rsplit(' ').next().and_then(Fingerprint::parse);
            text.split(' ').next() == Some(run) && marker.or(reserved).or(left_by) == Some(guard)
        });
        self.objection(run, guard).filter(|out| out.cause != Cause::Forgot || !ours)
    }

    /// Why the node may not vote in its present run by this agreement.
    #[must_use]
    pub fn objection(&self, run: &str, guard: Fingerprint) -> Option<Quarantine> {
        let facts = Identity { run: run.into(), version: "".into() };
        let mut facts = Facts::of(facts);
        self.tell(&mut facts);
        facts.objection(guard).map(Quarantine::new)
    }

    /// [`Command::Watch`](crate::Command::Watch): `facts` are those of the node,
    /// and afterwards also tell what stands here.
    pub fn watch(&mut self, facts: &mut Facts, guard: Fingerprint, nonce: u64, replace: bool) {
        let run = facts.identity.run.clone();
        let marker = self.marker();
        let disagrees = marker.as_ref().is_some_and(|marker| marker.is_of_others(&run, guard));
        let present = marker.as_ref().is_some_and(|marker| marker.run == run);
        if replace && (disagrees || marker.is_none()) {
            self.reserved = Some(guard.to_string().into());
        }
        if disagrees && replace {
            self.admitted = None;
        }
        if (disagrees && replace) || (!disagrees && !present) {
            let watched = self.watched.as_ref().and_then(|text| text.split(' ').next());
            if disagrees || watched != Some(&run) {
                let since = facts.clock.unwrap_or_default();
                self.watched =
                    Some(format!("{run} {nonce:016x} {} {guard}", since.as_micros()).into());
            }
        }
        self.tell(facts);
    }

    /// [`Command::Admit`](crate::Command::Admit), but for the registers: whether
    /// the mark was there.
    pub fn admit(
        &mut self,
        run: &str,
        guard: Fingerprint,
        agreement: &Arc<str>,
        mark: &str,
    ) -> bool {
        let watched = self.watched.as_deref();
        let theirs = self.reserved.as_deref().and_then(Fingerprint::parse);
        let ours = theirs.is_none_or(|reserved| reserved == guard);
        if watched != Some(mark) || mark.split(' ').next() != Some(run) || !ours {
            return false;
        }
        let admitted = Marker { run: run.into(), fingerprint: guard }.to_string().into();
        let (admitted, agreement) = (Some(admitted), Some(agreement.clone()));
        *self = Ledger { admitted, agreement, reserved: None, watched: None };
        true
    }

    /// Tells what stands here.
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
    use crate::quarantine::Agreement;

    fn guard(name: &str) -> Fingerprint {
        Agreement::new([name.into()], Duration::ZERO, Duration::ZERO).fingerprint()
    }

    fn facts(run: &str) -> Facts {
        let clock = Some(Duration::from_secs(1000));
        let uptime = Some(Duration::from_secs(60));
        let identity = Identity { run: run.into(), version: "".into() };
        Facts { clock, uptime, ..Facts::of(identity) }
    }

    /// A node that is out, and the mark it was given.
    fn out() -> (Ledger, Arc<str>) {
        let (mut ledger, mut facts) = (Ledger::default(), facts("one"));
        ledger.watch(&mut facts, guard("us"), 7, false);
        (ledger, facts.mark.unwrap().id)
    }

    #[test]
    fn only_who_names_the_mark_admits() {
        let (mut ledger, mark) = out();

        assert!(!ledger.admit("one", guard("us"), &"".into(), "one 0000000000000008 5"));
        assert!(ledger.admit("one", guard("us"), &"".into(), &mark));
        assert_eq!(ledger.objection("one", guard("us")), None);
        assert!(!ledger.admit("one", guard("us"), &"".into(), &mark), "it is gone now");
    }

    #[test]
    fn a_mark_is_of_one_run() {
        let (mut ledger, mark) = out();
        assert!(!ledger.admit("two", guard("us"), &"".into(), &mark));

        let mut after = facts("two");
        ledger.tell(&mut after);
        assert_eq!(after.mark, None);
        ledger.watch(&mut after, guard("us"), 8, false);

        assert_ne!(after.mark.unwrap().id, mark);
    }

    #[test]
    fn a_node_that_is_reserved_is_admitted_for_nobody_else() {
        let (mut ledger, mark) = out();
        ledger.watch(&mut facts("one"), guard("others"), 9, true);

        assert!(!ledger.admit("one", guard("us"), &"".into(), &mark));
        assert!(ledger.admit("one", guard("others"), &"".into(), &mark));
    }

    /// Without a mark it could forget the lease unseen: a database that is
    /// swapped back has the marker it had before.
    #[test]
    fn a_node_that_is_out_keeps_leases_only_once_it_is_marked() {
        let (marked, _) = out();

        assert!(Ledger::default().refusal("one", guard("us")).is_some());
        assert_eq!(marked.refusal("one", guard("us")), None);
        assert!(marked.refusal("two", guard("us")).is_some(), "the mark is of another run");
    }
}
