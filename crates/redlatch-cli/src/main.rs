//! `redlatch`: runs commands under a distributed lock.
//!
//! In:  the command line, the environment, a config file.
//! Out: data on stdout, words on stderr, an exit status ([`exit::Exit`]).

#[cfg(not(target_os = "linux"))]
compile_error!("the command needs Linux: signalfd, child subreapers and death signals");

mod admit;
mod around;
mod attempt;
mod background;
mod by_hand;
mod cli;
mod config;
mod confirm;
mod connecting;
mod doctor;
mod duration;
mod environment;
mod event;
mod exit;
mod exporter;
mod facts;
mod failure;
mod force;
mod fork;
mod handle;
mod help;
mod http;
mod inherited;
mod live;
mod local_time;
mod log;
mod look;
mod manual;
mod metrics;
mod name;
mod percent;
mod plain;
mod progress;
mod reminder;
mod run;
mod runtime;
mod say;
mod secrets;
mod settings;
mod share;
mod size;
mod stack;
mod stderr;
mod stdout;
mod top;
mod trace;
mod web;
mod who;
mod writable;

use attempt::Attempt;
use background::answer_first;
use clap::{CommandFactory as _, error::ContextKind};
use cli::{AdmitArgs, Cli, PlaceArgs, ReleaseArgs, Task, Words};
use config::Config;
use exit::Exit;
use failure::Failure;
use handle::Handle;
use say::{Event, Say};
use settings::Settings;
use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Write as _},
};
use trace::{About, Trace, TraceArgs};

fn main() -> Exit {
    if let Some(limit) = stack::too_small() {
        return stack::with_enough(record).flatten().unwrap_or_else(|| {
            let words = format!("redlatch: {}\n", stack::words(limit));
            let _ = io::stderr().write_all(words.as_bytes());
            Exit::Failed
        });
    }
    start()
}

/// Leaves a trace of an attempt that cannot be made, because the stack is too small, and
/// says so. `None` if it would have left none.
fn record() -> Option<Exit> {
    let cli = cli::parse(&cli::typed(env::args_os())).ok()?;
    let leaves_trace = match &cli.task {
        Task::Run(_) | Task::Acquire(_) | Task::Extend(_) | Task::Release(_) => true,
        Task::Admit(args) => !args.wait,
        _ => false,
    };
    leaves_trace.then(|| carry_out(cli))
}

/// Separate from `main`: its variables may not fit into a small stack.
#[inline(never)]
fn start() -> Exit {
    let cli = match cli::parse(&cli::typed(env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    carry_out(cli)
}

fn carry_out(cli: Cli) -> Exit {
    // `run` does so once it knows the mask that its command gets.
    if !matches!(cli.task, Task::Run(_)) {
        let _ = run::signals::survive_limits();
    }
    match cli.task {
        Task::Run(args) => {
            let args = run::with_names(args);
            let about = About::new(trace::Task::Run, &args.names).command(&args.command);
            let words = args.words;
            Attempt::new(about, &args.place, &args.trace, args.metrics_dir.as_deref())
                .run(words, |settings, say, trace| run::run(args, settings, say, trace))
        }
        Task::Acquire(args) => {
            let about = About::new(trace::Task::Acquire, &args.names);
            let words = args.words;
            Attempt::new(about, &args.place, &args.trace, None).run(
                words,
                |settings, say, trace| {
                    let settings = settings.with(&args.waiting);
                    answer_first(settings, say, trace, async |settings, say, work| {
                        by_hand::acquire(args, settings, say, work).await
                    })
                },
            )
        }
        Task::Extend(args) => with_handle(args.handle.clone().as_ref(), "", args.words, |handle| {
            let about = About::new(trace::Task::Extend, &handle.names());
            let words = args.words;
            Attempt::new(about, &args.place, &args.trace, None).run(
                words,
                |settings, say, trace| {
                    answer_first(settings, say, trace, async |settings, _, work| {
                        by_hand::extend(handle, args, settings, work).await
                    })
                },
            )
        }),
        Task::Release(args) if args.force => force(args),
        Task::Release(ReleaseArgs { handle, place, trace, words, .. }) => {
            let Some(typed) = handle.or_else(|| env::var_os("REDLATCH_LOCK")) else {
                let message =
                    format!("a handle is missing: what `acquire` printed{}", by_hand::BY_NAME);
                return failed(Say::new(words), &Failure::new(Exit::Failed, message));
            };
            with_handle(&typed, by_hand::BY_NAME, words, |handle| {
                let about = About::new(trace::Task::Release, &handle.names());
                Attempt::new(about, &place, &trace, None).run(words, |settings, say, trace| {
                    answer_first(settings, say, trace, async |settings, say, work| {
                        by_hand::release(handle, words.json, settings, say, work).await
                    })
                })
            })
        }
        Task::Exporter(args) => ask(args.words, settings(&args.place), async |settings, say| {
            exporter::exporter(args, settings, say).await
        }),
        Task::Top(args) => ask(args.words, settings(&args.place), async |settings, say| {
            top::top(args, settings, say).await
        }),
        Task::Web(args) => ask(args.words, settings(&args.place), async |settings, say| {
            web::web(args, settings, say).await
        }),
        Task::Log(args) => {
            log::log(args).unwrap_or_else(|failure| failed(Say::new(Words::default()), &failure))
        }
        Task::Status(args) => ask(args.words, settings(&args.place), async |settings, say| {
            look::status(args, settings, say).await
        }),
        Task::Ls(args) => ask(args.words, settings(&args.place), async |settings, say| {
            look::ls(args, settings, say).await
        }),
        Task::Doctor(args) => ask(args.words, settings(&args.place), async |settings, say| {
            doctor::doctor(args, settings, say).await
        }),
        Task::Admit(args) => admit(args),
        Task::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "redlatch", &mut text);
            print(&text)
        }
        Task::Man { into: Some(dir), .. } => match manual::install(&dir) {
            Ok(()) => Exit::Done,
            Err(failure) => failed(Say::new(Words::default()), &failure),
        },
        Task::Man { page, into: None } => print(&page.text()),
    }
}

/// Releases a lock by force, and records that.
fn force(args: ReleaseArgs) -> Exit {
    let ReleaseArgs { handle, id, yes, place, trace, words, .. } = args;
    let name = match handle.map(|name| name::typed(name, id)) {
        Some(Ok(name)) => name,
        Some(Err(failure)) => return failed(Say::new(words), &failure),
        None => {
            let message = "which lock? `redlatch release --force NAME`";
            return failed(Say::new(words), &Failure::new(Exit::Failed, message));
        }
    };
    let about = About::new(trace::Task::ForceRelease, std::slice::from_ref(&name));
    on_record(about, &place, &trace, words, async |settings, say, trace| {
        force::force(&name, yes, words.json, settings, say, trace).await
    })
}

/// Vouches for nodes, or takes them from others, and records that.
fn admit(args: AdmitArgs) -> Exit {
    if args.wait {
        return ask(args.words, settings(&args.place), async |settings, say| {
            admit::admit(args, settings, say, None).await
        });
    }
    if let Err(failure) = admit::names_nodes(&args) {
        return failed(Say::new(args.words), &failure);
    }
    let task = if args.replace { trace::Task::Replace } else { trace::Task::Admit };
    let which: Vec<OsString> =
        args.which.iter().map(|typed| secrets::shown_node(typed).into()).collect();
    let (place, trace, words) = (args.place.clone(), args.trace.clone(), args.words);
    on_record(About::new(task, &which), &place, &trace, words, async |settings, say, trace| {
        admit::admit(args, settings, say, Some(trace)).await
    })
}

/// Prints a usage error, or the help that was asked for.
fn refuse(error: &clap::Error) -> Exit {
    if error.use_stderr() {
        if is_about_empty_variable(error) {
            let message = "REDLATCH_CONFIG is empty: name the config file there, or unset it";
            return failed(Say::new(Words::default()), &Failure::new(Exit::Failed, message));
        }
        let plain = error.render().to_string();
        let hidden = secrets::hide_typed(&plain);
        let _ =
            if hidden == plain { error.print() } else { io::stderr().write_all(hidden.as_bytes()) };
        return Exit::Failed;
    }
    // A closed pipe must not turn `--help` into a failure.
    let _ = error.print();
    Exit::Done
}

/// Whether clap blames `--config` for a variable that is empty.
fn is_about_empty_variable(error: &clap::Error) -> bool {
    let is_empty = env::var_os("REDLATCH_CONFIG").is_some_and(|value| value.is_empty());
    let blamed = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    is_empty && blamed.is_some_and(|blamed| blamed.starts_with("--config"))
}

/// Prints the text, or as much of it as the reader reads.
fn print(text: &[u8]) -> Exit {
    match stdout::print(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            failed(Say::new(Words::default()), &error.into())
        }
        _ => Exit::Done,
    }
}

/// Runs a task with its settings, if those are valid.
fn with(
    words: Words,
    settings: Result<Settings, Failure>,
    task: impl FnOnce(Settings, Say) -> Result<Exit, Failure>,
) -> Exit {
    let say = Say::new(words);
    let done = settings.and_then(|settings| {
        say.say(&Event::Using {
            nodes: settings.names(),
            addresses: settings.addresses(),
            by: settings.named_by().to_owned(),
            scope: settings.scope(),
            is_news: settings.is_first(),
        });
        let typed = settings.typed().to_owned();
        task(settings, say).map_err(|failure| failure.with_options(&typed))
    });
    done.unwrap_or_else(|failure| failed(say, &failure))
}

/// Runs what needs no second process.
fn ask(
    words: Words,
    settings: Result<Settings, Failure>,
    task: impl AsyncFnOnce(Settings, Say) -> Result<Exit, Failure>,
) -> Exit {
    with(words, settings, |settings, say| block_on(task(settings, say)))
}

/// Runs what needs no second process, but leaves a trace.
fn on_record(
    about: About,
    place: &PlaceArgs,
    trace: &TraceArgs,
    words: Words,
    task: impl AsyncFnOnce(Settings, Say, &mut Trace) -> Result<Exit, Failure>,
) -> Exit {
    Attempt::new(about, place, trace, None).run(words, |settings, say, trace| {
        let mut trace = trace.on(&settings);
        let typed = settings.typed().to_owned();
        let done = block_on(task(settings, say, &mut trace));
        let exit = done.unwrap_or_else(|failure| {
            let failure = failure.with_options(&typed);
            trace.failed(&failure);
            failed(say, &failure)
        });
        trace.write_end(exit, say);
        exit
    })
}

fn block_on(task: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = runtime::new()?;
    let exit = runtime.block_on(task);
    // Dropping the runtime would wait for silent nodes.
    std::mem::forget(runtime);
    exit
}

/// Reads the handle first: stdin may be slow.
fn with_handle(typed: &OsStr, hint: &str, words: Words, task: impl FnOnce(Handle) -> Exit) -> Exit {
    match by_hand::read_handle(typed) {
        Ok(handle) => task(handle),
        Err(Failure { message, exit, .. }) => {
            failed(Say::new(words), &Failure::new(exit, format!("{message}{hint}")))
        }
    }
}

fn settings(place: &PlaceArgs) -> Result<Settings, Failure> {
    let config = Config::load(place.config.as_deref()).map_err(Into::into);
    let settings = config.and_then(|config| Settings::new(place, config));
    settings.map_err(Into::into)
}

fn failed(say: Say, failure: &Failure) -> Exit {
    if !failure.message.is_empty() {
        say.say(&failure.event());
    }
    failure.exit
}
