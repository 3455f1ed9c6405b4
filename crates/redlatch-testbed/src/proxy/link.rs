//! One connection through the proxy: two sockets and a lane for each direction.

use super::Rule;
use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    time::{Duration, Instant},
};

/// A client's connection, and ours to the server on its behalf.
pub(super) struct Link {
    pub(super) client: TcpStream,
    pub(super) server: TcpStream,
    pub(super) requests: Lane,
    pub(super) replies: Lane,
}

/// The bytes in transit in one direction.
#[derive(Default)]
pub(super) struct Lane {
    /// With their time of arrival. An empty one is the end of the stream.
    queue: VecDeque<(Instant, Vec<u8>)>,
    /// The sender will send nothing more.
    ended: bool,
    /// The end has been forwarded, or nothing can be forwarded any more.
    closed: bool,
    /// Bytes were lost, so nothing may follow.
    mute: bool,
}

impl Link {
    pub(super) fn new(client: TcpStream, server: TcpStream) -> io::Result<Self> {
        for socket in [&client, &server] {
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
        }
        Ok(Self { client, server, requests: Lane::default(), replies: Lane::default() })
    }

    /// Whether nothing can move in either direction from now on.
    pub(super) fn is_over(&self) -> bool {
        self.requests.closed && self.replies.closed
    }

    /// Makes both sockets send a reset when they are closed.
    pub(super) fn reset_on_close(&self) {
        for socket in [&self.client, &self.server] {
            // A socket that is gone needs no reset.
            let _ = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
        }
    }
}

impl Lane {
    /// Whether the sender may have something for us.
    pub(super) fn wants_to_read(&self) -> bool {
        !self.ended
    }

    /// When the next bytes are due; `None` if there are none or they are held.
    pub(super) fn due(&self, rule: Rule) -> Option<Instant> {
        let (arrived, _) = self.queue.front().filter(|_| !self.closed)?;
        match rule {
            Rule::Pass => Some(*arrived),
            Rule::Delay(by) => Some(*arrived + by),
            Rule::Hold | Rule::Discard => None,
        }
    }

    /// Discards everything from here on.
    pub(super) fn fall_mute(&mut self) {
        self.mute = true;
        self.queue.clear();
    }

    /// Reads what the sender has sent; returns whether there was anything.
    pub(super) fn take_in(&mut self, mut from: &TcpStream, rule: Rule) -> bool {
        let mut buffer = [0; 16 * 1024];
        let read = match from.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if is_not_yet(&error) => return false,
            // To the other side a reset looks like an end.
            Err(_) => 0,
        };
        self.ended = read == 0;
        if rule == Rule::Discard {
            self.fall_mute();
        }
        if !self.mute {
            self.queue.push_back((Instant::now(), buffer[..read].to_vec()));
        }
        read > 0
    }

    /// Forwards what is due.
    pub(super) fn give_out(&mut self, mut to: &TcpStream, rule: Rule, now: Instant) {
        while self.due(rule).is_some_and(|due| due <= now) {
            let Some((_, bytes)) = self.queue.front_mut() else { return };
            if bytes.is_empty() {
                let _ = to.shutdown(Shutdown::Write);
                self.closed = true;
                return;
            }
            match to.write(bytes) {
                Ok(written) if written == bytes.len() => drop(self.queue.pop_front()),
                Ok(written) => drop(bytes.drain(..written)),
                Err(error) if is_not_yet(&error) => return,
                Err(_) => self.closed = true,
            }
        }
    }
}

fn is_not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
