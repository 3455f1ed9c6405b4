//! An in-memory node that does what [`Command`] says, as simply as possible.
//!
//! In:  one command at a time, and the time at the node ([`Reading`]).
//! Out: the reply.
//!
//! Promise: no cleverness, no clock, no I/O. The library's memory node is one of
//! these, and so are the nodes of the simulator and of the core's tests. The
//! conformance suite checks it by the same rules as Redis. If you write your own
//! kind of node, compare it with this one.
//!
//! Needs: nothing. The fields are public, so that tests can inspect a node, and break it on
//! purpose.

use crate::{
    command::{Command, Facts, HeldKey, Identity, KeyState, Page, Reply},
    fence::{FencingToken, Proposal, register, registers},
    glob,
    ledger::Ledger,
    line::{
        Hears, LINE_LIFE, Line, LineState, MOST_TOLD, Place, TICKET_LIFE, Then, Ticket,
        UNHEARD_LIFE, Waiter, Waiting, Wake,
    },
    moment::Moment,
    quarantine::Quarantine,
    resource::{Resource, Resources},
    token::{Token, owner_of, signature_of},
    vote::{Fault, Holder, Vote},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use core::{convert::Infallible, fmt, time::Duration};

/// A point in time at which keys expire: a [`Moment`], unless a node serves links
/// with different clocks.
pub trait Deadline: Copy {
    /// Returns the point `ttl` later.
    #[must_use]
    fn after(self, ttl: Duration) -> Self;

    /// Returns the time left until this point; zero once it has passed.
    fn left(self, now: Self) -> Duration;
}

impl Deadline for Moment {
    fn after(self, ttl: Duration) -> Self {
        Moment::after(self, ttl)
    }

    fn left(self, now: Self) -> Duration {
        self.since(now)
    }
}

/// What a node's clocks show while it executes a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading<T = Moment> {
    /// The clock by which keys expire.
    pub now: T,
    /// The wall clock, as time since 1970.
    pub wall: Duration,
    /// How long the node has been up, if it reports that.
    pub uptime: Option<Duration>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReferenceNode<T = Moment> {
    /// Its identity, in its current run.
    pub identity: Identity,
    /// Whether it was a replica before.
    pub promoted: bool,
    /// Whether it has been flushed in its current run.
    pub flushed: bool,
    /// Everything it stores.
    pub contents: Contents<T>,
    /// The clients to wake. The driver of the node wakes them, and clears the list.
    pub wakes: Vec<Wake>,
    /// The clients that can be woken. Tickets of others are skipped, and from then on count
    /// for at most [`UNHEARD_LIFE`]. `None` if every client can be woken.
    pub listening: Option<BTreeSet<u64>>,
    /// Who waits, and until when each ticket counts. `None` if tickets last as long as
    /// their line and nobody will ask whose they are: this is for worlds in which hardly
    /// any time passes, where equal nodes would otherwise differ.
    pub waiters: Option<BTreeMap<Waiter, Presence<T>>>,
}

/// What a node knows about a client that waits in line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Presence<T = Moment> {
    /// The owner's text in the token of its last take.
    pub owner: Option<Arc<str>>,
    /// When its ticket no longer counts, unless it asks again.
    pub dies: T,
}

/// Everything a node stores.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Contents<T = Moment> {
    /// The keys. Expired ones stay until a call to [`expire`](ReferenceNode::expire).
    pub keys: BTreeMap<Resource, Key<T>>,
    /// The fencing registers that have ever moved.
    pub registers: BTreeMap<u32, u64>,
    /// No register counts as lower than this.
    pub floor: u64,
    /// The lines of waiters, by key, and how long each is kept.
    pub lines: BTreeMap<Resource, (Line, T)>,
    /// Its ledger for the restart guard.
    pub ledger: Ledger,
}

impl<T> Default for Contents<T> {
    fn default() -> Self {
        Contents {
            keys: BTreeMap::new(),
            registers: BTreeMap::new(),
            floor: 0,
            lines: BTreeMap::new(),
            ledger: Ledger::default(),
        }
    }
}

/// One key's value and expiry. Anyone who knows the value can release the lock,
/// so `Debug` shows only the owner.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key<T = Moment> {
    /// The value: a lock token, or whatever another library uses.
    pub value: Arc<[u8]>,
    /// When it expires.
    pub dies: T,
}

impl<T: fmt::Debug> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = owner_of(&self.value).unwrap_or_default();
        write!(f, "Key(…@{owner} until {:?})", self.dies)
    }
}

impl<T: Deadline> ReferenceNode<T> {
    /// Creates an empty node.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        ReferenceNode {
            identity,
            promoted: false,
            flushed: false,
            contents: Contents::default(),
            wakes: Vec::new(),
            listening: None,
            waiters: None,
        }
    }

    /// Executes one command atomically.
    pub fn carry_out(&mut self, at: Reading<T>, command: &Command) -> Reply {
        if let Some(objection) = self.objection(at.now, command) {
            return Reply::Vote(Vote::Quarantined(objection));
        }
        match command {
            Command::Take { resources, token, ttl, fence, place, .. } => {
                self.take_in_line(at, resources, token, *ttl, *fence, *place)
            }
            Command::Plant { resources, token, ttl, ticket, .. } => {
                self.make_room(at.now, resources, ticket.as_ref(), false);
                Reply::Vote(self.take(at.now, resources, token, *ttl))
            }
            Command::Raise { resources, token, to, .. } => {
                Reply::Vote(self.raise(at.now, resources, token, *to))
            }
            Command::Extend { resources, token, ttl, fence, .. } => {
                Reply::Vote(self.extend(at.now, resources, token, *ttl, *fence))
            }
            Command::Release { resources, token, then } => {
                Reply::Vote(self.release(at, resources, token, *then))
            }
            Command::Inspect { resources } => {
                Reply::Keys(resources.iter().map(|name| self.state(at.now, name)).collect())
            }
            Command::Line { resource } => Reply::Line(self.line_state(at.now, resource)),
            Command::Identify => Reply::Identity(self.identity.clone()),
            Command::List { pattern, .. } => Reply::Page(self.list(at.now, pattern)),
            // No other library uses this kind of node.
            Command::Others { .. } => Reply::Page(Page::default()),
            Command::Examine => {
                let mut facts = self.facts(at);
                self.contents.ledger.tell(&mut facts);
                Reply::Facts(facts.into())
            }
            Command::Watch { fingerprint, nonce, replace } => {
                let mut facts = self.facts(at);
                self.contents.ledger.watch(&mut facts, *fingerprint, *nonce, *replace);
                Reply::Facts(facts.into())
            }
            Command::Ledger => Reply::Ledger(self.contents.ledger.clone().into()),
            Command::Admit { fingerprint, agreement, mark, floor } => {
                let run = &self.identity.run;
                if !self.contents.ledger.admit(run, *fingerprint, agreement, mark) {
                    return Reply::Vote(Vote::Gone);
                }
                self.raise_floor(*floor);
                Reply::Vote(Vote::Granted)
            }
        }
    }

    /// Loses everything it stores, but keeps running: `FLUSHALL`.
    pub fn flush(&mut self) {
        self.contents = Contents::default();
        self.waiters = self.waiters.take().map(|_| BTreeMap::new());
        self.flushed = true;
    }

    /// Restarts without losing anything.
    pub fn restart(&mut self, run: Arc<str>) {
        self.identity.run = run;
        self.flushed = false;
    }

    /// Drops expired keys. The node's answers do not change.
    pub fn expire(&mut self, now: T) {
        self.contents.keys.retain(|_, key| !key.dies.left(now).is_zero());
        let lines = &mut self.contents.lines;
        lines.retain(|_, (line, dies)| !line.is_empty() && !dies.left(now).is_zero());
        let in_line = || lines.values().flat_map(|(line, _)| line.tickets());
        if let Some(waiters) = &mut self.waiters
            && waiters.len() > lines.values().map(|(line, _)| line.tickets().len()).sum()
        {
            let known: BTreeSet<_> = in_line().map(|ticket| ticket.waiter).collect();
            waiters.retain(|waiter, _| known.contains(waiter));
        }
    }

    /// Returns the key with this name, unless it has expired.
    pub fn key(&self, now: T, name: &Resource) -> Option<&Key<T>> {
        self.contents.keys.get(name).filter(|key| !key.dies.left(now).is_zero())
    }

    /// Returns whether every key holds the token.
    pub fn has_all(&self, now: T, resources: &Resources, token: &Token) -> bool {
        resources.iter().all(|name| self.has(now, name, token))
    }

    /// Returns the highest number in the registers of these resources.
    #[must_use]
    pub fn register(&self, resources: &Resources) -> u64 {
        let Contents { registers: moved, floor, .. } = &self.contents;
        let numbers = registers(resources).into_iter().filter_map(|at| moved.get(&at));
        numbers.copied().max().unwrap_or(0).max(*floor)
    }

    /// Sets the registers of these resources.
    pub fn set_register(&mut self, resources: &Resources, number: u64) {
        for at in registers(resources) {
            self.contents.registers.insert(at, number);
        }
    }

    /// Raises the floor of every register; never lowers it.
    pub fn raise_floor(&mut self, floor: Option<FencingToken>) {
        self.contents.floor = self.contents.floor.max(floor.map_or(0, FencingToken::get));
    }

    /// Returns the highest number that this node has given, or its floor.
    #[must_use]
    pub fn highest(&self) -> u64 {
        let Contents { registers, floor, .. } = &self.contents;
        registers.values().copied().max().unwrap_or(0).max(*floor)
    }

    /// Sets every key, if none of them exists.
    pub fn take(&mut self, now: T, resources: &Resources, token: &Token, ttl: Duration) -> Vote {
        if let Some(key) = resources.iter().find_map(|name| self.key(now, name)) {
            return Vote::Held(Holder::of_value(&key.value, Some(key.dies.left(now))));
        }
        for name in resources {
            let key = Key { value: token.to_shared(), dies: now.after(ttl) };
            self.contents.keys.insert(name.clone(), key);
        }
        Vote::Granted
    }

    /// Takes the lock, or joins the line.
    fn take_in_line(
        &mut self,
        at: Reading<T>,
        resources: &Resources,
        token: &Token,
        ttl: Duration,
        fence: Option<Proposal>,
        place: Option<Place>,
    ) -> Reply {
        let ticket = place.map(|place| place.ticket.at_node(micros(at.wall)));
        self.make_room(at.now, resources, ticket.as_ref(), true);
        let reply = match fence {
            Some(proposal) => self.take_fenced(at, resources, token, ttl, proposal),
            None => Reply::Vote(self.take(at.now, resources, token, ttl)),
        };
        match (reply, place, ticket) {
            (Reply::Vote(Vote::Held(holder)), _, Some(ticket)) => {
                let held = resources.iter().find(|name| self.key(at.now, name).is_some());
                // A take that the network repeats is refused because of its own key.
                let held = held.filter(|name| !self.has(at.now, name, token));
                let held = held.cloned();
                let owner = signature_of(token.as_bytes());
                let ahead = held.map(|name| self.join(at.now, &name, ticket, owner));
                Reply::Vote(Vote::Held(holder.with_ahead(ahead)))
            }
            (reply, Some(Place { known: true, ticket }), _) => {
                for name in resources {
                    self.leave(at.now, name, ticket.waiter);
                }
                self.forget_empty_lines();
                reply
            }
            (reply, ..) => reply,
        }
    }

    /// Deletes reservations that do not stop this ticket, if no other key does: its own,
    /// and with `overtakes` those of later tickets, which go back into line.
    fn make_room(
        &mut self,
        now: T,
        resources: &Resources,
        ticket: Option<&Ticket>,
        overtakes: bool,
    ) {
        let Some(ticket) = ticket else { return };
        let mut ours = Vec::new();
        for name in resources {
            let Some(key) = self.key(now, name) else { continue };
            match Waiting::reserved_in(&key.value) {
                Some(other) if other.ticket.waiter == ticket.waiter => ours.push((name, None)),
                Some(later) if overtakes && later.ticket > *ticket => {
                    ours.push((name, Some(later)));
                }
                _ => return,
            }
        }
        for (name, later) in ours {
            self.contents.keys.remove(name);
            if let Some(Waiting { ticket, owner }) = later {
                self.join(now, name, ticket, owner.as_deref());
            }
        }
    }

    /// Joins the line for a key. Returns how many are ahead.
    fn join(&mut self, now: T, name: &Resource, ticket: Ticket, owner: Option<&str>) -> usize {
        let Some(mut waiters) = self.waiters.take() else {
            return self.line(now, name).join(ticket);
        };
        let known = Presence { owner: owner.map(Arc::from), dies: now.after(TICKET_LIFE) };
        waiters.insert(ticket.waiter, known);
        let is_alive = |waiter| Ok::<_, Infallible>(is_present(&waiters, now, waiter));
        let Ok(ahead) = self.line(now, name).join_the_living(ticket, is_alive);
        self.waiters = Some(waiters);
        ahead
    }

    /// Leaves the line for a key.
    fn leave(&mut self, now: T, name: &Resource, waiter: Waiter) {
        if self.line(now, name).leave(waiter) {
            self.forget(waiter);
        }
    }

    /// Forgets a waiter. Returns what was known about it.
    fn forget(&mut self, waiter: Waiter) -> Option<Presence<T>> {
        self.waiters.as_mut()?.remove(&waiter)
    }

    /// Returns whether the ticket of this waiter counts.
    fn counts(&self, now: T, waiter: Waiter) -> bool {
        self.waiters.as_ref().is_none_or(|waiters| is_present(waiters, now, waiter))
    }

    /// Returns the line for a key, and keeps it for a while longer.
    fn line(&mut self, now: T, name: &Resource) -> &mut Line {
        let dies = now.after(LINE_LIFE);
        let line = self.contents.lines.entry(name.clone()).or_insert((Line::default(), dies));
        if line.1.left(now).is_zero() {
            line.0 = Line::default();
        }
        line.1 = dies;
        &mut line.0
    }

    fn take_fenced(
        &mut self,
        at: Reading<T>,
        resources: &Resources,
        token: &Token,
        ttl: Duration,
        proposal: Proposal,
    ) -> Reply {
        let Some(number) = proposal.settle(micros(at.wall), self.register(resources)) else {
            return Reply::failed(Fault::Refused("no fencing number is left".into()));
        };
        let vote = self.take(at.now, resources, token, ttl);
        if vote != Vote::Granted {
            return Reply::Vote(vote);
        }
        self.set_register(resources, number.get());
        Reply::Vote(Vote::Numbered(number))
    }

    fn raise(&mut self, now: T, resources: &Resources, token: &Token, to: FencingToken) -> Vote {
        if !self.has_all(now, resources, token) {
            return Vote::Gone;
        }
        let number = FencingToken::new(self.register(resources)).map_or(to, |is| is.max(to));
        self.set_register(resources, number.get());
        Vote::Numbered(number)
    }

    fn extend(
        &mut self,
        now: T,
        resources: &Resources,
        token: &Token,
        ttl: Duration,
        fence: Option<FencingToken>,
    ) -> Vote {
        if !self.has_all(now, resources, token) {
            return Vote::Gone;
        }
        for name in resources {
            if let Some(key) = self.contents.keys.get_mut(name)
                && key.dies.left(now) < ttl
            {
                key.dies = now.after(ttl);
            }
        }
        // Only registers that are behind move, each by itself.
        if let Some(to) = fence {
            for at in registers(resources) {
                let is = self.contents.registers.entry(at).or_default();
                *is = to.get().max(*is);
            }
        }
        Vote::Granted
    }

    /// Deletes each key that holds the token, or reserves it for the next in line.
    pub fn release(
        &mut self,
        at: Reading<T>,
        resources: &Resources,
        token: &Token,
        then: Option<Then>,
    ) -> Vote {
        let (now, wall) = (at.now, micros(at.wall));
        let mut released = 0;
        for name in resources {
            let ours = self.has(now, name, token);
            released += usize::from(ours);
            match then {
                Some(Then::Leave(ticket)) => {
                    self.leave(now, name, ticket.waiter);
                    if ours || self.is_reserved_for(now, name, ticket.waiter) {
                        self.serve_next(now, name);
                    }
                }
                Some(Then::Wait(ticket)) if ours => {
                    let owner = signature_of(token.as_bytes());
                    self.join(now, name, ticket.at_node(wall), owner);
                    self.serve_next(now, name);
                }
                Some(Then::Pass(ticket)) if ours => {
                    self.leave(now, name, ticket.waiter);
                    self.reserve(now, name, ticket, None);
                }
                None if ours => self.serve_next(now, name),
                _ => {}
            }
        }
        self.forget_empty_lines();
        if released == resources.count() { Vote::Granted } else { Vote::Gone }
    }

    /// Deletes each key that holds the token, whoever waits, as other libraries do.
    pub fn remove(&mut self, now: T, resources: &Resources, token: &Token) {
        for name in resources {
            if self.has(now, name, token) {
                self.contents.keys.remove(name);
            }
        }
    }

    /// Reserves a key for the next in line whose client listens, and wakes it; or
    /// deletes the key.
    fn serve_next(&mut self, now: T, name: &Resource) {
        let mut line = core::mem::take(self.line(now, name));
        let Ok(first) =
            line.take_first_who_hears(|ticket| Ok::<_, Infallible>(self.hears(now, ticket)));
        *self.line(now, name) = line;
        let Some(ticket) = first else {
            self.contents.keys.remove(name);
            return;
        };
        let owner = self.forget(ticket.waiter).and_then(|known| known.owner);
        self.reserve(now, name, ticket, owner.as_deref());
        self.wakes.push(Wake { resource: name.clone(), ticket });
    }

    /// Returns whether the client of a ticket can be told that it is served.
    fn hears(&mut self, now: T, ticket: Ticket) -> Hears {
        if !self.counts(now, ticket.waiter) {
            self.forget(ticket.waiter);
            return Hears::Nevermore;
        }
        if self.can_wake(ticket.waiter.client()) {
            return Hears::Yes;
        }
        if let Some(known) = self.waiters.as_mut().and_then(|all| all.get_mut(&ticket.waiter))
            && known.dies.left(now) > UNHEARD_LIFE
        {
            known.dies = now.after(UNHEARD_LIFE);
        }
        Hears::NotNow
    }

    fn can_wake(&self, client: u64) -> bool {
        self.listening.as_ref().is_none_or(|clients| clients.contains(&client))
    }

    /// Forgets lines in which nobody waits.
    fn forget_empty_lines(&mut self) {
        self.contents.lines.retain(|_, (line, _)| !line.is_empty());
    }

    fn reserve(&mut self, now: T, name: &Resource, ticket: Ticket, owner: Option<&str>) {
        let value = ticket.reservation_for(owner).into_bytes().into();
        let key = Key { value, dies: now.after(ticket.patience()) };
        self.contents.keys.insert(name.clone(), key);
    }

    fn is_reserved_for(&self, now: T, name: &Resource, waiter: Waiter) -> bool {
        let key = self.key(now, name);
        let reserved = key.and_then(|key| Ticket::reserved_in(&key.value));
        reserved.is_some_and(|ticket| ticket.waiter == waiter)
    }

    fn has(&self, now: T, name: &Resource, token: &Token) -> bool {
        self.key(now, name).is_some_and(|key| *key.value == *token.as_bytes())
    }

    fn state(&self, now: T, name: &Resource) -> KeyState {
        let Some(key) = self.key(now, name) else { return KeyState::Free };
        let number = self.contents.registers.get(&register(name));
        KeyState::Held {
            value: Some(key.value.clone()),
            remaining: Some(key.dies.left(now)),
            number: number.and_then(|is| FencingToken::new(*is)),
        }
    }

    fn line_state(&self, now: T, name: &Resource) -> LineState {
        let tickets = self.tickets(now, name).iter();
        let living = || tickets.clone().filter(|ticket| self.counts(now, ticket.waiter));
        let owner = |ticket: &Ticket| self.waiters.as_ref()?.get(&ticket.waiter)?.owner.clone();
        let told = living().take(MOST_TOLD);
        let first = told.map(|ticket| Waiting { ticket: *ticket, owner: owner(ticket) });
        LineState { first: first.collect(), count: living().count() }
    }

    /// Returns who waits for a key.
    fn tickets(&self, now: T, name: &Resource) -> &[Ticket] {
        let line = self.contents.lines.get(name);
        line.filter(|(_, dies)| !dies.left(now).is_zero()).map_or(&[], |(line, _)| line.tickets())
    }

    fn list(&self, now: T, pattern: &[u8]) -> Page {
        let like = |name: &&Resource| glob::matches(pattern, name.as_bytes());
        let locks = self.contents.keys.keys().filter(like).filter_map(|name| {
            let key = self.key(now, name)?;
            let (value, remaining) = (key.value.clone(), Some(key.dies.left(now)));
            let waiters = self.tickets(now, name).len();
            Some(HeldKey { name: name.clone(), value, remaining, waiters })
        });
        Page { locks: locks.collect(), denied: 0, next: None }
    }

    fn facts(&self, at: Reading<T>) -> Facts {
        Facts {
            clock: Some(at.wall),
            uptime: at.uptime,
            promoted: self.promoted,
            intact: !self.flushed,
            empty: self.contents.keys.keys().all(|name| self.key(at.now, name).is_none()),
            highest: FencingToken::new(self.highest()),
            ..Facts::of(self.identity.clone())
        }
    }

    /// Returns why the node may not execute the command, if it may not.
    pub fn objection(&self, now: T, command: &Command) -> Option<Quarantine> {
        let fingerprint = command.fingerprint()?;
        let keeps = match command {
            Command::Plant { .. } => true,
            Command::Extend { resources, token, .. } => self.has_all(now, resources, token),
            _ => false,
        };
        let (ledger, run) = (&self.contents.ledger, &self.identity.run);
        if keeps { ledger.refusal(run, fingerprint) } else { ledger.objection(run, fingerprint) }
    }
}

fn is_present<T: Deadline>(
    waiters: &BTreeMap<Waiter, Presence<T>>,
    now: T,
    waiter: Waiter,
) -> bool {
    waiters.get(&waiter).is_some_and(|known| !known.dies.left(now).is_zero())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
