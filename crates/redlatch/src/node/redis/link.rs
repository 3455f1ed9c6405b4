//! One connection to a server, made on demand.
//!
//! Promise: commands go out in order and each is answered once. A connection is kept after
//! a timeout, so that an undo stays behind its take. A command in progress when the
//! connection breaks is *not* sent again: it fails, with an unknown outcome. After a failed
//! connect, commands fail immediately for a backoff that grows to a second. A vote is cast
//! by the server that was greeted, and that server is as fit as it was then: if it was a
//! replica in between, has evicted keys, or may evict them now, that is detected. If a
//! server turns us away because it is another node or serves other clients, the link
//! reconnects, at most once a second and with nothing in progress: by then the address may
//! lead to the right server.

mod ready;
mod server;
mod wire;

use super::{
    Address,
    connect::{Connection, connect},
};
use crate::node::Link;
use ready::Ready;
use redlatch_core::{Command, Fault, Reply, Tag, link::Rest};
use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::time::Instant;

/// The most takes that are unanswered or wait for a connection, so that a frozen server
/// does not exhaust our memory. Beyond that it gets no more takes, so there is nothing more
/// to undo there either. Far more than the core has in progress on nodes that answer.
const MOST_TAKES: usize = 16_384;
/// The most commands of any kind. A release is never refused: it frees a lock, and there
/// are no more releases than takes that were accepted.
const MOST_UNDER_WAY: usize = 65_536;
pub(super) struct RedisLink {
    address: Arc<Address>,
    state: State,
    /// Queued, not yet written to a connection.
    waiting: VecDeque<(Tag, Command)>,
    /// Answered without asking the server.
    refused: Vec<(Tag, Reply)>,
    rest: Rest,
}

enum State {
    Idle,
    Connecting(Pin<Box<dyn Future<Output = Result<Connection, Fault>> + Send>>),
    Ready(Box<Ready>),
    /// The last connect failed; until this time, every command fails, too.
    Resting {
        until: Instant,
        fault: Fault,
    },
}

impl RedisLink {
    pub(super) fn new(address: Arc<Address>) -> Self {
        RedisLink {
            address,
            state: State::Idle,
            waiting: VecDeque::new(),
            refused: Vec::new(),
            rest: Rest::default(),
        }
    }

    /// Why there is no room for another command, if there is none.
    fn no_room_for(&self, command: &Command) -> Option<String> {
        let waiting = self.waiting.len();
        let (takes, all) = match &self.state {
            State::Ready(ready) => (ready.takes() + waiting, ready.commands() + waiting),
            _ => (waiting, waiting),
        };
        match command {
            Command::Release { .. } => None,
            Command::Take { .. } if takes >= MOST_TAKES => {
                Some(format!("{takes} requests for locks are unanswered"))
            }
            _ if all >= MOST_UNDER_WAY => Some(format!("{all} commands are unanswered")),
            _ => None,
        }
    }

    fn refuse(&mut self, tag: Tag, fault: Fault) {
        self.refused.push((tag, Reply::failed(fault)));
    }

    /// Polls the connection, and fails the commands of one that has ended.
    fn poll_ready(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
        if let State::Ready(ready) = &mut self.state
            && let Poll::Ready(fault) = ready.poll(cx, replies)
        {
            replies.extend(ready.unanswered().map(|tag| (tag, Reply::failed(fault.clone()))));
            replies.extend(ready.could_be_woken().then_some((Tag::WAKE, Reply::Deaf)));
            self.state = State::Idle;
        }
    }

    /// Connects if a command is waiting, but not while answers are still due on the old
    /// connection.
    fn dial_if_needed(&mut self) {
        let is_free = match &self.state {
            State::Idle | State::Resting { .. } => true,
            State::Ready(ready) => ready.is_idle(),
            State::Connecting(_) => false,
        };
        if is_free && !self.waiting.is_empty() {
            if let State::Ready(ready) = &self.state
                && ready.could_be_woken()
            {
                self.refused.push((Tag::WAKE, Reply::Deaf));
            }
            self.state = State::Connecting(Box::pin(connect(self.address.clone())));
        }
    }

    /// The connect has finished: write the waiting commands, or fail them.
    fn connected(&mut self, result: Result<Connection, Fault>) {
        match result {
            Ok(connection) => {
                self.rest = Rest::default();
                let mut ready = Box::new(Ready::new(self.address.clone(), connection));
                for (tag, command) in self.waiting.drain(..) {
                    ready.send(tag, command);
                }
                self.state = State::Ready(ready);
            }
            Err(fault) => {
                for (tag, _) in self.waiting.drain(..) {
                    self.refused.push((tag, Reply::failed(fault.clone())));
                }
                let until = Instant::now() + self.rest.begin();
                self.state = State::Resting { until, fault };
            }
        }
    }
}

impl Link for RedisLink {
    fn send(&mut self, tag: Tag, command: Command) {
        if let Some(reason) = self.no_room_for(&command) {
            return self.refuse(tag, Fault::Unreachable(reason.into()));
        }
        match &mut self.state {
            State::Ready(ready) if self.waiting.is_empty() && !ready.is_to_be_left() => {
                ready.send(tag, command);
            }
            State::Resting { until, fault } if Instant::now() < *until => {
                let fault = fault.clone();
                self.refuse(tag, fault);
            }
            _ => self.waiting.push_back((tag, command)),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
        self.poll_ready(cx, replies);
        self.dial_if_needed();
        if let State::Connecting(connecting) = &mut self.state
            && let Poll::Ready(result) = connecting.as_mut().poll(cx)
        {
            self.connected(result);
            self.poll_ready(cx, replies);
        }
        replies.append(&mut self.refused);
    }
}
