//! A terminal with a program in it.

use super::{PATIENCE, Sandbox};
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcgetpgrp, tcsetwinsize},
};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::unix::ffi::OsStrExt,
    process::{Child, Stdio},
    sync::mpsc,
    thread,
    time::Instant,
};

/// A program in a terminal of its own, as a person would have it.
pub struct Terminal {
    keys: File,
    screen: mpsc::Receiver<String>,
    seen: String,
    all: String,
    child: Child,
}

impl Terminal {
    /// With a shell that has shown its prompt.
    pub fn shell(sandbox: &Sandbox) -> Self {
        let mut terminal = Terminal::with(sandbox, &["bash", "--norc", "--noprofile", "-i"]);
        terminal.shows("$ ");
        terminal
    }

    /// With a script of the shell.
    pub fn script(sandbox: &Sandbox, script: &str) -> Self {
        Terminal::with(sandbox, &["bash", "-c", script])
    }

    /// With this program.
    pub fn with(sandbox: &Sandbox, program: &[&str]) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let path = std::ffi::OsStr::from_bytes(name.as_bytes());
        let tty = || OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut command = sandbox.command("setsid");
        // `--ctty` makes it the controlling terminal of a session of its own.
        command.arg("--ctty").arg("--wait").args(program);
        let streams = [tty(), tty(), tty()].map(Stdio::from);
        let [stdin, stdout, stderr] = streams;
        command.stdin(stdin).stdout(stdout).stderr(stderr).env("PS1", "$ ").env("TERM", "xterm");
        let child = command.spawn().unwrap();
        let keys = File::from(master);
        let mut output = keys.try_clone().unwrap();
        let (sender, screen) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                let _ = sender.send(String::from_utf8_lossy(&bytes[..read]).into());
            }
        });
        Terminal { keys, screen, seen: String::new(), all: String::new(), child }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows this, after what was waited for before.
    #[track_caller]
    pub fn shows(&mut self, text: &str) {
        self.shown_before(text);
    }

    /// The same; returns what it shows before that.
    #[track_caller]
    pub fn shown_before(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(text) {
                let before = self.seen[..at].to_owned();
                self.seen.drain(..at + text.len());
                return before;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(more) = self.screen.recv_timeout(left) else {
                let end = self.seen.char_indices().rev().nth(4000).map_or(0, |(at, _)| at);
                panic!("the screen never showed {text:?}, but {:?}", &self.seen[end..]);
            };
            self.see(&more);
        }
    }

    /// Whether the screen shows this, once the program has ended.
    pub fn has_shown(&mut self, text: &str) -> bool {
        while let Ok(more) = self.screen.recv_timeout(std::time::Duration::from_millis(200)) {
            self.see(&more);
        }
        self.seen.contains(text)
    }

    /// As [`has_shown`](Self::has_shown), from the very start.
    pub fn has_ever_shown(&mut self, text: &str) -> bool {
        self.has_shown(text) || self.all.contains(text)
    }

    fn see(&mut self, more: &str) {
        self.seen.push_str(more);
        self.all.push_str(more);
    }

    /// Gives the window another size.
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keys, size).unwrap();
    }

    /// The program that has the keyboard.
    pub fn foreground(&self) -> u32 {
        let group = tcgetpgrp(&self.keys).unwrap();
        // A shell without job control leaves its children in its own group.
        let mut pid = group.as_raw_nonzero().get().unsigned_abs();
        let path = |pid| format!("/proc/{pid}/task/{pid}/children");
        while let Some(child) = std::fs::read_to_string(path(pid))
            .ok()
            .and_then(|children| children.split_whitespace().next()?.parse().ok())
        {
            pid = child;
        }
        pid
    }

    /// The next whole picture of a program that begins each at the top.
    #[track_caller]
    pub fn next_frame(&mut self) -> String {
        const TOP: &str = "\x1b[H";
        self.shows(TOP);
        self.shows(TOP);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = self.seen.find(TOP) {
                return self.seen[..end].to_owned();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let more = self.screen.recv_timeout(left).expect("there is no next frame");
            self.see(&more);
        }
    }

    /// Waits for the end of the program: its exit code.
    pub fn end(&mut self) -> Option<i32> {
        let mut status = None;
        super::eventually(PATIENCE, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
