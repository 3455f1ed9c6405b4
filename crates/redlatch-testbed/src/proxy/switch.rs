//! The thread that moves the bytes, and what it shares with the proxy.
//!
//! The thread owns all connections. It holds the lock on the rules while it
//! moves bytes, never while it waits: once a rule is set, it is in force.

use super::{Rule, link::Link};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    io::{self, PipeReader, PipeWriter, Read, Write},
    mem,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The proxy's current settings.
#[derive(Debug)]
pub(super) struct Rules {
    /// The port that new connections lead to.
    pub(super) server: u16,
    pub(super) requests: Rule,
    pub(super) replies: Rule,
    pub(super) lose_next_reply: bool,
    pub(super) door: Door,
    /// Our own connections that keep the queue of connections full.
    pub(super) fillers: Vec<TcpStream>,
    pub(super) ending: bool,
    /// Reset all connections, once.
    reset: bool,
    counts: Counts,
}

/// Whether connections are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    Open,
    /// Waiting connections are let in, because to their clients they are connected.
    Closing,
    Closed,
}

/// Counts of what has happened.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) accepted: usize,
    pub(super) open: usize,
    pub(super) lost_replies: usize,
}

/// What the proxy and its thread share.
#[derive(Debug)]
pub(super) struct Shared {
    rules: Mutex<Rules>,
    turn_done: Condvar,
    wake: PipeWriter,
}

impl Shared {
    pub(super) fn new(wake: PipeWriter, server: u16) -> Self {
        let rules = Rules {
            server,
            requests: Rule::Pass,
            replies: Rule::Pass,
            lose_next_reply: false,
            door: Door::Open,
            fillers: Vec::new(),
            ending: false,
            reset: false,
            counts: Counts::default(),
        };
        Self { rules: Mutex::new(rules), turn_done: Condvar::new(), wake }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.lock());
        self.wake();
    }

    pub(super) fn count(&self, count: impl FnOnce(&Counts) -> usize) -> usize {
        count(&self.lock().counts)
    }

    pub(super) fn reset_all(&self) {
        self.change(|rules| rules.reset = true);
        self.wait_while(|rules| rules.reset);
    }

    pub(super) fn stop_accepting(&self) {
        self.change(|rules| rules.door = Door::Closing);
        self.wait_while(|rules| rules.door == Door::Closing);
    }

    fn wait_while(&self, condition: impl FnMut(&mut Rules) -> bool) {
        let waited = self.turn_done.wait_while(self.lock(), condition);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn wake(&self) {
        // Fails only if the thread is gone.
        let _ = (&self.wake).write(&[0]);
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's own side.
pub(super) struct Switch {
    shared: Arc<Shared>,
    listener: Arc<TcpListener>,
    woken: PipeReader,
    links: Vec<Link>,
}

impl Switch {
    pub(super) fn new(shared: Arc<Shared>, listener: Arc<TcpListener>, woken: PipeReader) -> Self {
        Self { shared, listener, woken, links: Vec::new() }
    }

    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            self.wait();
            let mut rules = shared.lock();
            if rules.ending {
                return;
            }
            self.turn(&mut rules);
            shared.turn_done.notify_all();
        }
    }

    /// Waits until there is something to move.
    fn wait(&mut self) {
        let rules = self.shared.lock();
        let (requests, replies, door) = (rules.requests, rules.replies, rules.door);
        drop(rules);
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        let mut polled = vec![PollFd::new(&self.woken, PollFlags::IN)];
        if door == Door::Open {
            polled.push(PollFd::new(&*self.listener, PollFlags::IN));
        }
        for link in &self.links {
            let ways = [
                (&link.client, &link.requests, &link.replies, replies),
                (&link.server, &link.replies, &link.requests, requests),
            ];
            for (socket, incoming, outgoing, rule) in ways {
                let due = outgoing.due(rule);
                let mut events = PollFlags::empty();
                events.set(PollFlags::IN, incoming.wants_to_read());
                events.set(PollFlags::OUT, due.is_some_and(|due| due <= now));
                next = [next, due.filter(|due| *due > now)].into_iter().flatten().min();
                // Without events a socket that hung up would still wake us.
                if !events.is_empty() {
                    polled.push(PollFd::new(socket, events));
                }
            }
        }
        // Rounded up, to avoid spinning through the last millisecond.
        let timeout = next.map(|next| next - now + Duration::from_micros(100));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // An interrupted wait is a turn with nothing to do.
        let _ = poll(&mut polled, timeout.as_ref());
        let woken = polled[0].revents().contains(PollFlags::IN);
        drop(polled);
        if woken {
            let _ = self.woken.read(&mut [0; 64]);
        }
    }

    /// Moves what can be moved without blocking.
    fn turn(&mut self, rules: &mut Rules) {
        if mem::take(&mut rules.reset) {
            self.links.drain(..).for_each(|link| link.reset_on_close());
        }
        self.mind_the_door(rules);
        let now = Instant::now();
        for Link { client, server, requests, replies } in &mut self.links {
            requests.take_in(client, rules.requests);
            let replied = replies.take_in(server, rules.replies);
            if replied && rules.lose_next_reply {
                rules.lose_next_reply = false;
                rules.counts.lost_replies += 1;
                replies.fall_mute();
            }
            requests.give_out(server, rules.requests, now);
            replies.give_out(client, rules.replies, now);
        }
        self.links.retain(|link| !link.is_over());
        rules.counts.open = self.links.len();
    }

    fn mind_the_door(&mut self, rules: &mut Rules) {
        if rules.door == Door::Closed {
            return;
        }
        while let Ok((client, peer)) = self.listener.accept() {
            self.accept(client, peer, rules);
        }
        match rules.door {
            Door::Closing => rules.door = Door::Closed,
            _ => rules.fillers.clear(),
        }
    }

    fn accept(&mut self, client: TcpStream, peer: SocketAddr, rules: &mut Rules) {
        let is_filler = |filler: &TcpStream| filler.local_addr().is_ok_and(|addr| addr == peer);
        if rules.fillers.iter().any(is_filler) {
            return;
        }
        rules.counts.accepted += 1;
        // If the server is down, the client sees its connection closed.
        if let Ok(link) = TcpStream::connect((Ipv4Addr::LOCALHOST, rules.server))
            .and_then(|server| Link::new(client, server))
        {
            self.links.push(link);
        }
    }
}

/// Shrinks the queue of connections to nothing and fills it, so that the kernel
/// drops the packets of further ones. Returns the connections that fill it.
pub(super) fn fill_backlog(listener: &TcpListener) -> io::Result<Vec<TcpStream>> {
    const LONG_ENOUGH: Duration = Duration::from_millis(50);
    const MOST: usize = 64;
    rustix::net::listen(listener, 0)?;
    let address = listener.local_addr()?;
    let mut fillers = Vec::new();
    while fillers.len() < MOST {
        match TcpStream::connect_timeout(&address, LONG_ENOUGH) {
            Ok(filler) => fillers.push(filler),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(fillers),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("connects get through however many there are"))
}

/// Restores the usual length of the queue of connections.
pub(super) fn empty_backlog(listener: &TcpListener) -> io::Result<()> {
    Ok(rustix::net::listen(listener, 128)?)
}
