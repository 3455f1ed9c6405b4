//! What Redlatch reports about itself: spans and events through
//! [`tracing`](https://docs.rs/tracing), and metrics through
//! [`metrics`](https://docs.rs/metrics) (feature `metrics`).
//!
//! Names, fields, labels and units are an interface: they change like any other part
//! of the API. Nothing here contains a lock token or a password; nodes appear by
//! [name](crate::node::Node::name).
//!
//! # Spans
//!
//! | span | level | fields | |
//! |---|---|---|---|
//! | `acquire` | debug | `resources`, `outcome`, `fencing_token` | a request, from asking for the lock to the answer, in the caller's span; `outcome` as in `redlatch_client_wait_seconds` |
//! | `renew` | debug, or warn | `resources`, `fencing_token`, `outcome`, `votes` | an extension of a lease; `outcome` is `ok` or `failed`, as a warning for the first failure in a row |
//! | `release` | debug | `resources`, `fencing_token`, `outcome` | a release, until a majority has answered, in the caller's span; `outcome` is `released`, `already-gone` or `unknown`, or `background` if the guard was dropped |
//! | `lost` | warn | `resources`, `fencing_token`, `cause`, `votes` | a lock was lost; `cause` as in `redlatch_client_losses_total` |
//!
//! `renew` and `lost` have no parent, because they happen to a lease that nobody is
//! waiting for. They contain one event each, and no time passes in them.
//! A field that is not known is missing: `votes` of a lease that nobody tried to
//! extend, `fencing_token` of a lock without one.
//!
//! # Events
//!
//! There is a warning when a node goes down, answers again, may not vote, or votes
//! again; when the extensions of a lease begin to fail, a lock is lost or a
//! runtime is blocked; and when no majority may vote at the start. There is at most one
//! warning per node every five seconds; a change in between is logged afterwards, if it
//! still holds. Everything else is logged at debug level, so there is no warning per
//! attempt. The texts are for people and may change.
//!
//! All targets start with `redlatch`, so `RUST_LOG=redlatch=debug` shows everything and
//! `RUST_LOG=redlatch=off` nothing.
//!
//! # Metrics
//!
//! With the feature `metrics`, everything is counted by the recorder that your process has
//! installed. Times are in seconds.
//!
//! | metric | type | labels | |
//! |---|---|---|---|
//! | `redlatch_client_attempts_total` | counter | `outcome`: `granted`, `held`, `no-majority`, `quarantined`, `too-slow` | attempts to win a majority; a request makes one or more |
//! | `redlatch_client_wait_seconds` | histogram | `outcome`: `granted`, `held`, `no-majority`, `quarantined`, `too-slow`, `busy`, `stopped`, `cancelled` | how long requests took, from asking for the lock to the answer; `cancelled`: dropped before that |
//! | `redlatch_client_hold_seconds` | histogram | | how long locks were held, until they were released, handed over or lost |
//! | `redlatch_client_renewals_total` | counter | `outcome`: `ok`, `failed` | extensions of leases; one that finds the lock gone counts as a loss |
//! | `redlatch_client_losses_total` | counter | `cause`: `expired`, `gone`, `max-hold`, `stopped` | locks that were lost: not extended in time, taken away, held for too long, or left by a runtime that shut down |
//! | `redlatch_client_votes_total` | counter | `node`, `outcome`: `granted`, `refused`, `quarantined`, `failed`, `timed-out` | answers of a node, also late ones; `timed-out`: none when its round was over |
//! | `redlatch_client_round_trip_seconds` | histogram | `node` | from sending a command to a node to its answer, whether or not it was waited for |
//! | `redlatch_client_node_not_voting` | gauge | `node`, `why`: `down`, `quarantined` | for how many clients of this process the node does not vote; 0 while it votes |
//!
//! No label depends on what is locked, so there are at most 20 series and 8 for each node.
//! A recorder that is installed after [`Locks`](crate::Locks) was connected misses only
//! what came before.
//!
//! ```
//! # #[cfg(feature = "metrics")]
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use metrics_exporter_prometheus::PrometheusBuilder;
//! use redlatch::{Locks, telemetry};
//!
//! let prometheus = PrometheusBuilder::new().install_recorder()?;
//! telemetry::describe();
//!
//! let locks = Locks::memory(3);
//! locks.lock("invoice:42").await?.release().await?;
//!
//! let text = prometheus.render();
//! assert!(text.contains(r#"redlatch_client_attempts_total{outcome="granted"} 1"#));
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "metrics")]
use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// The names of the metrics.
#[cfg(feature = "metrics")]
pub(crate) mod name {
    pub(crate) const ATTEMPTS: &str = "redlatch_client_attempts_total";
    pub(crate) const WAIT: &str = "redlatch_client_wait_seconds";
    pub(crate) const HOLD: &str = "redlatch_client_hold_seconds";
    pub(crate) const RENEWALS: &str = "redlatch_client_renewals_total";
    pub(crate) const LOSSES: &str = "redlatch_client_losses_total";
    pub(crate) const VOTES: &str = "redlatch_client_votes_total";
    pub(crate) const ROUND_TRIP: &str = "redlatch_client_round_trip_seconds";
    pub(crate) const NODE_NOT_VOTING: &str = "redlatch_client_node_not_voting";
}

/// Describes each metric and its unit to the recorder of this process. Call it after you have
/// installed the recorder. It is optional.
#[cfg(feature = "metrics")]
pub fn describe() {
    describe_counter!(name::ATTEMPTS, Unit::Count, "Attempts to win a majority, by outcome.");
    describe_histogram!(name::WAIT, Unit::Seconds, "How long requests took, by outcome.");
    describe_histogram!(name::HOLD, Unit::Seconds, "How long locks were held.");
    describe_counter!(name::RENEWALS, Unit::Count, "Extensions of leases, by outcome.");
    describe_counter!(name::LOSSES, Unit::Count, "Locks that were lost, by cause.");
    describe_counter!(name::VOTES, Unit::Count, "Votes, by node and outcome.");
    describe_histogram!(name::ROUND_TRIP, Unit::Seconds, "How long a node took to answer.");
    describe_gauge!(
        name::NODE_NOT_VOTING,
        Unit::Count,
        "Clients for which the node does not vote."
    );
}
