//! The history of a run: what was tried, granted, believed and written, when.
//!
//! A directory of text files named `*.log`. Each caller appends to a separate file, so
//! that no two writers meet; the harness itself writes `harness.log`. One event per
//! line, whole lines only, in the order they happened:
//!
//! ```text
//! TIME WORD ATTEMPT DETAILS…
//! 81234567890123 try 17 stock:0
//! 81234568990123 granted 17 1763250000000017 999000000
//! 81234569990123 held 17
//! 81234570990123 write 17 fenced 42
//! 81234571990123 applied 17 fenced
//! 81234572990123 released 17 now
//! ```
//!
//! TIME is `CLOCK_BOOTTIME` in nanoseconds, the same for all processes of the
//! machine. ATTEMPT numbers the attempts of one caller. The words:
//!
//! | word | details | meaning; TIME is read … |
//! |---|---|---|
//! | `try` | resource | asks for the lock; before anything is sent |
//! | `granted` | fencing token, ns the lease has left | has a guard; after the grant came |
//! | `held` | | `is_held` said yes; *before* it was asked |
//! | `lost` | why | `is_held` said no, or the loss was signalled |
//! | `refused` | kind, votes | has no guard; after that was known |
//! | `write` | place, value | begins a write of the counter; before it |
//! | `applied` | place | the write was acknowledged; after it |
//! | `stale` | place | the write was refused as late |
//! | `released` | outcome | released it; after the answer |
//! | `begin`, `end` | what | (harness) a fault begins, ends |
//! | `final` | place, resource, value | (harness) the counter after all was done |
//! | `left` | node, key | (harness) a key that nobody removed |
//!
//! A place is `fenced` or `unfenced`. A line cut short by `SIGKILL` is the last of its
//! file and is ignored.

use rustix::time::{ClockId, clock_gettime};
use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

/// Nanoseconds of `CLOCK_BOOTTIME`.
pub(crate) type Nanos = u64;

pub(crate) const HARNESS: &str = "harness";

pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Counter {
    Fenced,
    Unfenced,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: Nanos,
    pub(crate) attempt: u64,
    pub(crate) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    Try { resource: String },
    Granted { token: u64, left: Nanos },
    Held,
    Lost(String),
    Refused(String),
    Write { counter: Counter, value: u64 },
    Applied(Counter),
    Stale(Counter),
    Released(String),
    Begin(String),
    End(String),
    Final { counter: Counter, resource: String, value: u64 },
    Left { node: String, key: String },
}

/// Everything one caller did, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Track {
    /// The caller: the name of its file.
    pub(crate) who: String,
    pub(crate) events: Vec<Event>,
}

/// Appends to the file of one caller. Each line is written at once, so that it
/// survives a `SIGKILL`.
#[derive(Debug)]
pub(crate) struct Recorder {
    file: File,
}

impl Recorder {
    pub(crate) fn new(dir: &Path, who: &str) -> io::Result<Self> {
        let path = dir.join(format!("{who}.log"));
        Ok(Self { file: File::options().create(true).append(true).open(path)? })
    }

    pub(crate) fn note(&mut self, attempt: u64, what: What) {
        self.note_at(now(), attempt, what);
    }

    /// Records something that happened, or was true, a moment ago.
    pub(crate) fn note_at(&mut self, at: Nanos, attempt: u64, what: What) {
        let line = format!("{}\n", Event { at, attempt, what });
        self.file.write_all(line.as_bytes()).expect("the history can be written");
    }
}

pub(crate) fn read(dir: &Path) -> anyhow::Result<Vec<Track>> {
    let mut tracks = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let who = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path)?;
        let events = parse(&text).map_err(|line| anyhow::anyhow!("{}: {line}", path.display()))?;
        tracks.push(Track { who, events });
    }
    tracks.sort_by(|a, b| a.who.cmp(&b.who));
    Ok(tracks)
}

/// The events of one file, or the line that is not an event.
fn parse(text: &str) -> Result<Vec<Event>, String> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| Event::parse(line).ok_or_else(|| line.to_owned())).collect()
}

impl Counter {
    pub(crate) const ALL: [Self; 2] = [Self::Fenced, Self::Unfenced];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Fenced => "fenced",
            Self::Unfenced => "unfenced",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|counter| counter.word() == word)
    }
}

impl Event {
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(4, ' ');
        let at = parts.next()?.parse().ok()?;
        let word = parts.next()?;
        let attempt = parts.next()?.parse().ok()?;
        let details = parts.next().unwrap_or_default();
        Some(Self { at, attempt, what: What::parse(word, details)? })
    }
}

impl What {
    fn parse(word: &str, details: &str) -> Option<Self> {
        let text = || details.to_owned();
        let two = || details.split_once(' ');
        Some(match word {
            "try" => Self::Try { resource: text() },
            "granted" => {
                let (token, left) = two()?;
                Self::Granted { token: token.parse().ok()?, left: left.parse().ok()? }
            }
            "held" => Self::Held,
            "lost" => Self::Lost(text()),
            "refused" => Self::Refused(text()),
            "write" => {
                let (counter, value) = two()?;
                Self::Write { counter: Counter::parse(counter)?, value: value.parse().ok()? }
            }
            "applied" => Self::Applied(Counter::parse(details)?),
            "stale" => Self::Stale(Counter::parse(details)?),
            "released" => Self::Released(text()),
            "begin" => Self::Begin(text()),
            "end" => Self::End(text()),
            "final" => {
                let (counter, rest) = two()?;
                let (resource, value) = rest.rsplit_once(' ')?;
                let (counter, value) = (Counter::parse(counter)?, value.parse().ok()?);
                Self::Final { counter, resource: resource.to_owned(), value }
            }
            "left" => {
                let (node, key) = two()?;
                Self::Left { node: node.to_owned(), key: key.to_owned() }
            }
            _ => return None,
        })
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { at, attempt, what } = self;
        let mut line = |word: &str, details: &dyn std::fmt::Display| {
            write!(f, "{at} {word} {attempt} {details}")
        };
        // Text from elsewhere may have line breaks.
        let flat = |text: &str| text.replace('\n', " ");
        match what {
            What::Try { resource } => line("try", resource),
            What::Granted { token, left } => line("granted", &format_args!("{token} {left}")),
            What::Held => line("held", &""),
            What::Lost(why) => line("lost", &flat(why)),
            What::Refused(why) => line("refused", &flat(why)),
            What::Write { counter, value } => {
                line("write", &format_args!("{} {value}", counter.word()))
            }
            What::Applied(counter) => line("applied", &counter.word()),
            What::Stale(counter) => line("stale", &counter.word()),
            What::Released(outcome) => line("released", &flat(outcome)),
            What::Begin(what) => line("begin", what),
            What::End(what) => line("end", what),
            What::Final { counter, resource, value } => {
                line("final", &format_args!("{} {resource} {value}", counter.word()))
            }
            What::Left { node, key } => line("left", &format_args!("{node} {key}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_read_as_it_was_written() {
        let resource = || "stock:0".to_owned();
        let all = [
            What::Try { resource: resource() },
            What::Granted { token: 1_763_250_000_000_017, left: 999_000_000 },
            What::Held,
            What::Lost("ran out".into()),
            What::Refused("held by another owner".into()),
            What::Write { counter: Counter::Fenced, value: 42 },
            What::Applied(Counter::Unfenced),
            What::Stale(Counter::Fenced),
            What::Released("now".into()),
            What::Begin("kill node 2".into()),
            What::End("kill node 2".into()),
            What::Final { counter: Counter::Unfenced, resource: resource(), value: 7 },
            What::Left { node: "redis://a".into(), key: resource() },
        ];
        let events: Vec<_> =
            (1..).zip(all).map(|(at, what)| Event { at, attempt: 3, what }).collect();

        let lines: Vec<_> = events.iter().map(ToString::to_string).collect();
        let text = lines.join("\n") + "\n";

        assert_eq!(parse(&text), Ok(events));
    }

    #[test]
    fn a_line_cut_short_at_the_end_is_left_out_and_one_in_the_middle_is_an_error() {
        assert_eq!(parse("1 held 1 \n2 gran").map(|events| events.len()), Ok(1));
        assert_eq!(parse("1 gran\n2 held 1 \n"), Err("1 gran".into()));
    }
}
