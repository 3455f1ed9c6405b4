//! Decides whether nodes may vote.
//!
//! In:  the nodes' answers, and the settings of the client that asked.
//! Out: admitted, quarantined with the time left, or failed.

use crate::{
    agreement::{Admission, Agreement},
    command::{Facts, Reply},
    quarantine::{Cause, Quarantine},
    told::Told,
    vote::{Fault, Vote},
};
use alloc::boxed::Box;
use core::time::Duration;

/// Whether a node may vote.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Standing {
    /// It may vote. Without the restart guard every node may, unless guarded clients use other
    /// nodes.
    Admitted,
    /// It may not vote, for this reason.
    Quarantined(Quarantine),
    /// It does not answer, or its answer is an error or makes no sense.
    Failed(Fault),
}

impl Admission {
    /// Returns the nodes' standings for a client with the restart guard, from their answers
    /// to [`Command::Examine`](crate::Command::Examine), one for each node. The time left
    /// is what the nodes themselves report; a strict guard does not trust it.
    ///
    /// # Panics
    ///
    /// If there are more answers than nodes.
    #[must_use]
    pub fn standings(&self, replies: &[Reply]) -> Box<[Standing]> {
        let told = Told::new(self, replies.iter().map(Reply::facts));
        let standing = |(node, reply)| {
            let mut standing = self.standing(node, reply);
            if let (Standing::Quarantined(out), Some(facts)) = (&mut standing, reply.facts())
                && out.cause == Cause::Forgot
            {
                out.remaining = told.quarantined_for_another(node, facts);
                if out.remaining == Some(Duration::ZERO) && told.is_majority_with(node) {
                    return Standing::Admitted;
                }
            }
            standing
        };
        replies.iter().enumerate().map(standing).collect()
    }

    /// Returns one node's standing, without the time left, which depends on the other nodes.
    pub(crate) fn standing(&self, node: usize, reply: &Reply) -> Standing {
        match reply {
            Reply::Facts(facts) => match facts.objection(self.fingerprint(node)) {
                None => Standing::Admitted,
                Some(cause) => Standing::Quarantined(Quarantine::new(cause)),
            },
            reply => Standing::unknown(reply),
        }
    }
}

impl Agreement {
    /// Returns a node's standing for a client without the restart guard, from its
    /// answer to [`Command::Examine`](crate::Command::Examine) or
    /// [`Command::Ledger`](crate::Command::Ledger). This must be the agreement as
    /// the node would keep it: see [`Agreement::at`].
    #[must_use]
    pub fn unguarded_standing(&self, reply: &Reply) -> Standing {
        let cause = match reply {
            Reply::Facts(facts) => facts.other_nodes(self),
            Reply::Ledger(ledger) => ledger.other_nodes(self),
            reply => return Standing::unknown(reply),
        };
        let out = cause.map(Quarantine::new);
        out.map_or(Standing::Admitted, Standing::Quarantined)
    }
}

impl Standing {
    /// Returns the standing of a node whose reply does not show it.
    #[must_use]
    pub fn unknown(reply: &Reply) -> Self {
        Standing::Failed(match reply {
            Reply::Vote(Vote::Failed(fault)) => fault.clone(),
            _ => Fault::Nonsense("not an answer to the question".into()),
        })
    }

    /// Returns why it may not vote, or `None` if it may or does not answer.
    #[must_use]
    pub fn quarantine(&self) -> Option<&Quarantine> {
        match self {
            Standing::Quarantined(quarantine) => Some(quarantine),
            Standing::Admitted | Standing::Failed(_) => None,
        }
    }
}

/// Turns a standing into the vote it counts as.
impl From<Standing> for Vote {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Admitted => Vote::Granted,
            Standing::Quarantined(quarantine) => Vote::Quarantined(quarantine),
            Standing::Failed(fault) => Vote::Failed(fault),
        }
    }
}

impl Told<'_> {
    /// Returns how much longer the node stays quarantined, according to the node. `None` if
    /// it does not say, or if this client would not admit it.
    fn quarantined_for_another(&self, node: usize, facts: &Facts) -> Option<Duration> {
        let admission = self.admission;
        facts.mark.as_ref().filter(|_| !admission.strict)?;
        let reserved = facts.reserved == Some(admission.fingerprint(node));
        if self.is_refused() && !reserved || self.are_twins() {
            return None;
        }
        let window = admission.agreement.window().max(self.longest_window());
        Some(window.saturating_add(self.extra(node)).saturating_sub(facts.quarantined_for()))
    }
}
