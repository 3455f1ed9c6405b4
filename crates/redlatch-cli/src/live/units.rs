//! Times as JSON has them.

use crate::say::millis;
use serde::{Serialize as _, Serializer};
use std::time::{Duration, SystemTime};

#[expect(clippy::ref_option, reason = "serde hands it over like this")]
pub(super) fn in_millis<S: Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(millis).serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde hands it over like this")]
pub(super) fn in_exact_millis<S: Serializer>(
    time: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    time.map(|time| (time.as_secs_f64() * 1e6).round() / 1e3).serialize(to)
}

pub(super) fn in_utc<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_millis(*time))
}

#[expect(clippy::ref_option, reason = "serde hands it over like this")]
pub(super) fn maybe_in_utc<S: Serializer>(
    time: &Option<SystemTime>,
    to: S,
) -> Result<S::Ok, S::Error> {
    time.map(|time| humantime::format_rfc3339_millis(time).to_string()).serialize(to)
}

pub(super) fn whole_millis<S: Serializer>(
    time: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    millis(*time).serialize(serializer)
}
