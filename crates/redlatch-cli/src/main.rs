//! `redlatch`: commands under a distributed lock.
//!
//! In:  what was typed, the environment, a config file.
//! Out: data on stdout, words on stderr, an exit status ([`exit::Exit`]).

#[cfg(not(target_os = "linux"))]
compile_error!("the command needs Linux: signalfd, child subreapers and death signals");

mod cli;
mod config;
mod duration;
mod exit;
mod failure;
mod progress;
mod run;
mod say;
mod settings;

use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, PlaceArgs, Task};
use exit::Exit;
use failure::Failure;
use say::{Event, Say};
use settings::Settings;

fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A pipe that is closed must not turn `--help` into a failure.
            let _ = error.print();
            return if error.use_stderr() { Exit::Failed } else { Exit::Done };
        }
    };
    match cli.task {
        Task::Run(args) => {
            let say = Say::new(args.words);
            match settings(&args.place) {
                Ok(settings) => run::run(args, settings, say),
                Err(failure) => failed(say, &failure),
            }
        }
        _ => Exit::Failed,
    }
}

fn settings(place: &PlaceArgs) -> Result<Settings, Failure> {
    Settings::new(place).map_err(|error| Failure::new(Exit::Failed, error))
}

fn failed(say: Say, failure: &Failure) -> Exit {
    say.say(&Event::failed(&failure.message, failure.exit));
    failure.exit
}
