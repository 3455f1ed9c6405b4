//! `acquire`, `extend` and `release`: locks for shell scripts, step by step.

use crate::{
    cli::{AcquireArgs, ExtendArgs, ReleaseArgs},
    duration::show,
    exit::Exit,
    failure::Failure,
    handle::Handle,
    progress,
    say::{Event, Say, print_json},
    settings::Settings,
};
use redlatch::{
    FencingToken, Guard, LeaseParts, LockError, LockState, Locks, Released,
    observer::{Forced, Observer},
};
use serde_json::json;
use std::{
    ffi::OsStr,
    io::{self, IsTerminal, Read, Write},
    os::unix::ffi::OsStrExt,
    time::{Duration, Instant},
};
use tokio::signal::unix::{SignalKind, signal};

/// How long the rest of an attempt that was given up may take.
const UNDO: Duration = Duration::from_millis(500);

pub(crate) async fn acquire(
    args: AcquireArgs,
    settings: Settings,
    say: Say,
) -> Result<Exit, Failure> {
    let settings = settings.with(&args.waiting);
    let locks = settings.builder().connect().await?;
    let deadline = Instant::now().checked_add(settings.wait());
    let request = locks
        .lock_all(args.names.iter().map(|name| name.as_bytes()))
        .no_renewal()
        .wait(settings.wait());
    let watching = progress::show(say, &locks, &args.names, deadline);
    let result = tokio::select! {
        result = request => result,
        signal = told_to_end() => {
            say.end_progress();
            let _ = tokio::time::timeout(UNDO, locks.settled()).await;
            return Ok(Exit::Signal(signal));
        }
        () = watching => unreachable!("progress goes on until the request ends"),
    };
    say.end_progress();
    match result {
        Ok(guard) => leave(&locks, guard, args.words.json).await,
        Err(error) => {
            let failure = Failure::about(&args.names, &locks, error).await;
            let _ = tokio::time::timeout(UNDO, locks.settled()).await;
            Err(failure)
        }
    }
}

pub(crate) async fn extend(args: ExtendArgs, settings: Settings, _: Say) -> Result<Exit, Failure> {
    let Handle(parts) = read_handle(&args.handle)?;
    let ttl = args.ttl.unwrap_or(parts.ttl);
    let locks = settings.builder().connect().await?;
    let guard = locks.resume(&LeaseParts { ttl, ..parts }).await.map_err(|error| match error {
        LockError::Lost(_) => not_yours(),
        error => error.into(),
    })?;
    leave(&locks, guard, args.words.json).await
}

pub(crate) async fn release(
    args: ReleaseArgs,
    settings: Settings,
    say: Say,
) -> Result<Exit, Failure> {
    if let Some(name) = &args.force {
        let observer = settings.builder().observer()?;
        return force(&observer, name, args.yes, args.words.json, say).await;
    }
    let Handle(parts) = read_handle(args.handle.as_deref().unwrap_or_default())?;
    let locks = settings.builder().connect().await?;
    let released = locks.give_back(&parts).await?;
    let _ = tokio::time::timeout(UNDO, locks.settled()).await;
    match released {
        Released::Now => {
            if args.words.json {
                print_json(&json!({ "released": true }))?;
            }
            say.say(&Event::Released { outcome: "the lock is released" });
            Ok(Exit::Done)
        }
        Released::AlreadyGone => Err(not_yours()),
    }
}

/// Leaves the lock on the nodes and prints what is needed to go on with it.
async fn leave(locks: &Locks, guard: Guard, as_json: bool) -> Result<Exit, Failure> {
    let handle = Handle(guard.into_parts());
    // Or the engine could not have heard yet that the lock shall stay.
    locks.settled().await;
    let printed = if as_json {
        let LeaseParts { resources, token, ttl, .. } = &handle.0;
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        print_json(&json!({
            "handle": handle.to_string(),
            "resources": resources.iter().map(text).collect::<Vec<_>>(),
            "token": text(token),
            "fencing_token": handle.0.fencing_token.map(FencingToken::get),
            "ttl_ms": ttl.as_millis(),
            "usable_until_ms": handle.until_ms(),
        }))
    } else {
        writeln!(io::stdout(), "{handle}")
    };
    if let Err(error) = printed {
        // Nobody could ever release it.
        let _ = locks.give_back(&handle.0).await;
        return Err(error.into());
    }
    Ok(Exit::Done)
}

fn not_yours() -> Failure {
    let words = "the lock is no longer yours: its time was over, or the handle is not its latest; \
                 nothing was changed";
    Failure::new(Exit::Lost, words)
}

fn read_handle(typed: &str) -> Result<Handle, Failure> {
    let mut text = typed.to_string();
    if typed == "-" {
        text.clear();
        io::stdin().read_to_string(&mut text)?;
    }
    text.parse().map_err(|error| Failure::new(Exit::Failed, error))
}

/// Waits for a signal that ends us.
async fn told_to_end() -> i32 {
    let [hup, int, term] = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()];
    let (Ok(mut on_hup), Ok(mut on_int), Ok(mut on_term)) =
        (signal(hup), signal(int), signal(term))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = on_hup.recv() => hup.as_raw_value(),
        _ = on_int.recv() => int.as_raw_value(),
        _ = on_term.recv() => term.as_raw_value(),
    }
}

async fn force(
    observer: &Observer,
    name: &OsStr,
    sure: bool,
    as_json: bool,
    say: Say,
) -> Result<Exit, Failure> {
    let shown = name.to_string_lossy();
    let status = observer.status(name.as_bytes()).await?;
    if !sure && status.state != LockState::Free {
        let whose = match &status.state {
            LockState::Held { owner: Some(owner), .. } => format!("It is held by {owner}. "),
            _ => String::new(),
        };
        confirm(&format!("{whose}Take {shown} away? Its holder may still be at work. [y/N] "))?;
    }
    let forced = observer.force_release(name.as_bytes()).await?;
    let (words, exit) = outcome(&shown, &forced);
    if as_json {
        print_forced(&forced)?;
    }
    match exit {
        Exit::Done if !as_json => writeln!(io::stdout(), "{words}")?,
        Exit::Done => {}
        exit => say.say(&Event::failed(words, exit)),
    }
    Ok(exit)
}

/// What it amounts to.
fn outcome(name: &str, forced: &[Forced]) -> (String, Exit) {
    let count = |wanted: fn(&Forced) -> bool| forced.iter().filter(|node| wanted(node)).count();
    let removed = count(|node| node.outcome == Ok(true));
    let failed: Vec<String> = forced
        .iter()
        .filter_map(|node| {
            node.outcome.as_ref().err().map(|fault| format!("{}: {fault}", node.node))
        })
        .collect();
    let mut owners: Vec<&str> = forced.iter().filter_map(|node| node.owner.as_deref()).collect();
    owners.dedup();
    let whose = if owners.is_empty() { "another client".into() } else { owners.join(" and ") };
    let nodes = forced.len();
    let words = match (removed, failed.is_empty()) {
        (0, true) => format!("{name} was free"),
        (0, false) => {
            let free = nodes - failed.len();
            format!("{name} was free on {free} of {nodes} nodes: {}", failed.join("; "))
        }
        (_, true) => {
            format!("{name} was held by {whose}; taken away on {removed} of {nodes} nodes")
        }
        (_, false) => format!(
            "{name} was held by {whose}; taken away on {removed} of {nodes} nodes: {}",
            failed.join("; ")
        ),
    };
    let too_few = nodes - failed.len() <= nodes / 2;
    (words, if too_few { Exit::TooFewNodes } else { Exit::Done })
}

fn print_forced(forced: &[Forced]) -> io::Result<()> {
    let nodes: Vec<_> = forced
        .iter()
        .map(|node| {
            json!({
                "node": *node.node,
                "owner": node.owner,
                "removed": node.outcome == Ok(true),
                "reason": node.outcome.as_ref().err().map(ToString::to_string),
            })
        })
        .collect();
    print_json(&json!({ "nodes": nodes }))
}

/// Asks; anything but yes is an error.
fn confirm(question: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(
            Exit::Failed,
            "nobody is there to ask; add --yes to take the lock away",
        ));
    }
    let mut stderr = io::stderr();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(Exit::Failed, "nothing was changed")),
    }
}

/// For people: how long a lock is still there.
pub(crate) fn remaining(left: Option<Duration>) -> String {
    left.map_or("for ever".into(), |left| format!("for another {}", show(left)))
}
