//! The terminal, while we draw on it.
//!
//! Promise: it is restored when we are done, whether we quit, panic or are stopped. A
//! signal that cannot be caught is the only exception.

use super::text::Line;
use nix::unistd::{getpgrp, tcgetpgrp};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::{
    fs::{File, OpenOptions},
    io::{self, IsTerminal as _, Write as _},
    panic,
    sync::{Mutex, Once, PoisonError},
};

/// Another screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// What to restore. There is one terminal.
static OURS: Mutex<Option<(File, Termios)>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// The terminal that we were started from; `None` if there is none, it cannot draw, or it is
/// somebody else's: a background process that changes it is stopped, before it hears of any
/// signal, as under `timeout`.
pub(super) fn terminal() -> Option<File> {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if is_dumb || !io::stdout().is_terminal() {
        return None;
    }
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
    (tcgetpgrp(&terminal).ok()? == getpgrp()).then_some(terminal)
}

/// The alternate screen, until it is dropped.
pub(super) struct Screen {
    terminal: File,
    colours: bool,
}

impl Screen {
    pub(super) fn new(terminal: File, colours: bool) -> io::Result<Self> {
        HOOK.call_once(|| {
            let report = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                restore();
                report(info);
            }));
        });
        let screen = Screen { terminal, colours };
        screen.enter()?;
        Ok(screen)
    }

    /// Takes the terminal: keys come one by one, and do not show.
    pub(super) fn enter(&self) -> io::Result<()> {
        restore();
        let before = tcgetattr(&self.terminal)?;
        let mut modes = before.clone();
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        // Ctrl-S would stop us in the middle of a line.
        modes.input_modes -= InputModes::IXON;
        *ours() = Some((self.terminal.try_clone()?, before));
        tcsetattr(&self.terminal, OptionalActions::Now, &modes)?;
        print(ENTER)
    }

    /// Restores the terminal for now.
    #[expect(clippy::unused_self, reason = "only who has the screen can leave it")]
    pub(super) fn leave(&self) {
        restore();
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.terminal) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => (80, 24),
        }
    }

    /// Replaces what is shown, without a flicker.
    pub(super) fn draw(&self, lines: &[Line]) -> io::Result<()> {
        let (width, height) = self.size();
        let mut text = String::from("\x1b[H");
        for (at, line) in lines.iter().take(height).enumerate() {
            text.push_str(if at > 0 { "\r\n" } else { "" });
            text.push_str(&line.painted(width, self.colours));
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        print(&text)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Restores the terminal, if it is ours.
fn restore() {
    if let Some((terminal, before)) = ours().take() {
        let _ = print(LEAVE);
        let _ = tcsetattr(terminal, OptionalActions::Now, &before);
    }
}

fn ours() -> std::sync::MutexGuard<'static, Option<(File, Termios)>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::{
        ffi::OsStr,
        io::Read as _,
        os::unix::ffi::OsStrExt as _,
        process::{Command, Stdio},
        thread,
    };

    /// Says that this process is the one to panic.
    const PANICS: &str = "PANICS_ON_A_SCREEN";

    /// The same test in a separate process, with a terminal, where it panics.
    #[test]
    fn a_panic_gives_the_terminal_back_before_it_is_reported() {
        if std::env::var_os(PANICS).is_some() {
            let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
            let _screen = Screen::new(terminal.unwrap(), false).unwrap();
            panic!("on purpose");
        }
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let path = OsStr::from_bytes(name.as_bytes());
        let tty = || OpenOptions::new().read(true).write(true).open(path).unwrap();
        let keep = tty();
        let before = tcgetattr(&keep).unwrap();
        let mut output = File::from(master);
        let reading = thread::spawn(move || {
            let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
            while let Ok(length @ 1..) = output.read(&mut bytes) {
                all.extend_from_slice(&bytes[..length]);
            }
            String::from_utf8_lossy(&all).into_owned()
        });
        let name = thread::current().name().unwrap().to_owned();
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", &name, "--nocapture"]).env(PANICS, "1");
        let [stdin, stdout, stderr] = [tty(), tty(), tty()].map(Stdio::from);
        let ended = command.stdin(stdin).stdout(stdout).stderr(stderr).status().unwrap();
        drop(command);
        let after = tcgetattr(&keep).unwrap();
        drop(keep);

        let seen = reading.join().unwrap();
        assert!(!ended.success(), "{seen}");
        let at = |text: &str| seen.find(text).unwrap_or_else(|| panic!("no {text:?} in {seen:?}"));
        assert!(at(ENTER) < at(LEAVE) && at(LEAVE) < at("on purpose"), "{seen:?}");
        assert_eq!(
            (after.local_modes, after.input_modes),
            (before.local_modes, before.input_modes)
        );
    }
}
