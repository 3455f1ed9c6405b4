//! A TCP proxy in front of one server: the bad network, at the flick of a
//! switch.
//!
//! One thread moves all bytes; it takes up a new setting before it moves the
//! next byte. A proxy is dropped with all its connections.

mod link;
mod switch;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::StartError;
use crate::port::Port;
use crate::server::Server;
use switch::{Door, Shared, Switch};

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the clients to the server.
    Requests,
    /// From the server to the clients.
    Replies,
}

/// What becomes of the bytes that go one way.
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
/// It starts by passing everything on. The settings hold for connections that
/// exist and for those to come.
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
    /// A proxy in front of a server.
    pub fn to(server: &Server) -> Result<Self, StartError> {
        Self::to_port(server.port())
    }

    /// A proxy in front of a port on loopback: of a server's TLS port, say, or
    /// of another proxy.
    pub fn to_port(server: u16) -> Result<Self, StartError> {
        let failed = StartError::system("start a proxy");
        let (port, listener) = Port::listen().map_err(|_| StartError::NoPort)?;
        Self::start(server, port, listener).map_err(failed)
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

    /// The address for clients: `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// The port for clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Passes everything on again, both ways, and lets connects through.
    /// What was held or delayed goes out at once.
    pub fn pass(&self) {
        self.shared.change(|rules| {
            (rules.requests, rules.replies) = (Rule::Pass, Rule::Pass);
            rules.lose_next_reply = false;
        });
        self.let_connects_through();
    }

    /// Passes bytes on only when they are this old.
    pub fn delay(&self, direction: Direction, by: Duration) {
        self.rule(direction, Rule::Delay(by));
    }

    /// Keeps all bytes until they are [released](Self::release): a network
    /// that loses packets, as TCP shows it.
    pub fn hold(&self, direction: Direction) {
        self.rule(direction, Rule::Hold);
    }

    /// Passes one way on again, what was held or delayed first.
    pub fn release(&self, direction: Direction) {
        self.rule(direction, Rule::Pass);
    }

    /// Throws all bytes of one way away, the end of the connection too.
    ///
    /// A connection that lost bytes this way stays mute for ever, whatever is
    /// set later: what follows a gap would be nonsense.
    pub fn discard(&self, direction: Direction) {
        self.rule(direction, Rule::Discard);
    }

    /// Accepts connections, and never lets a byte through in either direction.
    pub fn black_hole(&self) {
        self.shared
            .change(|rules| (rules.requests, rules.replies) = (Rule::Discard, Rule::Discard));
    }

    /// Loses the next reply, whichever connection it comes on: the server has
    /// done what it was asked, and the client is never told.
    ///
    /// From this reply on nothing comes back on that connection, because TCP
    /// has no gaps. Requests still get through.
    pub fn lose_next_reply(&self) {
        self.shared.change(|rules| rules.lose_next_reply = true);
    }

    /// How many replies [`lose_next_reply`](Self::lose_next_reply) has lost.
    #[must_use]
    pub fn lost_replies(&self) -> usize {
        self.shared.count(|counts| counts.lost_replies)
    }

    /// Resets all connections, on both sides; returns when it is done.
    pub fn reset_all(&self) {
        self.shared.reset_all();
    }

    /// Leads to this server from now on, as after a change of DNS or of a port
    /// forward; resets all connections that led elsewhere.
    pub fn lead_to(&self, server: &Server) {
        self.lead_next_to(server);
        self.reset_all();
    }

    /// Leads to this server from the next connection on. Those that exist stay
    /// where they are.
    pub fn lead_next_to(&self, server: &Server) {
        self.shared.change(|rules| rules.server = server.port());
    }

    /// Lets new connects hang, as if their packets got lost, until
    /// [`pass`](Self::pass). Connections that exist go on.
    ///
    /// The kernel of a client tries again after 1 s, 2 s, 4 s …, so it may
    /// take that long until a connect that hung gets through afterwards.
    ///
    /// # Panics
    /// If the kernel does not let the queue of connects run full.
    pub fn hang_connects(&self) {
        self.shared.stop_accepting();
        let fillers = switch::fill_backlog(&self.listener).expect("fill the queue of connects");
        self.shared.change(|rules| rules.fillers = fillers);
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.count(|counts| counts.accepted)
    }

    /// How many connections are open now.
    #[must_use]
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
            // It panics only if there is a bug, and has said so already.
            let _ = thread.join();
        }
    }
}
