//! What the engine reports to `tracing`: outcomes, every node's vote, and how
//! long each took. No tokens, no secrets.

use super::Shared;
use crate::client::votes::Votes;
use redlatch_core::{
    AcquireError, Ballot, Fault, Reply, Resources, Vote, lease::Loss,
    release::Decision as ReleaseDecision,
};
use std::time::Duration;
use tracing::{Level, debug, enabled, info, warn};

impl Shared {
    pub(crate) fn votes(&self, ballot: &Ballot) -> Votes {
        Votes::new(&self.nodes, ballot)
    }

    /// Logs the nodes that did not answer.
    pub(super) fn log_silent(&self, replies: &[Reply]) {
        let now = self.clock.now();
        for (node, reply) in replies.iter().enumerate() {
            if matches!(reply, Reply::Vote(Vote::Failed(Fault::TimedOut(_)))) {
                self.node_log.reply(now, node, reply);
            }
        }
    }

    fn log_round(&self, ballot: &Ballot) {
        self.node_log.round(self.clock, ballot);
    }

    pub(super) fn trace_granted(&self, resources: &Resources, ballot: &Ballot) {
        self.log_round(ballot);
        if enabled!(Level::DEBUG) {
            debug!(%resources, votes = %self.votes(ballot), "lock taken");
        }
    }

    /// Not a warning: the caller gets the error, and nodes that are down are logged.
    pub(super) fn trace_failed(&self, resources: &Resources, error: &AcquireError) {
        if let Some(ballot) = error.ballot() {
            self.log_round(ballot);
        }
        if enabled!(Level::DEBUG) {
            let votes = error.ballot().map(|ballot| self.votes(ballot).to_string());
            debug!(%resources, votes, "lock not taken: {error}");
        }
    }

    pub(super) fn trace_retrying(
        &self,
        resources: &Resources,
        error: &AcquireError,
        pause: Duration,
    ) {
        let Some(ballot) = error.ballot() else { return };
        self.log_round(ballot);
        if enabled!(Level::DEBUG) {
            let votes = self.votes(ballot);
            debug!(%resources, %votes, ?pause, "waiting for the lock: {error}");
        }
    }

    pub(super) fn trace_admitted(&self, node: usize) {
        self.node_log.admitted(self.clock.now(), node);
        let node = self.nodes[node].name();
        info!(node, "node admitted: its votes count from here on");
    }

    pub(super) fn trace_kept(&self, resources: &Resources, ballot: &Ballot) {
        self.log_round(ballot);
        if enabled!(Level::DEBUG) {
            debug!(%resources, votes = %self.votes(ballot), "lease extended");
        }
    }

    /// Logged each time: a lease that is not extended ends soon.
    pub(crate) fn trace_not_kept(&self, resources: &Resources, ballot: &Ballot) {
        let (votes, tally) = (self.votes(ballot), ballot.tally());
        warn!(%resources, %votes, "lease not extended, {tally}: it ends soon unless that succeeds");
    }

    pub(crate) fn trace_lost(&self, resources: &Resources, loss: &Loss) {
        let votes = loss.ballot().map(|ballot| self.votes(ballot).to_string());
        warn!(%resources, votes, "lock lost: {loss}");
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
