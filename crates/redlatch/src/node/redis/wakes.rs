//! Learns which keys a server has reserved for our client.
//!
//! In:  commands about to be sent, and the server's pushes.
//! Out: a subscription ahead of the first command that carries a ticket, and wakes.
//!
//! Promise: a client that never waits subscribes to nothing. A server that denies the
//! subscription, or speaks only RESP2, wakes nobody but still votes. All other pushes
//! are ignored.

use super::resp::{Value, write_command};
use redlatch_core::{Command, Place, Resource, Then, Ticket, Wake};

/// The prefix of a client's channel; the client follows, in 12 hex digits.
const CHANNEL: &str = "redlatch:wake:";

/// The subscription of one connection.
#[derive(Debug)]
pub(super) struct Wakes {
    /// Not on a RESP2 connection: there, a subscription would allow no other commands.
    is_possible: bool,
    /// The client whose channel we last subscribed to, or were denied.
    client: Option<u64>,
}

impl Wakes {
    pub(super) fn new(is_possible: bool) -> Self {
        Wakes { is_possible, client: None }
    }

    /// Whether we expect a server to wake us over this connection.
    pub(super) fn is_expected(&self) -> bool {
        self.client.is_some()
    }

    /// Appends a subscription if the command is the first with a ticket. Returns whether a
    /// subscription was appended and will be answered.
    pub(super) fn subscribe(&mut self, command: &Command, out: &mut Vec<u8>) -> bool {
        let client = match command {
            Command::Take { place: Some(Place { ticket, .. }), .. }
            | Command::Release { then: Some(Then::Wait(ticket) | Then::Pass(ticket)), .. } => {
                ticket.waiter.client()
            }
            _ => return false,
        };
        if !self.is_possible || self.client == Some(client) {
            return false;
        }
        self.client = Some(client);
        write_command(out, &[b"SUBSCRIBE", format!("{CHANNEL}{client:012x}").as_bytes()]);
        true
    }
}

/// A push from a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It has accepted a subscription. This arrives in order with the replies.
    Subscribed,
    Wake(Wake),
    /// Not for us, or malformed.
    Noise,
}

impl Heard {
    /// Parses a push: `{'message', channel, ticket and resource}`.
    pub(super) fn of(parts: &[Value<'_>]) -> Self {
        match parts {
            [Value::Text(b"subscribe"), ..] => Heard::Subscribed,
            [Value::Text(b"message"), Value::Text(channel), Value::Text(message)]
                if channel.starts_with(CHANNEL.as_bytes()) =>
            {
                wake(message).map_or(Heard::Noise, Heard::Wake)
            }
            _ => Heard::Noise,
        }
    }
}

fn wake(message: &[u8]) -> Option<Wake> {
    let (ticket, name) = message.split_at_checked(Ticket::LENGTH)?;
    Some(Wake { ticket: Ticket::parse(ticket)?, resource: Resource::new(name).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use redlatch_core::{Resources, Token, Waiter};
    use std::time::Duration;

    const CLIENT: u64 = 0xa_0b0c;

    fn ticket() -> Ticket {
        Ticket { arrived: 1, waiter: Waiter::new(CLIENT, 7), patience: 250 }
    }

    fn take(place: Option<Place>) -> Command {
        let resources = Resources::new(["a"]).unwrap();
        let (token, ttl) = (Token::from_bytes(b"t"), Duration::from_secs(1));
        Command::Take { resources, token, ttl, fence: None, fingerprint: None, place }
    }

    fn release(then: Option<Then>) -> Command {
        let resources = Resources::new(["a"]).unwrap();
        Command::Release { resources, token: Token::from_bytes(b"t"), then }
    }

    fn waiting() -> Command {
        take(Some(Place { ticket: ticket(), known: false }))
    }

    #[test]
    fn the_first_command_that_waits_subscribes_and_no_other() {
        let (mut wakes, mut out) = (Wakes::new(true), Vec::new());
        for other in [take(None), release(None), release(Some(Then::Leave(ticket())))] {
            assert!(!wakes.subscribe(&other, &mut out), "{other:?}");
        }

        assert!(wakes.subscribe(&waiting(), &mut out));
        assert!(!wakes.subscribe(&waiting(), &mut out));
        assert!(!wakes.subscribe(&release(Some(Then::Wait(ticket()))), &mut out));

        assert_eq!(out, b"*2\r\n$9\r\nSUBSCRIBE\r\n$26\r\nredlatch:wake:0000000a0b0c\r\n");
        assert!(Wakes::new(true).subscribe(&release(Some(Then::Pass(ticket()))), &mut out));
    }

    #[test]
    fn nothing_subscribes_where_that_would_be_the_end_of_other_commands() {
        let mut out = Vec::new();

        assert!(!Wakes::new(false).subscribe(&waiting(), &mut out));

        assert_eq!(out, b"");
    }

    #[test]
    fn a_message_is_a_ticket_and_a_name() {
        let message = [ticket().to_string().as_bytes(), b"a\xff b"].concat();
        let push =
            [Value::Text(b"message"), Value::Text(b"redlatch:wake:1"), Value::Text(&message)];

        let resource = Resource::new(b"a\xff b").unwrap();
        assert_eq!(Heard::of(&push), Heard::Wake(Wake { resource, ticket: ticket() }));
    }

    #[test]
    fn whatever_else_is_said_is_noise() {
        let text = ticket().to_string();
        let good = [text.as_bytes(), b"a"].concat();
        let bad = [&b"x"[..], &good[1..]].concat();
        let (message, channel) = (Value::Text(b"message"), Value::Text(b"redlatch:wake:1"));
        let pushes = [
            vec![],
            vec![Value::Nil],
            vec![Value::Text(b"invalidate"), Value::Array(vec![channel])],
            vec![Value::Text(b"message"), Value::Text(b"redlatch:wake:1"), Value::Text(&bad)],
            vec![message, Value::Text(b"redlatch:wake:1"), Value::Text(text.as_bytes())],
            vec![Value::Text(b"message"), Value::Text(b"news"), Value::Text(&good)],
            vec![Value::Text(b"message"), Value::Text(b"redlatch:wake:1"), Value::Int(1)],
            vec![Value::Text(b"unsubscribe"), Value::Text(b"redlatch:wake:1"), Value::Int(0)],
        ];

        for push in pushes {
            assert_eq!(Heard::of(&push), Heard::Noise, "{push:?}");
        }
        assert_eq!(Heard::of(&[Value::Text(b"subscribe")]), Heard::Subscribed);
    }
}
