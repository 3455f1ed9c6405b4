//! One subscribed connection: messages that say whose turn it is.

use crate::worker::floor::{command::encode, node::dial};
use anyhow::{Context as _, bail, ensure};
use redlatch_testbed::wait_until;
use std::{
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

/// Digits of a turn's number, and the line end.
const NUMBER: usize = 8 + 2;

/// How long the other process may take to subscribe.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns once somebody listens: news that nobody hears would be the last.
pub(super) fn wait_for_listener(url: &str, channel: &str) -> anyhow::Result<()> {
    let mut socket = dial(url)?;
    let mut lines = BufReader::new(socket.try_clone()?).lines();
    let mut listens = || {
        socket.write_all(encode(&["PUBSUB", "NUMSUB", channel]).as_bytes()).ok()?;
        lines.by_ref().map_while(Result::ok).find(|line| line.starts_with(':'))
    };
    let heard = wait_until(PATIENCE, || listens().is_some_and(|count| count != ":0"));
    ensure!(heard, "floor: nobody listens to {channel}");
    Ok(())
}

pub(super) struct Pushes {
    socket: TcpStream,
    inbox: Vec<u8>,
    /// All messages are of this length.
    length: usize,
}

impl Pushes {
    /// Returns once the node has confirmed.
    pub(super) fn subscribe(url: &str, channels: &[String]) -> anyhow::Result<Self> {
        let mut socket = dial(url)?;
        let mut lines = BufReader::new(socket.try_clone()?).lines();
        for channel in channels {
            socket.write_all(encode(&["SUBSCRIBE", channel]).as_bytes())?;
            while !lines.next().context("no reply to SUBSCRIBE")??.starts_with(':') {}
        }
        socket.set_nonblocking(true)?;
        let channel = channels.first().context("nothing to subscribe to")?;
        let length = encode(&["message", channel, "00000000"]).len();
        Ok(Self { socket, inbox: Vec::new(), length })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// One read; hands over the number in every whole message.
    pub(super) fn read(&mut self, turns: &mut Vec<u64>) -> anyhow::Result<()> {
        let mut buffer = [0; 1024];
        let got = match self.socket.read(&mut buffer) {
            Ok(0) => bail!("a node closed the subscription"),
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.inbox.extend_from_slice(&buffer[..got]);
        while self.inbox.len() >= self.length {
            let message: Vec<u8> = self.inbox.drain(..self.length).collect();
            ensure!(message.starts_with(b"*3\r\n$7\r\nmessage"), "not a message");
            let number = str::from_utf8(&message[self.length - NUMBER..])?;
            turns.push(number.trim_end().parse()?);
        }
        Ok(())
    }
}
