//! `redlatch top`: nodes, locks and what is wrong, live.
//!
//! On a terminal, a screen with keys. Elsewhere, plain text or JSON, one snapshot after
//! the other.

mod frame;
mod keys;
mod screen;
mod text;
mod view;

use crate::{
    cli::TopArgs,
    exit::Exit,
    failure::{Failure, to_paste},
    live::{Live, Lock, Snapshot},
    look::status_text,
    say::{Paint, Say, print_json},
    settings::Settings,
    stdout,
};
use keys::Keys;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use screen::Screen;
use serde::Serialize;
use std::{fmt::Write as _, fs::File, future::poll_fn, io, sync::Arc, task::Poll, time::Duration};
use text::Line;
use tokio::{
    signal::unix::{Signal as Listener, SignalKind, signal},
    sync::watch,
};
use view::View;

/// After this long without a look, start over.
const GAP: Duration = Duration::from_secs(60);

pub(crate) async fn top(args: TopArgs, settings: Settings, _: Say) -> Result<Exit, Failure> {
    let live = Live::new(&settings, GAP.max(args.every.saturating_mul(3)))?;
    let wants_text = args.once || args.words.json;
    match screen::terminal().filter(|_| !wants_text) {
        Some(terminal) => watch(live, args.every, settings.max_ttl(), terminal).await,
        None => print(live, &args).await,
    }
}

/// Prints snapshots.
async fn print(mut live: Live, args: &TopArgs) -> Result<Exit, Failure> {
    let mut is_first = true;
    loop {
        let snapshot = live.look().await;
        if args.words.json {
            print_json(&Whole { snapshot: &snapshot, locks: &snapshot.locks })?;
        } else {
            let mut text = if std::mem::take(&mut is_first) { "" } else { "\n" }.to_owned();
            for line in frame::whole(&snapshot) {
                let _ = writeln!(text, "{}", line.plain());
            }
            stdout::print(text.as_bytes())?;
        }
        if args.once {
            return Ok(Exit::Done);
        }
        tokio::time::sleep(args.every).await;
    }
}

/// A snapshot with all its locks.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    snapshot: &'a Snapshot,
    locks: &'a [Lock],
}

/// What the screen shows.
#[derive(Clone)]
struct Seen {
    snapshot: Arc<Snapshot>,
    /// The lock to show in detail, and what the nodes say about it.
    detail: Option<(Vec<u8>, String)>,
}

/// Shows the screen until someone quits.
async fn watch(
    live: Live,
    every: Duration,
    max_ttl: Duration,
    terminal: File,
) -> Result<Exit, Failure> {
    // Listen before we take the terminal, so that nothing can end us without our
    // restoring it.
    let mut signals = Signals::new()?;
    let screen = Screen::new(terminal.try_clone()?, Paint::stdout().is_on())?;
    let mut keys = Keys::of(terminal)?;
    let (wanted, to_look_into) = watch::channel(None);
    let mut looks = start_looking(live, every, max_ttl, to_look_into);
    let mut view = View::default();
    loop {
        let seen = looks.borrow_and_update().clone();
        screen.draw(&drawn(seen.as_ref(), &view, screen.size()))?;
        tokio::select! {
            looked = looks.changed() => {
                let failed = |_| Failure::new(Exit::Failed, "the nodes are no longer being checked");
                looked.map_err(failed)?;
            }
            key = keys.next() => {
                let snapshot = seen.as_ref().map(|seen| &*seen.snapshot);
                if key.is_none_or(|key| view.press(key, snapshot)) {
                    return Ok(Exit::Done);
                }
                let name = view.wanted();
                wanted.send_if_modified(|before| std::mem::replace(before, name.clone()) != name);
            }
            () = Signals::end(&mut signals.ends) => return Ok(Exit::Done),
            _ = signals.resize.recv() => {}
            _ = signals.stop.recv() => {
                screen.leave();
                kill(Pid::this(), Signal::SIGSTOP).map_err(io::Error::from)?;
                // Our other threads may stop a little later than this one.
                signals.go_on.recv().await;
                screen.enter()?;
            }
            // We were stopped without warning: another program may have changed the
            // terminal.
            _ = signals.go_on.recv() => screen.enter()?,
        }
    }
}

/// The lines for a screen of this size.
fn drawn(seen: Option<&Seen>, view: &View, room: frame::Room) -> Vec<Line> {
    let Some(seen) = seen else {
        return vec![Line::new(text::Style::Dim, "asking the nodes …")];
    };
    let detail = seen.detail.as_ref().filter(|(name, _)| Some(name) == view.wanted().as_ref());
    frame::screen(&seen.snapshot, view, detail.map(|(_, text)| &**text), room)
}

/// Looks at the nodes again and again, and at one lock if one is wanted.
fn start_looking(
    mut live: Live,
    every: Duration,
    max_ttl: Duration,
    mut wanted: watch::Receiver<Option<Vec<u8>>>,
) -> watch::Receiver<Option<Seen>> {
    let (seen, looks) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            let name = wanted.borrow_and_update().clone();
            let snapshot = live.look().await;
            let detail = match name {
                Some(name) => Some((name.clone(), detail(&live, &name, max_ttl).await)),
                None => None,
            };
            if seen.send(Some(Seen { snapshot, detail })).is_err() {
                return;
            }
            // If another lock is chosen, look at it at once.
            let _ = tokio::time::timeout(every, wanted.changed()).await;
        }
    });
    looks
}

/// What each node says about a lock.
async fn detail(live: &Live, name: &[u8], max_ttl: Duration) -> String {
    match live.observer().status(name).await {
        Ok(status) => {
            let asked = (max_ttl, live.doctor());
            let told = status_text(name, &status, live.observer(), asked, Paint::none()).await;
            to_paste(&told, live.typed())
        }
        Err(error) => error.to_string(),
    }
}

/// The signals that concern a screen.
struct Signals {
    ends: [Listener; 4],
    stop: Listener,
    go_on: Listener,
    resize: Listener,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let number = |which: Signal| signal(SignalKind::from_raw(which as i32));
        Ok(Signals {
            ends: [
                number(Signal::SIGTERM)?,
                number(Signal::SIGINT)?,
                number(Signal::SIGHUP)?,
                number(Signal::SIGQUIT)?,
            ],
            stop: number(Signal::SIGTSTP)?,
            go_on: number(Signal::SIGCONT)?,
            resize: number(Signal::SIGWINCH)?,
        })
    }

    /// Waits for one of the signals that end us.
    async fn end(ends: &mut [Listener]) {
        poll_fn(|cx| {
            let has_come = ends.iter_mut().any(|signal| signal.poll_recv(cx).is_ready());
            if has_come { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
