//! What one client has seen of one node that may not vote.
//!
//! In:  what the node reports at each check, and the time.
//! Out: since when it has been quarantined, and when it may be admitted.

use crate::{
    agreement::Admission,
    command::Facts,
    moment::Steady,
    mutant::{self, Mutant},
    quarantine::Cause,
};
use alloc::sync::Arc;
use core::time::Duration;

/// What one client knows about one quarantined node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Watch {
    /// The run and mark that this client last saw, and since when it has seen them.
    since: Option<(Arc<str>, Arc<str>, Steady)>,
    /// How long the node must have been quarantined: longer if any clients of the nodes
    /// agreed to longer times.
    window: Duration,
}

/// The result of checking a node, for a client that admits nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Outlook {
    Admitted,
    /// Nothing can be done until an operator decides.
    Disagrees,
    /// It is quarantined, and nothing on it shows since when.
    Unmarked,
    /// It may be admitted from this time on, if it still has this mark.
    Quarantined {
        mark: Arc<str>,
        from: Steady,
    },
}

impl Watch {
    /// Records what the node reports now.
    pub(crate) fn look(
        &mut self,
        now: Steady,
        facts: &Facts,
        admission: &Admission,
        node: usize,
    ) -> Outlook {
        let mark = match (facts.objection(admission.fingerprint(node)), &facts.mark) {
            (Some(Cause::Forgot), Some(mark)) => mark,
            (objection, _) => {
                self.since = None;
                return match objection {
                    None => Outlook::Admitted,
                    Some(Cause::Forgot) => Outlook::Unmarked,
                    Some(_) => Outlook::Disagrees,
                };
            }
        };
        let same = |(run, id, _): &&(Arc<str>, Arc<str>, Steady)| {
            *run == facts.identity.run && *id == mark.id || mutant::on(Mutant::MarkNotCompared)
        };
        let since = self.since.as_ref().filter(same).map_or(now, |(_, _, since)| *since);
        self.since = Some((facts.identity.run.clone(), mark.id.clone(), since));
        let window = self.window.max(admission.agreement.window());
        let mut from = since.after(window);
        if !admission.strict {
            from = from.min(now.after(window).before(facts.quarantined_for()));
        }
        Outlook::Quarantined { mark: mark.id.clone(), from }
    }

    /// Extends the window to the longest one that clients of the nodes have agreed to.
    pub(crate) fn lasts_at_least(&mut self, window: Duration) {
        self.window = self.window.max(window);
    }

    /// Returns whether a mark is being watched.
    pub(crate) fn is_on(&self) -> bool {
        self.since.is_some()
    }
}

impl Facts {
    /// Returns whether, as far as the node can tell, nobody has ever used it: nobody has
    /// admitted or reserved it or been given a number, it holds nothing, was not emptied
    /// since it started, and was not promoted from a replica. Clients without the restart
    /// guard admit nothing, so their locks alone show that they use it.
    pub(crate) fn is_new(&self) -> bool {
        let unknown = self.marker.is_none() && self.agreement.is_none() && self.reserved.is_none();
        let unused = self.empty && self.highest.is_none();
        unknown && unused && self.intact && !self.promoted
    }

    /// Returns how long it has been quarantined, judging by the age of its mark. Its uptime
    /// says nothing: a moment ago, its name may have belonged to another server.
    pub(crate) fn quarantined_for(&self) -> Duration {
        let up = mutant::on(Mutant::UptimeCounts).then_some(self.uptime).flatten();
        self.mark.as_ref().map_or(Duration::ZERO, |mark| mark.age).max(up.unwrap_or_default())
    }
}
