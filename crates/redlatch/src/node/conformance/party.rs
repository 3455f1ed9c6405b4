//! Who the checks of the restart guard are: clients who agree with nobody else.
//!
//! In:  what the node says of its admission. Out: commands, and what is wrong.

use super::site::{OWNER, Outcome, Site, problem, random};
use redlatch_core::{Agreement, Command, Facts, FencingToken, Fingerprint, Mark};
use std::{sync::Arc, time::Duration};

/// Clients who agree, for the restart guard.
pub(super) struct Party {
    guard: Fingerprint,
    agreement: Arc<str>,
}

impl Party {
    /// Clients who agree with nobody else.
    pub(super) fn new() -> Self {
        let node = format!("{OWNER}:{:016x}", random());
        // For as short a time as there is: whoever takes the node from them has
        // to wait for it.
        let shortest = Duration::from_millis(1);
        let agreement = Agreement::new([node.into()], shortest, shortest);
        Party { guard: agreement.fingerprint(), agreement: agreement.to_string().into() }
    }

    /// What they agree on.
    pub(super) fn agreement(&self) -> &str {
        &self.agreement
    }

    /// The command as these clients send it.
    pub(super) fn by(&self, mut command: Command) -> Command {
        if let Command::Take { guard, .. }
        | Command::Raise { guard, .. }
        | Command::Plant { guard, .. }
        | Command::Extend { guard, .. } = &mut command
        {
            *guard = Some(self.guard);
        }
        command
    }

    pub(super) fn watch(&self) -> Command {
        Command::Watch { guard: self.guard, nonce: random(), replace: false }
    }

    pub(super) fn replace(&self) -> Command {
        Command::Watch { guard: self.guard, nonce: random(), replace: true }
    }

    pub(super) fn admit(&self, mark: &Mark, floor: Option<FencingToken>) -> Command {
        Command::Admit {
            guard: self.guard,
            agreement: Arc::clone(&self.agreement),
            mark: mark.id.clone(),
            floor,
        }
    }

    /// Whether the node is admitted by their agreement.
    pub(super) fn has(&self, facts: &Facts) -> Outcome {
        let marker = facts.marker.as_ref();
        let ours = marker.is_some_and(|marker| {
            marker.run == facts.identity.run && marker.fingerprint == self.guard
        });
        if ours && facts.agreement.as_ref() == Some(&self.agreement) {
            return match (facts.reserved, &facts.mark) {
                (None, None) => Ok(()),
                _ => problem(format!("an admitted node is reserved, or has a mark: {facts:?}")),
            };
        }
        problem(format!("the node should be admitted, but says {facts:?}"))
    }

    /// The mark of a node that is out and reserved for them.
    pub(super) fn awaits(&self, facts: &Facts) -> Outcome<Mark> {
        match &facts.mark {
            Some(mark) if facts.marker.is_none() && facts.reserved == Some(self.guard) => {
                Ok(mark.clone())
            }
            _ => problem(format!("the node should be out, marked and reserved: {facts:?}")),
        }
    }
}

/// What there was of the restart guard before the suite, as far as it can be
/// put back.
pub(super) struct Before {
    party: Party,
    admitted: bool,
}

impl Before {
    pub(super) async fn look(site: &Site<'_>) -> Option<Self> {
        let facts = site.link().facts(Party::new().watch()).await.ok()?;
        let last = facts.agreement.as_deref().and_then(Agreement::parse);
        let marker = facts.marker.as_ref();
        let guard = marker.map(|marker| marker.fingerprint);
        let guard = guard.or(facts.reserved).or(last.map(|last| last.fingerprint()))?;
        let admitted = marker.is_some_and(|marker| marker.run == facts.identity.run);
        let agreement = facts.agreement.unwrap_or_else(|| "".into());
        Some(Before { party: Party { guard, agreement }, admitted })
    }

    /// Nothing was forgotten meanwhile: no need to wait.
    pub(super) async fn put_back(self, site: &Site<'_>) -> Outcome {
        let mut link = site.link();
        let mark = link.out(&self.party).await?;
        if self.admitted {
            link.granted(self.party.admit(&mark, None)).await?;
        }
        Ok(())
    }
}
