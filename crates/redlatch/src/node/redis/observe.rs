//! Parses a server's answers to commands that only read.

use super::resp::{Digits, Value, write_command};
use redlatch_core::{
    Facts, FencingToken, HeldKey, Identity, Ledger, LineState, Page, Refusal, Resource, Ticket,
    Waiting, line::MOST_TOLD, token::owner_of,
};
use std::{sync::Arc, time::Duration};

/// The permissions that a user of a Redis or Valkey server needs, as in `ACL SETUSER ada `
/// … ` ~deploy:*`: everything that locks need and nothing more. The keys are the names of
/// the locks, exactly as given.
pub const REDIS_PERMISSIONS: &str = "resetchannels -@all +eval +evalsha +script|load +get \
    +getrange +set +del +exists +pexpire +pttl +hmget +hset +ping +info +time +select +scan \
    +hello +publish +subscribe &redlatch:*";

/// About how many keys a server scans per call before it serves others again.
const LOOKED_AT: &[u8] = b"200";

/// Asks for some of the locks.
pub(super) fn write_list(out: &mut Vec<u8>, pattern: &[u8], after: Option<&[u8]>) {
    let source = include_bytes!("scripts/list.lua");
    let cursor = after.unwrap_or(b"0");
    write_command(out, &[b"EVAL", source, b"0", cursor, pattern, LOOKED_AT]);
}

/// Asks for some of the keys that may be locks of other libraries.
pub(super) fn write_others(out: &mut Vec<u8>, after: Option<&[u8]>) {
    let source = include_bytes!("scripts/others.lua");
    write_command(out, &[b"EVAL", source, b"0", after.unwrap_or(b"string 0"), LOOKED_AT]);
}

/// Asks who waits in line for a key.
pub(super) fn write_line(out: &mut Vec<u8>, resource: &Resource) {
    let source = include_bytes!("scripts/waiters.lua");
    let mut digits = Digits::default();
    let most = digits.of(MOST_TOLD as u64);
    write_command(out, &[b"EVAL", source, b"1", resource.as_bytes(), most]);
}

/// `{count, {{ticket, owner's text or nil}, …}}`.
pub(super) fn line(parts: &[Value<'_>]) -> Option<LineState> {
    let [Value::Int(count), Value::Array(found)] = parts else { return None };
    let waiting = |told: &Value<'_>| {
        let Value::Array(told) = told else { return None };
        let (ticket, owner) = match told.as_slice() {
            [Value::Text(ticket), Value::Text(owner)] => (ticket, str::from_utf8(owner).ok()),
            [Value::Text(ticket), Value::Nil] => (ticket, None),
            _ => return None,
        };
        Some(Waiting { ticket: Ticket::parse(ticket)?, owner: owner.map(Arc::from) })
    };
    let first: Option<Box<[Waiting]>> = found.iter().map(waiting).collect();
    Some(LineState { first: first?, count: usize::try_from(*count).ok()? })
}

/// `{cursor, {{name, value, PTTL, how many wait}, …}, how many are denied}`.
pub(super) fn page(parts: &[Value<'_>]) -> Option<Page> {
    let [Value::Text(cursor), Value::Array(found), Value::Int(denied)] = parts else {
        return None;
    };
    let mut locks = Vec::new();
    for lock in found {
        let Value::Array(lock) = lock else { return None };
        let [Value::Text(name), Value::Text(value), Value::Int(pttl), Value::Int(waiters)] =
            lock.as_slice()
        else {
            return None;
        };
        // The server has already left out keys that are not ours, as far as it could tell.
        let is_ours = owner_of(value).is_some() || Ticket::reserved_in(value).is_some();
        if let (Ok(name), true) = (Resource::new(name), is_ours) {
            let remaining = u64::try_from(*pttl).ok().map(Duration::from_millis);
            let waiters = usize::try_from(*waiters).unwrap_or_default();
            locks.push(HeldKey { name, value: Arc::from(*value), remaining, waiters });
        }
    }
    let next = (*cursor != b"0").then(|| Arc::from(*cursor));
    Some(Page { locks: locks.into(), denied: usize::try_from(*denied).ok()?, next })
}

/// `{where to go on, {{name, PTTL}, …}, how many are denied}`.
pub(super) fn others(parts: &[Value<'_>]) -> Option<Page> {
    let [Value::Text(next), Value::Array(found), Value::Int(denied)] = parts else {
        return None;
    };
    let mut keys = Vec::new();
    for key in found {
        let Value::Array(key) = key else { return None };
        let [Value::Text(name), Value::Int(pttl)] = key.as_slice() else { return None };
        // A name that cannot be locked here blocks no lock.
        if let Ok(name) = Resource::new(name) {
            let remaining = u64::try_from(*pttl).ok().map(Duration::from_millis);
            keys.push(HeldKey { name, value: Arc::from([]), remaining, waiters: 0 });
        }
    }
    let next = (*next != b"0").then(|| Arc::from(*next));
    Some(Page { locks: keys.into(), denied: usize::try_from(*denied).ok()?, next })
}

/// `{INFO, {seconds, microseconds} or nil, 1 or 0, 1 or 0, highest number or nil, …}`
/// the fields of the ledger, and the error that a write would get.
pub(super) fn facts(parts: &[Value<'_>], may_evict: bool) -> Option<Facts> {
    let [Value::Text(info), clock, intact, empty, highest, kept @ ..] = parts else {
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
        refuses: kept.get(Ledger::NAMES.len()).and_then(refusal),
        unwoken: kept.get(Ledger::NAMES.len() + 1).and_then(rules),
        journal: number("aof_enabled").map(|enabled| enabled == 1),
        replicas: number("connected_slaves").and_then(|count| count.try_into().ok()),
        clients: number("connected_clients"),
        max_clients: number("maxclients"),
        promoted: field("master_replid2").is_some_and(|id| !no_history(id)),
        intact: *intact == Value::Int(1),
        empty: *empty == Value::Int(1),
        highest: number_of(highest),
        ..Facts::of(identity(&info, may_evict)?)
    };
    ledger(kept).tell(&mut facts);
    Some(facts)
}

/// The rules that the user lacks, if any.
fn rules(lacks: &Value<'_>) -> Option<Arc<str>> {
    let Value::Text(lacks) = lacks else { return None };
    str::from_utf8(lacks).ok().filter(|lacks| !lacks.is_empty()).map(Arc::from)
}

/// Why a write was refused. That only this user may not write says nothing about the server.
fn refusal(error: &Value<'_>) -> Option<Refusal> {
    let Value::Text(error) = error else { return None };
    refusal_in(&String::from_utf8_lossy(error))
}

/// The same for an error as text.
pub(crate) fn refusal_in(error: &str) -> Option<Refusal> {
    // Before version 7, servers put the location in the script first.
    let begins = |code: &str| error.split([' ', '-']).any(|word| word == code);
    [
        ("OOM", Refusal::MemoryFull),
        ("MISCONF", Refusal::CannotSave),
        ("NOREPLICAS", Refusal::TooFewReplicas),
    ]
    .into_iter()
    .find_map(|(code, refusal)| begins(code).then_some(refusal))
}

/// Separates the server's part of a run from the number of keys it has evicted.
const EVICTED: char = '+';

/// The server's identity, from its `INFO`. The scripts compute the same.
pub(super) fn identity(info: &str, may_evict: bool) -> Option<Identity> {
    let field = |name| field(info, name);
    // A promoted replica has another history.
    let mut run =
        [half(field("run_id")?), half(field("master_replid").unwrap_or_default())].concat();
    // A server that has evicted keys since it was admitted may have forgotten locks.
    if let Some(evicted) = field("evicted_keys").filter(|evicted| *evicted != "0" && !may_evict) {
        run.push(EVICTED);
        run.push_str(evicted);
    }
    let version = match field("valkey_version") {
        Some(version) => format!("valkey {version}"),
        None => format!("redis {}", field("redis_version").unwrap_or_default()),
    };
    Some(Identity { run: run.into(), version: version.into() })
}

/// The part of a run that identifies the server and its history.
pub(super) fn server_of(run: &str) -> &str {
    run.split(EVICTED).next().unwrap_or_default()
}

/// The policy by which the server evicts keys when its memory is full, if it does.
pub(super) fn evicting_by(info: &str) -> Option<&str> {
    let is_limited = field(info, "maxmemory").is_some_and(|limit| limit != "0");
    field(info, "maxmemory_policy").filter(|policy| is_limited && *policy != "noeviction")
}

/// A field of `INFO`.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Half of an id is enough to tell servers apart.
fn half(id: &str) -> &str {
    id.get(..20).unwrap_or(id)
}

/// What a server keeps for the restart guard, in the order of
/// [`Ledger::NAMES`]; empty means absent.
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
    fn a_page_holds_our_locks_alone() {
        let ours = [&[b'a'; 40][..], b"@me"].concat();
        let lock = |name, value| {
            let [left, waiters] = [1500, 2].map(Value::Int);
            Value::Array(vec![Value::Text(name), Value::Text(value), left, waiters])
        };
        let reserved = ["redlatch:next:", &"7".repeat(36), "@me"].concat();
        let found =
            [("x", &*ours), ("y", b"something else"), ("", &ours), ("z", reserved.as_bytes())];
        let found = found.into_iter().map(|(name, value)| lock(name.as_bytes(), value)).collect();

        let page = page(&[Value::Text(b"17"), Value::Array(found), Value::Int(3)]).unwrap();

        let names: Vec<_> = page.locks.iter().map(|lock| lock.name.to_string()).collect();
        assert_eq!(names, ["x", "z"]);
        assert_eq!(page.locks[0].remaining, Some(Duration::from_millis(1500)));
        assert_eq!((page.locks[0].waiters, page.denied), (2, 3));
        assert_eq!(page.next.as_deref(), Some(&b"17"[..]));
    }

    #[test]
    fn a_line_is_read_with_the_owners_that_are_known() {
        let ticket = "7".repeat(36);
        let waiting = |owner| Value::Array(vec![Value::Text(ticket.as_bytes()), owner]);
        let told = [Value::Text(b"web-1/7"), Value::Nil, Value::Text(b"\xff")].map(waiting);

        let line = line(&[Value::Int(9), Value::Array(told.into())]).unwrap();

        let owners: Vec<_> = line.first.iter().map(|waiting| waiting.owner.as_deref()).collect();
        assert_eq!((owners, line.count), (vec![Some("web-1/7"), None, None], 9));
        assert!(super::line(&[Value::Int(1), Value::Array(vec![Value::Int(1)])]).is_none());
    }

    #[test]
    fn a_write_that_is_refused_tells_why_unless_it_is_for_the_user() {
        let refused = |error: &str| refusal(&Value::Text(error.as_bytes()));

        let full = "OOM command not allowed when used memory > 'maxmemory'.";
        assert_eq!(refused(full), Some(Refusal::MemoryFull));
        let older = format!("@user_script: 33: -{full}");
        assert_eq!(refused(&older), Some(Refusal::MemoryFull));
        let lonely = "NOREPLICAS Not enough good replicas to write.";
        assert_eq!(refused(lonely), Some(Refusal::TooFewReplicas));
        assert_eq!(refused("MISCONF Errors writing"), Some(Refusal::CannotSave));
        assert_eq!(refused("NOPERM this user has no permissions"), None);
        assert_eq!(refusal(&Value::Nil), None);
    }

    #[test]
    fn a_policy_matters_only_where_memory_is_limited() {
        let policy = |info: &str| {
            let info = format!("run_id:a\r\n{info}");
            let parts = [
                Value::Text(info.as_bytes()),
                Value::Nil,
                Value::Int(1),
                Value::Int(1),
                Value::Nil,
            ];
            facts(&parts, false).unwrap().eviction
        };

        assert_eq!(policy("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n"), None);
        let limited = policy("maxmemory:9\r\nmaxmemory_policy:allkeys-lru\r\n");
        assert_eq!(limited.as_deref(), Some("allkeys-lru"));
    }

    #[test]
    fn a_server_is_no_longer_who_it_was_after_it_was_a_replica_or_evicted_keys() {
        let [old, new] = ["a".repeat(40), "b".repeat(40)];
        let run = |history: &str, evicted: u32, may_evict| {
            let info =
                format!("run_id:{new}\r\nmaster_replid:{history}\r\nevicted_keys:{evicted}\r\n");
            identity(&info, may_evict).unwrap().run
        };
        let before = run(&old, 0, false);

        assert_eq!(*before, *format!("{}{}", &new[..20], &old[..20]));
        assert_ne!(run(&new, 0, false), before, "it was a replica");
        let evicted = run(&old, 17, false);
        assert_ne!(evicted, before);
        assert_ne!(run(&old, 18, false), evicted, "it has evicted another key");
        assert_eq!(server_of(&evicted), &*before);
        assert_eq!(run(&old, 17, true), before, "it is allowed to");
    }

    #[test]
    fn a_server_evicts_only_where_memory_is_limited_and_the_policy_lets_it() {
        let evicting = |limit, policy| {
            let info = format!("maxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n");
            evicting_by(&info).map(str::to_string)
        };

        assert_eq!(evicting("0", "volatile-lru"), None);
        assert_eq!(evicting("9", "noeviction"), None);
        assert_eq!(evicting("9", "volatile-lru").as_deref(), Some("volatile-lru"));
    }

    #[test]
    fn the_clock_is_read_to_the_microsecond() {
        let clock = Value::Array(vec![Value::Text(b"1700000000"), Value::Text(b"250000")]);

        let parts = [Value::Text(b"run_id:a"), clock, Value::Int(1), Value::Int(1), Value::Nil];
        let facts = facts(&parts, false).unwrap();

        assert_eq!(facts.clock, Some(Duration::from_millis(1_700_000_000_250)));
    }
}
