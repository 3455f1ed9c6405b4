//! A virtual node: the oracle that the shipped nodes are like.
//!
//! In:  one command at a time, the time on the node's clock and its wall clock.
//! Out: the reply, and the keys and registers as they are then.
//!
//! Promise: small, and without any cleverness. It knows nothing of clients,
//! majorities or leases. What it gets wrong, it gets wrong on purpose: a
//! [`Flaw`] is one known mistake of a node or of its scripts.

use redlatch_core::{
    Command, Facts, FencingToken, Holder, Identity, KeyState, Moment, Proposal, Reply, Resource,
    Resources, Token, Vote, fence::registers, token::owner_of,
};
use std::{sync::Arc, time::Duration};

/// One server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// Counts its starts: its run id.
    run: u32,
    /// Sorted by name. A key that has died stays until somebody looks.
    keys: Vec<(Resource, Key)>,
    /// The fencing registers that have ever moved, sorted.
    registers: Vec<(u32, u64)>,
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
    /// Whether a refusal tells whose the key is and how long it lives on.
    pub discreet: bool,
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
}

impl Node {
    /// Carries out one command, all or nothing.
    pub fn carry_out(&mut self, clock: Clock, command: &Command, habits: Habits) -> Reply {
        self.expire(clock.now);
        let has = |flaw| habits.flaw == Some(flaw);
        let vote = match command {
            Command::Take { resources, token, ttl, fence } => {
                match (self.take(clock.now, resources, token, *ttl, habits), fence) {
                    (Vote::Granted, Some(proposal)) => self.number(clock, resources, *proposal),
                    (vote, _) => vote,
                }
            }
            Command::Raise { resources, token, to } => {
                let known = self.raise(resources, token, *to, has(Flaw::RaisesUnconditionally));
                let generous = has(Flaw::ConfirmsAtLeast) && known != Vote::Gone;
                if generous { Vote::Numbered(*to) } else { known }
            }
            Command::Extend { resources, token, ttl, fence } => {
                if has(Flaw::ExtensionRecreates) {
                    self.take(clock.now, resources, token, *ttl, habits);
                }
                if let Some(to) = fence {
                    self.raise(resources, token, *to, false);
                }
                self.extend(clock.now.after(*ttl), resources, token, has(Flaw::ExtensionShortens))
            }
            Command::Release { resources, token } => {
                self.release(resources, token, has(Flaw::ReleaseDeletesAny))
            }
            Command::Inspect { resources } => return self.inspect(clock.now, resources),
            Command::Examine => return Reply::Facts(Facts::of(self.identity())),
            _ => return Reply::Identity(self.identity()),
        };
        Reply::Vote(vote)
    }

    /// Forgets everything, as a server without a disk does when it restarts.
    pub fn restart(&mut self) {
        *self = Node { run: self.run + 1, ..Node::default() };
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

    /// How often it was started before.
    #[must_use]
    pub fn run(&self) -> u32 {
        self.run
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
            match self.registers.binary_search_by_key(&at, |(known, _)| *known) {
                Ok(place) => self.registers[place].1 = number,
                Err(place) => self.registers.insert(place, (at, number)),
            }
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
        place.map_or(0, |place| self.registers[place].1)
    }

    fn number(&mut self, clock: Clock, resources: &Resources, proposal: Proposal) -> Vote {
        let settled = proposal.settle(clock.wall, self.register(resources));
        let number = settled.expect("2^53 numbers are more than any history has grants");
        self.set_register(resources, number.get());
        Vote::Numbered(number)
    }

    fn raise(
        &mut self,
        resources: &Resources,
        token: &Token,
        to: FencingToken,
        anyway: bool,
    ) -> Vote {
        if !anyway && !self.has_all(resources, token) {
            return Vote::Gone;
        }
        let number = self.register(resources).max(to.get());
        self.set_register(resources, number);
        FencingToken::new(number).map_or(Vote::Gone, Vote::Numbered)
    }

    fn take(
        &mut self,
        now: Moment,
        resources: &Resources,
        token: &Token,
        ttl: Duration,
        habits: Habits,
    ) -> Vote {
        let found = resources.iter().find_map(|name| self.key(now, name));
        if let Some(key) = found {
            return Vote::Held(if habits.discreet { Holder::default() } else { told(now, key) });
        }
        for name in resources {
            self.set_if_absent(now, name, token.as_bytes(), ttl);
        }
        Vote::Granted
    }

    fn extend(
        &mut self,
        dies: Moment,
        resources: &Resources,
        token: &Token,
        shortens: bool,
    ) -> Vote {
        if !self.has_all(resources, token) {
            return Vote::Gone;
        }
        let wanted = |name: &Resource| resources.iter().any(|wanted| wanted == name);
        for (_, key) in self.keys.iter_mut().filter(|(name, _)| wanted(name)) {
            key.dies = if shortens { dies } else { key.dies.max(dies) };
        }
        Vote::Granted
    }

    fn release(&mut self, resources: &Resources, token: &Token, any: bool) -> Vote {
        let mut ours = 0;
        for name in resources {
            ours += usize::from(self.delete_if(name, token.as_bytes()));
            if any {
                self.keys.retain(|(known, _)| known != name);
            }
        }
        if ours == resources.count() { Vote::Granted } else { Vote::Gone }
    }

    fn inspect(&self, now: Moment, resources: &Resources) -> Reply {
        let state = |name| match self.key(now, name) {
            None => KeyState::Free,
            Some(key) => KeyState::Held {
                value: Some(key.value.clone()),
                remaining: Some(key.dies.since(now)),
            },
        };
        Reply::Keys(resources.iter().map(state).collect())
    }

    fn has_all(&self, resources: &Resources, token: &Token) -> bool {
        let ours = |name: &Resource| {
            self.keys.iter().any(|(known, key)| known == name && *key.value == *token.as_bytes())
        };
        resources.iter().all(ours)
    }

    fn identity(&self) -> Identity {
        Identity { run: format!("run {}", self.run).into(), version: "virtual 1".into() }
    }
}

fn told(now: Moment, key: &Key) -> Holder {
    Holder::new(owner_of(&key.value).map(Into::into), Some(key.dies.since(now)))
}
