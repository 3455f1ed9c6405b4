//! The wire format of Redis (RESP2 and RESP3), as far as locks need it.
//!
//! In:  bytes as they arrive, including partial replies and garbage.
//! Out: one reply at a time, borrowed from the buffer.
//!
//! Promise: memory, depth and work are bounded, whatever a server sends. A partial reply is
//! not parsed again from the start with every byte that arrives ([`Progress`]).

/// The longest text in a reply: all fencing registers together take 1.5 MB.
const LONGEST: usize = 2 << 20;
/// The largest reply as a whole.
pub(super) const LARGEST: usize = 2 * LONGEST;
/// The most elements of one array.
const MOST_ELEMENTS: usize = 1024;
/// The deepest nesting of arrays.
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
    /// Also a set, and a map's keys and values in turn.
    Array(Vec<Value<'a>>),
    /// Not a reply: an unsolicited message between replies.
    Push(Vec<Value<'a>>),
    Nil,
}

/// The bytes cannot be a reply, or are larger than any we asked for.
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

/// Appends a command; its words may be any bytes.
pub(super) fn write_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    // Reserve for all at once: kind, at most 20 digits and two line ends per word.
    out.reserve(24 + words.iter().map(|word| word.len() + 25).sum::<usize>());
    write_header(out, b'*', words.len());
    for word in words {
        write_word(out, word);
    }
}

/// Appends one word of a command, which may be any bytes.
#[inline]
pub(super) fn write_word(out: &mut Vec<u8>, word: &[u8]) {
    write_header(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Appends the start of a command (`*`, how many words) or word (`$`, how many bytes),
/// in one go.
#[inline]
pub(super) fn write_header(out: &mut Vec<u8>, kind: u8, length: usize) {
    // The common case: a key, a token, a hash.
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

/// How far a partial reply has been parsed.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Everything up to here is valid.
    at: usize,
    /// How many elements each open array still lacks, the outermost first.
    open: Vec<usize>,
}

impl Progress {
    /// Returns the first reply in `bytes` and its length, or `None` if it is
    /// incomplete: next time, pass the same bytes and more.
    pub(super) fn read<'a>(
        &mut self,
        bytes: &'a [u8],
    ) -> Result<Option<(Value<'a>, usize)>, Nonsense> {
        // A reply usually arrives whole.
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

    /// Continues element by element. Returns the length of the reply once complete.
    fn go_on(&mut self, bytes: &[u8]) -> Result<Option<usize>, Nonsense> {
        let mut reader = Reader { bytes, at: self.at };
        loop {
            match reader.element(self.open.len())? {
                None => return Ok(None),
                Some(Element::Array(length @ 1..) | Element::Push(length @ 1..)) => {
                    self.open.push(length);
                }
                Some(_) => self.count(),
            }
            self.at = reader.at;
            if self.open.is_empty() {
                return Ok(Some(self.at));
            }
        }
    }

    /// Counts a complete element, and any array that it completes.
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

/// Returns the first reply in `bytes` and its length, or `None` if it is incomplete.
fn read_reply(bytes: &[u8]) -> Result<Option<(Value<'_>, usize)>, Nonsense> {
    let mut reader = Reader { bytes, at: 0 };
    let value = reader.value(0)?;
    Ok(value.map(|value| (value, reader.at)))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Nearly all answers consist of this: an unsigned number too short to overflow, or `+OK`.
/// Returns its length, too.
fn short(bytes: &[u8]) -> Option<(Value<'_>, usize)> {
    let digits = match bytes {
        [b'+', b'O', b'K', b'\r', b'\n', ..] => return Some((Value::Status(&bytes[1..3]), 5)),
        [b':', digits @ ..] => digits,
        _ => return None,
    };
    let (mut number, mut length) = (0, 0);
    while length < 18
        && let Some(digit @ b'0'..=b'9') = digits.get(length)
    {
        number = 10 * number + i64::from(digit - b'0');
        length += 1;
    }
    match digits[length..] {
        [b'\r', b'\n', ..] if length > 0 => Some((Value::Int(number), length + 3)),
        _ => None,
    }
}

/// A value, or the start of an array: how many values follow.
enum Element<'a> {
    Value(Value<'a>),
    Array(usize),
    Push(usize),
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Option<Value<'a>>, Nonsense> {
        if let Some((value, length)) = short(&self.bytes[self.at..]) {
            self.at += length;
            return Ok(Some(value));
        }
        let (length, is_push) = match self.element(depth)? {
            None => return Ok(None),
            Some(Element::Value(value)) => return Ok(Some(value)),
            Some(Element::Array(length)) => (length, false),
            Some(Element::Push(length)) => (length, true),
        };
        let mut values = Vec::with_capacity(length);
        for _ in 0..length {
            match self.value(depth + 1)? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        Ok(Some(if is_push { Value::Push(values) } else { Value::Array(values) }))
    }

    fn element(&mut self, depth: usize) -> Result<Option<Element<'a>>, Nonsense> {
        let Some(&kind) = self.bytes.get(self.at) else {
            return Ok(None);
        };
        // No server we know sends attributes (`|`) or streams (`?`) unless asked to.
        let is_known = matches!(
            kind,
            b'+' | b'-'
                | b':'
                | b'$'
                | b'*'
                | b'_'
                | b'#'
                | b','
                | b'('
                | b'='
                | b'!'
                | b'%'
                | b'~'
        );
        if !is_known && (kind != b'>' || depth > 0) {
            return Err(Nonsense::Kind(kind));
        }
        let Some(line) = self.line()? else {
            return Ok(None);
        };
        let value = match kind {
            b'+' => Value::Status(line),
            b'-' => Value::Error(line),
            b':' => Value::Int(number(line)?),
            b',' | b'(' => Value::Text(line),
            b'_' => Value::Nil,
            b'#' => match line {
                b"t" => Value::Int(1),
                b"f" => Value::Int(0),
                _ => return Err(Nonsense::Number),
            },
            b'$' | b'=' | b'!' => return Ok(self.text(kind, line)?.map(Element::Value)),
            _ => {
                let most = if kind == b'%' { MOST_ELEMENTS / 2 } else { MOST_ELEMENTS };
                match length(line, most)? {
                    None => Value::Nil,
                    Some(_) if depth == DEEPEST => return Err(Nonsense::TooLarge),
                    Some(length) if kind == b'%' => return Ok(Some(Element::Array(2 * length))),
                    Some(length) if kind == b'>' => return Ok(Some(Element::Push(length))),
                    Some(length) => return Ok(Some(Element::Array(length))),
                }
            }
        };
        Ok(Some(Element::Value(value)))
    }

    /// The rest of the line after the kind byte, without its end.
    fn line(&mut self) -> Result<Option<&'a [u8]>, Nonsense> {
        let rest = &self.bytes[self.at + 1..];
        let longest = &rest[..rest.len().min(LONGEST_LINE)];
        let Some(end) = longest.iter().position(|byte| *byte == b'\r') else {
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

    fn text(&mut self, kind: u8, line: &[u8]) -> Result<Option<Value<'a>>, Nonsense> {
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
        let text = &rest[..length];
        Ok(Some(match kind {
            b'!' => Value::Error(text),
            // A verbatim text begins with its format, `txt:`.
            b'=' => Value::Text(text.get(4..).ok_or(Nonsense::NoEnd)?),
            _ => Value::Text(text),
        }))
    }
}

/// A length; `None` for -1, which means nil.
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
    // Nearly always: no sign, and too short to overflow.
    if let 1..=18 = line.len()
        && line.iter().all(u8::is_ascii_digit)
    {
        return Ok(line.iter().fold(0, |number, digit| 10 * number + i64::from(digit - b'0')));
    }
    let text = str::from_utf8(line).map_err(|_| Nonsense::Number)?;
    text.parse().map_err(|_| Nonsense::Number)
}

#[cfg(test)]
mod tests;
