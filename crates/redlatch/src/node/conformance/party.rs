//! The clients that the checks of the restart guard act as; they agree with nobody
//! else.
//!
//! In:  what the node says about its admission. Out: commands, and what is wrong.

use super::site::{OWNER, Outcome, Site, problem, random};
use redlatch_core::{Agreement, Command, Facts, FencingToken, Fingerprint, Mark};
use std::{sync::Arc, time::Duration};

/// Clients with one agreement, for the restart guard.
pub(super) struct Party {
    fingerprint: Fingerprint,
    agreement: Arc<str>,
}

impl Party {
    /// Creates clients that agree with nobody else.
    pub(super) fn new() -> Self {
        let node = format!("{OWNER}:{:016x}", random());
        // The shortest possible window: clients that take the node over have to
        // wait for it.
        let shortest = Duration::from_millis(1);
        let agreement = Agreement::new([node.into()], shortest, shortest);
        Party { fingerprint: agreement.fingerprint(), agreement: agreement.to_string().into() }
    }

    /// Their agreement.
    pub(super) fn agreement(&self) -> &str {
        &self.agreement
    }

    /// The command as these clients send it.
    pub(super) fn by(&self, mut command: Command) -> Command {
        if let Command::Take { fingerprint, .. }
        | Command::Raise { fingerprint, .. }
        | Command::Plant { fingerprint, .. }
        | Command::Extend { fingerprint, .. } = &mut command
        {
            *fingerprint = Some(self.fingerprint);
        }
        command
    }

    pub(super) fn watch(&self) -> Command {
        Command::Watch { fingerprint: self.fingerprint, nonce: random(), replace: false }
    }

    pub(super) fn replace(&self) -> Command {
        Command::Watch { fingerprint: self.fingerprint, nonce: random(), replace: true }
    }

    pub(super) fn admit(&self, mark: &Mark, floor: Option<FencingToken>) -> Command {
        Command::Admit {
            fingerprint: self.fingerprint,
            agreement: Arc::clone(&self.agreement),
            mark: mark.id.clone(),
            floor,
        }
    }

    /// Checks that the node is admitted by their agreement.
    pub(super) fn has(&self, facts: &Facts) -> Outcome {
        let marker = facts.marker.as_ref();
        let ours = marker.is_some_and(|marker| {
            marker.run == facts.identity.run && marker.fingerprint == self.fingerprint
        });
        if ours && facts.agreement.as_ref() == Some(&self.agreement) {
            return match (facts.reserved, &facts.mark) {
                (None, None) => Ok(()),
                _ => problem(format!("an admitted node is reserved, or has a mark: {facts:?}")),
            };
        }
        problem(format!("the node should be admitted, but says {facts:?}"))
    }

    /// The mark of a node that is quarantined and reserved for them.
    pub(super) fn awaits(&self, facts: &Facts) -> Outcome<Mark> {
        match &facts.mark {
            Some(mark) if facts.marker.is_none() && facts.reserved == Some(self.fingerprint) => {
                Ok(mark.clone())
            }
            _ => problem(format!("the node should be quarantined, marked and reserved: {facts:?}")),
        }
    }
}

/// The state of the restart guard before the suite, as far as it can be restored.
pub(super) struct Before {
    party: Party,
    admitted: bool,
}

impl Before {
    pub(super) async fn look(site: &Site<'_>) -> Option<Self> {
        let facts = site.link().facts(Party::new().watch()).await.ok()?;
        let last = facts.agreement.as_deref().and_then(Agreement::parse);
        let marker = facts.marker.as_ref();
        let fingerprint = marker.map(|marker| marker.fingerprint);
        let fingerprint = fingerprint.or(facts.reserved).or(last.map(|last| last.fingerprint()))?;
        let admitted = marker.is_some_and(|marker| marker.run == facts.identity.run);
        let agreement = facts.agreement.unwrap_or_else(|| "".into());
        Some(Before { party: Party { fingerprint, agreement }, admitted })
    }

    /// Nothing was forgotten in the meantime, so there is no need to wait.
    pub(super) async fn put_back(self, site: &Site<'_>) -> Outcome {
        let mut link = site.link();
        let mark = link.out(&self.party).await?;
        if self.admitted {
            link.granted(self.party.admit(&mark, None)).await?;
        }
        Ok(())
    }
}
