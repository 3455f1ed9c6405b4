//! The floor of a hand-over: one notification and one take, over plain sockets.
//!
//! The releaser sends one command to each node, which deletes the key and tells the
//! next caller. That one, told by a majority, sends `SET NX PX` to all nodes and is
//! granted the lock by a majority.
//!
//! Callers take strict turns, and each turn is announced by its number.
//!
//! Not covered: reconnecting, timeouts, leases, a caller that does not come.

mod one;
mod pushes;

use self::{
    one::One,
    pushes::{Pushes, wait_for_listener},
};
use super::{command::Tokens, node::Node};
use crate::wire::{Order, Record, now_ns};
use anyhow::{Context as _, bail};
use rustix::{
    event::{Timespec, epoll},
    fd::{AsFd, OwnedFd},
    io::Errno,
};
use std::time::Duration;

/// Deletes the caller's key and tells the next one.
const RELEASE_AND_TELL: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
redis.call('PUBLISH', ARGV[2], ARGV[3]) return 1";

/// Nothing from any node for this long: somebody is gone.
const SILENCE: Duration = Duration::from_secs(5);

/// More than two connections to each of five nodes.
const EVENTS: usize = 16;

pub(in crate::worker) struct Relay {
    epoll: OwnedFd,
    nodes: Vec<Node>,
    urls: Vec<String>,
    script: String,
    tokens: Tokens,
}

impl Relay {
    pub(in crate::worker) fn connect(urls: &[String]) -> anyhow::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (mut nodes, mut script) = (Vec::new(), String::new());
        for url in urls {
            let (node, loaded) =
                Node::connect(url, RELEASE_AND_TELL).with_context(|| format!("floor: {url}"))?;
            watch(&epoll, node.socket(), nodes.len())?;
            nodes.push(node);
            script = loaded;
        }
        Ok(Self { epoll, nodes, urls: urls.to_vec(), script, tokens: Tokens::new() })
    }

    pub(in crate::worker) fn run(&mut self, order: &Order) -> anyhow::Result<Record> {
        let mut callers: Vec<One> =
            (order.first..).take(order.tasks).map(|n| One::new(n as u64, order)).collect();
        let channels: Vec<String> = callers.iter().map(One::channel).collect();
        let mut pushes = Vec::new();
        for (url, index) in self.urls.iter().zip(self.nodes.len()..) {
            let push = Pushes::subscribe(url, &channels)?;
            watch(&self.epoll, push.socket(), index)?;
            pushes.push(push);
        }
        for url in &self.urls {
            for caller in &callers {
                wait_for_listener(url, &caller.next_channel())?;
            }
        }
        std::thread::sleep(Duration::from_nanos(order.begin_ns.saturating_sub(now_ns())));
        while !callers.iter().all(One::is_done) {
            for caller in &mut callers {
                caller.go_on(&self.script, &mut self.tokens, &mut self.nodes);
            }
            self.nodes.iter_mut().try_for_each(Node::flush)?;
            let until = callers.iter().filter_map(One::holds_until).min();
            self.read(until, &mut pushes, &mut callers)?;
        }
        // Closing the subscriptions takes them off the epoll.
        let turns = callers.into_iter().map(One::into_turns).collect();
        Ok(Record { callers: turns, ..Record::default() })
    }

    /// Waits for replies, for news, or for the end of the present hold.
    fn read(
        &mut self,
        until: Option<u64>,
        pushes: &mut [Pushes],
        callers: &mut [One],
    ) -> anyhow::Result<()> {
        const NONE: epoll::Event =
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [NONE; EVENTS];
        let left = |until: u64| Duration::from_nanos(until.saturating_sub(now_ns()));
        let timeout = Timespec::try_from(until.map_or(SILENCE, left))?;
        let ready = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
            Err(Errno::INTR) => return Ok(()),
            Ok(0) if until.is_none() => bail!("floor: no news for {SILENCE:?}"),
            ready => ready?,
        };
        let majority = self.nodes.len() / 2 + 1;
        let (mut replies, mut news) = (Vec::new(), Vec::new());
        for event in &events[..ready] {
            let index = usize::try_from(event.data.u64())?;
            match self.nodes.get_mut(index) {
                Some(node) => node.read(&mut replies)?,
                None => pushes[index - self.nodes.len()].read(&mut news)?,
            }
        }
        for (ticket, reply) in replies {
            let owner = callers.iter_mut().find(|caller| caller.sent(ticket));
            // Without one it is a reply beyond the majority.
            owner.map_or(Ok(()), |caller| caller.count(reply, majority))?;
        }
        for turn in news {
            for caller in &mut *callers {
                caller.hear(turn, majority);
            }
        }
        Ok(())
    }
}

fn watch(epoll: &OwnedFd, socket: impl AsFd, index: usize) -> anyhow::Result<()> {
    let data = epoll::EventData::new_u64(index as u64);
    Ok(epoll::add(epoll, socket, data, epoll::EventFlags::IN)?)
}
