//! `redlatch run`: a command under a lock.
//!
//! Two processes look after the command. The *front* is the one that the caller
//! started: it has the terminal, gets the signals and passes the exit status
//! on. The *holder* is its child: it holds and renews the lock and is the
//! command's parent. Each watches the other, so that the command, and all it
//! has started, never runs on without its lock:
//!
//! - the front dies: the holder kills them and gives the lock back;
//! - the holder dies, or hangs for as long as the lease lasts: the front kills
//!   them;
//! - both die at once: the kernel kills the command itself.
//!
//! Stopping the front (Ctrl-Z) stops the command, not the holder: the lock is
//! renewed on and on, up to `--max-hold`.

mod cage;
mod course;
mod family;
mod front;
mod holder;
mod job;
mod line;
pub(crate) mod signals;
mod terminal;
mod waiting;
mod wire;

use crate::{
    cli::{OnLost, RunArgs},
    exit::Exit,
    say::{Event, Say},
    settings::Settings,
};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs::Metadata,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// What `redlatch run` shall do.
#[derive(Debug)]
struct Plan {
    names: Vec<OsString>,
    command: Vec<OsString>,
    settings: Settings,
    owner: String,
    max_hold: Duration,
    at_least: Duration,
    /// From SIGTERM to SIGKILL, before the lock is lost.
    grace: Duration,
    /// The same for what is left of a command that a signal ended. The lock is
    /// renewed meanwhile: no TTL limits it.
    farewell: Duration,
    on_lost: OnLost,
    pass_secrets: bool,
    held: Exit,
    say: Say,
}

/// The longest grace unless asked for.
const DEFAULT_GRACE: Duration = Duration::from_secs(5);
/// The kill lands this long before the lease ends, at most.
const MARGIN: Duration = Duration::from_millis(300);

/// Runs the command and returns how to end.
pub(crate) fn run(args: RunArgs, settings: Settings, say: Say) -> Exit {
    let plan = Plan::new(args, settings, say);
    if let Err((message, exit)) = find_command(&plan.command[0]) {
        say.say(&Event::failed(message, exit));
        return exit;
    }
    front::run(&plan)
}

impl Plan {
    fn new(args: RunArgs, settings: Settings, say: Say) -> Self {
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
            held: args.conflict_exit_code.map_or(Exit::Held, Exit::Code),
            settings,
            say,
        }
    }

    /// How long before the end of the lease the command is killed.
    fn margin(&self) -> Duration {
        MARGIN.min(self.settings.ttl() / 20)
    }

    /// How long before the end of the lease the command is asked to end.
    fn notice(&self) -> Duration {
        self.grace.saturating_add(self.margin())
    }
}

/// Looks for the command before the lock is taken. Whether it can really be
/// executed, only executing it tells.
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
