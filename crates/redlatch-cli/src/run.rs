//! `redlatch run`: runs a command under a lock.
//!
//! Two processes supervise the command. The *front* is the one that the caller
//! started: it has the terminal, receives the signals and returns the exit status.
//! The *holder* is its child: it holds and renews the lock and is the command's
//! parent. Each watches the other, so that neither the command nor anything it has
//! started keeps running without the lock:
//!
//! - if the front dies, the holder kills them and releases the lock;
//! - if the holder dies, or hangs until the lease is about to end, the front kills
//!   them;
//! - if the holder dies while the front is stopped, a third process kills them, the
//!   *watchdog*, which does nothing else;
//! - if front and holder die at once, the kernel kills the command itself.
//!
//! Stopping the front (Ctrl-Z) stops the command, but not the holder, which keeps
//! renewing the lock, up to `--max-hold`.

mod board;
mod boot_time;
mod cage;
mod course;
mod ending;
mod family;
mod front;
mod front_link;
mod health;
mod holder;
mod hooks;
mod job;
pub(crate) mod signals;
mod terminal;
mod waiting;
mod watchdog;
mod wire;

use crate::{
    cli::{OnLost, RunArgs},
    exit::Exit,
    say::{Event, Say},
    settings::Settings,
    trace::Trace,
};
use health::Missing;
use hooks::Hooks;
use humantime::format_duration;
use std::{
    cell::RefCell,
    env,
    ffi::{OsStr, OsString},
    fs::Metadata,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// What `redlatch run` has to do.
#[derive(Debug)]
struct Plan {
    names: Vec<OsString>,
    command: Vec<OsString>,
    settings: Settings,
    owner: String,
    max_hold: Duration,
    at_least: Duration,
    /// From SIGTERM to SIGKILL when the lock is about to be lost.
    grace: Duration,
    /// The same, for what is left of a command that a signal ended. The lock is still
    /// renewed, so the TTL doesn't limit this time.
    farewell: Duration,
    on_lost: OnLost,
    pass_secrets: bool,
    held: Exit,
    say: Say,
    trace: RefCell<Trace>,
    hooks: Hooks,
    /// The nodes that were reported as not voting.
    missing: RefCell<Missing>,
}

/// The longest default grace.
const DEFAULT_GRACE: Duration = Duration::from_secs(5);
/// The kill comes at most this long before the lease ends.
const MARGIN: Duration = Duration::from_millis(300);

/// Runs the command and returns the exit status.
pub(crate) fn run(args: RunArgs, settings: Settings, say: Say, trace: Trace) -> Exit {
    let plan = Plan::new(args, settings, say, trace);
    let refused = plan.check().map_err(|message| (message, Exit::Failed));
    if let Err((message, exit)) = refused.and_then(|()| find_command(&plan.command[0])) {
        plan.tell(&Event::failed(message, exit));
        plan.finish(exit);
        return exit;
    }
    front::run(&plan)
}

/// Moves names that start with a dash from the command: `run -- -x -- COMMAND`.
pub(crate) fn with_names(mut args: RunArgs) -> RunArgs {
    let second = args.command.iter().position(|word| word == "--");
    if let Some(at) = second.filter(|_| args.names.is_empty()) {
        let command = args.command.split_off(at + 1);
        args.names = std::mem::replace(&mut args.command, command);
        args.names.pop();
    }
    args
}

impl Plan {
    fn new(args: RunArgs, settings: Settings, say: Say, trace: Trace) -> Self {
        let settings = settings.with(&args.waiting);
        let most = DEFAULT_GRACE.min(settings.ttl() / 6);
        let grace = match args.on_lost {
            OnLost::Term => args.grace.unwrap_or(most),
            OnLost::Kill | OnLost::Warn => Duration::ZERO,
        };
        Plan {
            owner: settings.owner(),
            grace,
            farewell: args.grace.unwrap_or(DEFAULT_GRACE),
            names: args.names,
            command: args.command,
            max_hold: args.max_hold,
            at_least: args.at_least,
            on_lost: args.on_lost,
            pass_secrets: args.pass_secrets,
            held: args.conflict_exit_code.map_or(Exit::Held, Exit::HeldAs),
            trace: RefCell::new(trace.on(&settings).at_least(args.at_least)),
            hooks: Hooks::new(args.hooks),
            missing: RefCell::default(),
            settings,
            say,
        }
    }

    /// Reports an event, and keeps it for the trace.
    fn tell(&self, event: &Event) {
        self.trace.borrow_mut().see(event);
        self.hooks.see(self, event);
        self.say.say(event);
    }

    /// Leaves the trace of the attempt, and says that it is over.
    fn finish(&self, exit: Exit) {
        self.trace.borrow_mut().write_end(exit, self.say);
        self.tell(&Event::Finished { code: exit.code() });
    }

    /// Refuses an impossible plan before taking the lock.
    fn check(&self) -> Result<(), String> {
        for (is_missing, what) in
            [(self.names.is_empty(), "name of the lock"), (self.command.is_empty(), "command")]
        {
            if is_missing {
                return Err(format!("the {what} is missing: redlatch run NAME -- COMMAND"));
            }
        }
        if self.at_least >= self.max_hold {
            return Err(format!(
                "--at-least {} must be shorter than --max-hold {}: the lock could not be kept for \
                 that long; use a shorter --at-least, or a longer --max-hold",
                format_duration(self.at_least),
                format_duration(self.max_hold)
            ));
        }
        match self.names.iter().find(|name| name.as_bytes().contains(&b'\n')) {
            Some(name) => Err(format!(
                "the name \"{}\" holds a newline, which separates names in REDLATCH_RESOURCE; \
                 use one without",
                name.to_string_lossy()
            )),
            None => Ok(()),
        }
    }

    /// How long before the end of the lease the command is killed.
    fn margin(&self) -> Duration {
        MARGIN.min(self.settings.ttl() / 20)
    }

    /// How long before the end of the lease the command is asked to stop.
    fn notice(&self) -> Duration {
        self.grace.saturating_add(self.margin())
    }
}

/// Looks for the command before taking the lock. Only executing it shows whether it
/// really works.
fn find_command(program: &OsStr) -> Result<(), (String, Exit)> {
    let shown = program.to_string_lossy();
    let not_executable =
        || (format!("{shown} cannot be executed: permission denied"), Exit::NotExecutable);
    if program.as_bytes().contains(&b'/') {
        return match Path::new(program).metadata() {
            Ok(found) if found.is_dir() => {
                Err((format!("{shown} cannot be executed: it is a directory"), Exit::NotExecutable))
            }
            Ok(found) if found.permissions().mode() & 0o111 == 0 => Err(not_executable()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                Err(not_executable())
            }
            Err(_) => Err((format!("{shown} was not found"), Exit::NotFound)),
        };
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let places: Vec<PathBuf> = env::split_paths(&path).map(|dir| dir.join(program)).collect();
    let files =
        || places.iter().filter_map(|place| place.metadata().ok()).filter(Metadata::is_file);
    if files().any(|file| file.permissions().mode() & 0o111 != 0) {
        return Ok(());
    }
    match files().next() {
        Some(_) => Err(not_executable()),
        None => Err((format!("the command {shown} was not found"), Exit::NotFound)),
    }
}
