//! Who holds a lock or waits for it, in words and as JSON.

use crate::{duration::show, local_time::LocalTime, plain::plain};
use redlatch::{OwnerParts, WaiterStatus};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is known about an owner besides its label: `user ada, command backup, since …`.
/// Empty if nothing is known.
pub(crate) fn details(parts: &OwnerParts) -> String {
    let OwnerParts { label, host, pid, user, command, since, .. } = parts;
    let mut words = Vec::new();
    let is_in_label = match (host, pid) {
        (Some(host), Some(pid)) => *label == format!("{host}/{pid}"),
        _ => false,
    };
    if !is_in_label {
        words.extend(host.as_deref().map(|host| format!("host {}", plain(host))));
        words.extend(pid.map(|pid| format!("pid {pid}")));
    }
    words.extend(user.as_deref().map(|user| format!("user {}", plain(user))));
    words.extend(command.as_deref().map(|command| format!("command {}", plain(command))));
    words.extend(since.map(since_when));
    words.join(", ")
}

/// Who waits, in words.
pub(crate) fn waiter(waiter: &WaiterStatus) -> String {
    match &waiter.owner {
        Some(owner) => format!("{}, {}", plain(&owner.label), details(owner)),
        None => format!("a client that did not say who it is, {}", since_when(waiter.since)),
    }
}

/// `since 2026-11-17 01:00:00 (2m 3s)`, for a time since 1970.
fn since_when(since: Duration) -> String {
    let at = at(since);
    let ago = SystemTime::now().duration_since(at).unwrap_or_default();
    format!("since {} ({})", LocalTime::of(at).show(), show(ago))
}

/// A time since 1970, by the local clock: `2026-11-17 01:00:00`.
pub(crate) fn when(since: Duration) -> String {
    LocalTime::of(at(since)).show()
}

/// A time since 1970, capped because anyone can write any time into a lock's value: years
/// have four digits.
pub(crate) fn at(since: Duration) -> SystemTime {
    /// In the last days of the year 9999, in every time zone.
    const LATEST: Duration = Duration::from_secs(253_402_128_000);
    UNIX_EPOCH + since.min(LATEST)
}

/// Adds what is known about an owner; `null` for what is not.
pub(crate) fn add_json(json: &mut Value, parts: Option<&OwnerParts>) {
    json["host"] = parts.and_then(|parts| parts.host.clone()).into();
    json["pid"] = parts.and_then(|parts| parts.pid).into();
    json["user"] = parts.and_then(|parts| parts.user.clone()).into();
    json["command"] = parts.and_then(|parts| parts.command.clone()).into();
    json["since"] = parts.and_then(|parts| parts.since).map(timestamp).into();
}

/// Who waits, as JSON.
pub(crate) fn waiter_json(waiter: &WaiterStatus) -> Value {
    let owner = waiter.owner.as_ref();
    let mut json = json!({ "owner": owner.map(|owner| &owner.label), "nodes": waiter.nodes });
    add_json(&mut json, owner);
    json["since"] = timestamp(waiter.since).into();
    json
}

fn timestamp(since: Duration) -> String {
    humantime::format_rfc3339_millis(at(since)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_process_are_said_once_and_nothing_is_obeyed_by_a_terminal() {
        let of = |text: &str| details(&OwnerParts::parse(text).unwrap());

        assert_eq!(of("web-1/7"), "");
        assert_eq!(of("web-1/7;user=ada;command=rm%20-rf"), "user ada, command rm -rf");
        assert_eq!(of("ci;host=web-1;pid=7"), "host web-1, pid 7");
        assert_eq!(of("ci;command=a%1b[31m%0a"), r"command a\u{1b}[31m\n");
        assert!(of("ci;since=1700000000000").starts_with("since 2023-11-1"));
    }

    #[test]
    fn a_time_that_cannot_be_is_shown_all_the_same() {
        assert!(when(Duration::MAX).starts_with("9999-12-"));
        assert!(timestamp(Duration::from_millis(u64::MAX)).starts_with("9999-12-"));
        assert!(timestamp(Duration::from_millis(9_999_999_999_999)).starts_with("2286-11-"));
    }
}
