//! What one connection has learned about its server.

use super::super::{Address, resp::Value, translate};
use crate::node::heeding::is_vote;
use redlatch_core::{Agreement, Command, Fault, Identity, Reply, Vote};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long to keep a connection to a server that turns us away.
const REDIAL: Duration = Duration::from_secs(1);

pub(super) struct Server {
    pub(super) address: Arc<Address>,
    /// Its identity when greeted.
    pub(super) identity: Identity,
    connected_at: Instant,
    /// Whether its last reply says that it is not this node or does not serve us.
    turns_us_away: bool,
    /// Whether it has voted on this connection.
    voted: bool,
}

impl Server {
    pub(super) fn new(address: Arc<Address>, identity: Identity) -> Self {
        let connected_at = Instant::now();
        Server { address, identity, connected_at, turns_us_away: false, voted: false }
    }

    /// Whether to use a new connection for the next command.
    pub(super) fn is_to_be_left(&self) -> bool {
        self.turns_us_away && self.connected_at.elapsed() >= REDIAL
    }

    /// Interprets its answer to a command.
    pub(super) fn reply(&mut self, command: &Command, answer: &Value<'_>) -> Reply {
        if is_no_script(answer) {
            // The script was sent in full: a server that answers this runs no scripts.
            let reason = "NOSCRIPT in answer to a script that was sent in full";
            return Reply::failed(Fault::Nonsense(reason.into()));
        }
        let may_evict = self.address.allow_eviction;
        let reply = translate::read(command, answer, &self.identity, may_evict);
        self.heed(command, &reply);
        reply
    }

    /// Records whether the server votes as this node or turns us away.
    fn heed(&mut self, command: &Command, reply: &Reply) {
        let turns_us_away = match reply {
            Reply::Vote(Vote::Quarantined(quarantine)) => quarantine.cause.is_conflict(),
            // An unguarded vote does not count once the server has named another node.
            Reply::Vote(Vote::Granted | Vote::Numbered(_))
                if is_vote(command) && (command.fingerprint().is_some() || !self.turns_us_away) =>
            {
                if !self.voted {
                    self.voted = true;
                    self.address.runs.voted(&self.identity.run);
                }
                false
            }
            Reply::Facts(facts) if self.is_another_node(facts.agreement.as_deref()) => true,
            Reply::Ledger(ledger) => self.is_another_node(ledger.agreement.as_deref()),
            _ => return,
        };
        if turns_us_away && !self.turns_us_away {
            self.address.runs.refused(&self.identity.run);
        }
        self.turns_us_away = turns_us_away;
    }

    /// Whether a server with this agreement is another node of our list.
    fn is_another_node(&self, agreement: Option<&str>) -> bool {
        let agreement = agreement.and_then(Agreement::parse);
        agreement.is_some_and(|agreement| agreement.is_of_another(&self.address.name()))
    }

    /// Whether the server is no longer the one we connected to: it has been a replica in between.
    pub(super) fn is_another(&self, reply: &Reply) -> bool {
        matches!(reply, Reply::Facts(facts) if facts.identity.run != self.identity.run)
    }
}

pub(super) fn is_no_script(answer: &Value<'_>) -> bool {
    matches!(answer, Value::Error(text) if text.starts_with(b"NOSCRIPT"))
}
