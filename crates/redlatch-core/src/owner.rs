//! The holder of a lock, or someone waiting for it: the text that signs a lock token,
//! and its parts.
//!
//! In:  a label, and what else is known about the owner. Out: one line of text, and back.
//!
//! The text is `label` followed by details, each at most once and in this order: `;host=…`,
//! `;pid=…`, `;user=…`, `;command=…`, `;since=…`. In their values, white space, control
//! characters, `;` and `%` are written as `%xx`. `since` is in milliseconds since 1970. The
//! label is whatever remains when the details are removed from the end. A label `host/pid`
//! contains both without details.
//!
//! Promise: at most [`MAX_SIGNATURE`] bytes, without white space; details that are too long
//! are truncated. A text without details is a label.

use crate::moment::Moment;
use alloc::{
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::{fmt, fmt::Write as _, time::Duration};

/// The longest owner label, in bytes.
pub const MAX_OWNER: usize = 255;
/// The longest text of an owner, in bytes: nodes read 512 bytes of a key, and the token
/// before the text needs 41 of them.
pub const MAX_SIGNATURE: usize = 471;
/// The longest value of each detail, in bytes, as written.
const MAX_HOST: usize = 64;
const MAX_USER: usize = 32;
const MAX_COMMAND: usize = 60;
/// The latest time, in milliseconds since 1970: 13 digits, until the year 2286.
const LATEST: u64 = 9_999_999_999_999;

const HOST: &str = ";host=";
const PID: &str = ";pid=";
const USER: &str = ";user=";
const COMMAND: &str = ";command=";
const SINCE: &str = ";since=";

/// The holder of a lock, as a label for operators: `host/pid` by default. It may come with
/// [details](OwnerParts).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The label, and the details.
    text: Arc<str>,
    /// The length of the label.
    label: usize,
    clock: Option<(Moment, u64)>,
}

impl Owner {
    /// Creates an owner from a label of 1 to [`MAX_OWNER`] printable bytes without
    /// white space.
    ///
    /// # Errors
    ///
    /// If the label is too short or too long, or has a character that is not allowed.
    pub fn new(label: impl AsRef<str>) -> Result<Self, OwnerError> {
        let label = label.as_ref();
        if label.is_empty() || label.len() > MAX_OWNER {
            return Err(OwnerError::Length { bytes: label.len() });
        }
        match label.chars().find(|c| !is_printable(*c)) {
            Some(bad) => Err(OwnerError::Character(bad)),
            None => Ok(Owner { text: label.into(), label: label.len(), clock: None }),
        }
    }

    /// Adds the known ones of host, process id, user and command. Each is truncated to a
    /// length that leaves room for the others.
    #[must_use]
    pub fn with_details(self, parts: &OwnerParts) -> Self {
        let mut text = String::from(self.as_str());
        push(&mut text, HOST, parts.host.as_deref(), MAX_HOST);
        if let Some(pid) = parts.pid {
            let _ = write!(text, "{PID}{pid}");
        }
        push(&mut text, USER, parts.user.as_deref(), MAX_USER);
        push(&mut text, COMMAND, parts.command.as_deref(), MAX_COMMAND);
        Owner { text: text.into(), ..self }
    }

    /// Makes every attempt record when it began, by a wall clock that showed this many
    /// microseconds since 1970 at `read_at`.
    #[must_use]
    pub fn with_clock(self, read_at: Moment, micros: u64) -> Self {
        Owner { clock: Some((read_at, micros)), ..self }
    }

    /// Returns the label.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text[..self.label]
    }

    /// Writes the text that signs the token of an attempt. `now` is when the attempt
    /// begins, if known.
    pub(crate) fn sign(&self, out: &mut impl fmt::Write, now: Option<Moment>) -> fmt::Result {
        out.write_str(&self.text)?;
        let (Some((read_at, micros)), Some(now)) = (self.clock, now) else { return Ok(()) };
        let passed = now.since(read_at);
        let passed = passed.as_secs().saturating_mul(1_000_000) + u64::from(passed.subsec_micros());
        out.write_str(SINCE)?;
        write_digits(out, (micros.saturating_add(passed) / 1000).min(LATEST))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Writes a number in decimal. Every attempt needs one, and formatting takes far longer.
fn write_digits(out: &mut impl fmt::Write, mut number: u64) -> fmt::Result {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.write_str(core::str::from_utf8(&digits[at..]).unwrap_or_default());
        }
    }
}

/// Why an owner label cannot be part of a token.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// It is empty or too long.
    #[error("the owner label has {bytes} bytes; it needs 1 to {MAX_OWNER}")]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// It contains white space or a control character.
    #[error("the owner label contains {0:?}; use printable characters without white space")]
    Character(char),
}

crate::debug_is_display!(OwnerError);

/// What is known about an owner; `None` for what it did not say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct OwnerParts {
    /// Its label: `host/pid`, unless another was given.
    pub label: String,
    /// Its host.
    pub host: Option<String>,
    /// Its process id.
    pub pid: Option<u32>,
    /// The user who runs it.
    pub user: Option<String>,
    /// The command that it runs, or its first word.
    pub command: Option<String>,
    /// When it asked for the lock, by its wall clock, as time since 1970. A holder was
    /// granted the lock a round trip later.
    pub since: Option<Duration>,
}

impl OwnerParts {
    /// Parses an owner's text. `None` if it cannot be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_possible = text.len() <= MAX_SIGNATURE && text.chars().all(is_printable);
        let mut rest = Some(text).filter(|_| is_possible)?;
        let since = take(&mut rest, SINCE, |value| value.parse().ok().map(Duration::from_millis));
        let command = take(&mut rest, COMMAND, decode);
        let user = take(&mut rest, USER, decode);
        let pid = take(&mut rest, PID, |value| value.parse().ok());
        let host = take(&mut rest, HOST, decode);
        Owner::new(rest).ok()?;
        let (of_label, its_pid) = host_and_pid(rest).unzip();
        Some(OwnerParts {
            label: rest.into(),
            host: host.or(of_label),
            pid: pid.or(its_pid),
            user,
            command,
            since,
        })
    }

    /// Parses the owner in a value found on a node, if the value is one of ours.
    #[must_use]
    pub fn of_value(value: &[u8]) -> Option<Self> {
        OwnerParts::parse(crate::token::signature_of(value)?)
    }
}

/// Removes a detail from the end of the text, if it is there and can be parsed.
fn take<T>(text: &mut &str, name: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    let (before, detail) = text.split_at_checked(text.rfind(';')?)?;
    let value = read(detail.strip_prefix(name)?)?;
    *text = before;
    Some(value)
}

/// The host and the process id in a label `host/pid`.
fn host_and_pid(label: &str) -> Option<(String, u32)> {
    let (host, pid) = label.rsplit_once('/')?;
    let is_number = pid.bytes().all(|byte| byte.is_ascii_digit());
    Some((host.to_string(), pid.parse().ok()?)).filter(|_| is_number && !host.is_empty())
}

fn is_printable(c: char) -> bool {
    !c.is_control() && !c.is_whitespace()
}

/// Appends as much of a detail as fits, if there is one.
fn push(text: &mut String, name: &str, value: Option<&str>, longest: usize) {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return };
    text.push_str(name);
    let end = text.len() + longest;
    for c in value.chars() {
        let before = text.len();
        if is_printable(c) && c != ';' && c != '%' {
            text.push(c);
        } else {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(text, "%{byte:02x}");
            }
        }
        if text.len() > end {
            text.truncate(before);
            return;
        }
    }
}

fn decode(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(16 * high + low).ok()?);
    }
    String::from_utf8(bytes).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn signed(owner: &Owner, now: Moment) -> String {
        let mut text = String::new();
        owner.sign(&mut text, Some(now)).unwrap();
        text
    }

    fn parts(label: &str) -> OwnerParts {
        OwnerParts { label: label.into(), ..OwnerParts::default() }
    }

    #[test]
    fn owner_labels_are_checked() {
        assert_eq!(Owner::new(""), Err(OwnerError::Length { bytes: 0 }));
        assert_eq!(Owner::new("a b"), Err(OwnerError::Character(' ')));
        assert_eq!(Owner::new("a\u{1b}"), Err(OwnerError::Character('\u{1b}')));
        let long = "x".repeat(MAX_OWNER + 1);
        assert_eq!(Owner::new(&long), Err(OwnerError::Length { bytes: 256 }));
    }

    #[test]
    fn what_is_known_of_an_owner_is_read_back_from_its_text() {
        let known = OwnerParts {
            label: "ci;host=7%3b".into(),
            host: Some("web-1".into()),
            pid: Some(4711),
            user: Some("ä d;a".into()),
            command: Some("/opt/100%\n\u{1b}sure".into()),
            since: Some(Duration::from_millis(1_700_000_000_250)),
        };
        let then = Moment::START.after(Duration::from_secs(5));
        let owner = Owner::new(&known.label).unwrap().with_details(&known);
        let owner = owner.with_clock(Moment::START, 1_699_999_995_250_999);

        let text = signed(&owner, then);

        assert!(text.chars().all(is_printable), "{text}");
        assert_eq!(OwnerParts::parse(&text), Some(known));
        assert_eq!(owner.as_str(), "ci;host=7%3b");
    }

    #[test]
    fn a_text_of_the_older_form_is_a_label_and_may_name_host_and_process() {
        let of = |text: &str| OwnerParts::parse(text).unwrap();

        assert_eq!(of("billing-7"), parts("billing-7"));
        let host = Some("web/1".into());
        assert_eq!(of("web/1/4711"), OwnerParts { host, pid: Some(4711), ..parts("web/1/4711") });
        for label in ["/4711", "web/", "web/+1", "web/99999999999", "a;since=x", "a;user=", "a;b"] {
            assert_eq!(of(label), parts(label));
        }
    }

    #[test]
    fn the_longest_owner_fits_and_is_cut_between_characters() {
        let wide = "\u{1f512} ".repeat(200);
        let known = OwnerParts {
            host: Some(wide.clone()),
            pid: Some(u32::MAX),
            user: Some(wide.clone()),
            command: Some(wide.clone()),
            ..parts(&"x".repeat(MAX_OWNER))
        };
        let owner = Owner::new(&known.label).unwrap().with_details(&known);

        let text = signed(&owner.with_clock(Moment::START, u64::MAX), Moment::START);

        assert!(text.len() <= MAX_SIGNATURE, "{} bytes", text.len());
        let read = OwnerParts::parse(&text).unwrap();
        assert_eq!(read.label, known.label);
        for cut in [read.host, read.user, read.command] {
            assert!(wide.starts_with(&cut.unwrap()));
        }
    }

    #[test]
    fn what_cannot_be_an_owner_is_none() {
        for text in ["", "a b", "\u{7}", &*format!("a{}", "x".repeat(MAX_SIGNATURE))] {
            assert_eq!(OwnerParts::parse(text), None, "{text:?}");
        }
        assert_eq!(OwnerParts::parse(";user=ada"), None, "it has no label");
    }
}
