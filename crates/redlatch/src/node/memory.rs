//! A node inside the process, for tests.
//!
//! In:  commands, and the mishaps a test asks for.
//! Out: replies, by keys that live in memory and expire by the link's clock.
//!
//! Promise: what the other kinds of node promise; and on tokio's clock, paused,
//! every run of a test is the same.

use super::{Link, Node};
use crate::clock::{Clock, wall_micros};
use redlatch_core::{
    Command, Facts, Fault, FencingToken, HeldKey, Holder, Identity, KeyState, Ledger, Moment, Page,
    Proposal, Quarantine, Registers, Reply, Resource, Resources, Tag, Token, Vote,
    fence::{register, registers},
    glob,
    token::owner_of,
};
use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// A node inside the process, for tests.
///
/// All links and clones of a node share its keys. Tests can make it fail in
/// the ways that servers do.
///
/// # Example
///
/// ```
/// use redlatch::node::{Memory, Node};
///
/// let node = Memory::new("memory:a");
/// node.pause(); // from here on it is mute, as if the server were frozen
///
/// assert_eq!(node.name(), "memory:a");
/// assert!(node.keys().is_empty());
/// ```
#[derive(Debug, Clone)]
pub struct Memory {
    name: Arc<str>,
    server: Arc<Mutex<Server>>,
}

impl Memory {
    /// A node without keys. The name is for people: two nodes of one name are
    /// two nodes.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Memory { name: name.into(), server: Arc::new(Mutex::new(Server::new())) }
    }

    /// From now on commands wait: they are neither carried out nor answered,
    /// as on a frozen server.
    pub fn pause(&self) {
        self.change(|server| server.paused = true);
    }

    /// Carries out and answers what waited, in order.
    pub fn resume(&self) {
        self.change(|server| server.paused = false);
    }

    /// Loses all keys and all else it knew, as a server without persistence does
    /// in a restart. The node's identity changes with it.
    pub fn forget(&self) {
        self.change(|server| {
            server.flush();
            server.run = fresh_run();
            server.restarted = Some([Clock::System, Clock::Tokio].map(|at| (at, at.now())));
        });
    }

    /// The same without a restart, as by `FLUSHALL`: the node's identity stays.
    pub fn flush(&self) {
        self.change(Server::flush);
    }

    /// Carries out each command this long after it was sent, those that wait
    /// already included. Default: at once.
    ///
    /// Waits on tokio's clock.
    pub fn slow(&self, delay: Duration) {
        self.change(|server| server.delay = delay);
    }

    /// From now on answers every command with [`Fault::Unreachable`], or no
    /// longer so. The keys stay.
    pub fn fail(&self, failing: bool) {
        self.change(|server| server.failing = failing);
    }

    /// Changes what the node does, and has all links look again.
    fn change(&self, change: impl FnOnce(&mut Server)) {
        let mut server = lock(&self.server);
        change(&mut server);
        let waiting = std::mem::take(&mut server.waiting);
        drop(server);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Loses one key, as if somebody had deleted it by hand. Says whether it
    /// was there.
    pub fn remove(&self, resource: impl AsRef<[u8]>) -> bool {
        let Ok(resource) = Resource::new(resource) else {
            return false; // no key has such a name
        };
        let key = lock(&self.server).keys.remove(&resource);
        key.is_some_and(|key| key.remaining().is_some())
    }

    /// Loses the keys of one lock, whatever state the node is in.
    pub(crate) fn remove_lock(&self, resources: &Resources, token: &Token) {
        lock(&self.server).release(resources, token);
    }

    /// The names of all keys that have not expired, sorted.
    #[must_use]
    pub fn keys(&self) -> Vec<Resource> {
        let server = lock(&self.server);
        let live = server.keys.iter().filter(|(_, key)| key.remaining().is_some());
        live.map(|(resource, _)| resource.clone()).collect()
    }
}

impl Node for Memory {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, clock: Clock) -> Box<dyn Link> {
        let server = Arc::clone(&self.server);
        Box::new(Line { server, clock, queue: VecDeque::new(), alarm: Alarm::default() })
    }
}

/// A link: commands wait in it until they are due.
struct Line {
    server: Arc<Mutex<Server>>,
    clock: Clock,
    queue: VecDeque<Queued>,
    alarm: Alarm,
}

struct Queued {
    tag: Tag,
    command: Command,
    sent: Instant,
}

impl Link for Line {
    fn send(&mut self, tag: Tag, command: Command) {
        self.queue.push_back(Queued { tag, command, sent: Instant::now() });
    }

    fn poll(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
        while let Some(next) = self.queue.front() {
            let mut server = lock(&self.server);
            let due = next.sent + server.delay.min(LONGEST_DELAY);
            if server.paused || !self.alarm.is_up(due, cx) {
                return server.wake_on_change(cx.waker());
            }
            replies.push((next.tag, server.execute(self.clock, &next.command)));
            self.queue.pop_front();
        }
    }
}

/// Far longer than any test, and still a time that can be counted to.
const LONGEST_DELAY: Duration = Duration::from_secs(1 << 30);

/// Wakes the link when the first command in its queue is due.
#[derive(Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    fn is_up(&mut self, at: Instant, cx: &mut Context<'_>) -> bool {
        if at <= Instant::now() {
            return true;
        }
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        sleep.as_mut().poll(cx).is_ready()
    }
}

/// What all links of a node share.
#[derive(Debug)]
struct Server {
    keys: BTreeMap<Resource, Key>,
    /// The fencing registers that have ever moved.
    registers: BTreeMap<u32, u64>,
    /// What is kept for the restart guard.
    ledger: Ledger,
    /// At how many keys the expired ones are looked for and dropped.
    sweep_at: usize,
    run: Arc<str>,
    /// When that run began, on either clock; none for the first, before which
    /// there was nothing that it could have forgotten.
    restarted: Option<[(Clock, Moment); 2]>,
    paused: bool,
    failing: bool,
    delay: Duration,
    /// Links with something to do, but not now.
    waiting: Vec<Waker>,
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
const AGES: Duration = Duration::from_secs(u32::MAX as u64);

/// Below this it is not worth looking for expired keys.
const FEW: usize = 64;

impl Server {
    fn new() -> Self {
        Server {
            keys: BTreeMap::new(),
            registers: BTreeMap::new(),
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

    fn wake_on_change(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|known| known.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    fn execute(&mut self, clock: Clock, command: &Command) -> Reply {
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
            Command::Registers => Reply::Registers(self.told_registers()),
            Command::Admit { guard, agreement, mark, registers } => {
                if !self.ledger.admit(&self.run, *guard, agreement, mark) {
                    return Reply::Vote(Vote::Gone);
                }
                self.raise_to(registers);
                Reply::Vote(Vote::Granted)
            }
            _ => Reply::failed(Fault::Unfit("it does not know this command".into())),
        }
    }

    /// Why the node may not vote on this.
    fn objection(&self, command: &Command) -> Option<Quarantine> {
        let (Command::Take { guard, .. }
        | Command::Raise { guard, .. }
        | Command::Extend { guard, .. }) = command
        else {
            return None;
        };
        self.ledger.objection(&self.run, (*guard)?)
    }

    fn flush(&mut self) {
        self.keys.clear();
        self.registers.clear();
        self.ledger = Ledger::default();
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
        if !resources.iter().all(|resource| self.is_ours(resource, token)) {
            return Vote::Gone;
        }
        let number = FencingToken::new(self.greatest(resources)).map_or(to, |is| is.max(to));
        self.move_registers(resources, number);
        Vote::Numbered(number)
    }

    fn greatest(&self, resources: &Resources) -> u64 {
        let moved = registers(resources).into_iter().filter_map(|at| self.registers.get(&at));
        moved.copied().max().unwrap_or(0)
    }

    fn move_registers(&mut self, resources: &Resources, number: FencingToken) {
        for register in registers(resources) {
            self.registers.insert(register, number.get());
        }
    }

    fn told_registers(&self) -> Registers {
        let numbers = self.registers.iter();
        numbers.filter_map(|(at, is)| Some((*at, FencingToken::new(*is)?))).collect()
    }

    /// Moves registers that are behind.
    fn raise_to(&mut self, registers: &[(u32, FencingToken)]) {
        for (at, number) in registers {
            let is = self.registers.entry(*at).or_default();
            *is = number.get().max(*is);
        }
    }

    fn extend(
        &mut self,
        resources: &Resources,
        token: &Token,
        clock: Clock,
        deadline: Moment,
    ) -> Vote {
        if !resources.iter().all(|resource| self.is_ours(resource, token)) {
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

    fn release(&mut self, resources: &Resources, token: &Token) -> Vote {
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
        let uptime = began.map_or(AGES, |(_, began)| clock.now().since(*began));
        let (clock, uptime) = (Some(clock.wall()), Some(uptime));
        Facts { clock, uptime, ..Facts::of(self.identity()) }
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

fn lock(server: &Mutex<Server>) -> MutexGuard<'_, Server> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::conformance::{resources, tag};
    use redlatch_core::{Agreement, Cause, Mark, fence};
    use std::{future::poll_fn, task::Poll};

    const SECOND: Duration = Duration::from_secs(1);

    struct Fixture {
        node: Memory,
        link: Box<dyn Link>,
    }

    impl Fixture {
        fn new() -> Self {
            let node = Memory::new("memory:test");
            let link = node.open(Clock::Tokio);
            Fixture { node, link }
        }

        fn take(&mut self, number: u64, name: &str, ttl: Duration) {
            let token = Token::from_bytes(&number.to_be_bytes());
            self.link.send(
                tag(number),
                Command::Take {
                    resources: resources([name]),
                    token,
                    ttl,
                    fence: None,
                    guard: None,
                },
            );
        }

        /// The next replies, none if there are none for an hour.
        async fn replies(&mut self) -> Vec<(Tag, Reply)> {
            let mut replies = Vec::new();
            let any = poll_fn(|cx| {
                self.link.poll(cx, &mut replies);
                if replies.is_empty() { Poll::Pending } else { Poll::Ready(()) }
            });
            let _ = tokio::time::timeout(3600 * SECOND, any).await;
            replies
        }

        fn keys(&self) -> Vec<String> {
            self.node.keys().iter().map(ToString::to_string).collect()
        }
    }

    fn granted(number: u64) -> (Tag, Reply) {
        (tag(number), Reply::Vote(Vote::Granted))
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_lives_exactly_as_long_as_it_was_told_on_the_clock_of_the_link() {
        let mut test = Fixture::new();
        test.take(0, "a", SECOND);
        assert_eq!(test.replies().await, [granted(0)]);

        tokio::time::advance(Duration::from_millis(999)).await;
        assert_eq!(test.keys(), ["a"]);

        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(test.keys(), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_node_does_and_answers_nothing_until_it_is_resumed() {
        let mut test = Fixture::new();
        test.node.pause();
        test.take(0, "a", SECOND);
        test.take(1, "b", SECOND);

        assert_eq!(test.replies().await, []);
        assert_eq!(test.keys(), [""; 0]);

        let node = test.node.clone();
        let start = Instant::now();
        let later = tokio::spawn(async move {
            tokio::time::sleep(SECOND).await;
            node.resume();
        });
        assert_eq!(test.replies().await, [granted(0), granted(1)]);
        assert_eq!(start.elapsed(), SECOND);
        later.await.unwrap();
        assert_eq!(test.keys(), ["a", "b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_node_carries_out_each_command_that_long_after_it_was_sent() {
        let mut test = Fixture::new();
        let start = Instant::now();
        test.node.slow(SECOND);
        test.take(0, "a", 60 * SECOND);
        tokio::time::advance(SECOND / 2).await;
        test.take(1, "b", 60 * SECOND);

        assert_eq!(test.keys(), [""; 0]);
        assert_eq!((test.replies().await, start.elapsed()), (vec![granted(0)], SECOND));
        assert_eq!(test.keys(), ["a"]);
        assert_eq!((test.replies().await, start.elapsed()), (vec![granted(1)], SECOND * 3 / 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_node_made_quick_again_does_at_once_what_waits_in_order() {
        let mut test = Fixture::new();
        test.node.slow(Duration::MAX);
        test.take(0, "a", 60 * SECOND);
        test.take(1, "b", 60 * SECOND);
        assert_eq!(test.replies().await, []);

        let node = test.node.clone();
        let start = Instant::now();
        let later = tokio::spawn(async move {
            tokio::time::sleep(SECOND).await;
            node.slow(Duration::ZERO);
        });
        assert_eq!(test.replies().await, [granted(0), granted(1)]);
        assert_eq!(start.elapsed(), SECOND);
        later.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_node_keeps_its_keys_and_a_forgetful_one_its_name_alone() {
        let mut test = Fixture::new();
        test.take(0, "a", SECOND);
        test.link.send(tag(1), Command::Identify);
        let before = test.replies().await;

        test.node.fail(true);
        test.take(2, "b", SECOND);
        let failed = test.replies().await;
        assert!(matches!(&failed[..], [(_, Reply::Vote(Vote::Failed(Fault::Unreachable(_))))]));
        assert_eq!(test.keys(), ["a"]);

        test.node.fail(false);
        test.node.forget();
        test.link.send(tag(1), Command::Identify);
        assert_ne!(test.replies().await[0], before[1], "it must not pass for the same run");
        assert_eq!(test.keys(), [""; 0]);
    }

    fn agreement() -> Agreement {
        Agreement::new(["memory:test".into()], SECOND, SECOND)
    }

    impl Fixture {
        async fn reply(&mut self, command: Command) -> Reply {
            self.link.send(tag(0), command);
            self.replies().await.remove(0).1
        }

        async fn watch(&mut self) -> Box<Facts> {
            let guard = agreement().fingerprint();
            match self.reply(Command::Watch { guard, nonce: 7, replace: false }).await {
                Reply::Facts(facts) => facts,
                other => panic!("{other:?}"),
            }
        }

        async fn admit(&mut self, mark: Mark, registers: Registers) -> Reply {
            let (guard, agreement) = (agreement().fingerprint(), agreement().to_string().into());
            self.reply(Command::Admit { guard, agreement, mark: mark.id, registers }).await
        }

        async fn take_guarded(&mut self) -> Reply {
            let guard = Some(agreement().fingerprint());
            let (resources, token) = (resources(["a"]), Token::from_bytes(b"1"));
            self.reply(Command::Take { resources, token, ttl: SECOND, fence: None, guard }).await
        }
    }

    fn every_register(number: u64) -> Registers {
        (0..fence::REGISTERS).map(|at| (at, FencingToken::new(number).unwrap())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_mark_grows_older_and_a_restarted_node_is_up_longer_on_the_clock_of_the_link() {
        let mut test = Fixture::new();
        assert_eq!(test.watch().await.uptime, Some(AGES), "it has nothing to forget");
        test.node.forget();

        let first = test.watch().await;
        tokio::time::advance(90 * SECOND).await;
        let second = test.watch().await;

        assert_eq!((first.uptime, second.uptime), (Some(Duration::ZERO), Some(90 * SECOND)));
        let (young, old) = (first.mark.unwrap(), second.mark.unwrap());
        assert_eq!((young.age, old.age), (Duration::ZERO, 90 * SECOND));
        assert_eq!(young.id, old.id);
        assert_eq!(second.clock, Some(first.clock.unwrap() + 90 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flushed_node_is_of_the_same_run_but_may_not_vote_nor_has_it_numbers() {
        let mut test = Fixture::new();
        let mark = test.watch().await.mark.unwrap();
        assert_eq!(test.admit(mark, every_register(7)).await, Reply::Vote(Vote::Granted));
        assert_eq!(test.take_guarded().await, Reply::Vote(Vote::Granted));
        assert_eq!(test.reply(Command::Registers).await, Reply::Registers(every_register(7)));
        let before = test.reply(Command::Identify).await;

        test.node.flush();

        assert_eq!(test.reply(Command::Identify).await, before);
        assert_eq!(test.keys(), [""; 0]);
        assert_eq!(test.reply(Command::Registers).await, Reply::Registers([].into()));
        let out = Vote::Quarantined(Quarantine::new(Cause::Forgot));
        assert_eq!(test.take_guarded().await, Reply::Vote(out));
        assert_eq!(test.watch().await.mark.unwrap().age, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn one_key_can_be_removed_by_hand() {
        let mut test = Fixture::new();
        test.take(0, "a", SECOND);
        test.take(1, "b", SECOND);
        test.replies().await;

        assert!(test.node.remove("a"));
        assert!(!test.node.remove("a"));
        assert!(!test.node.remove(""));

        assert_eq!(test.keys(), ["b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn expired_keys_do_not_pile_up() {
        let mut test = Fixture::new();

        for number in 0..10_000 {
            test.take(number, &number.to_string(), Duration::from_millis(1));
            test.replies().await;
            tokio::time::advance(Duration::from_millis(1)).await;
        }

        let keys = lock(&test.node.server).keys.len();
        assert!(keys <= FEW, "{keys} keys");
    }
}
