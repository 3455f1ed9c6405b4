//! A node in memory: carries out one command at a time, all or nothing.

use core::time::Duration;
use redlatch_core::{
    Command, Facts, FencingToken, Fingerprint, Holder, Identity, KeyState, Ledger, Moment,
    Proposal, Quarantine, Reply, Resource, Resources, Token, Vote,
    fence::{register, registers},
};
use std::{collections::BTreeMap, sync::Arc};

#[derive(Debug, Clone, Default, Hash)]
pub(crate) struct Node {
    keys: BTreeMap<Resource, Key>,
    /// The fencing registers that have ever moved.
    registers: BTreeMap<u32, u64>,
    /// What is kept for the restart guard.
    pub(crate) ledger: Ledger,
    /// Which server it is.
    number: usize,
    /// How often it has been started, and when.
    pub(crate) run: u32,
    pub(crate) started: Option<Moment>,
    /// It was a replica once.
    pub(crate) promoted: bool,
    /// It was flushed in this life.
    pub(crate) flushed: bool,
    /// No register is below this.
    floor: u64,
}

#[derive(Debug, Clone, Hash)]
struct Key {
    value: Vec<u8>,
    dies: Moment,
}

impl Node {
    pub(crate) fn server(number: usize) -> Self {
        Node { number, ..Node::default() }
    }

    pub(crate) fn carry_out(&mut self, now: Moment, command: &Command) -> Reply {
        self.keys.retain(|_, key| now < key.dies);
        if let Some(objection) = self.objection(command) {
            return Reply::Vote(Vote::Quarantined(objection));
        }
        let vote = match command {
            Command::Take { resources, token, ttl, fence, .. } => {
                match (self.take(now, resources, token, *ttl), fence) {
                    (Vote::Granted, Some(proposal)) => self.number(now, resources, *proposal),
                    (vote, _) => vote,
                }
            }
            Command::Raise { resources, token, to, .. } => self.raise(resources, token, *to),
            Command::Extend { resources, token, ttl, fence, .. } => {
                if let Some(to) = fence {
                    self.raise(resources, token, *to);
                }
                self.extend(now, resources, token, *ttl)
            }
            Command::Plant { resources, token, ttl, .. } => self.take(now, resources, token, *ttl),
            Command::Release { resources, token } => self.release(resources, token),
            Command::Examine => {
                let mut facts = self.facts(now);
                self.ledger.tell(&mut facts);
                return Reply::Facts(facts.into());
            }
            Command::Inspect { resources } => return self.inspect(now, resources),
            Command::Watch { guard, nonce, replace } => {
                let mut facts = self.facts(now);
                self.ledger.watch(&mut facts, *guard, *nonce, *replace);
                return Reply::Facts(facts.into());
            }
            Command::Ledger => return Reply::Ledger(self.ledger.clone().into()),
            Command::Admit { guard, agreement, mark, floor } => {
                self.admit(*guard, agreement, mark, *floor)
            }
            _ => return Reply::Identity(self.identity()),
        };
        Reply::Vote(vote)
    }

    /// What it keeps for the restart guard.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Forgets everything, as a server does that is flushed.
    pub(crate) fn flush(&mut self) {
        self.keys.clear();
        self.registers.clear();
        self.ledger = Ledger::default();
        (self.floor, self.flushed) = (0, true);
    }

    /// The same, as a server without a disk does when it restarts.
    pub(crate) fn forget(&mut self, now: Moment) {
        self.flush();
        self.restart(now);
    }

    /// Restarts with all that it had.
    pub(crate) fn restart(&mut self, now: Moment) {
        self.run += 1;
        self.flushed = false;
        self.started = Some(now);
    }

    fn objection(&self, command: &Command) -> Option<Quarantine> {
        let run = self.identity().run;
        match command {
            Command::Take { guard, .. } | Command::Raise { guard, .. } => {
                self.ledger.objection(&run, (*guard)?)
            }
            Command::Plant { guard, .. } => self.ledger.refusal(&run, (*guard)?),
            Command::Extend { guard, resources, token, .. } => {
                let ours = resources.iter().all(|name| self.has(name, token));
                let guard = (*guard)?;
                if ours {
                    self.ledger.refusal(&run, guard)
                } else {
                    self.ledger.objection(&run, guard)
                }
            }
            _ => None,
        }
    }

    fn identity(&self) -> Identity {
        Identity {
            run: format!("run-{}-{}", self.number, self.run).into(),
            version: "memory 1".into(),
        }
    }

    fn facts(&self, now: Moment) -> Facts {
        let clock = Duration::from_nanos(now.as_nanos());
        let started = self.started.unwrap_or(Moment::START);
        let uptime = Some(now.since(started));
        let promoted = self.promoted;
        let highest = self.registers.values().copied().max().unwrap_or(0).max(self.floor);
        Facts {
            clock: Some(clock),
            uptime,
            promoted,
            intact: !self.flushed,
            highest: FencingToken::new(highest),
            ..Facts::of(self.identity())
        }
    }

    fn admit(
        &mut self,
        guard: Fingerprint,
        agreement: &Arc<str>,
        mark: &str,
        floor: Option<FencingToken>,
    ) -> Vote {
        if !self.ledger.admit(&self.identity().run, guard, agreement, mark) {
            return Vote::Gone;
        }
        self.floor = self.floor.max(floor.map_or(0, FencingToken::get));
        Vote::Granted
    }

    /// Where the register of these resources stands.
    pub(crate) fn register(&self, resources: &Resources) -> u64 {
        let numbers = registers(resources).into_iter().filter_map(|at| self.registers.get(&at));
        numbers.copied().max().unwrap_or(0).max(self.floor)
    }

    /// Moves the register of these resources by hand.
    pub(crate) fn set_register(&mut self, resources: &Resources, number: u64) {
        for at in registers(resources) {
            self.registers.insert(at, number);
        }
    }

    fn number(&mut self, now: Moment, resources: &Resources, proposal: Proposal) -> Vote {
        let clock = now.as_nanos() / 1000; // right, as far as wall clocks go here
        let settled = proposal.settle(clock, self.register(resources));
        let number = settled.expect("a number is left");
        self.set_register(resources, number.get());
        Vote::Numbered(number)
    }

    fn raise(&mut self, resources: &Resources, token: &Token, to: FencingToken) -> Vote {
        if !resources.iter().all(|name| self.has(name, token)) {
            return Vote::Gone;
        }
        let number = self.register(resources).max(to.get());
        self.set_register(resources, number);
        Vote::Numbered(FencingToken::new(number).expect("a number"))
    }

    /// Gives the lock to somebody the machines know nothing of.
    pub(crate) fn occupy(&mut self, resources: &Resources, dies: Moment) {
        let value = b"a stranger".to_vec();
        for resource in resources {
            let value = value.clone();
            self.keys.insert(resource.clone(), Key { value, dies });
        }
    }

    /// What stands under the key, if it has not died.
    pub(crate) fn value(&self, now: Moment, resource: &Resource) -> Option<&[u8]> {
        let key = self.keys.get(resource).filter(|key| now < key.dies)?;
        Some(&key.value)
    }

    pub(crate) fn dies(&self, resource: &Resource) -> Option<Moment> {
        Some(self.keys.get(resource)?.dies)
    }

    fn take(&mut self, now: Moment, resources: &Resources, token: &Token, ttl: Duration) -> Vote {
        let found = resources.iter().find_map(|name| self.keys.get(name));
        if let Some(key) = found {
            return Vote::Held(Holder::new(None, Some(key.dies.since(now))));
        }
        for resource in resources {
            let value = token.as_bytes().to_vec();
            let dies = now.after(ttl);
            self.keys.insert(resource.clone(), Key { value, dies });
        }
        Vote::Granted
    }

    fn extend(&mut self, now: Moment, resources: &Resources, token: &Token, ttl: Duration) -> Vote {
        if !resources.iter().all(|name| self.has(name, token)) {
            return Vote::Gone;
        }
        for resource in resources {
            if let Some(key) = self.keys.get_mut(resource) {
                key.dies = key.dies.max(now.after(ttl));
            }
        }
        Vote::Granted
    }

    fn release(&mut self, resources: &Resources, token: &Token) -> Vote {
        let ours = resources.iter().filter(|name| self.has(name, token));
        let ours: Vec<Resource> = ours.cloned().collect();
        for resource in &ours {
            self.keys.remove(resource);
        }
        if ours.len() == resources.count() { Vote::Granted } else { Vote::Gone }
    }

    fn inspect(&self, now: Moment, resources: &Resources) -> Reply {
        let states = resources.iter().map(|name| match self.keys.get(name) {
            None => KeyState::Free,
            Some(key) => KeyState::Held {
                value: Some(key.value.as_slice().into()),
                remaining: Some(key.dies.since(now)),
                number: self.registers.get(&register(name)).and_then(|is| FencingToken::new(*is)),
            },
        });
        Reply::Keys(states.collect())
    }

    fn has(&self, resource: &Resource, token: &Token) -> bool {
        let key = self.keys.get(resource);
        key.is_some_and(|key| key.value == token.as_bytes())
    }
}
