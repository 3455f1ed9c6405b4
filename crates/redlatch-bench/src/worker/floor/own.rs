//! The floor of acquire and release, each caller on a lock of its own.
//!
//! The callers are state machines inside the loop. What becomes ready for a node in
//! one turn goes out as one write. Takes and releases go to all nodes and are
//! decided at the majority, as everywhere else.
//!
//! Not covered: reconnecting, timeouts, leases. It measures, it does not lock.

mod caller;

use self::caller::{Caller, Outcome};
use super::{
    command::{COMPARE_AND_DELETE, Tokens},
    node::{Node, Reply, Ticket},
};
use crate::wire::{Order, Record, now_ns};
use anyhow::{Context as _, bail};
use rustix::{
    event::{Timespec, epoll},
    fd::OwnedFd,
    io::Errno,
};
use std::time::Duration;

/// Nothing from any node for this long: a majority is gone.
const SILENCE: Duration = Duration::from_secs(5);

/// More than there are nodes; what does not fit is reported in the next turn.
const EVENTS: usize = 16;

pub(in crate::worker) struct Own {
    epoll: OwnedFd,
    nodes: Vec<Node>,
    callers: Vec<Caller>,
    tokens: Tokens,
    script: String,
    /// Belongs to the current turn; kept to reuse its memory.
    replies: Vec<(Ticket, Reply)>,
}

impl Own {
    pub(in crate::worker) fn connect(urls: &[String]) -> anyhow::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut nodes = Vec::with_capacity(urls.len());
        let mut script = String::new();
        for (index, url) in (0..).zip(urls) {
            let (node, loaded) =
                Node::connect(url, COMPARE_AND_DELETE).with_context(|| format!("floor: {url}"))?;
            script = loaded;
            // Level-triggered: what one read leaves behind is reported again,
            // so one read per readable socket and turn is enough.
            let data = epoll::EventData::new_u64(index);
            epoll::add(&epoll, node.socket(), data, epoll::EventFlags::IN)?;
            nodes.push(node);
        }
        Ok(Self {
            epoll,
            nodes,
            callers: Vec::new(),
            tokens: Tokens::new(),
            script,
            replies: Vec::new(),
        })
    }

    /// Callers stay for the whole run: their tickets go on counting, so a late
    /// reply is never taken for one of the present slice.
    fn hire(&mut self, tasks: usize) {
        for index in (0..).take(tasks).skip(self.callers.len()) {
            self.callers.push(Caller::new(index, &self.script));
        }
    }

    /// Waits for replies and collects them. `false` if none came in time.
    fn read(&mut self, patience: Duration) -> anyhow::Result<bool> {
        const NONE: epoll::Event =
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [NONE; EVENTS];
        let timeout = Timespec::try_from(patience)?;
        let ready = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
            Err(Errno::INTR) => return Ok(true),
            ready => ready?,
        };
        for event in &events[..ready] {
            let node = usize::try_from(event.data.u64())?;
            self.nodes[node].read(&mut self.replies)?;
        }
        Ok(ready > 0)
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.nodes.iter_mut().try_for_each(Node::flush)?)
    }

    /// Each caller takes and releases its lock at least once, and again for as long
    /// as it is not `end` yet.
    fn pass(&mut self, tasks: usize, end: u64, record: &mut Record) -> anyhow::Result<()> {
        let (now, mut busy) = (now_ns(), tasks);
        for caller in &mut self.callers[..tasks] {
            caller.take(now, &mut self.tokens, &mut self.nodes);
        }
        while busy > 0 {
            self.flush()?;
            if !self.read(SILENCE)? {
                bail!("floor: no reply for {SILENCE:?}");
            }
            for (ticket, reply) in self.replies.drain(..) {
                let index = ticket.caller as usize;
                let caller = &mut self.callers[index];
                match caller.count(ticket, reply, &mut self.nodes) {
                    Outcome::Open => continue,
                    Outcome::Done(turn) => record.callers[index].push(turn),
                    Outcome::Failed => record.gave_up += 1,
                }
                let now = now_ns();
                if now < end {
                    caller.take(now, &mut self.tokens, &mut self.nodes);
                } else {
                    busy -= 1;
                }
            }
        }
        Ok(())
    }

    pub(in crate::worker) fn run(&mut self, order: &Order) -> anyhow::Result<Record> {
        self.hire(order.tasks);
        let mut record = Record { callers: vec![Vec::new(); order.tasks], ..Record::default() };
        // Paced, a pass is one lock for each caller; else it lasts until the end.
        let (every, until) = match order.every_us {
            0 => (u64::MAX, order.end_ns),
            every_us => (1_000 * every_us, 0),
        };
        let mut due = order.begin_ns;
        while due < order.end_ns {
            std::thread::sleep(Duration::from_nanos(due.saturating_sub(now_ns())));
            self.pass(order.tasks, until, &mut record)?;
            due = due.saturating_add(every);
        }
        Ok(record)
    }
}
