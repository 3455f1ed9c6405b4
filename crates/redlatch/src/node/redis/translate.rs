//! Commands to the server's words, and its words back to replies.

use super::{
    observe,
    resp::{Digits, Value, write_command},
};
use redlatch_core::{
    Cause, Command, Fault, FencingToken, Fingerprint, Holder, Identity, KeyState, Marker,
    Quarantine, Reply, Resource, Resources, Vote, fence, token::owner_of,
};
use std::{sync::Arc, time::Duration};

/// A script and the name the server knows it by.
#[derive(Debug, Clone, Copy)]
pub(super) enum Script {
    Take,
    TakeFenced,
    Raise,
    Extend,
    Release,
    Inspect,
}

impl Script {
    pub(super) const ALL: [Script; 6] = [
        Script::Take,
        Script::TakeFenced,
        Script::Raise,
        Script::Extend,
        Script::Release,
        Script::Inspect,
    ];

    pub(super) fn source(self) -> &'static str {
        match self {
            Script::Take => include_str!("scripts/take.lua"),
            Script::TakeFenced => include_str!("scripts/take_fenced.lua"),
            Script::Raise => include_str!("scripts/raise.lua"),
            Script::Extend => include_str!("scripts/extend.lua"),
            Script::Release => include_str!("scripts/release.lua"),
            Script::Inspect => include_str!("scripts/inspect.lua"),
        }
    }

    /// Whether it touches the node's own hash, too.
    fn needs_node(self) -> bool {
        !matches!(self, Script::Release)
    }
}

/// Everything of ours on a server but the locks.
pub(super) const NODE_KEY: &[u8] = b"redlatch:node";

/// How many keys a server looks at before it turns to others again.
const LOOKED_AT: &[u8] = b"200";

/// What the server calls our scripts, told by `SCRIPT LOAD`.
pub(super) type Hashes = [Box<[u8]>; Script::ALL.len()];

/// Whether a script is named by its hash, or sent in full since the server has
/// forgotten it.
#[derive(Clone, Copy)]
pub(super) enum Naming<'a> {
    Hash(&'a Hashes),
    Source,
}

/// What scripts compare with the node's marker.
#[derive(Debug, Default)]
pub(super) struct MarkerText {
    of: Option<Fingerprint>,
    text: String,
}

impl MarkerText {
    /// The marker of that run by that agreement; empty if there is none. It is
    /// kept, since the next command will ask for the same.
    pub(super) fn of(&mut self, guard: Option<Fingerprint>, run: &Arc<str>) -> &[u8] {
        if self.of != guard {
            self.of = guard;
            self.text = guard.map_or_else(String::new, |fingerprint| {
                Marker { run: run.clone(), fingerprint }.to_string()
            });
        }
        self.text.as_bytes()
    }
}

/// Appends `command` in the server's words; `marker` goes with votes.
pub(super) fn write(out: &mut Vec<u8>, command: &Command, marker: &[u8], naming: Naming<'_>) {
    let mut digits = Digits::default();
    match command {
        Command::Take { resources, token, ttl, fence: None, guard } => {
            let ttl = digits.of(millis(*ttl));
            match resources.single() {
                // Plain Redlock, to the letter.
                Some(only) if guard.is_none() => {
                    let key = only.as_bytes();
                    write_command(out, &[b"SET", key, token.as_bytes(), b"NX", b"PX", ttl]);
                }
                _ => {
                    let arguments = [marker, token.as_bytes(), ttl];
                    write_script(out, naming, Script::Take, resources, &arguments);
                }
            }
        }
        Command::Take { resources, token, ttl, fence: Some(proposal), .. } => {
            let (mut proposed, mut skew) = (Digits::default(), Digits::default());
            let arguments = [
                marker,
                token.as_bytes(),
                digits.of(millis(*ttl)),
                proposed.of(proposal.micros()),
                skew.of(proposal.skew_micros()),
            ];
            write_script(out, naming, Script::TakeFenced, resources, &arguments);
        }
        Command::Plant { resources, token, ttl, .. } => {
            let arguments = [marker, token.as_bytes(), digits.of(millis(*ttl)), b"1"];
            write_script(out, naming, Script::Take, resources, &arguments);
        }
        Command::Raise { resources, token, to, .. } => {
            let arguments = [marker, token.as_bytes(), digits.of(to.get())];
            write_script(out, naming, Script::Raise, resources, &arguments);
        }
        Command::Extend { resources, token, ttl, fence: None, .. } => {
            let ttl = digits.of(millis(*ttl));
            let arguments = [marker, token.as_bytes(), ttl];
            write_script(out, naming, Script::Extend, resources, &arguments);
        }
        Command::Extend { resources, token, ttl, fence: Some(fence), .. } => {
            let mut number = Digits::default();
            let ttl = digits.of(millis(*ttl));
            let arguments = [marker, token.as_bytes(), ttl, number.of(fence.get())];
            write_script(out, naming, Script::Extend, resources, &arguments);
        }
        Command::Release { resources, token } => {
            write_script(out, naming, Script::Release, resources, &[token.as_bytes()]);
        }
        Command::Inspect { resources } => {
            let registers = resources.iter().map(|resource| fence::register(resource).to_string());
            let registers: Vec<String> = registers.collect();
            let registers: Vec<&[u8]> = registers.iter().map(String::as_bytes).collect();
            write_script(out, naming, Script::Inspect, resources, &registers);
        }
        Command::List { pattern, after } => {
            let cursor = after.as_deref().unwrap_or(b"0");
            let source = include_bytes!("scripts/list.lua");
            write_command(out, &[b"EVAL", source, b"0", cursor, pattern, LOOKED_AT]);
        }
        Command::Examine => write_node_script(out, WATCH, &[b"", b"", b""]),
        Command::Watch { guard, nonce, replace } => {
            let (guard, nonce) = (guard.to_string(), format!("{nonce:016x}"));
            let replace: &[u8] = if *replace { b"1" } else { b"" };
            write_node_script(out, WATCH, &[guard.as_bytes(), nonce.as_bytes(), replace]);
        }
        Command::Admit { guard, agreement, mark, floor } => {
            let source = include_bytes!("scripts/admit.lua");
            let (guard, floor) =
                (guard.to_string(), floor.map_or_else(String::new, |floor| floor.to_string()));
            let arguments =
                [guard.as_bytes(), agreement.as_bytes(), mark.as_bytes(), floor.as_bytes()];
            write_node_script(out, source, &arguments);
        }
        // Who it is was asked when the connection was made; this keeps the order.
        _ => write_command(out, &[b"PING"]),
    }
}

/// Looks at a server, and marks it if it is out.
const WATCH: &[u8] = include_bytes!("scripts/watch.lua");

/// A script that is seldom needed, and about the node's own hash.
fn write_node_script(out: &mut Vec<u8>, source: &[u8], arguments: &[&[u8]]) {
    let mut words: Vec<&[u8]> = vec![b"EVAL", source, b"1", NODE_KEY];
    words.extend(arguments);
    write_command(out, &words);
}

fn write_script(
    out: &mut Vec<u8>,
    naming: Naming<'_>,
    script: Script,
    resources: &Resources,
    arguments: &[&[u8]],
) {
    let (verb, body): (&[u8], &[u8]) = match naming {
        Naming::Hash(hashes) => (b"EVALSHA", &hashes[script as usize]),
        Naming::Source => (b"EVAL", script.source().as_bytes()),
    };
    let node = script.needs_node();
    let mut digits = Digits::default();
    let count = digits.of((resources.count() + usize::from(node)) as u64);
    // Nearly every take and release: without a heap allocation.
    match (resources.single(), script, arguments) {
        (Some(only), Script::Release, [token]) => {
            return write_command(out, &[verb, body, count, only.as_bytes(), token]);
        }
        (Some(only), Script::TakeFenced, [marker, token, ttl, proposed, skew]) => {
            let (key, mut register) = (only.as_bytes(), Digits::default());
            let register = register.of(fence::register(only).into());
            let words =
                [verb, body, count, key, NODE_KEY, marker, token, ttl, proposed, skew, register];
            return write_command(out, &words);
        }
        _ => {}
    }
    let fenced = match script {
        Script::TakeFenced | Script::Raise => true,
        Script::Extend => arguments.len() == 4,
        Script::Take | Script::Release | Script::Inspect => false,
    };
    let registers: Vec<String> = if fenced {
        fence::registers(resources).iter().map(u32::to_string).collect()
    } else {
        Vec::new()
    };
    let mut words = Vec::with_capacity(4 + resources.count() + arguments.len() + registers.len());
    words.extend([verb, body, count]);
    words.extend(resources.iter().map(Resource::as_bytes));
    words.extend(node.then_some(NODE_KEY));
    words.extend(arguments);
    words.extend(registers.iter().map(String::as_bytes));
    write_command(out, &words);
}

fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

/// What the server's answer to `command` means.
pub(super) fn read(command: &Command, value: &Value<'_>, identity: &Identity) -> Reply {
    if let Value::Error(text) = value {
        return Reply::failed(Fault::Refused(text_of(text)));
    }
    let vote = match (command, value) {
        (Command::Take { .. }, Value::Status(b"OK"))
        | (
            Command::Take { .. }
            | Command::Plant { .. }
            | Command::Extend { .. }
            | Command::Release { .. }
            | Command::Admit { .. },
            Value::Int(1),
        ) => Vote::Granted,
        (Command::Take { .. } | Command::Raise { .. }, Value::Text(number)) => {
            let number = str::from_utf8(number).ok().and_then(|text| text.parse().ok());
            match number.and_then(FencingToken::new) {
                Some(number) => Vote::Numbered(number),
                None => return unexpected(value),
            }
        }
        (
            Command::Take { .. }
            | Command::Raise { .. }
            | Command::Plant { .. }
            | Command::Extend { .. },
            Value::Array(parts),
        ) if parts.first() == Some(&Value::Text(b"quarantined")) => {
            let ledger = observe::ledger(&parts[1..]);
            let guard = command.guard().and_then(|guard| ledger.objection(&identity.run, guard));
            Vote::Quarantined(guard.unwrap_or_else(|| Quarantine::new(Cause::Forgot)))
        }
        (Command::Take { .. }, Value::Nil) => Vote::Held(Holder::default()),
        (Command::Take { .. } | Command::Plant { .. }, Value::Array(_)) => match held(value) {
            Some(KeyState::Held { value, remaining, .. }) => {
                let owner = value.and_then(|value| owner_of(&value));
                Vote::Held(Holder::new(owner.map(Into::into), remaining))
            }
            _ => return unexpected(value),
        },
        (
            Command::Raise { .. }
            | Command::Extend { .. }
            | Command::Release { .. }
            | Command::Admit { .. },
            Value::Int(0),
        ) => Vote::Gone,
        (Command::Inspect { resources }, Value::Array(found))
            if found.len() == resources.count() =>
        {
            let keys: Option<Box<[KeyState]>> = found.iter().map(held).collect();
            return keys.map_or_else(|| unexpected(value), Reply::Keys);
        }
        (Command::Identify, Value::Status(b"PONG")) => return Reply::Identity(identity.clone()),
        (Command::List { .. }, Value::Array(parts)) => {
            return observe::page(parts).map_or_else(|| unexpected(value), Reply::Page);
        }
        (Command::Examine | Command::Watch { .. }, Value::Array(parts)) => {
            return observe::facts(parts)
                .map_or_else(|| unexpected(value), |facts| Reply::Facts(facts.into()));
        }
        _ => return unexpected(value),
    };
    Reply::Vote(vote)
}

/// `{value or nil, PTTL}`, with a register's number or nil behind if it was
/// asked for, or nil for a key that is free.
fn held(value: &Value<'_>) -> Option<KeyState> {
    let parts = match value {
        Value::Nil => return Some(KeyState::Free),
        Value::Array(parts) => parts,
        _ => return None,
    };
    let (value, pttl, number) = match parts.as_slice() {
        [value, Value::Int(pttl)] => (value, *pttl, &Value::Nil),
        [value, Value::Int(pttl), number] => (value, *pttl, number),
        _ => return None,
    };
    let value = match value {
        Value::Text(value) => Some(Arc::from(*value)),
        Value::Nil => None,
        _ => return None,
    };
    let number = match number {
        Value::Text(digits) => str::from_utf8(digits).ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    // Negative: it lives for ever.
    let remaining = u64::try_from(pttl).ok().map(Duration::from_millis);
    Some(KeyState::Held { value, remaining, number })
}

fn unexpected(value: &Value<'_>) -> Reply {
    let kind = match value {
        Value::Status(_) => "a status",
        Value::Error(_) => "an error",
        Value::Int(_) => "a number",
        Value::Text(_) => "a text",
        Value::Array(_) => "an array",
        Value::Nil => "nothing",
    };
    Reply::failed(Fault::Nonsense(format!("the answer was {kind} it could not be").into()))
}

/// A server's text, bounded and without control characters.
pub(super) fn text_of(bytes: &[u8]) -> Arc<str> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]);
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\'' | '"' => shown.push(character), // nothing to escape in an error
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown.into()
}
