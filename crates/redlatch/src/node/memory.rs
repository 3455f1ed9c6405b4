//! A node inside the process, for tests.
//!
//! In:  commands, and the mishaps a test asks for.
//! Out: replies, by keys that live in memory and expire by the link's clock.
//!
//! Promise: what the other kinds of node promise; and on tokio's clock, paused,
//! every run of a test is the same.

mod server;
#[cfg(test)]
mod tests;

use self::server::Server;
use super::{Link, Node};
use crate::clock::Clock;
use redlatch_core::{Command, Reply, Resource, Resources, Tag, Token};
use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
        self.change(Server::restart);
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

    /// From now on answers every command with [`Fault::Unreachable`](redlatch_core::Fault::Unreachable), or no
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
        lock(&self.server).remove(&resource)
    }

    /// Loses the keys of one lock, whatever state the node is in.
    pub(crate) fn remove_lock(&self, resources: &Resources, token: &Token) {
        lock(&self.server).release(resources, token);
    }

    /// The names of all keys that have not expired, sorted.
    #[must_use]
    pub fn keys(&self) -> Vec<Resource> {
        lock(&self.server).names()
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

fn lock(server: &Mutex<Server>) -> MutexGuard<'_, Server> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}
