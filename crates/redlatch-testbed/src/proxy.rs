//! A TCP proxy in front of one server that simulates a bad network.
//!
//! One thread moves all bytes; it applies a new setting before it moves the
//! next byte. Dropping a proxy drops all its connections.

mod link;
mod switch;

use crate::{error::StartError, port::Port, server::Server};
use std::{
    io,
    net::TcpListener,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};
use switch::{Door, Shared, Switch};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the clients to the server.
    Requests,
    /// From the server to the clients.
    Replies,
}

/// What happens to the bytes in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Rule {
    #[default]
    Pass,
    Delay(Duration),
    Hold,
    Discard,
}

/// A TCP proxy in front of one server.
///
/// At first it forwards everything. Settings apply to existing and new connections.
///
/// ```
/// use redlatch_testbed::{Direction, Proxy, Server};
///
/// let server = Server::start()?;
/// let proxy = Proxy::to(&server)?;
///
/// proxy.hold(Direction::Replies);
/// // A client of `proxy.url()` now waits, although the server did its work …
/// proxy.release(Direction::Replies);
/// // … and has its answer.
/// # Ok::<(), redlatch_testbed::StartError>(())
/// ```
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    listener: Arc<TcpListener>,
    thread: Option<JoinHandle<()>>,
    port: Port,
}

impl Proxy {
    pub fn to(server: &Server) -> Result<Self, StartError> {
        let (port, listener) = Port::listen().map_err(|_| StartError::NoPort)?;
        Self::start(server.port(), port, listener).map_err(StartError::system("start a proxy"))
    }

    fn start(server: u16, port: Port, listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = Arc::new(listener);
        let (woken, wake) = io::pipe()?;
        let shared = Arc::new(Shared::new(wake, server));
        let switch = Switch::new(Arc::clone(&shared), Arc::clone(&listener), woken);
        let thread = thread::Builder::new().name("proxy".into()).spawn(move || switch.run())?;
        Ok(Self { shared, listener, thread: Some(thread), port })
    }

    /// Returns the address for clients: `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Forwards everything again, in both directions, and accepts connections.
    /// Sends what was held or delayed at once.
    pub fn pass(&self) {
        self.shared.change(|rules| {
            (rules.requests, rules.replies) = (Rule::Pass, Rule::Pass);
            rules.lose_next_reply = false;
        });
        self.let_connects_through();
    }

    /// Forwards bytes only once they are this old.
    pub fn delay(&self, direction: Direction, by: Duration) {
        self.rule(direction, Rule::Delay(by));
    }

    /// Holds all bytes until they are [released](Self::release): what packet
    /// loss looks like over TCP.
    pub fn hold(&self, direction: Direction) {
        self.rule(direction, Rule::Hold);
    }

    /// Forwards one direction again, starting with what was held or delayed.
    pub fn release(&self, direction: Direction) {
        self.rule(direction, Rule::Pass);
    }

    /// Discards all bytes in one direction, including the end of the connection.
    ///
    /// A connection that lost bytes this way stays mute forever, whatever is
    /// set later: the bytes after a gap would be nonsense.
    pub fn discard(&self, direction: Direction) {
        self.rule(direction, Rule::Discard);
    }

    /// Accepts connections, but forwards no byte in either direction.
    pub fn black_hole(&self) {
        self.shared
            .change(|rules| (rules.requests, rules.replies) = (Rule::Discard, Rule::Discard));
    }

    /// Loses the next reply, on whichever connection it comes: the server has
    /// carried out the command, and the client never learns of it.
    ///
    /// From this reply on nothing comes back on that connection, because TCP
    /// has no gaps. Requests still get through.
    pub fn lose_next_reply(&self) {
        self.shared.change(|rules| rules.lose_next_reply = true);
    }

    /// Returns how many replies [`lose_next_reply`](Self::lose_next_reply) has lost.
    pub fn lost_replies(&self) -> usize {
        self.shared.count(|counts| counts.lost_replies)
    }

    /// Resets all connections, on both sides; returns when that is done.
    pub fn reset_all(&self) {
        self.shared.reset_all();
    }

    /// Forwards to this server from now on, as after a change of DNS or of a
    /// port forward; resets all existing connections.
    pub fn lead_to(&self, server: &Server) {
        self.lead_next_to(server);
        self.reset_all();
    }

    /// Forwards to this server from the next connection on. Existing
    /// connections stay where they are.
    pub fn lead_next_to(&self, server: &Server) {
        self.shared.change(|rules| rules.server = server.port());
    }

    /// Makes new connections hang, as if their packets were lost, until
    /// [`pass`](Self::pass). Existing connections are not affected.
    ///
    /// A client's kernel retries after 1 s, 2 s, 4 s …, so a connection that
    /// hung may take that long to get through afterwards.
    ///
    /// # Panics
    /// If the kernel's queue of connections cannot be filled.
    pub fn hang_connects(&self) {
        self.shared.stop_accepting();
        let fillers = switch::fill_backlog(&self.listener).expect("fill the queue of connects");
        self.shared.change(|rules| rules.fillers = fillers);
    }

    /// Returns how many connections were accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.count(|counts| counts.accepted)
    }

    pub fn open_connections(&self) -> usize {
        self.shared.count(|counts| counts.open)
    }

    fn rule(&self, direction: Direction, rule: Rule) {
        self.shared.change(|rules| match direction {
            Direction::Requests => rules.requests = rule,
            Direction::Replies => rules.replies = rule,
        });
    }

    fn let_connects_through(&self) {
        let _ = switch::empty_backlog(&self.listener);
        self.shared.change(|rules| rules.door = Door::Open);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|rules| rules.ending = true);
        if let Some(thread) = self.thread.take() {
            // It panics only if there is a bug, and has reported it already.
            let _ = thread.join();
        }
    }
}
