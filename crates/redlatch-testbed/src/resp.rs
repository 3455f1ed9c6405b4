//! A minimal blocking client: enough to inspect a server from a test.
//!
//! Protocol version 2, one command at a time, with a timeout of five seconds.
//!
//! Not the library's own codec: a test must not share a mistake with the code it tests.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

const TIMEOUT: Duration = Duration::from_secs(5);

/// What a server answered.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// A status such as `OK`.
    Status(String),
    /// An error such as `WRONGTYPE …`.
    Error(String),
    Int(i64),
    /// A string of any bytes.
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Reply>),
}

impl Reply {
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Status(status) if status == "OK")
    }

    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the text of a string, status or error, with invalid UTF-8 replaced.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Status(text) | Self::Error(text) => Some(text.clone()),
            Self::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    /// Returns the elements of an array; empty for everything else.
    pub fn items(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::Error(error) => write!(f, "({error})"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::Nil => write!(f, "nil"),
            Self::Array(items) => f.debug_list().entries(items).finish(),
        }
    }
}

/// One connection to a server.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(port: u16) -> io::Result<Self> {
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Whether the server has closed the connection in the meantime.
    pub(crate) fn is_closed(&self) -> bool {
        let stream = self.stream.get_ref();
        let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
        let quiet = matches!(&peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        !quiet || stream.set_nonblocking(false).is_err()
    }

    /// Sends one command and reads its reply.
    pub(crate) fn run<Part: AsRef<[u8]>>(&mut self, command: &[Part]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", command.len()).into_bytes();
        for part in command {
            let part = part.as_ref();
            request.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            request.extend_from_slice(part);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)?;
        read_reply(&mut self.stream)
    }
}

fn read_reply(stream: &mut impl BufRead) -> io::Result<Reply> {
    let line = read_line(stream)?;
    let mut rest = line.chars();
    let kind = rest.next();
    let rest = rest.as_str();
    match kind {
        Some('+') => Ok(Reply::Status(rest.to_owned())),
        Some('-') => Ok(Reply::Error(rest.to_owned())),
        Some(':') => Ok(Reply::Int(number(rest)?)),
        Some('$') => read_bulk(stream, number(rest)?),
        Some('*') => read_array(stream, number(rest)?),
        _ => Err(garbled(&line)),
    }
}

fn read_bulk(stream: &mut impl BufRead, length: i64) -> io::Result<Reply> {
    let Ok(length) = usize::try_from(length) else {
        return Ok(Reply::Nil);
    };
    let mut bytes = vec![0; length + 2];
    stream.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(Reply::Bulk(bytes))
}

fn read_array(stream: &mut impl BufRead, length: i64) -> io::Result<Reply> {
    let Ok(length) = usize::try_from(length) else {
        return Ok(Reply::Nil);
    };
    let items = (0..length).map(|_| read_reply(stream)).collect::<io::Result<_>>()?;
    Ok(Reply::Array(items))
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(text) => Ok(text.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| garbled(text))
}

fn garbled(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not an answer: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> io::Result<Reply> {
        read_reply(&mut bytes)
    }

    #[test]
    fn every_kind_of_answer_is_understood() {
        let text = b"*6\r\n+OK\r\n-ERR no\r\n:-7\r\n$2\r\n\xff\n\r\n$-1\r\n*-1\r\n";

        let reply = read(text).expect("an answer");

        assert_eq!(reply.items()[0], Reply::Status("OK".into()));
        assert_eq!(reply.items()[1], Reply::Error("ERR no".into()));
        assert_eq!(reply.items()[2], Reply::Int(-7));
        assert_eq!(reply.items()[3], Reply::Bulk(vec![0xff, b'\n']));
        assert_eq!(reply.items()[4..], [Reply::Nil, Reply::Nil]);
    }

    #[test]
    fn an_answer_cut_short_is_an_error() {
        for text in ["", "+O", "$5\r\nab", "*2\r\n:1\r\n"] {
            let error = read(text.as_bytes()).expect_err("nothing");

            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{text:?}");
        }
    }
}
