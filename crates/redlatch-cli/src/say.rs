//! Prints events: messages for people, JSON lines for scripts.

pub(crate) use crate::event::{Event, Killed, Survivor, Then};

use crate::{
    cli::Words,
    event::Level,
    facts,
    plain::{cut, plain},
    stderr, stdout,
};
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use std::{
    io::{self, IsTerminal},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Prints events on stderr.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Say {
    words: Words,
    progress: bool,
}

impl Say {
    pub(crate) fn new(words: Words) -> Self {
        let progress = !words.quiet && !words.json && io::stderr().is_terminal();
        Say { words, progress }
    }

    pub(crate) fn say(self, event: &Event) {
        let is_last = matches!(event, Event::Finished { .. });
        let line = self.line(event);
        if is_last || !line.is_empty() {
            stderr::write(&line, is_last, |lines| self.line(&Event::Unread { lines }));
        }
    }

    /// The line to print; empty if there is none.
    fn line(self, event: &Event) -> String {
        if self.words.json {
            serde_json::to_string(&facts::line(event)).unwrap_or_default() + "\n"
        } else if event.level() >= self.threshold() {
            format!("redlatch: {}\n", plain(&event.to_string()))
        } else {
            String::new()
        }
    }

    fn threshold(self) -> Level {
        match self.words {
            Words { quiet: true, .. } => Level::Failure,
            Words { verbose: true, .. } => Level::Detail,
            _ => Level::Notice,
        }
    }

    /// Whether details are wanted.
    pub(crate) fn has_details(self) -> bool {
        self.words.json || self.words.verbose
    }

    /// Whether to show progress: stderr is a terminal, without `--quiet` or `--json`.
    pub(crate) fn has_progress(self) -> bool {
        self.progress
    }

    /// Shows a line that the next one replaces.
    pub(crate) fn progress(self, line: &str) {
        if self.progress {
            IS_SHOWN.store(true, Ordering::Relaxed);
            replace_line(&fitting(&plain(line), columns()));
        }
    }

    /// Clears that line, if there is one.
    pub(crate) fn end_progress(self) {
        if self.progress && IS_SHOWN.swap(false, Ordering::Relaxed) {
            replace_line("");
        }
    }
}

/// Whether a progress line is shown. There is one terminal, so one flag.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// The width of the terminal, if known.
fn columns() -> Option<usize> {
    let size = tcgetwinsize(io::stderr()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Cuts a line to one row: if it wrapped, we could replace only its last row.
fn fitting(line: &str, columns: Option<usize>) -> String {
    columns.map_or_else(|| line.into(), |columns| cut(line, columns.saturating_sub(1)))
}

fn replace_line(line: &str) {
    stderr::show(format!("\r\x1b[K{line}"));
}

/// Colours, if wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    /// For stdout: colours on a terminal, unless `NO_COLOR` is set.
    pub(crate) fn stdout() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Paint(io::stdout().is_terminal() && !unwanted)
    }

    /// No colours.
    pub(crate) fn none() -> Self {
        Paint(false)
    }

    pub(crate) fn is_on(self) -> bool {
        self.0
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with(32, text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with(33, text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with(31, text)
    }

    fn with(self, colour: u8, text: &str) -> String {
        let text = plain(text);
        if self.0 { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.into_owned() }
    }
}

/// Milliseconds, as JSON has them.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Prints one JSON value on stdout.
pub(crate) fn print_json(value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stdout::print(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_replaced_has_room_in_one_row() {
        assert_eq!(fitting("Grüße an alle", Some(8)), "Grüße …");
        assert_eq!(fitting("Grüße", Some(6)), "Grüße");
        assert_eq!(fitting("Grüße", None), "Grüße");
        assert_eq!(fitting("日本語", Some(7)), "日本語");
        assert_eq!(fitting("日本語", Some(6)), "日本…");
    }
}
