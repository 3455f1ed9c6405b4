//! The floor: what the sockets and the servers cost when nothing else does.
//!
//! One thread, one epoll, one connection to each node. The callers are state
//! machines inside the loop: no channel, no waker, no task. What becomes ready
//! for a node in one turn goes out as one write. Takes and releases go to all
//! nodes and are decided at the majority, as everywhere else.
//!
//! Not covered: reconnecting, timeouts, leases. It measures, it does not lock.

mod caller;
pub(crate) mod command;
pub(crate) mod node;

use self::{
    caller::{Caller, Outcome},
    command::{COMPARE_AND_DELETE, Tokens},
    node::{Node, Reply, Ticket},
};
use super::{Contender, Load, Sample};
use anyhow::{Context as _, bail};
use rustix::{
    event::{Timespec, epoll},
    fd::OwnedFd,
    io::Errno,
};
use std::time::{Duration, Instant};

pub(crate) const NAME: &str = "floor";

/// Nothing from any node for this long: a majority is gone.
const SILENCE: Duration = Duration::from_secs(5);

/// More than there are nodes; what does not fit is reported in the next turn.
const EVENTS: usize = 16;

pub(crate) struct Floor {
    epoll: OwnedFd,
    nodes: Vec<Node>,
    callers: Vec<Caller>,
    tokens: Tokens,
    script: String,
    /// Of the present turn; kept for its memory.
    replies: Vec<(Ticket, Reply)>,
}

impl Floor {
    pub(crate) fn connect(urls: &[String]) -> anyhow::Result<Self> {
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

    fn idle(&self) -> bool {
        self.nodes.iter().all(Node::idle)
    }
}

impl Contender for Floor {
    fn name(&self) -> &'static str {
        NAME
    }

    fn run(&mut self, load: Load) -> anyhow::Result<Sample> {
        let mut sample = Sample::default();
        let mut busy = load.tasks;
        self.hire(load.tasks);
        let started = Instant::now();
        for caller in &mut self.callers[..load.tasks] {
            caller.take(started, &mut self.tokens, &mut self.nodes);
        }
        while busy > 0 {
            self.flush()?;
            if !self.read(SILENCE)? {
                bail!("floor: no reply for {SILENCE:?}");
            }
            for (ticket, reply) in self.replies.drain(..) {
                let caller = &mut self.callers[ticket.caller as usize];
                match caller.count(ticket, reply, &mut self.nodes) {
                    Outcome::Open => continue,
                    Outcome::Done(cycle) => sample.cycles.push(cycle),
                    Outcome::Failed => sample.failures += 1,
                }
                let now = Instant::now();
                if now < started + load.slice {
                    caller.take(now, &mut self.tokens, &mut self.nodes);
                } else {
                    busy -= 1;
                }
            }
        }
        sample.elapsed = started.elapsed();
        Ok(sample)
    }

    fn settle(&mut self, limit: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + limit;
        while !self.idle() {
            let left = end.saturating_duration_since(Instant::now());
            self.flush()?;
            if left.is_zero() || !self.read(left)? {
                break;
            }
            self.replies.clear();
        }
        Ok(())
    }
}
