//! Translates commands for the server, and its answers into replies.

use super::{
    Address, observe,
    resp::{Digits, Value, write_command},
    scripts::{ADMIT, NODE_KEY, Naming, Script, WATCH, write_node_script, write_script},
};
use redlatch_core::{
    Cause, Command, Fault, FencingToken, Fingerprint, Holder, Identity, KeyState, Ledger, Marker,
    Place, Quarantine, Reply, Resources, Then, Ticket, Token, Vote, fence,
};
use std::{sync::Arc, time::Duration};

/// The text that scripts compare with the node's marker.
#[derive(Debug, Default)]
pub(super) struct MarkerText {
    of: Option<Fingerprint>,
    text: String,
}

impl MarkerText {
    /// The marker of this run by this agreement; empty without a restart guard. Cached,
    /// since the next command will need the same.
    pub(super) fn of(&mut self, fingerprint: Option<Fingerprint>, run: &Arc<str>) -> &[u8] {
        if self.of != fingerprint {
            self.of = fingerprint;
            self.text = fingerprint.map_or_else(String::new, |fingerprint| {
                Marker { run: run.clone(), fingerprint }.to_string()
            });
        }
        self.text.as_bytes()
    }
}

/// Appends `command`, to the server at this address, in the wire format; votes carry the
/// `marker`.
pub(super) fn write(
    out: &mut Vec<u8>,
    command: &Command,
    marker: &[u8],
    naming: Naming,
    address: &Address,
) {
    let may_evict: &[u8] = if address.allow_eviction { b"1" } else { b"" };
    let mut digits = Digits::default();
    match command {
        Command::Take { resources, token, ttl, fence: None, place, .. } => {
            let ttl = digits.of(millis(*ttl));
            let place = place.map(PlaceText::of);
            let place = place.as_ref().map_or(&b""[..], PlaceText::as_bytes);
            let arguments = [marker, token.as_bytes(), ttl, place];
            write_script(out, naming, Script::Take, resources, &arguments);
        }
        Command::Take { resources, token, ttl, fence: Some(proposal), place, .. } => {
            let place = place.map(PlaceText::of);
            let (mut proposed, mut skew) = (Digits::default(), Digits::default());
            let arguments = [
                marker,
                token.as_bytes(),
                digits.of(millis(*ttl)),
                proposed.of(proposal.micros()),
                skew.of(proposal.skew_micros()),
                place.as_ref().map_or(b"", PlaceText::as_bytes),
            ];
            write_script(out, naming, Script::TakeFenced, resources, &arguments);
        }
        Command::Plant { resources, token, ttl, ticket, .. } => {
            let ticket = ticket.map_or_else(String::new, |ticket| ticket.to_string());
            let ttl = digits.of(millis(*ttl));
            let arguments = [marker, token.as_bytes(), ttl, ticket.as_bytes(), b"1"];
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
        Command::Release { resources, token, then } => {
            write_release(out, naming, resources, token, *then);
        }
        Command::Inspect { resources } => {
            let registers = resources.iter().map(|resource| fence::register(resource).to_string());
            let registers: Vec<String> = registers.collect();
            let registers: Vec<&[u8]> = registers.iter().map(String::as_bytes).collect();
            write_script(out, naming, Script::Inspect, resources, &registers);
        }
        Command::Line { resource } => observe::write_line(out, resource),
        Command::List { pattern, after } => observe::write_list(out, pattern, after.as_deref()),
        Command::Others { after } => observe::write_others(out, after.as_deref()),
        Command::Examine => {
            let database = digits.of(address.database.into());
            write_node_script(out, WATCH, &[b"", b"", b"", b"", database]);
        }
        Command::Watch { fingerprint, nonce, replace } => {
            let (fingerprint, nonce) = (fingerprint.to_string(), format!("{nonce:016x}"));
            let replace: &[u8] = if *replace { b"1" } else { b"" };
            let database = digits.of(address.database.into());
            let arguments =
                [fingerprint.as_bytes(), nonce.as_bytes(), replace, may_evict, database];
            write_node_script(out, WATCH, &arguments);
        }
        Command::Ledger => {
            let [admitted, agreement, reserved, watched] = Ledger::NAMES.map(str::as_bytes);
            write_command(out, &[b"HMGET", NODE_KEY, admitted, agreement, reserved, watched]);
        }
        Command::Admit { fingerprint, agreement, mark, floor } => {
            let (fingerprint, floor) = (
                fingerprint.to_string(),
                floor.map_or_else(String::new, |floor| floor.to_string()),
            );
            let arguments = [
                fingerprint.as_bytes(),
                agreement.as_bytes(),
                mark.as_bytes(),
                floor.as_bytes(),
                may_evict,
            ];
            write_node_script(out, ADMIT, &arguments);
        }
        // We asked for its identity when connecting; this only keeps the order.
        _ => write_command(out, &[b"PING"]),
    }
}

fn write_release(
    out: &mut Vec<u8>,
    naming: Naming,
    resources: &Resources,
    token: &Token,
    then: Option<Then>,
) {
    let token = token.as_bytes();
    let (does, ticket): (&[u8], _) = match then {
        None => return write_script(out, naming, Script::Release, resources, &[token]),
        Some(Then::Leave(ticket)) => (b"leave", ticket),
        Some(Then::Wait(ticket)) => (b"wait", ticket),
        Some(Then::Pass(ticket)) => (b"pass", ticket),
    };
    let ticket = PlaceText::of(Place { ticket, known: false });
    write_script(out, naming, Script::Release, resources, &[token, does, ticket.as_bytes()]);
}

/// A place as the scripts read it: the ticket, followed by `+` if it may already be in
/// line. Every take carries one, and this is quicker than formatting.
pub(super) struct PlaceText {
    text: [u8; Ticket::LENGTH + 1],
    length: usize,
}

impl PlaceText {
    pub(super) fn of(place: Place) -> Self {
        let Ticket { arrived, waiter, patience } = place.ticket;
        let mut text = [b'+'; Ticket::LENGTH + 1];
        write_hex(&mut text[..16], arrived.to_be_bytes());
        let waiter = waiter.client() << 16 | u64::from(waiter.line());
        write_hex(&mut text[16..32], waiter.to_be_bytes());
        write_hex(&mut text[32..36], patience.to_be_bytes());
        PlaceText { text, length: Ticket::LENGTH + usize::from(place.known) }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

/// Fills `digits` with the bytes in hex.
fn write_hex<const BYTES: usize>(digits: &mut [u8], bytes: [u8; BYTES]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
}

pub(super) fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

/// Translates the server's answer to `command`.
pub(super) fn read(
    command: &Command,
    value: &Value<'_>,
    identity: &Identity,
    may_evict: bool,
) -> Reply {
    if *command == Command::Identify && is_pong(value) {
        return Reply::Identity(identity.clone());
    }
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
            let fingerprint = command
                .fingerprint()
                .and_then(|fingerprint| ledger.objection(&identity.run, fingerprint));
            Vote::Quarantined(fingerprint.unwrap_or_else(|| Quarantine::new(Cause::Forgot)))
        }
        (Command::Take { .. }, Value::Nil) => Vote::Held(Holder::default()),
        (Command::Take { .. } | Command::Plant { .. }, Value::Array(parts)) => match held(value) {
            Some(KeyState::Held { value, remaining, .. }) => {
                let holder = Holder::of_value(value.as_deref().unwrap_or_default(), remaining);
                let holder = holder.with_endless(remaining.is_none());
                Vote::Held(holder.with_ahead(parts.get(2).and_then(count)))
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
        (Command::Line { .. }, Value::Array(parts)) => {
            return observe::line(parts).map_or_else(|| unexpected(value), Reply::Line);
        }
        (Command::List { .. }, Value::Array(parts)) => {
            return observe::page(parts).map_or_else(|| unexpected(value), Reply::Page);
        }
        (Command::Others { .. }, Value::Array(parts)) => {
            return observe::others(parts).map_or_else(|| unexpected(value), Reply::Page);
        }
        (Command::Examine | Command::Watch { .. }, Value::Array(parts)) => {
            return observe::facts(parts, may_evict)
                .map_or_else(|| unexpected(value), |facts| Reply::Facts(facts.into()));
        }
        (Command::Ledger, Value::Array(kept)) if kept.len() == Ledger::NAMES.len() => {
            return Reply::Ledger(observe::ledger(kept).into());
        }
        _ => return unexpected(value),
    };
    Reply::Vote(vote)
}

/// Whether a server answers. A server that cannot save refuses even a `PING`, as it
/// refuses writes, but can still be read.
pub(super) fn is_pong(value: &Value<'_>) -> bool {
    match value {
        Value::Error(text) => text.starts_with(b"MISCONF"),
        value => *value == Value::Status(b"PONG"),
    }
}

fn count(value: &Value<'_>) -> Option<usize> {
    let Value::Int(count) = value else { return None };
    usize::try_from(*count).ok()
}

/// `{value or nil, PTTL}`, perhaps followed by a register's number or nil, or by how many
/// are ahead in line; nil for a free key.
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
    // Negative: it never expires.
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
        Value::Push(_) => "a push",
        Value::Nil => "nothing",
    };
    Reply::failed(Fault::Nonsense(format!("the answer was {kind} it could not be").into()))
}

/// A server's text, truncated and without control characters.
pub(super) fn text_of(bytes: &[u8]) -> Arc<str> {
    const LONGEST: usize = 300;
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]);
    if bytes.len() > LONGEST {
        let whole = text.rsplit_once(' ').map_or(&*text, |(whole, _)| whole);
        text = format!("{whole} …").into();
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\'' | '"' => shown.push(character), // nothing to escape in an error
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_error_ends_at_a_word() {
        let long = "MISCONF ".to_owned() + &"words and ".repeat(40);

        let shown = text_of(long.as_bytes());

        assert!(shown.starts_with("MISCONF words and ") && shown.len() < 310, "{shown}");
        assert!(shown.ends_with(" words …") || shown.ends_with(" and …"), "{shown}");
        assert_eq!(&*text_of(b"ERR no"), "ERR no");
    }
}
