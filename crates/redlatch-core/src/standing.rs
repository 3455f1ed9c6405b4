//! Decides whether a node may vote.
//!
//! In:  a node's answer, and the settings of the client that asked.
//! Out: admitted, quarantined with the time left, or failed.

use crate::{
    agreement::{Admission, Agreement},
    command::{Facts, Reply},
    quarantine::{Cause, Quarantine},
    quorum::{Fault, Vote},
};
use core::time::Duration;

/// Whether a node may vote.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Standing {
    /// It may. Without the restart guard every node may, unless clients that have
    /// the guard count other nodes.
    Admitted,
    /// It may not, for this reason.
    Quarantined(Quarantine),
    /// It does not answer.
    Failed(Fault),
}

impl Admission {
    /// Returns the node's standing for a client with the restart guard, from its
    /// answer to [`Command::Examine`](crate::Command::Examine).
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[must_use]
    pub fn standing(&self, node: usize, reply: &Reply) -> Standing {
        match reply {
            Reply::Facts(facts) => match facts.objection(self.fingerprint(node)) {
                None => Standing::Admitted,
                Some(Cause::Forgot) => {
                    let remaining = facts.out_for_another(self);
                    Standing::Quarantined(Quarantine { cause: Cause::Forgot, remaining })
                }
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
    /// Returns the standing of a node whose reply does not tell.
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

impl Facts {
    /// Returns how much longer the node stays out, by its own account, which a
    /// strict guard does not trust. `None` if it does not say.
    fn out_for_another(&self, admission: &Admission) -> Option<Duration> {
        self.mark.as_ref().filter(|_| !admission.strict)?;
        // It was taken over from others: their locks must have expired, too.
        let theirs = self.reserved.and(self.agreement.as_deref()).and_then(Agreement::parse);
        let theirs = theirs.map_or(Duration::ZERO, |theirs| theirs.window());
        Some(admission.agreement.window().max(theirs).saturating_sub(self.out_for()))
    }
}
