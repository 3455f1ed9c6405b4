//! What the engine tells `tracing`: outcomes, every node's vote, and how long
//! each took. No tokens, no secrets.

use super::Place;
use crate::votes::Votes;
use redlatch_core::{
    AcquireError, Ballot, Resources, lease::Loss, release::Decision as ReleaseDecision,
};
use std::time::Duration;
use tracing::{Level, debug, enabled, info, warn};

impl Place {
    pub(crate) fn votes(&self, ballot: &Ballot) -> Votes {
        Votes::new(&self.nodes, ballot)
    }

    pub(super) fn trace_granted(&self, resources: &Resources, ballot: &Ballot) {
        if enabled!(Level::DEBUG) {
            debug!(%resources, votes = %self.votes(ballot), "lock taken");
        }
    }

    pub(super) fn trace_failed(&self, resources: &Resources, error: &AcquireError) {
        match error {
            AcquireError::Held(ballot) => {
                debug!(%resources, votes = %self.votes(ballot), "lock not taken: {error}");
            }
            other => {
                let votes = other.ballot().map(|ballot| self.votes(ballot).to_string());
                warn!(%resources, votes, "lock not taken: {error}");
            }
        }
    }

    pub(super) fn trace_retrying(
        &self,
        resources: &Resources,
        error: &AcquireError,
        pause: Duration,
    ) {
        if enabled!(Level::DEBUG)
            && let Some(ballot) = error.ballot()
        {
            let votes = self.votes(ballot);
            debug!(%resources, %votes, ?pause, "waiting for the lock: {error}");
        }
    }

    pub(super) fn trace_admitted(&self, node: usize) {
        let node = self.nodes[node].name();
        info!(node, "node admitted: its votes count from here on");
    }

    pub(super) fn trace_kept(&self, resources: &Resources, ballot: &Ballot) {
        if enabled!(Level::DEBUG) {
            debug!(%resources, votes = %self.votes(ballot), "lease extended");
        }
    }

    pub(super) fn trace_lost(&self, resources: &Resources, loss: &Loss) {
        match loss {
            Loss::Gone(ballot) => {
                warn!(%resources, votes = %self.votes(ballot), "lock lost: {loss}");
            }
            other => warn!(%resources, "lock lost: {other}"),
        }
    }

    pub(super) fn trace_released(&self, resources: &Resources, decision: &ReleaseDecision) {
        match decision {
            Ok(released) => debug!(%resources, ?released, "lock released"),
            Err(error) => {
                let votes = self.votes(error.ballot());
                info!(%resources, %votes, "release not confirmed: {error}");
            }
        }
    }
}
