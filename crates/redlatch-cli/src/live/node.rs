//! A node, as it was seen.

use super::units::{in_exact_millis, in_millis};
use serde::Serialize;
use std::time::Duration;

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
    /// Why it may not vote.
    pub(crate) reason: Option<String>,
    #[serde(rename = "round_trip_ms", serialize_with = "in_exact_millis")]
    pub(crate) round_trip: Option<Duration>,
    /// In seconds; negative if it is behind.
    #[serde(rename = "clock_ahead_s")]
    pub(crate) clock_ahead: Option<f64>,
    /// Whether it tells its locks.
    pub(crate) lists: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stands {
    Admitted,
    Quarantined,
    /// It answers, but cannot be a node as it is.
    Unusable,
    Down,
}

impl Stands {
    /// Those that metrics tell apart.
    pub(crate) const COUNTED: [Stands; 3] = [Stands::Admitted, Stands::Quarantined, Stands::Down];

    /// As metrics tell it.
    pub(crate) fn counted(self) -> Self {
        if self == Stands::Unusable { Stands::Down } else { self }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Stands::Admitted => "admitted",
            Stands::Quarantined => "quarantined",
            Stands::Unusable => "unusable",
            Stands::Down => "down",
        }
    }
}

impl Node {
    /// The node as people see it.
    pub(crate) fn label(&self) -> String {
        match &self.address {
            Some(address) => format!("{} ({address})", self.name),
            None => self.name.clone(),
        }
    }
}
