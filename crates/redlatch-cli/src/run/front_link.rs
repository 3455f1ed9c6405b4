//! The holder's end of the connection to the front.

use super::{
    board::Board,
    wire::{LENGTH, News, Order},
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::{
    io::{self, Write},
    os::{fd::AsFd as _, unix::net},
};
use tokio::{io::AsyncReadExt, net::UnixStream};

#[derive(Debug)]
pub(super) struct FrontLink {
    stream: UnixStream,
    watchdog: net::UnixStream,
    board: Board,
    bytes: [u8; LENGTH],
    filled: usize,
}

impl FrontLink {
    pub(super) fn new(
        stream: net::UnixStream,
        watchdog: net::UnixStream,
        board: Board,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        watchdog.set_nonblocking(true)?;
        let stream = UnixStream::from_std(stream)?;
        Ok(FrontLink { stream, watchdog, board, bytes: [0; LENGTH], filled: 0 })
    }

    /// Waits for the next order; `None` once the front is dead. Cancel safe: a partly
    /// read message is kept.
    pub(super) async fn next(&mut self) -> Option<Order> {
        while self.filled < LENGTH {
            match self.stream.read(&mut self.bytes[self.filled..]).await {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.filled += read,
            }
        }
        self.filled = 0;
        Order::from_bytes(self.bytes).ok()
    }

    /// Whether the front is dead, whatever it has said before.
    pub(super) fn is_over(&self) -> bool {
        let mut end = [PollFd::new(self.stream.as_fd(), PollFlags::empty())];
        let polled = poll(&mut end, PollTimeout::ZERO);
        polled.is_ok() && end[0].revents().is_some_and(|seen| seen.contains(PollFlags::POLLHUP))
    }

    /// When nothing of the command was left, if the front or the watchdog has killed it.
    pub(super) fn board(&self) -> &Board {
        &self.board
    }

    pub(super) fn tell(&self, news: News) {
        // Nine bytes fit into the buffer; `next` notices if the front is gone.
        let _ = self.stream.try_write(&news.to_bytes());
        // The watchdog would wake up for nothing.
        if !matches!(news, News::Fenced(_)) {
            let _ = (&self.watchdog).write(&news.to_bytes());
        }
    }
}
