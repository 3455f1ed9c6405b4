//! The known mistakes of a node, each wrapped around the correct one.

use super::{Clock, Habits, Node};
use redlatch_core::{Command, FencingToken, Moment, Reply, Resource, Ticket, Vote, line::Line};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// Raises its register even if the client no longer has the key.
    RaisesUnconditionally,
    /// Confirms a number when its register has that much or more.
    ConfirmsAtLeast,
    /// Lets an extension shorten the life of a key.
    ExtensionShortens,
    /// Creates the keys that an extension does not find.
    ExtensionRecreates,
    /// Deletes the key on a release, no matter who owns it.
    ReleaseDeletesAny,
    /// Reports its registers as they were when first examined.
    ReadsRegistersEarly,
    /// Accepts any mark on admission.
    IgnoresMark,
    /// Grants an extension without raising its register.
    ExtensionKeepsRegister,
    /// Plants a lease even though it serves another agreement.
    PlantsForAnyone,
    StaysReserved,
    /// Reserves the key for the next in line, and wakes nobody.
    ReservesSilently,
    /// Serves the last in line instead of the first.
    ServesTheLast,
    /// Grants a take although the key is reserved for somebody else.
    LetsAnyoneIn,
    /// Keeps a ticket in line though its client no longer asks.
    KeepsTheDead,
}

impl Node {
    pub(super) fn carry_out_wrong(
        &mut self,
        flaw: Flaw,
        clock: Clock,
        command: &Command,
        habits: Habits,
    ) -> Reply {
        let now = clock.now;
        let asked = self.misread(flaw, clock, command);
        let reserved = self.contents.ledger.reserved.clone();
        let first = self.hide_the_first(flaw, command);
        let mut reply = self.carry_out_right(clock, &asked, habits);
        self.put_back(first, command);
        if flaw == Flaw::ReservesSilently {
            self.wakes.clear();
        }
        match (flaw, command, &mut reply) {
            (Flaw::RaisesUnconditionally, Command::Raise { resources, to, .. }, reply)
                if *reply == Reply::Vote(Vote::Gone) =>
            {
                let number = self.register(resources).max(to.get());
                self.set_register(resources, number);
                let number = FencingToken::new(number).expect("no less than `to`");
                *reply = Reply::Vote(Vote::Numbered(number));
            }
            (
                Flaw::ConfirmsAtLeast,
                Command::Raise { to, .. },
                Reply::Vote(Vote::Numbered(number)),
            ) => *number = *to,
            (
                Flaw::ExtensionShortens,
                Command::Extend { resources, ttl, .. },
                Reply::Vote(Vote::Granted),
            ) => {
                for name in resources {
                    let key = self.contents.keys.get_mut(name).expect("it was extended");
                    key.dies = now.after(*ttl);
                }
            }
            (Flaw::ReleaseDeletesAny, Command::Release { resources, .. }, _) => {
                self.contents.keys.retain(|known, _| !resources.iter().any(|name| name == known));
            }
            (Flaw::ReadsRegistersEarly, _, Reply::Facts(facts)) => {
                let highest = self.highest();
                facts.highest = FencingToken::new(*self.told_early.get_or_insert(highest));
            }
            (Flaw::StaysReserved, Command::Admit { .. }, Reply::Vote(Vote::Granted)) => {
                self.contents.ledger.reserved = reserved;
            }
            _ => {}
        }
        reply
    }

    /// Takes all but the last out of line while a lock is released.
    fn hide_the_first(&mut self, flaw: Flaw, command: &Command) -> Vec<(Resource, Ticket)> {
        let mut hidden = Vec::new();
        if let (Flaw::ServesTheLast, Command::Release { resources, .. }) = (flaw, command) {
            for name in resources {
                let Some((line, _)) = self.contents.lines.get_mut(name) else { continue };
                while line.tickets().len() > 1
                    && let Some(ticket) = line.take_first()
                {
                    hidden.push((name.clone(), ticket));
                }
            }
        }
        hidden
    }

    fn put_back(&mut self, hidden: Vec<(Resource, Ticket)>, command: &Command) {
        let leaves = |ticket: Ticket| {
            let known = command.ticket();
            known.is_some_and(|known| known.waiter == ticket.waiter)
        };
        for (name, ticket) in hidden.into_iter().filter(|(_, ticket)| !leaves(*ticket)) {
            let line = self.contents.lines.entry(name).or_insert((Line::default(), Moment::NEVER));
            line.0.join(ticket);
        }
    }

    /// How the node misreads a command before it carries it out.
    fn misread(&mut self, flaw: Flaw, clock: Clock, command: &Command) -> Command {
        let mut asked = command.clone();
        match (flaw, &mut asked) {
            (Flaw::ExtensionRecreates, Command::Extend { resources, token, ttl, .. })
                if self.objection(clock.now, command).is_none() =>
            {
                self.take(clock.now, resources, token, *ttl);
            }
            (Flaw::LetsAnyoneIn, Command::Take { resources, .. }) => {
                self.contents.keys.retain(|name, key| {
                    let reserved = Ticket::reserved_in(&key.value).is_some();
                    !reserved || !resources.iter().any(|wanted| wanted == name)
                });
            }
            (Flaw::ExtensionKeepsRegister, Command::Extend { fence, .. }) => *fence = None,
            (Flaw::PlantsForAnyone, Command::Plant { fingerprint, .. }) => *fingerprint = None,
            (Flaw::IgnoresMark, Command::Admit { mark, .. }) => {
                *mark = Arc::from(format!("{} any 0", self.identity.run));
                self.contents.ledger.watched = Some(mark.clone());
            }
            _ => {}
        }
        asked
    }
}
