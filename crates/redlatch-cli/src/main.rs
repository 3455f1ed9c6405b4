//! `redlatch`: commands under a distributed lock.
//!
//! In:  what was typed, the environment, a config file.
//! Out: data on stdout, words on stderr, an exit status ([`exit::Exit`]).

#[cfg(not(target_os = "linux"))]
compile_error!("the command needs Linux: signalfd, child subreapers and death signals");

mod admit;
mod background;
mod by_hand;
mod cli;
mod config;
mod confirm;
mod doctor;
mod duration;
mod exit;
mod failure;
mod fork;
mod handle;
mod look;
mod percent;
mod progress;
mod run;
mod say;
mod secrets;
mod settings;

use background::answer_first;
use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, PlaceArgs, ReleaseArgs, Task, Words};
use exit::Exit;
use failure::Failure;
use say::{Event, Say};
use settings::Settings;
use std::io::{self, Write as _};

fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    match cli.task {
        Task::Run(args) => with(args.words, settings(&args.place), |settings, say| {
            Ok(run::run(args, settings, say))
        }),
        Task::Acquire(args) => with(args.words, settings(&args.place), |settings, say| {
            Ok(answer_first(settings, say, async |settings, say, rest| {
                by_hand::acquire(args, settings, say, rest).await
            }))
        }),
        Task::Extend(args) => with(args.words, settings(&args.place), |settings, say| {
            let handle = by_hand::read_handle(&args.handle)?;
            Ok(answer_first(settings, say, async |settings, _, rest| {
                by_hand::extend(handle, args, settings, rest).await
            }))
        }),
        Task::Release(ReleaseArgs { force: Some(name), yes, place, words, .. }) => {
            ask(words, settings(&place), async |settings, say| {
                by_hand::force(&name, yes, words.json, settings, say).await
            })
        }
        Task::Release(args) => with(args.words, settings(&args.place), |settings, say| {
            let handle = by_hand::read_handle(args.handle.as_deref().unwrap_or_default())?;
            Ok(answer_first(settings, say, async |settings, say, rest| {
                by_hand::release(handle, args.words.json, settings, say, rest).await
            }))
        }),
        Task::Status(args) => ask(args.words, settings(&args.place), async |settings, say| {
            look::status(args, settings, say).await
        }),
        Task::Ls(args) => ask(args.words, settings(&args.place), async |settings, say| {
            look::ls(args, settings, say).await
        }),
        Task::Doctor(args) => ask(args.words, settings(&args.place), async |settings, say| {
            doctor::doctor(args, settings, say).await
        }),
        Task::Admit(args) => ask(args.words, settings(&args.place), async |settings, say| {
            admit::admit(args, settings, say).await
        }),
        Task::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "redlatch", &mut io::stdout());
            Exit::Done
        }
    }
}

/// Says what cannot be understood, or the help that was asked for.
fn refuse(error: &clap::Error) -> Exit {
    if error.use_stderr() {
        let plain = error.render().to_string();
        let hidden = secrets::hide(&plain);
        let _ =
            if hidden == plain { error.print() } else { io::stderr().write_all(hidden.as_bytes()) };
        return Exit::Failed;
    }
    // A pipe that is closed must not turn `--help` into a failure.
    let _ = error.print();
    Exit::Done
}

/// Runs a task with its settings, if they are of use.
fn with(
    words: Words,
    settings: Result<Settings, Failure>,
    task: impl FnOnce(Settings, Say) -> Result<Exit, Failure>,
) -> Exit {
    let say = Say::new(words);
    let done = settings.and_then(|settings| {
        let are_typed = settings.are_typed();
        task(settings, say).map_err(|failure| failure.for_nodes(are_typed))
    });
    done.unwrap_or_else(|failure| failed(say, &failure))
}

/// Runs what needs no second process.
fn ask(
    words: Words,
    settings: Result<Settings, Failure>,
    task: impl AsyncFnOnce(Settings, Say) -> Result<Exit, Failure>,
) -> Exit {
    with(words, settings, |settings, say| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let exit = runtime.block_on(task(settings, say));
        // Dropping the runtime would wait for nodes that are mute.
        std::mem::forget(runtime);
        exit
    })
}

fn settings(place: &PlaceArgs) -> Result<Settings, Failure> {
    Settings::new(place).map_err(|error| Failure::new(Exit::Failed, error))
}

fn failed(say: Say, failure: &Failure) -> Exit {
    say.say(&Event::failed(&failure.message, failure.exit));
    failure.exit
}
