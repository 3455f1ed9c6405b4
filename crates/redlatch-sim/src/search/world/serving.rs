//! What nodes do with the commands that reach them, and what clients learn from it.

use super::{Seen, Slip, World};
use crate::search::{
    event::{Event, Wire},
    schedule::{RestartGuard, name_of},
    server::Arrived,
};
use redlatch_core::{Cause, Command, Fault, Quarantine, Reply, Tag, Vote};
use std::time::Duration;

impl World<'_> {
    /// A node carries out a command and answers it.
    pub(super) fn serve(&mut self, arrived: Arrived) {
        let Arrived { wire, sent, tag, command } = arrived;
        let refused = self.has_another_list(wire, &command);
        self.listens(wire, &command);
        let server = &mut self.servers[wire.server];
        let reply = match refused {
            Some(cause) => Reply::Vote(Vote::Quarantined(Quarantine::new(cause))),
            None => server.carry_out(self.now, &command),
        };
        self.served(wire, sent, &command, &reply);
        let (client, node) = (wire.client, wire.server);
        self.see(&Seen::Served { client, node, command: &command, reply: &reply });
        if matches!((&command, &reply), (Command::Admit { .. }, Reply::Vote(Vote::Granted))) {
            self.counts.admitted += 1;
            self.count_silence(client, node);
            self.servers[node].memory.admitted();
        }
        self.answer(Answering { wire, sent, tag }, &command, reply);
        self.wake_clients(wire.server);
    }

    /// A node that was quarantined for a second window was admitted although a node that
    /// knows its numbers was silent: from here on, fencing tokens rest on clocks.
    fn count_silence(&mut self, client: usize, node: usize) {
        let party = self.schedule.party(client);
        let forgot = self.servers[node].memory.forgot;
        let quarantined_for = forgot.map_or(Duration::ZERO, |forgot| self.now.since(forgot));
        if party.guard == RestartGuard::On && quarantined_for > party.window().mul_f64(1.9) {
            self.claims = self.claims.after_silence();
        }
    }

    fn answer(&mut self, arrived: Answering, command: &Command, reply: Reply) {
        let Answering { wire, sent, tag } = arrived;
        let server = &mut self.servers[wire.server];
        let (slow, garbled) = (server.slow, server.garbles());
        let process = &mut self.clients[wire.client];
        let link = &mut process.links[wire.node];
        let late = link.epoch != wire.epoch;
        if let Command::Take { token, .. }
        | Command::Plant { token, .. }
        | Command::Extend { token, .. } = command
        {
            // Nobody can undo a take that arrives after its connection broke.
            let transit = if late { Duration::MAX } else { self.now.since(sent) };
            let known = process.outlives.entry(token.clone()).or_default();
            *known = transit.max(*known);
        }
        if late {
            process.gone.extend(command.ticket().map(|ticket| (wire.node, ticket.waiter)));
            self.counts.late += 1;
            return;
        }
        let nonsense = || Reply::failed(Fault::Nonsense("what?".into()));
        let reply = if garbled { nonsense() } else { reply };
        let at = link.reaches_client(self.now, &self.schedule.network, slow);
        self.queue.push(at, Event::Reply { wire, sent: self.now, tag, reply });
    }

    /// What the driver of an unguarded client checks before it counts a vote: whether
    /// guarded clients use other nodes.
    fn has_another_list(&mut self, wire: Wire, command: &Command) -> Option<Cause> {
        let party = self.schedule.party(wire.client);
        let alone = self.schedule.parties.len() == 1;
        let undo = matches!(command, Command::Release { .. });
        if alone
            || party.guard != RestartGuard::Off
            || undo
            || self.slip == Some(Slip::TrustsAnyNode)
        {
            return None;
        }
        match self.servers[wire.server].carry_out(self.now, &Command::Examine) {
            Reply::Facts(facts) => facts.other_nodes(&party.agreement().at(&name_of(wire.node))),
            _ => None,
        }
    }

    /// A client learns which clients a node serves.
    pub(super) fn looked_at(&mut self, wire: Wire, tag: Tag, reply: &Reply) {
        let Reply::Facts(facts) = reply else { return };
        self.servers[wire.node].memory.answered(self.now, wire.client, tag);
        let party = self.schedule.party(wire.client);
        let (Some(guard), Some(at)) = (party.guard(), party.position(wire.node)) else { return };
        let objection = facts.objection(guard.fingerprint(at));
        let refused = facts.marker.is_some() && objection.is_some_and(|cause| cause.is_conflict());
        let reserved = facts.reserved == Some(guard.fingerprint(at));
        let process = &mut self.clients[wire.client];
        for (known, is) in [(&mut process.refused_by, refused), (&mut process.reserved, reserved)] {
            if is {
                known.insert(wire.node);
            } else {
                known.remove(&wire.node);
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Answering {
    wire: Wire,
    sent: redlatch_core::Moment,
    tag: Tag,
}
