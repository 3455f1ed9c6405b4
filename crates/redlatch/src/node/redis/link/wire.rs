//! The bytes of one connection: those to write, and those read.

use super::super::{
    connect::Stream,
    resp::{LARGEST, Nonsense, Progress, Value},
};
use redlatch_core::Fault;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much to read at once.
const READ: usize = 16 * 1024;

pub(super) struct Wire {
    stream: Stream,
    out: Vec<u8>,
    written: usize,
    /// Read but not yet parsed: `read[start..end]`.
    read: Vec<u8>,
    start: usize,
    end: usize,
    /// How far the reply at `start` has been parsed.
    progress: Progress,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Self {
        Wire {
            stream,
            out: Vec::with_capacity(READ),
            written: 0,
            read: vec![0; READ],
            start: 0,
            end: 0,
            progress: Progress::default(),
        }
    }

    /// The buffer for bytes to be written.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Whether everything so far has been written.
    pub(super) fn is_written(&self) -> bool {
        self.out.is_empty()
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let mut stream = Pin::new(&mut self.stream);
        while self.written < self.out.len() {
            match ready!(stream.as_mut().poll_write(cx, &self.out[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        self.out.clear();
        self.written = 0;
        stream.poll_flush(cx)
    }

    /// Frees unused memory.
    pub(super) fn shrink(&mut self) {
        self.out.shrink_to(READ);
        self.read.truncate(self.end.max(READ));
        self.read.shrink_to_fit();
    }

    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.end == self.read.len() {
            if self.start > 0 {
                self.read.copy_within(self.start.., 0);
                self.end -= self.start;
                self.start = 0;
            }
            let enough = self.read.len().max(self.end + READ);
            self.read.resize(enough, 0);
        }
        let mut buffer = ReadBuf::new(&mut self.read[self.end..]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        let got = buffer.filled().len();
        self.end += got;
        Poll::Ready(Ok(got))
    }

    /// The next value that was read, if it is complete.
    pub(super) fn next(&mut self) -> Result<Option<Value<'_>>, Fault> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            return Ok(None);
        }
        let unread = &self.read[self.start..self.end];
        let Some((value, length)) = self.progress.read(unread).map_err(nonsense)? else {
            let is_too_large = unread.len() > LARGEST;
            return if is_too_large { Err(nonsense(Nonsense::TooLarge)) } else { Ok(None) };
        };
        self.start += length;
        Ok(Some(value))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn nonsense(nonsense: Nonsense) -> Fault {
    Fault::Nonsense(nonsense.to_string().into())
}
