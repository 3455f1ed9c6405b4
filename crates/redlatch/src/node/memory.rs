//! An in-process node, for tests.
//!
//! In:  commands, and the faults a test asks for.
//! Out: replies, from keys that live in memory and expire by the link's clock.
//!
//! Promise: the same as other kinds of node; and on tokio's paused clock every
//! run of a test is identical.

mod listeners;
mod server;
#[cfg(test)]
mod tests;

use self::{listeners::Listener, server::Server};
use super::{Link, Node};
use crate::driver::clock::Clock;
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

/// An in-process node, for tests.
///
/// All links and clones of a node share its keys. Tests can make it fail in the
/// ways that servers do.
///
/// # Example
///
/// ```
/// use redlatch::node::{Memory, Node};
///
/// let node = Memory::new("memory:a");
/// node.pause(); // stops answering, like a frozen server
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
    /// Creates a node without keys. The name does not identify it: two nodes
    /// with the same name are still two nodes.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Memory { name: name.into(), server: Arc::new(Mutex::new(Server::new())) }
    }

    /// Makes commands wait from now on: they are neither run nor answered, as
    /// on a frozen server.
    pub fn pause(&self) {
        self.change(|server| server.paused = true);
    }

    /// Runs and answers the waiting commands, in order.
    pub fn resume(&self) {
        self.change(|server| server.paused = false);
    }

    /// Loses all keys and all other state, like a server without persistence
    /// that restarts. The node's identity changes.
    pub fn forget(&self) {
        self.change(Server::restart);
    }

    /// Loses everything without a restart, as with `FLUSHALL`: the node's
    /// identity stays the same.
    pub fn flush(&self) {
        self.change(Server::flush);
    }

    /// Runs each command this long after it was sent, including those already
    /// waiting. Default: immediately.
    ///
    /// The delay is measured on tokio's clock.
    pub fn slow(&self, delay: Duration) {
        self.change(|server| server.delay = delay);
    }

    /// Answers every command with
    /// [`Fault::Unreachable`](redlatch_core::Fault::Unreachable) from now on,
    /// or stops doing so. The keys stay. Wakes on their way to clients are lost.
    pub fn fail(&self, failing: bool) {
        self.change(|server| server.fail(failing));
    }

    /// Changes the node's behaviour, and wakes all links.
    fn change(&self, change: impl FnOnce(&mut Server)) {
        let mut server = lock(&self.server);
        change(&mut server);
        let waiting = std::mem::take(&mut server.waiting);
        drop(server);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Removes one key, as if deleted by hand. Returns whether it existed.
    pub fn remove(&self, resource: impl AsRef<[u8]>) -> bool {
        let Ok(resource) = Resource::new(resource) else {
            return false; // no key has such a name
        };
        lock(&self.server).remove(&resource)
    }

    /// Removes the keys of one lock, whatever state the node is in.
    pub(crate) fn remove_lock(&self, resources: &Resources, token: &Token) {
        lock(&self.server).release(resources, token);
    }

    /// Returns the names of all keys that have not expired, sorted.
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
        Box::new(MemoryLink {
            server: Arc::clone(&self.server),
            clock,
            queue: VecDeque::new(),
            alarm: Alarm::default(),
            listener: None,
            wake_alarm: Alarm::default(),
        })
    }
}

/// A link. Commands wait in it until they are due.
struct MemoryLink {
    server: Arc<Mutex<Server>>,
    clock: Clock,
    queue: VecDeque<Queued>,
    alarm: Alarm,
    /// Since the first command with a ticket: where wakes for its client arrive.
    listener: Option<Listener>,
    wake_alarm: Alarm,
}

struct Queued {
    tag: Tag,
    command: Command,
    sent: Instant,
}

impl MemoryLink {
    /// Executes the commands that are due.
    fn answer(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
        while let Some(next) = self.queue.front() {
            let mut server = lock(&self.server);
            let due = next.sent + server.delay.min(LONGEST_DELAY);
            if server.paused || !self.alarm.is_up(due, cx) {
                return server.wake_on_change(cx.waker());
            }
            if let (None, Some(ticket)) = (self.listener, next.command.ticket()) {
                self.listener = server.listen(ticket.waiter.client());
            }
            replies.push((next.tag, server.execute(self.clock, &next.command)));
            let woken = server.listeners.ready();
            drop(server);
            woken.into_iter().for_each(Waker::wake);
            self.queue.pop_front();
        }
    }

    /// Delivers the wakes that are due.
    fn deliver(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
        let Some(listener) = self.listener else { return };
        let mut server = lock(&self.server);
        while let Some(sent) = server.listeners.oldest(listener) {
            let due = sent + server.delay.min(LONGEST_DELAY);
            if server.paused || !self.wake_alarm.is_up(due, cx) {
                return server.wake_on_change(cx.waker());
            }
            let wake = server.listeners.take(listener);
            replies.extend(wake.map(|wake| (Tag::WAKE, Reply::Woken(wake))));
        }
        server.listeners.wait(listener, cx.waker());
    }
}

impl Link for MemoryLink {
    fn send(&mut self, tag: Tag, command: Command) {
        self.queue.push_back(Queued { tag, command, sent: Instant::now() });
    }

    fn poll(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
        self.answer(cx, replies);
        self.deliver(cx, replies);
    }
}

impl Drop for MemoryLink {
    fn drop(&mut self) {
        if let Some(listener) = self.listener {
            lock(&self.server).hang_up(listener);
        }
    }
}

/// Far longer than any test, and still a valid time.
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
