//! What the engine reports to `tracing`: outcomes, every node's vote, and how
//! long each took. No tokens, no secrets.

use super::{LeaseCell, Shared, meter};
use crate::client::{guard::Lost, votes::Votes};
use redlatch_core::{
    AcquireError, Ballot, Fault, FencingToken, Reply, Resources, Standing, Vote, lease::Loss,
    release::Decision as ReleaseDecision,
};
use std::time::Duration;
use tracing::{Level, debug, debug_span, enabled, info, warn, warn_span};

impl Shared {
    pub(crate) fn votes(&self, ballot: &Ballot) -> Votes {
        Votes::new(&self.nodes, ballot, self.agreement(), self.vouching())
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

    /// Logs which nodes may not vote, as seen in a look at all of them.
    pub(crate) fn log_standings(&self, standings: &[Standing]) {
        let now = self.clock.now();
        for (node, standing) in standings.iter().enumerate() {
            self.node_log.stands(now, node, standing);
        }
    }

    fn log_round(&self, ballot: &Ballot) {
        self.node_log.round(self.clock, ballot, false);
        self.meter.round(ballot);
    }

    pub(super) fn trace_granted(&self, resources: &Resources, ballot: &Ballot) {
        self.log_round(ballot);
        meter::attempt(None);
        if enabled!(Level::DEBUG) {
            debug!(%resources, votes = %self.votes(ballot), "lock taken");
        }
    }

    /// Not a warning: the caller gets the error, and nodes that are down are logged.
    pub(super) fn trace_failed(&self, resources: &Resources, error: &AcquireError) {
        if let Some(ballot) = error.ballot() {
            self.log_round(ballot);
            meter::attempt(Some(error));
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
        meter::attempt(Some(error));
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

    pub(super) fn trace_kept(&self, lease: &LeaseCell, ballot: &Ballot) {
        self.node_log.round(self.clock, ballot, true);
        self.meter.round(ballot);
        self.renewed(lease, ballot, "lease extended");
    }

    /// The keeper extended the lease, in place of a blocked engine.
    pub(crate) fn trace_rescued(&self, lease: &LeaseCell, ballot: &Ballot) {
        self.renewed(lease, ballot, "the keeper extended the lease");
    }

    fn renewed(&self, lease: &LeaseCell, ballot: &Ballot, how: &str) {
        meter::renewal(true);
        if enabled!(Level::DEBUG) {
            let (resources, fencing_token) = described(lease);
            let votes = self.votes(ballot);
            debug_span!(parent: None, "renew", %resources, fencing_token, outcome = "ok", %votes)
                .in_scope(|| debug!(%resources, %votes, "{how}"));
        }
    }

    /// The first failure is a warning; until the lease is extended again, further ones are details.
    pub(crate) fn trace_not_kept(&self, lease: &LeaseCell, ballot: &Ballot) {
        meter::renewal(false);
        self.meter.round(ballot);
        let (resources, fencing_token) = described(lease);
        let (votes, tally) = (self.votes(ballot), ballot.tally());
        if lease.is_not_kept() {
            debug_span!(parent: None, "renew", %resources, fencing_token, outcome = "failed", %votes)
                .in_scope(|| debug!(%resources, %votes, "lease still not extended, {tally}"));
            return;
        }
        warn_span!(parent: None, "renew", %resources, fencing_token, outcome = "failed", %votes)
            .in_scope(|| {
                warn!(%resources, %votes, "lease not extended, {tally}: it is lost unless a retry succeeds");
            });
    }

    pub(crate) fn trace_lost(&self, lease: &LeaseCell, loss: &Loss) {
        let (resources, fencing_token) = described(lease);
        let shown = Lost::of(self, loss);
        let (votes, words) = (shown.votes().map(ToString::to_string), shown.words());
        let cause = match loss {
            Loss::Gone(_) => "gone",
            Loss::MaxHold => "max-hold",
            _ => "expired",
        };
        warn_span!(parent: None, "lost", %resources, fencing_token, cause, votes)
            .in_scope(|| warn!(%resources, votes, "lock lost: {words}"));
    }

    pub(super) fn trace_released(&self, lease: &LeaseCell, decision: &ReleaseDecision) {
        let resources = &lease.resources;
        match decision {
            Ok(released) => debug!(%resources, ?released, "lock released"),
            Err(error) => {
                self.meter.round(error.ballot());
                let votes = self.votes(error.ballot());
                info!(%resources, %votes, "release not confirmed: {error}");
            }
        }
    }
}

/// What spans say about a lease.
fn described(lease: &LeaseCell) -> (&Resources, Option<u64>) {
    (&lease.resources, lease.fence.map(FencingToken::get))
}
