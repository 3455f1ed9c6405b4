//! One connection: commands queue up, one write sends them, replies come back in
//! the same order.

use super::command::encode;
use anyhow::{Context as _, bail, ensure};
use std::{
    collections::VecDeque,
    io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::TcpStream,
};

/// Replies are 4 or 5 bytes: room for some 3,000 of them, more than one turn has.
const INBOX: usize = 16 * 1024;

/// The caller that asked, and which of its commands this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) caller: u32,
    pub(crate) command: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    Yes,
    No,
}

pub(crate) struct Node {
    socket: TcpStream,
    awaiting: VecDeque<Ticket>,
    outbox: Vec<u8>,
    inbox: Box<[u8]>,
    /// Bytes at the front of the inbox that are no whole reply yet.
    kept: usize,
}

impl Node {
    /// Connects and loads the script; answers with the node and the script's name.
    pub(crate) fn connect(url: &str, script: &str) -> anyhow::Result<(Self, String)> {
        let mut socket = dial(url)?;
        let script = load(&mut socket, script)?;
        socket.set_nonblocking(true)?;
        let node = Self {
            socket,
            awaiting: VecDeque::new(),
            outbox: Vec::new(),
            inbox: vec![0; INBOX].into_boxed_slice(),
            kept: 0,
        };
        Ok((node, script))
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn queue(&mut self, ticket: Ticket, command: &[u8]) {
        self.awaiting.push_back(ticket);
        self.outbox.extend_from_slice(command);
    }

    /// One write. What does not fit is tried again in the next turn, which comes:
    /// a full socket has commands in it whose replies will wake the loop.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.outbox.is_empty() {
            return Ok(());
        }
        match self.socket.write(&self.outbox) {
            Ok(sent) if sent == self.outbox.len() => self.outbox.clear(),
            Ok(sent) => drop(self.outbox.drain(..sent)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// One read; hands over every whole reply with the ticket it belongs to.
    pub(crate) fn read(&mut self, replies: &mut Vec<(Ticket, Reply)>) -> anyhow::Result<()> {
        let got = match self.socket.read(&mut self.inbox[self.kept..]) {
            Ok(0) => bail!("a node closed the connection"),
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let filled = self.kept + got;
        let mut parsed = 0;
        while let Some((reply, length)) = parse(&self.inbox[parsed..filled])? {
            let ticket = self.awaiting.pop_front().context("a reply nobody asked for")?;
            replies.push((ticket, reply));
            parsed += length;
        }
        self.inbox.copy_within(parsed..filled, 0);
        self.kept = filled - parsed;
        Ok(())
    }
}

/// The first reply and its length, `None` if it is not all there. Granted and
/// deleted are yes, a nil and a zero are no; anything else ends the run.
fn parse(bytes: &[u8]) -> anyhow::Result<Option<(Reply, usize)>> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        ensure!(bytes.len() < INBOX, "a reply longer than the inbox");
        return Ok(None);
    };
    let reply = match &bytes[..=end] {
        b"+OK\r\n" | b":1\r\n" => Reply::Yes,
        b"$-1\r\n" | b":0\r\n" => Reply::No,
        other => bail!("unexpected reply {:?}", String::from_utf8_lossy(other)),
    };
    Ok(Some((reply, end + 1)))
}

/// A connection that sends at once.
pub(crate) fn dial(url: &str) -> anyhow::Result<TcpStream> {
    let address = url.strip_prefix("redis://").context("not a redis:// address")?;
    let socket = TcpStream::connect(address.trim_end_matches('/'))?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

fn load(socket: &mut TcpStream, script: &str) -> anyhow::Result<String> {
    socket.write_all(encode(&["SCRIPT", "LOAD", script]).as_bytes())?;
    let mut lines = BufReader::new(socket).lines();
    let length = lines.next().context("no reply to SCRIPT LOAD")??;
    ensure!(length == "$40", "SCRIPT LOAD answered {length:?}");
    Ok(lines.next().context("half a reply to SCRIPT LOAD")??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_one_by_one() -> anyhow::Result<()> {
        let bytes = b"+OK\r\n$-1\r\n:1\r";

        let (first, length) = parse(bytes)?.expect("a whole reply");
        let (second, _) = parse(&bytes[length..])?.expect("a whole reply");
        let cut_off = parse(b":1\r")?;

        assert_eq!((first, second), (Reply::Yes, Reply::No));
        assert_eq!(cut_off, None);
        Ok(())
    }

    #[test]
    fn an_error_reply_ends_the_run() {
        assert!(parse(b"-NOSCRIPT No matching script\r\n").is_err());
    }
}
