//! What a server answers to those who only look.

use super::resp::Value;
use redlatch_core::{
    Facts, FencingToken, HeldKey, Identity, Ledger, Page, Resource, token::owner_of,
};
use std::{sync::Arc, time::Duration};

/// What a user of a Redis or Valkey server needs to be allowed, as in
/// `ACL SETUSER ada ` … ` ~deploy:*`: all that locks need and nothing more. The
/// keys are the names of the locks, exactly as they are given.
pub const REDIS_PERMISSIONS: &str = "resetchannels -@all +eval +evalsha +script|load +get \
    +getrange +set +del +exists +pexpire +pttl +hmget +hset +ping +info +time +select +scan";

/// `{cursor, {{name, value, PTTL}, …}}`.
pub(super) fn page(parts: &[Value<'_>]) -> Option<Page> {
    let [Value::Text(cursor), Value::Array(found)] = parts else {
        return None;
    };
    let mut locks = Vec::new();
    for lock in found {
        let Value::Array(lock) = lock else { return None };
        let [Value::Text(name), Value::Text(value), Value::Int(pttl)] = lock.as_slice() else {
            return None;
        };
        // What is not ours was left out by the server as far as it could tell.
        if let (Ok(name), Some(_)) = (Resource::new(name), owner_of(value)) {
            let remaining = u64::try_from(*pttl).ok().map(Duration::from_millis);
            locks.push(HeldKey { name, value: Arc::from(*value), remaining });
        }
    }
    let next = (*cursor != b"0").then(|| Arc::from(*cursor));
    Some(Page { locks: locks.into(), next })
}

/// `{INFO, {seconds, microseconds} or nil, 1 or 0, highest number or nil, …}` and
/// the texts of the ledger.
pub(super) fn facts(parts: &[Value<'_>]) -> Option<Facts> {
    let [Value::Text(info), clock, intact, highest, kept @ ..] = parts else {
        return None;
    };
    let info = String::from_utf8_lossy(info);
    let field = |name| field(&info, name);
    let number = |name| field(name).and_then(|text| text.parse::<u64>().ok());
    let is_limited = number("maxmemory").is_some_and(|limit| limit > 0);
    let no_history = |id: &str| id.bytes().all(|byte| byte == b'0');
    let mut facts = Facts {
        clock: time(clock),
        uptime: number("uptime_in_seconds").map(Duration::from_secs),
        eviction: field("maxmemory_policy").filter(|_| is_limited).map(Arc::from),
        evicted: number("evicted_keys"),
        journal: number("aof_enabled").map(|enabled| enabled == 1),
        replicas: number("connected_slaves").and_then(|count| count.try_into().ok()),
        promoted: field("master_replid2").is_some_and(|id| !no_history(id)),
        intact: *intact == Value::Int(1),
        highest: number_of(highest),
        ..Facts::of(identity(&info)?)
    };
    ledger(kept).tell(&mut facts);
    Some(facts)
}

/// Who the server is, by what it says of itself.
pub(super) fn identity(info: &str) -> Option<Identity> {
    let field = |name| field(info, name);
    // A promoted replica has another history, and the scripts say the same.
    let run = [half(field("run_id")?), half(field("master_replid").unwrap_or_default())].concat();
    let version = match field("valkey_version") {
        Some(version) => format!("valkey {version}"),
        None => format!("redis {}", field("redis_version").unwrap_or_default()),
    };
    Some(Identity { run: run.into(), version: version.into() })
}

/// A line of what a server says of itself.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Half of an id is enough.
fn half(id: &str) -> &str {
    id.get(..20).unwrap_or(id)
}

/// Whether a server that says this of its replication is a master with the
/// history that it had as that run.
pub(super) fn is_still(run: &str, info: &Value<'_>) -> bool {
    let Value::Text(info) = info else { return false };
    let info = String::from_utf8_lossy(info);
    let field = |name| field(&info, name);
    let history = half(field("master_replid").unwrap_or_default());
    field("role") == Some("master") && run.ends_with(history)
}

/// What a server keeps for the restart guard, in the order of
/// [`Ledger::NAMES`]; what is empty is not there.
pub(super) fn ledger(kept: &[Value<'_>]) -> Ledger {
    let text = |at: usize| match kept.get(at)? {
        Value::Text(text) if !text.is_empty() => Some(Arc::from(String::from_utf8_lossy(text))),
        _ => None,
    };
    Ledger { admitted: text(0), agreement: text(1), reserved: text(2), watched: text(3) }
}

fn number_of(value: &Value<'_>) -> Option<FencingToken> {
    let Value::Text(digits) = value else { return None };
    str::from_utf8(digits).ok()?.parse().ok()
}

fn time(value: &Value<'_>) -> Option<Duration> {
    let Value::Array(parts) = value else { return None };
    let number = |value: &Value<'_>| match value {
        Value::Text(digits) => str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    };
    let [seconds, micros] = parts.as_slice() else { return None };
    Some(Duration::from_secs(number(seconds)?) + Duration::from_micros(number(micros)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permissions_are_no_fewer_than_those_asked_for_at_connect() {
        let all: Vec<_> = REDIS_PERMISSIONS.split_whitespace().collect();
        let asked_for = super::super::connect::ACL_HINT.split_whitespace();

        for word in asked_for.filter(|word| word.starts_with('+')) {
            assert!(all.contains(&word), "{word} is missing");
        }
    }

    #[test]
    fn a_page_holds_our_locks_alone() {
        let ours = [&[b'a'; 40][..], b"@me"].concat();
        let lock = |name, value| {
            Value::Array(vec![Value::Text(name), Value::Text(value), Value::Int(1500)])
        };
        let found = vec![lock(b"x", &ours), lock(b"y", b"something else"), lock(b"", &ours)];

        let page = page(&[Value::Text(b"17"), Value::Array(found)]).unwrap();

        let names: Vec<_> = page.locks.iter().map(|lock| lock.name.to_string()).collect();
        assert_eq!(names, ["x"]);
        assert_eq!(page.locks[0].remaining, Some(Duration::from_millis(1500)));
        assert_eq!(page.next.as_deref(), Some(&b"17"[..]));
    }

    #[test]
    fn a_policy_matters_only_where_memory_is_limited() {
        let policy = |info: &str| {
            let info = format!("run_id:a\r\n{info}");
            facts(&[Value::Text(info.as_bytes()), Value::Nil, Value::Int(1), Value::Nil])
                .unwrap()
                .eviction
        };

        assert_eq!(policy("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n"), None);
        let limited = policy("maxmemory:9\r\nmaxmemory_policy:allkeys-lru\r\n");
        assert_eq!(limited.as_deref(), Some("allkeys-lru"));
    }

    #[test]
    fn a_server_is_no_longer_who_it_was_after_it_was_a_replica() {
        let info = |role, history| {
            let text = format!("# Replication\r\nrole:{role}\r\nmaster_replid:{history}\r\n");
            text.into_bytes()
        };
        let [old, new] = ["a".repeat(40), "b".repeat(40)];
        let before = identity(&format!("run_id:{new}\r\nmaster_replid:{old}\r\n")).unwrap();

        let is_still = |info: Vec<u8>| is_still(&before.run, &Value::Text(&info));

        assert!(is_still(info("master", &old)));
        assert!(!is_still(info("slave", &old)), "it is one");
        assert!(!is_still(info("master", &new)), "it was one");
        assert!(!super::is_still(&before.run, &Value::Error(b"NOPERM")), "it does not tell");
    }

    #[test]
    fn the_clock_is_read_to_the_microsecond() {
        let clock = Value::Array(vec![Value::Text(b"1700000000"), Value::Text(b"250000")]);

        let facts = facts(&[Value::Text(b"run_id:a"), clock, Value::Int(1), Value::Nil]).unwrap();

        assert_eq!(facts.clock, Some(Duration::from_millis(1_700_000_000_250)));
    }
}
