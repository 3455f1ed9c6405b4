//! The holder: the process that holds the lock and is the command's parent.
//!
//! In:  orders from the front, news of the command, the end of the lease.
//! Out: an exit status, after the lock was given back.
//!
//! What cannot be undone at once, because nodes are silent, the holder goes on
//! undoing in the background while the caller has its exit status already.
//!
//! Promise: the kill lands before the lease ends, whatever the command does.

use super::{
    Plan,
    course::{Act, Cause, Course, Event as Happening},
    family::PATIENCE,
    job::{Children, Job},
    line::Line,
    signals::Original,
    terminal::Terminal,
    waiting::{self, NoLock},
    wire::{News, Order},
};
use crate::{
    background::{let_go, undo},
    cli::OnLost,
    exit::Exit,
    say::{Event, millis},
};
use nix::{
    sys::{prctl, signal::Signal},
    unistd::{getpgid, getppid},
};
use redlatch::{Guard, Lease, Locks, Lost, Released};
use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    os::{
        fd::RawFd,
        unix::{ffi::OsStringExt, net::UnixStream},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// How soon after a kill to look for who is still there.
const KILL_AGAIN: Duration = Duration::from_millis(5);
/// While it kills, the holder has this long to say that it is still there.
const AT_WORK: Duration = Duration::from_millis(500);
/// The front hears this many times per TTL that all is well.
const WORD_PER_TTL: u32 = 10;

/// Takes the lock, runs the command and returns how to end.
pub(super) fn run(plan: &Plan, line: UnixStream, original: Original, given: Vec<RawFd>) -> Exit {
    let finished = |exit: Exit| plan.say.say(&Event::Finished { code: exit.code() });
    let work = || -> io::Result<Exit> {
        prctl::set_child_subreaper(true)?;
        // Of this process group is the terminal while the front has it.
        let home = getpgid(Some(getppid()))?;
        let terminal = Terminal::open(home);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let exit = runtime.block_on(async {
            let mut line = Line::new(line)?;
            let mut locks = None;
            let exit = hold(plan, &mut line, original, terminal, &mut locks).await;
            let is_clean = waiting::settle(locks.as_ref()).await;
            finished(exit);
            if let Some(locks) = locks.filter(|_| !is_clean)
                && let_go(given).is_ok()
            {
                line.tell(News::CleansUp { code: exit.code() });
                undo(&locks, plan.settings.max_ttl()).await;
            }
            Ok(exit)
        });
        // Dropping the runtime would wait for nodes that are mute.
        std::mem::forget(runtime);
        exit
    };
    work().unwrap_or_else(|error| {
        plan.say.say(&Event::failed(&error, Exit::Failed));
        finished(Exit::Failed);
        Exit::Failed
    })
}

async fn hold(
    plan: &Plan,
    line: &mut Line,
    original: Original,
    terminal: Option<Terminal>,
    locks: &mut Option<Locks>,
) -> Exit {
    let guard = match waiting::take(plan, line, locks).await {
        Ok(guard) => guard,
        Err(NoLock::Failed(failure)) => {
            let failure = failure.for_nodes(plan.settings.are_typed());
            plan.say.say(&Event::failed(&failure.message, failure.exit));
            return failure.exit;
        }
        Err(NoLock::FrontDied) => return Exit::Failed,
        Err(NoLock::Signal(signal)) => {
            let at_terminal = terminal.is_some_and(|terminal| terminal.is_home());
            if signal == Signal::SIGINT && at_terminal {
                line.tell(News::Interrupted { lent: false });
            }
            return waiting::ended_by(signal);
        }
    };
    let taken = Instant::now();
    // First, before anything that can block: from here on the front ends us if we hang.
    line.tell(News::GoodFor(good_for(plan, &guard.lease())));
    plan.say.say(&Event::Taken {
        resources: guard.resources().map(ToString::to_string).collect(),
        owner: guard.owner(),
        usable_ms: millis(guard.remaining()),
    });
    let exit = match start_in_time(plan, &guard, original, terminal) {
        Ok((job, children)) => {
            let exit = watch(plan, line, &guard, job, children).await;
            line.tell(News::NothingToGuard);
            if !matches!(exit, Exit::Lost | Exit::MaxHold) {
                linger(plan, line, &guard, taken).await;
            }
            exit
        }
        Err(not_started) => {
            line.tell(News::NothingToGuard);
            not_started.say(plan)
        }
    };
    give_back(plan, guard, exit).await
}

/// Starts the command, unless the lease was lost before. The front may have been
/// stopped together with us, so it cannot be relied on to have noticed.
fn start_in_time(
    plan: &Plan,
    lease: &Lease,
    original: Original,
    terminal: Option<Terminal>,
) -> Result<(Job, Children), NotStarted> {
    if !lease.is_held() {
        return Err(NotStarted::TooLate);
    }
    start(plan, lease, original, terminal).map_err(NotStarted::Failed)
}

fn start(
    plan: &Plan,
    lease: &Lease,
    original: Original,
    terminal: Option<Terminal>,
) -> io::Result<(Job, Children)> {
    let news = Children::listen()?;
    let job = Job::start(&plan.command, &environment(plan, lease), original, terminal)?;
    plan.say.say(&Event::Started { pid: job.pid().as_raw() });
    let children = Children::of(job.pid(), news);
    Ok((job, children))
}

/// What is changed in the command's environment: none if it is taken away.
fn environment<'a>(plan: &'a Plan, lease: &Lease) -> Vec<(&'a str, Option<OsString>)> {
    let names: Vec<&[u8]> = lease.resources().map(redlatch::Resource::as_bytes).collect();
    let until = SystemTime::now() + lease.remaining();
    let until = until.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let mut changes = Vec::new();
    if !plan.pass_secrets {
        let secrets = plan.settings.secrets().changes();
        changes.extend(secrets.map(|(name, instead)| (name, instead.map(Into::into))));
    }
    // One of a lock around this one is taken away, should this have none.
    let fence = lease.fencing_token().map(|number| number.to_string().into());
    changes.extend([
        ("REDLATCH_RESOURCE", Some(OsString::from_vec(names.join(&b"\n"[..])))),
        ("REDLATCH_TOKEN", Some(OsString::from_vec(lease.token().to_vec()))),
        ("REDLATCH_USABLE_UNTIL", Some(until.to_string().into())),
        ("REDLATCH_FENCING_TOKEN", fence),
    ]);
    changes
}

/// Why the command does not run.
enum NotStarted {
    /// The lease was over by then.
    TooLate,
    Failed(io::Error),
}

impl NotStarted {
    fn say(&self, plan: &Plan) -> Exit {
        let (words, exit) = match self {
            NotStarted::TooLate => {
                let words = "the lock was lost before the command could start, because redlatch \
                             was stopped; the command was not started";
                (words.to_owned(), Exit::Lost)
            }
            NotStarted::Failed(error) => {
                let program = plan.command[0].to_string_lossy();
                let (words, exit) = match error.kind() {
                    io::ErrorKind::NotFound => {
                        ("or the interpreter it names was not found", Exit::NotFound)
                    }
                    _ => ("cannot be executed", Exit::NotExecutable),
                };
                (format!("{program} {words}: {error}"), exit)
            }
        };
        plan.say.say(&Event::failed(words, exit));
        exit
    }
}

/// Looks after the command until it has ended, one way or another.
async fn watch(
    plan: &Plan,
    line: &mut Line,
    lease: &Lease,
    mut job: Job,
    mut children: Children,
) -> Exit {
    let mut course = Course::new(plan.on_lost);
    let mut watch =
        Watch { plan, lease, kill_at: None, over_at: None, killed: false, survived: false };
    let mut word = tokio::time::interval(plan.settings.ttl() / WORD_PER_TTL);
    word.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut over = false;
    let mut is_front_alive = true;
    loop {
        let events = tokio::select! {
            biased;
            lost = lease.lost(), if !over => {
                over = true;
                watch.over_at = Instant::now().checked_add(lease.ends_in());
                vec![watch.ending(&lost)]
            }
            () = sleep_until(watch.over_at) => {
                watch.over_at = None;
                vec![Happening::TimeOver]
            }
            () = sleep_until(watch.kill_at) => vec![Happening::GraceOver],
            events = children.changed() => events,
            order = line.next(), if is_front_alive => vec![match order {
                Some(Order::Signal(signal)) => Happening::Told(signal),
                Some(Order::Continue { foreground }) => Happening::Continued { foreground },
                None => {
                    is_front_alive = false;
                    Happening::FrontDied
                }
            }],
            _ = word.tick(), if !over => {
                line.tell(News::GoodFor(watch.good_for()));
                continue;
            }
        };
        let mut events = VecDeque::from(events);
        let mut acts = VecDeque::new();
        loop {
            let Some(act) = acts.pop_front() else {
                let Some(event) = events.pop_front() else { break };
                acts.extend(course.handle(event));
                continue;
            };
            match act {
                Act::Forward(signal) => job.signal(signal),
                Act::Terminate => {
                    job.terminate();
                    watch.kill_at = Some(watch.latest_kill());
                }
                Act::AwaitOthers => {
                    job.terminate_others();
                    watch.kill_at = Instant::now().checked_add(plan.farewell);
                }
                Act::EndOthers => {
                    job.terminate();
                    watch.kill_at = Instant::now().checked_add(plan.farewell);
                }
                Act::LimitKilling => {
                    watch.over_at.get_or_insert_with(|| Instant::now() + PATIENCE);
                }
                Act::Kill => {
                    line.tell(News::GoodFor(watch.good_for().max(AT_WORK)));
                    job.kill();
                    watch.killed = true;
                    watch.kill_at = Some(Instant::now() + KILL_AGAIN);
                }
                Act::GiveUp => {
                    let processes = Job::survivors();
                    if !processes.is_empty() {
                        watch.survived = true;
                        plan.say.say(&Event::Survived { processes });
                        line.tell(News::GoodFor(PATIENCE + AT_WORK));
                        job.kill_patiently();
                        events.push_back(Happening::Survived);
                    }
                }
                Act::StopToo { wants_terminal } => {
                    if job.give_terminal_back() {
                        line.tell(News::Stop { wants_terminal });
                    }
                }
                Act::Resume { foreground } => {
                    job.resume(foreground);
                    line.tell(News::GoodFor(watch.good_for()));
                }
                Act::Finish(exit) => {
                    if watch.killed && !watch.survived {
                        plan.say.say(&Event::Killed);
                    }
                    job.give_terminal_back();
                    if exit == Exit::Signal(Signal::SIGINT as i32) && job.had_terminal() {
                        line.tell(News::Interrupted { lent: true });
                    }
                    return exit;
                }
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// The times of a running command.
struct Watch<'a> {
    plan: &'a Plan,
    lease: &'a Lease,
    kill_at: Option<Instant>,
    /// When the lease is over, once its loss was signalled, or the killing.
    over_at: Option<Instant>,
    killed: bool,
    survived: bool,
}

/// How long the front may hear nothing: until after we should have killed.
fn good_for(plan: &Plan, lease: &Lease) -> Duration {
    match plan.on_lost {
        OnLost::Warn => Duration::MAX,
        _ => lease.ends_in().saturating_sub(plan.margin() / 2),
    }
}

impl Watch<'_> {
    fn good_for(&self) -> Duration {
        good_for(self.plan, self.lease)
    }

    fn ending(&self, lost: &Lost) -> Happening {
        let left = self.plan.grace.min(self.lease.ends_in().saturating_sub(self.plan.margin()));
        let left_ms = (self.plan.on_lost != OnLost::Warn).then(|| millis(left));
        let (reason, cause) = match lost {
            Lost::MaxHold => ("--max-hold is reached".into(), Cause::MaxHold),
            lost => (format!("the lock is lost: {lost}"), Cause::Lost),
        };
        self.plan.say.say(&Event::Ending { reason, left_ms });
        Happening::Ending(cause)
    }

    /// After the grace, but before the lease ends.
    fn latest_kill(&self) -> Instant {
        let left = self.lease.ends_in().saturating_sub(self.plan.margin());
        Instant::now() + self.plan.grace.min(left)
    }
}

/// Keeps the lock for as long as `--at-least` says, or until told to end.
async fn linger(plan: &Plan, line: &mut Line, lease: &Lease, taken: Instant) {
    let left = plan.at_least.saturating_sub(taken.elapsed());
    if left.is_zero() {
        return;
    }
    plan.say.say(&Event::Lingering { left_ms: millis(left) });
    let told_to_end = async {
        loop {
            match line.next().await {
                Some(Order::Signal(signal)) if !super::signals::ends_waiting(signal) => {}
                Some(Order::Continue { .. }) => {}
                _ => return,
            }
        }
    };
    tokio::select! {
        () = tokio::time::sleep(left) => {}
        _ = lease.lost() => {}
        () = told_to_end => {}
    }
}

/// Gives the lock back, or what is left of it. How to end then: a command whose
/// lock was gone too soon has run without it, even if no renewal came to see it.
async fn give_back(plan: &Plan, guard: Guard, exit: Exit) -> Exit {
    let has_run = matches!(exit, Exit::Code(_) | Exit::Signal(_));
    let too_soon = has_run && !guard.ends_in().is_zero();
    let outcome = match guard.release().await {
        Ok(Released::Now) => "the lock is released",
        // What became of it has been said.
        Ok(Released::AlreadyGone) if matches!(exit, Exit::Lost | Exit::MaxHold) => {
            "the lock is over"
        }
        Ok(Released::AlreadyGone) if too_soon => {
            let words = "the lock was gone before it was given back: it was taken away, or nodes \
                         forgot it; another may have had it meanwhile";
            plan.say.say(&Event::failed(words, Exit::Lost));
            return Exit::Lost;
        }
        Ok(Released::AlreadyGone) => "the lock was gone already",
        Err(_) if exit == Exit::Lost => "it is not known whether the lock is released",
        Err(_) => {
            // A renewal that nobody answered may have been the last to set it.
            let most_ms = millis(plan.settings.ttl());
            plan.say.say(&Event::Unreleased { most_ms });
            return exit;
        }
    };
    plan.say.say(&Event::Released { outcome });
    exit
}
