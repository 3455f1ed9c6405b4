//! The servers' wire format (RESP2), as much of it as a lock needs.
//!
//! In:  bytes as they come, also half a reply, also nonsense.
//! Out: one reply at a time, borrowed from the buffer.
//!
//! Promise: memory and depth are bounded whatever a server sends, and so is the
//! work: what has been read of a reply is not read again with every byte that
//! comes ([`Progress`]).

/// The longest text of a reply: all fencing registers have 1.5 MB.
const LONGEST: usize = 2 << 20;
/// The largest reply as a whole.
pub(super) const LARGEST: usize = 2 * LONGEST;
/// The most elements of one array.
const MOST_ELEMENTS: usize = 1024;
/// The deepest array in an array.
const DEEPEST: usize = 4;
/// The longest line: a number, a status or an error.
const LONGEST_LINE: usize = 16 * 1024;

/// One reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Status(&'a [u8]),
    Error(&'a [u8]),
    Int(i64),
    Text(&'a [u8]),
    Array(Vec<Value<'a>>),
    Nil,
}

/// What stands there cannot be a reply, or is larger than any we asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Nonsense {
    #[error("a reply cannot start with byte {0:#04x}")]
    Kind(u8),
    #[error("a length or number is malformed")]
    Number,
    #[error("a line has no end")]
    Line,
    #[error("a reply is larger than any we asked for")]
    TooLarge,
    #[error("a text does not end where it should")]
    NoEnd,
}

/// Appends a command: its words, each any bytes.
pub(super) fn write_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    // Room for all at once: kind, at most 20 digits and two line ends a word.
    out.reserve(24 + words.iter().map(|word| word.len() + 25).sum::<usize>());
    write_header(out, b'*', words.len());
    for word in words {
        write_header(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// Kind, length and line end, in one piece.
fn write_header(out: &mut Vec<u8>, kind: u8, length: usize) {
    // Nearly always: a key, a token, a hash.
    if let Ok(short @ 0..100) = u8::try_from(length) {
        let (tens, ones) = (b'0' + short / 10, b'0' + short % 10);
        match tens {
            b'0' => out.extend_from_slice(&[kind, ones, b'\r', b'\n']),
            tens => out.extend_from_slice(&[kind, tens, ones, b'\r', b'\n']),
        }
        return;
    }
    out.push(kind);
    out.extend_from_slice(Digits::default().of(length as u64));
    out.extend_from_slice(b"\r\n");
}

/// A number as decimal digits, without a heap allocation.
#[derive(Default)]
pub(super) struct Digits([u8; 20]);

impl Digits {
    pub(super) fn of(&mut self, mut number: u64) -> &[u8] {
        let mut at = self.0.len();
        loop {
            at -= 1;
            self.0[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return &self.0[at..];
            }
        }
    }
}

/// How far a reply that comes in pieces has been read.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Up to here everything is in order.
    at: usize,
    /// How many elements are missing of each array that has begun, the outermost
    /// first.
    open: Vec<usize>,
}

impl Progress {
    /// The first reply in `bytes` and its length, or none if more must come: the
    /// same bytes and more, next time.
    pub(super) fn read<'a>(
        &mut self,
        bytes: &'a [u8],
    ) -> Result<Option<(Value<'a>, usize)>, Nonsense> {
        // Nearly always a reply comes whole.
        if self.at == 0
            && let Some(whole) = read_reply(bytes)?
        {
            return Ok(Some(whole));
        }
        let Some(length) = self.go_on(bytes)? else {
            return Ok(None);
        };
        *self = Progress::default();
        read_reply(&bytes[..length])
    }

    /// Reads on, element by element. The length of the reply once it is complete.
    fn go_on(&mut self, bytes: &[u8]) -> Result<Option<usize>, Nonsense> {
        let mut reader = Reader { bytes, at: self.at };
        loop {
            match reader.element(self.open.len())? {
                None => return Ok(None),
                Some(Element::Array(length @ 1..)) => self.open.push(length),
                Some(_) => self.count(),
            }
            self.at = reader.at;
            if self.open.is_empty() {
                return Ok(Some(self.at));
            }
        }
    }

    /// One element is complete, and with it perhaps the arrays around it.
    fn count(&mut self) {
        while let Some(missing) = self.open.last_mut() {
            *missing -= 1;
            if *missing > 0 {
                return;
            }
            self.open.pop();
        }
    }
}

/// The first reply in `bytes` and its length, or none if more must come.
fn read_reply(bytes: &[u8]) -> Result<Option<(Value<'_>, usize)>, Nonsense> {
    let mut reader = Reader { bytes, at: 0 };
    let value = reader.value(0)?;
    Ok(value.map(|value| (value, reader.at)))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A value, or what an array starts with: how many values follow.
enum Element<'a> {
    Value(Value<'a>),
    Array(usize),
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Option<Value<'a>>, Nonsense> {
        let length = match self.element(depth)? {
            None => return Ok(None),
            Some(Element::Value(value)) => return Ok(Some(value)),
            Some(Element::Array(length)) => length,
        };
        let mut values = Vec::new();
        for _ in 0..length {
            match self.value(depth + 1)? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        Ok(Some(Value::Array(values)))
    }

    fn element(&mut self, depth: usize) -> Result<Option<Element<'a>>, Nonsense> {
        let Some(&kind) = self.bytes.get(self.at) else {
            return Ok(None);
        };
        if !b"+-:$*".contains(&kind) {
            return Err(Nonsense::Kind(kind));
        }
        let Some(line) = self.line()? else {
            return Ok(None);
        };
        let value = match kind {
            b'+' => Value::Status(line),
            b'-' => Value::Error(line),
            b':' => Value::Int(number(line)?),
            b'$' => return Ok(self.text(line)?.map(Element::Value)),
            _ => match length(line, MOST_ELEMENTS)? {
                None => Value::Nil,
                Some(_) if depth == DEEPEST => return Err(Nonsense::TooLarge),
                Some(length) => return Ok(Some(Element::Array(length))),
            },
        };
        Ok(Some(Element::Value(value)))
    }

    /// The rest of the line behind the kind byte, without its end.
    fn line(&mut self) -> Result<Option<&'a [u8]>, Nonsense> {
        let rest = &self.bytes[self.at + 1..];
        let Some(end) = rest.iter().take(LONGEST_LINE).position(|byte| *byte == b'\r') else {
            return if rest.len() < LONGEST_LINE { Ok(None) } else { Err(Nonsense::Line) };
        };
        match rest.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => {
                self.at += 1 + end + 2;
                Ok(Some(&rest[..end]))
            }
            Some(_) => Err(Nonsense::Line),
        }
    }

    fn text(&mut self, line: &[u8]) -> Result<Option<Value<'a>>, Nonsense> {
        let Some(length) = length(line, LONGEST)? else {
            return Ok(Some(Value::Nil));
        };
        let rest = &self.bytes[self.at..];
        if rest.len() < length + 2 {
            return Ok(None);
        }
        if &rest[length..length + 2] != b"\r\n" {
            return Err(Nonsense::NoEnd);
        }
        self.at += length + 2;
        Ok(Some(Value::Text(&rest[..length])))
    }
}

/// A length, none for -1, which means "nothing there".
fn length(line: &[u8], most: usize) -> Result<Option<usize>, Nonsense> {
    match number(line)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) if length <= most => Ok(Some(length)),
            _ => Err(Nonsense::TooLarge),
        },
    }
}

fn number(line: &[u8]) -> Result<i64, Nonsense> {
    let text = str::from_utf8(line).map_err(|_| Nonsense::Number)?;
    text.parse().map_err(|_| Nonsense::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> Value<'_> {
        let (value, length) = read_reply(bytes).unwrap().unwrap();
        assert_eq!(length, bytes.len());
        value
    }

    #[test]
    fn commands_are_binary_safe() {
        let mut out = Vec::new();

        write_command(&mut out, &[b"GET", b"a\r\n\0\xff"]);

        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$5\r\na\r\n\0\xff\r\n");
    }

    #[test]
    fn lengths_of_any_size_are_written() {
        for length in [0, 9, 10, 99, 100, 1024] {
            let mut out = Vec::new();

            write_header(&mut out, b'$', length);

            assert_eq!(out, format!("${length}\r\n").as_bytes());
        }
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        assert_eq!(whole(b"+OK\r\n"), Value::Status(b"OK"));
        assert_eq!(whole(b"-ERR no\r\n"), Value::Error(b"ERR no"));
        assert_eq!(whole(b":-2\r\n"), Value::Int(-2));
        assert_eq!(whole(b"$2\r\n\r\n\r\n"), Value::Text(b"\r\n"));
        assert_eq!(whole(b"$-1\r\n"), Value::Nil);
        assert_eq!(whole(b"*-1\r\n"), Value::Nil);
        let array = Value::Array(vec![Value::Int(1), Value::Nil]);
        assert_eq!(whole(b"*2\r\n:1\r\n$-1\r\n"), array);
    }

    #[test]
    fn half_a_reply_waits_for_the_rest_wherever_it_is_cut() {
        let reply = b"*3\r\n:1\r\n$3\r\nabc\r\n*1\r\n+OK\r\n";

        for cut in 0..reply.len() {
            assert_eq!(read_reply(&reply[..cut]), Ok(None), "cut at {cut}");
        }
    }

    /// Replies of every kind, nested and one in the other.
    const REPLIES: [&[u8]; 8] = [
        b"*3\r\n:1\r\n$3\r\nabc\r\n*1\r\n+OK\r\n",
        b"*2\r\n*0\r\n*2\r\n*-1\r\n*1\r\n*1\r\n$0\r\n\r\n",
        b"*0\r\n",
        b"$4\r\n\r\n\r\n\r\n",
        b"$-1\r\n",
        b":-7\r\n",
        b"+OK\r\n",
        b"-ERR no\r\n",
    ];

    #[test]
    fn a_reply_is_the_same_wherever_it_is_cut() {
        for reply in REPLIES {
            for cut in 0..reply.len() {
                let mut progress = Progress::default();

                let begun = progress.read(&reply[..cut]);

                assert_eq!(begun, Ok(None), "{} cut at {cut}", reply.escape_ascii());
                let (value, length) = progress.read(reply).unwrap().unwrap();
                assert_eq!(value, whole(reply), "{} cut at {cut}", reply.escape_ascii());
                assert_eq!(length, reply.len());
            }
        }
    }

    #[test]
    fn replies_that_come_byte_by_byte_are_read_one_after_the_other() {
        let stream = REPLIES.concat();
        let (mut progress, mut start, mut read) = (Progress::default(), 0, Vec::new());

        for end in 0..=stream.len() {
            while let Some((value, length)) = progress.read(&stream[start..end]).unwrap() {
                read.push(value);
                start += length;
            }
        }

        assert_eq!(read, REPLIES.map(whole));
    }

    #[test]
    fn what_was_read_of_a_reply_is_not_read_again() {
        let row = [b"*1024\r\n".to_vec(), b":1\r\n".repeat(1024)].concat();
        let reply = [b"*1024\r\n".to_vec(), row.repeat(900)].concat();
        let mut progress = Progress::default();

        for end in (0..reply.len()).step_by(100) {
            assert_eq!(progress.read(&reply[..end]), Ok(None));
            assert!(end - progress.at < 8, "{end} bytes, read up to {}", progress.at);
        }
    }

    #[test]
    fn nonsense_is_noticed_as_soon_as_it_is_there() {
        for (start, nonsense) in [
            (&b"*2\r\n:1\r\n"[..], &b"H"[..]),
            (b"*2\r\n:1\r\n*1", b"025\r\n"),
            (b"*1\r\n*1\r\n*1\r\n*1\r\n", b"*0\r\n"),
            (b"*1\r\n$2\r\nab", b"cd"),
        ] {
            let mut progress = Progress::default();
            let bytes = [start, nonsense].concat();

            assert_eq!(progress.read(start), Ok(None));
            assert!(progress.read(&bytes).is_err(), "{}", nonsense.escape_ascii());
        }
    }

    #[test]
    fn nonsense_is_refused_and_costs_no_memory() {
        let deep = b"*1\r\n".repeat(100);
        let endless = [b"+".to_vec(), b"x".repeat(LONGEST_LINE + 1)].concat();
        let cases: [(&[u8], Nonsense); 9] = [
            (b"HTTP/1.1 400\r\n", Nonsense::Kind(b'H')),
            (b"$9999999999999\r\n", Nonsense::TooLarge),
            (b"*1000000\r\n", Nonsense::TooLarge),
            (b"$-7\r\n", Nonsense::TooLarge),
            (b":1x\r\n", Nonsense::Number),
            (b"$2\r\nabcd", Nonsense::NoEnd),
            (b"+a\rb", Nonsense::Line),
            (&deep, Nonsense::TooLarge),
            (&endless, Nonsense::Line),
        ];
        for (bytes, nonsense) in cases {
            assert_eq!(read_reply(bytes), Err(nonsense));
        }
    }
}
