//! What a node in memory knows and does: keys, registers, the guard's ledger.

use crate::clock::{Clock, wall_micros};
use redlatch_core::{
    Command, Facts, Fault, FencingToken, HeldKey, Holder, Identity, KeyState, Ledger, Moment, Page,
    Proposal, Quarantine, Reply, Resource, Resources, Steady, Token, Vote,
    fence::{register, registers},
    glob,
    token::owner_of,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
    time::Duration,
};

/// What all links of a node share.
#[derive(Debug)]
pub(super) struct Server {
    keys: BTreeMap<Resource, Key>,
    /// The fencing registers that have ever moved.
    registers: BTreeMap<u32, u64>,
    /// No register counts from below this.
    floor: u64,
    /// It was flushed in this run.
    flushed: bool,
    /// What is kept for the restart guard.
    ledger: Ledger,
    /// At how many keys the expired ones are looked for and dropped.
    sweep_at: usize,
    run: Arc<str>,
    /// When that run began, on either clock; none for the first, before which
    /// there was nothing that it could have forgotten.
    restarted: Option<[(Clock, Steady); 2]>,
    pub(super) paused: bool,
    pub(super) failing: bool,
    pub(super) delay: Duration,
    /// Links with something to do, but not now.
    pub(super) waiting: Vec<Waker>,
}

#[derive(Debug)]
struct Key {
    token: Token,
    deadline: Moment,
    /// Whose moment the deadline is.
    clock: Clock,
}

impl Key {
    /// How long the key lives on; none once it has expired.
    fn remaining(&self) -> Option<Duration> {
        let remaining = self.deadline.since(self.clock.now());
        (!remaining.is_zero()).then_some(remaining)
    }
}

/// How long a node has been up that has been there from the start.
pub(super) const AGES: Duration = Duration::from_secs(u32::MAX as u64);

/// Below this it is not worth looking for expired keys.
pub(super) const FEW: usize = 64;

impl Server {
    pub(super) fn new() -> Self {
        Server {
            keys: BTreeMap::new(),
            registers: BTreeMap::new(),
            floor: 0,
            flushed: false,
            ledger: Ledger::default(),
            sweep_at: FEW,
            run: fresh_run(),
            restarted: None,
            paused: false,
            failing: false,
            delay: Duration::ZERO,
            waiting: Vec::new(),
        }
    }

    /// Loses all it knew, and is another one.
    pub(super) fn restart(&mut self) {
        self.flush();
        self.run = fresh_run();
        self.flushed = false;
        self.restarted = Some([Clock::System, Clock::Tokio].map(|at| (at, at.steady())));
    }

    /// Loses one key. Says whether it was there.
    pub(super) fn remove(&mut self, resource: &Resource) -> bool {
        self.keys.remove(resource).is_some_and(|key| key.remaining().is_some())
    }

    /// The names of all keys that have not expired, sorted.
    pub(super) fn names(&self) -> Vec<Resource> {
        let live = self.keys.iter().filter(|(_, key)| key.remaining().is_some());
        live.map(|(resource, _)| resource.clone()).collect()
    }

    /// How many keys take up room, expired ones included.
    #[cfg(test)]
    pub(super) fn stored(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn wake_on_change(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|known| known.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    pub(super) fn execute(&mut self, clock: Clock, command: &Command) -> Reply {
        if self.failing {
            return Reply::failed(Fault::Unreachable("it was told to fail".into()));
        }
        if let Some(objection) = self.objection(command) {
            return Reply::Vote(Vote::Quarantined(objection));
        }
        match command {
            Command::Take { resources, token, ttl, fence, .. } => {
                let deadline = clock.now().after(*ttl);
                self.numbered(resources, *fence, |server| {
                    server.take(resources, token, clock, deadline)
                })
            }
            Command::Plant { resources, token, ttl, .. } => {
                let deadline = clock.now().after(*ttl);
                Reply::Vote(self.take(resources, token, clock, deadline))
            }
            Command::Raise { resources, token, to, .. } => {
                Reply::Vote(self.raise(resources, token, *to))
            }
            Command::Extend { resources, token, ttl, fence, .. } => {
                let deadline = clock.now().after(*ttl);
                let vote = self.extend(resources, token, clock, deadline);
                if let (Vote::Granted, Some(to)) = (&vote, fence) {
                    self.raise(resources, token, *to);
                }
                Reply::Vote(vote)
            }
            Command::Release { resources, token } => Reply::Vote(self.release(resources, token)),
            Command::Inspect { resources } => {
                Reply::Keys(resources.iter().map(|resource| self.state(resource)).collect())
            }
            Command::Identify => Reply::Identity(self.identity()),
            Command::List { pattern, .. } => Reply::Page(self.list(pattern)),
            Command::Examine => {
                let mut facts = self.facts(clock);
                self.ledger.tell(&mut facts);
                Reply::Facts(facts.into())
            }
            Command::Watch { guard, nonce, replace } => {
                let mut facts = self.facts(clock);
                self.ledger.watch(&mut facts, *guard, *nonce, *replace);
                Reply::Facts(facts.into())
            }
            Command::Admit { guard, agreement, mark, floor } => {
                if !self.ledger.admit(&self.run, *guard, agreement, mark) {
                    return Reply::Vote(Vote::Gone);
                }
                self.floor = self.floor.max(floor.map_or(0, FencingToken::get));
                Reply::Vote(Vote::Granted)
            }
            _ => Reply::failed(Fault::Unfit("it does not know this command".into())),
        }
    }

    /// Why the node may not vote on this.
    fn objection(&self, command: &Command) -> Option<Quarantine> {
        let keeps = match command {
            Command::Take { .. } | Command::Raise { .. } => false,
            Command::Plant { .. } => true,
            Command::Extend { resources, token, .. } => self.are_ours(resources, token),
            _ => return None,
        };
        let guard = command.guard()?;
        if keeps {
            self.ledger.refusal(&self.run, guard)
        } else {
            self.ledger.objection(&self.run, guard)
        }
    }

    pub(super) fn flush(&mut self) {
        self.keys.clear();
        self.registers.clear();
        self.ledger = Ledger::default();
        (self.floor, self.flushed) = (0, true);
    }

    fn take(
        &mut self,
        resources: &Resources,
        token: &Token,
        clock: Clock,
        deadline: Moment,
    ) -> Vote {
        let held = resources.iter().filter_map(|resource| self.live(resource));
        if let Some((key, remaining)) = held.max_by_key(|(_, remaining)| *remaining) {
            let owner = owner_of(key.token.as_bytes()).map(Arc::from);
            return Vote::Held(Holder::new(owner, Some(remaining)));
        }
        for resource in resources {
            let key = Key { token: token.clone(), deadline, clock };
            self.keys.insert(resource.clone(), key);
        }
        if self.keys.len() >= self.sweep_at {
            self.keys.retain(|_, key| key.remaining().is_some());
            self.sweep_at = FEW.max(2 * self.keys.len());
        }
        Vote::Granted
    }

    /// Gives a grant its number, where one is wanted; refuses it where none is
    /// left.
    fn numbered(
        &mut self,
        resources: &Resources,
        proposal: Option<Proposal>,
        take: impl FnOnce(&mut Self) -> Vote,
    ) -> Reply {
        let Some(proposal) = proposal else {
            return Reply::Vote(take(self));
        };
        let Some(number) = proposal.settle(wall_micros(), self.greatest(resources)) else {
            return Reply::failed(Fault::Refused("no fencing number is left".into()));
        };
        let vote = take(self);
        if vote != Vote::Granted {
            return Reply::Vote(vote);
        }
        self.move_registers(resources, number);
        Reply::Vote(Vote::Numbered(number))
    }

    fn raise(&mut self, resources: &Resources, token: &Token, to: FencingToken) -> Vote {
        if !self.are_ours(resources, token) {
            return Vote::Gone;
        }
        let number = FencingToken::new(self.greatest(resources)).map_or(to, |is| is.max(to));
        self.move_registers(resources, number);
        Vote::Numbered(number)
    }

    fn greatest(&self, resources: &Resources) -> u64 {
        let moved = registers(resources).into_iter().filter_map(|at| self.registers.get(&at));
        moved.copied().max().unwrap_or(0).max(self.floor)
    }

    fn move_registers(&mut self, resources: &Resources, number: FencingToken) {
        for register in registers(resources) {
            self.registers.insert(register, number.get());
        }
    }

    /// The greatest number that was ever given here.
    fn highest(&self) -> Option<FencingToken> {
        let highest = self.registers.values().copied().max().unwrap_or(0);
        FencingToken::new(highest.max(self.floor))
    }

    fn extend(
        &mut self,
        resources: &Resources,
        token: &Token,
        clock: Clock,
        deadline: Moment,
    ) -> Vote {
        if !self.are_ours(resources, token) {
            return Vote::Gone;
        }
        for resource in resources {
            if let Some(key) = self.keys.get_mut(resource)
                && key.deadline < deadline
            {
                (key.deadline, key.clock) = (deadline, clock);
            }
        }
        Vote::Granted
    }

    pub(super) fn release(&mut self, resources: &Resources, token: &Token) -> Vote {
        let mut released = 0;
        for resource in resources {
            if self.is_ours(resource, token) {
                self.keys.remove(resource);
                released += 1;
            }
        }
        if released == resources.count() { Vote::Granted } else { Vote::Gone }
    }

    fn identity(&self) -> Identity {
        Identity {
            run: Arc::clone(&self.run),
            version: concat!("memory ", env!("CARGO_PKG_VERSION")).into(),
        }
    }

    fn facts(&self, clock: Clock) -> Facts {
        let began = self.restarted.iter().flatten().find(|(other, _)| *other == clock);
        let uptime = began.map_or(AGES, |(_, began)| clock.steady().since(*began));
        let (clock, uptime) = (Some(clock.wall()), Some(uptime));
        let (intact, highest) = (!self.flushed, self.highest());
        Facts { clock, uptime, intact, highest, ..Facts::of(self.identity()) }
    }

    fn list(&self, pattern: &[u8]) -> Page {
        let like = |name: &&Resource| glob::matches(pattern, name.as_bytes());
        let locks = self.keys.keys().filter(like).filter_map(|name| {
            let (key, remaining) = self.live(name)?;
            let value = key.token.as_bytes().into();
            Some(HeldKey { name: name.clone(), value, remaining: Some(remaining) })
        });
        Page { locks: locks.collect(), next: None }
    }

    fn state(&self, resource: &Resource) -> KeyState {
        match self.live(resource) {
            None => KeyState::Free,
            Some((key, remaining)) => KeyState::Held {
                value: Some(key.token.as_bytes().into()),
                remaining: Some(remaining),
                number: self
                    .registers
                    .get(&register(resource))
                    .and_then(|is| FencingToken::new(*is)),
            },
        }
    }

    fn are_ours(&self, resources: &Resources, token: &Token) -> bool {
        resources.iter().all(|resource| self.is_ours(resource, token))
    }

    fn is_ours(&self, resource: &Resource, token: &Token) -> bool {
        self.live(resource).is_some_and(|(key, _)| key.token == *token)
    }

    fn live(&self, resource: &Resource) -> Option<(&Key, Duration)> {
        let key = self.keys.get(resource)?;
        Some((key, key.remaining()?))
    }
}

/// Different for every node of the process, and for every restart of one.
fn fresh_run() -> Arc<str> {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    format!("memory-{}", RUNS.fetch_add(1, Ordering::Relaxed)).into()
}
