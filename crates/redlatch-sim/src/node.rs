//! A virtual node: the oracle that the shipped nodes are like.
//!
//! In:  one command at a time, the time on the node's clock and its wall clock.
//! Out: the reply, and the keys and registers as they are then.
//!
//! Promise: small, and without any cleverness. It knows nothing of clients,
//! majorities or leases. What it gets wrong, it gets wrong on purpose: a
//! [`Flaw`] is one known mistake of a node or of its scripts.

mod life;
mod votes;

use redlatch_core::{
    Command, FencingToken, KeyState, Ledger, Moment, Quarantine, Reply, Resource, Resources, Vote,
    fence::registers,
};
use std::{sync::Arc, time::Duration};

/// One server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// Sorted by name. A key that has died stays until somebody looks.
    keys: Vec<(Resource, Key)>,
    /// The fencing registers that have ever moved, sorted.
    registers: Vec<(u32, u64)>,
    /// No register is below this.
    floor: u64,
    /// What is kept for the restart guard.
    ledger: Ledger,
    /// Which server it is.
    number: usize,
    /// Counts its lives: with the number, its run id.
    run: u32,
    /// When the process that serves was started; none for before all time.
    started: Option<Moment>,
    /// It was a replica before.
    promoted: bool,
    /// It was flushed, or its databases were swapped, since it started.
    flushed: bool,
    /// The database that was swapped with the one it serves.
    hidden: Option<Box<Hidden>>,
    /// With [`Flaw::ReadsRegistersEarly`]: what it tells of its registers.
    told_early: Option<u64>,
}

/// A database that is out of sight.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Hidden {
    keys: Vec<(Resource, Key)>,
    registers: Vec<(u32, u64)>,
    floor: u64,
    ledger: Ledger,
}

/// What stands under a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The value.
    pub value: Arc<[u8]>,
    /// From then on it is no more.
    pub dies: Moment,
}

/// The time at one node when it carries out a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// By the clock that keys die by.
    pub now: Moment,
    /// By its wall clock, in microseconds since 1970.
    pub wall: u64,
}

/// How the node goes about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Habits {
    /// What it gets wrong.
    pub flaw: Option<Flaw>,
    /// Whether a refusal keeps to itself whose the key is and how long it lives.
    pub discreet: bool,
    /// Whether its wall clock stands still where fencing numbers are settled, so
    /// that its registers alone tell grants apart.
    pub stands_still: bool,
}

/// A known way to get the node's part wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// Raises its register also where the key is not the client's (any more).
    RaisesUnconditionally,
    /// Confirms a number when its register has that much or more.
    ConfirmsAtLeast,
    /// Lets an extension shorten the life of a key.
    ExtensionShortens,
    /// Creates the key that an extension does not find.
    ExtensionRecreates,
    /// Deletes the key on a release, whoever's it is.
    ReleaseDeletesAny,
    /// Tells its registers as they stood when it was first looked at.
    ReadsRegistersEarly,
    /// Does not tell that it was flushed.
    HidesFlushes,
    /// Is admitted by any mark, whichever it has.
    IgnoresMark,
    /// Grants an extension without raising its register.
    ExtensionKeepsRegister,
    /// Puts a lease back also where it serves clients of another agreement.
    PlantsForAnyone,
    /// Stays reserved when it is admitted.
    StaysReserved,
}

impl Node {
    /// Carries out one command, all or nothing.
    pub fn carry_out(&mut self, clock: Clock, command: &Command, habits: Habits) -> Reply {
        self.expire(clock.now);
        match command {
            Command::Take { .. }
            | Command::Raise { .. }
            | Command::Plant { .. }
            | Command::Extend { .. }
            | Command::Release { .. } => {
                let objection = self.objection(command, habits).map(Vote::Quarantined);
                let vote = objection.unwrap_or_else(|| self.vote(clock, command, habits));
                Reply::Vote(vote)
            }
            Command::Inspect { resources } => self.inspect(clock.now, resources),
            Command::Examine => {
                let mut facts = self.facts(clock, habits);
                self.ledger.tell(&mut facts);
                Reply::Facts(facts.into())
            }
            Command::Watch { guard, nonce, replace } => {
                let mut facts = self.facts(clock, habits);
                let before = self.ledger.watched.clone();
                self.ledger.watch(&mut facts, *guard, *nonce, *replace);
                if self.ledger.watched != before {
                    self.disown_hidden(*guard);
                }
                Reply::Facts(facts.into())
            }
            Command::Ledger => Reply::Ledger(self.ledger.clone().into()),
            Command::Admit { guard, agreement, mark, floor } => {
                Reply::Vote(self.admit(*guard, agreement, mark, *floor, habits))
            }
            _ => Reply::Identity(self.identity()),
        }
    }

    /// What it keeps for the restart guard.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Forgets the keys that have died.
    pub fn expire(&mut self, now: Moment) {
        self.keys.retain(|(_, key)| now < key.dies);
    }

    /// What stands under a name, unless it has died.
    #[must_use]
    pub fn key(&self, now: Moment, name: &Resource) -> Option<&Key> {
        let found = self.keys.iter().find(|(known, _)| known == name);
        found.map(|(_, key)| key).filter(|key| now < key.dies)
    }

    /// Every key that there is, dead ones included.
    pub fn keys(&self) -> impl Iterator<Item = (&Resource, &Key)> {
        self.keys.iter().map(|(name, key)| (name, key))
    }

    /// Where the register of these resources stands.
    #[must_use]
    pub fn register(&self, resources: &Resources) -> u64 {
        let numbers = registers(resources).into_iter().map(|at| self.register_at(at));
        numbers.max().unwrap_or(0)
    }

    /// Moves the register of these resources by hand.
    pub fn set_register(&mut self, resources: &Resources, number: u64) {
        for at in registers(resources) {
            self.set_register_at(at, number);
        }
    }

    /// Sets a key as a client without fencing does: `SET name value NX PX ttl`.
    pub fn set_if_absent(
        &mut self,
        now: Moment,
        name: &Resource,
        value: &[u8],
        ttl: Duration,
    ) -> bool {
        self.expire(now);
        let place = self.keys.binary_search_by(|(known, _)| known.cmp(name));
        let Err(place) = place else { return false };
        let key = Key { value: value.into(), dies: now.after(ttl) };
        self.keys.insert(place, (name.clone(), key));
        true
    }

    /// Deletes a key if it has that value, as every client does.
    pub fn delete_if(&mut self, name: &Resource, value: &[u8]) -> bool {
        let before = self.keys.len();
        self.keys.retain(|(known, key)| known != name || *key.value != *value);
        self.keys.len() < before
    }

    fn register_at(&self, at: u32) -> u64 {
        let place = self.registers.binary_search_by_key(&at, |(known, _)| *known);
        place.map_or(0, |place| self.registers[place].1).max(self.floor)
    }

    fn set_register_at(&mut self, at: u32, number: u64) {
        match self.registers.binary_search_by_key(&at, |(known, _)| *known) {
            Ok(place) => self.registers[place].1 = number,
            Err(place) => self.registers.insert(place, (at, number)),
        }
    }

    fn inspect(&self, now: Moment, resources: &Resources) -> Reply {
        let state = |name: &Resource| match self.key(now, name) {
            None => KeyState::Free,
            Some(key) => KeyState::Held {
                value: Some(key.value.clone()),
                remaining: Some(key.dies.since(now)),
                number: FencingToken::new(self.register(&name.clone().into())),
            },
        };
        Reply::Keys(resources.iter().map(state).collect())
    }

    /// Why it does not do what it is asked.
    fn objection(&self, command: &Command, habits: Habits) -> Option<Quarantine> {
        let run = self.identity().run;
        match command {
            Command::Take { guard, .. } | Command::Raise { guard, .. } => {
                self.ledger.objection(&run, (*guard)?)
            }
            Command::Plant { .. } if habits.flaw == Some(Flaw::PlantsForAnyone) => None,
            Command::Plant { guard, .. } => self.ledger.refusal(&run, (*guard)?),
            Command::Extend { guard, resources, token, .. } => {
                let guard = (*guard)?;
                if self.has_all(resources, token) {
                    self.ledger.refusal(&run, guard)
                } else {
                    self.ledger.objection(&run, guard)
                }
            }
            _ => None,
        }
    }
}
