//! A node, as it was seen.

use super::units::{in_exact_millis, in_millis};
use redlatch::Fault;
use serde::Serialize;
use std::{sync::Arc, time::Duration};

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Node {
    #[serde(rename = "node")]
    pub(crate) name: String,
    /// Unless that is its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    pub(crate) standing: Stands,
    /// How long it stays in quarantine.
    #[serde(rename = "remaining_ms", serialize_with = "in_millis")]
    pub(crate) left: Option<Duration>,
    /// Whether that time has begun: some client has marked the node.
    pub(crate) has_begun: Option<bool>,
    /// Why it may not vote.
    pub(crate) reason: Option<String>,
    #[serde(rename = "round_trip_ms", serialize_with = "in_exact_millis")]
    pub(crate) round_trip: Option<Duration>,
    /// In seconds; negative if it is behind.
    #[serde(rename = "clock_ahead_s")]
    pub(crate) clock_ahead: Option<f64>,
    /// Whether it lists its locks.
    pub(crate) lists: bool,
    /// Which run of the server this is, if it answers.
    #[serde(skip)]
    pub(super) run: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stands {
    Admitted,
    Quarantined,
    /// It would vote, and lists its locks, but refuses writes.
    Refusing,
    /// It answers, but cannot be a node as it is.
    Unusable,
    Down,
}

impl Stands {
    /// The standings that metrics distinguish.
    pub(crate) const COUNTED: [Stands; 4] =
        [Stands::Admitted, Stands::Quarantined, Stands::Refusing, Stands::Down];

    /// The standing of a node that failed like this.
    pub(crate) fn of(fault: &Fault) -> Self {
        if fault.is_silence() { Stands::Down } else { Stands::Unusable }
    }

    /// The same standing, as metrics count it.
    pub(crate) fn counted(self) -> Self {
        if self == Stands::Unusable { Stands::Down } else { self }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Stands::Admitted => "admitted",
            Stands::Quarantined => "quarantined",
            Stands::Refusing => "refusing",
            Stands::Unusable => "unusable",
            Stands::Down => "down",
        }
    }
}

impl Node {
    /// Whether it listed its locks both times, and has not restarted in between: then a
    /// missing lock was removed.
    pub(super) fn has_kept(&self, before: &Node) -> bool {
        self.is_told() && before.is_told() && !self.has_restarted(before)
    }

    /// Whether it has forgotten nothing, and lists its locks.
    pub(super) fn is_told(&self) -> bool {
        self.lists && matches!(self.standing, Stands::Admitted | Stands::Refusing)
    }

    pub(super) fn has_restarted(&self, before: &Node) -> bool {
        self.run.is_some() && before.run.is_some() && self.run != before.run
    }

    /// The node as people see it.
    pub(crate) fn label(&self) -> String {
        match &self.address {
            Some(address) => format!("{} ({address})", self.name),
            None => self.name.clone(),
        }
    }
}
