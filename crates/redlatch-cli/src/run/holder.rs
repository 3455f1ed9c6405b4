//! The holder: the process that holds the lock and is the command's parent.
//!
//! In:  orders from the front, news about the command, the end of the lease.
//! Out: an exit status, after the lock was released.
//!
//! If nodes are silent, the caller gets its exit status at once, and the holder
//! continues to undo in the background.
//!
//! Promise: the kill comes before the lease ends, no matter what the command does.

use super::{
    Plan,
    board::Board,
    boot_time::BootTime,
    course::{Act, Cause, Course, Event as Happening, FRONT_DIED},
    ending::{linger, release},
    family::PATIENCE,
    front_link::FrontLink,
    health::{Health, Renewals},
    job::{Children, Job},
    signals::Original,
    terminal::Terminal,
    waiting::{self, NoLock},
    wire::{News, Order},
};
use crate::{
    background::{let_go, nothing, undo},
    cli::OnLost,
    duration::show,
    exit::Exit,
    failure::Failure,
    runtime,
    say::{Event, Killed, Then, millis},
};
use nix::{
    sys::{prctl, signal::Signal},
    unistd::getppid,
};
use redlatch::{Lease, Locks, Lost};
use rustix::io::Errno;
use std::{
    collections::VecDeque,
    convert::Infallible,
    ffi::OsString,
    io, mem,
    os::{
        fd::RawFd,
        unix::{ffi::OsStringExt, net::UnixStream},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// How long the caller waits for nodes whose answers no longer matter. After that, the
/// rest is undone in the background.
const LAST_ANSWERS: Duration = Duration::from_millis(25);
/// The trace of a shorter run is one line, written at its end.
const SHORT: Duration = Duration::from_secs(1);
/// How soon after a kill to look for survivors.
const KILL_AGAIN: Duration = Duration::from_millis(5);
/// While it kills, the holder has this long to report to the front before the front
/// steps in.
const AT_WORK: Duration = Duration::from_millis(500);
/// How many times per TTL the holder reports to the front.
pub(super) const WORD_PER_TTL: u32 = 10;

/// Takes the lock, runs the command and returns the exit status.
pub(super) fn run(
    plan: &Plan,
    (line, watchdog, board): (UnixStream, UnixStream, Board),
    original: Original,
    given: Vec<RawFd>,
) -> Exit {
    let finished = |exit: Exit| plan.finish(exit);
    let work = || -> io::Result<Exit> {
        share_heap();
        prctl::set_child_subreaper(true)?;
        let terminal = Terminal::open(getppid());
        let runtime = runtime::new()?;
        let exit = runtime.block_on(async {
            let mut line = FrontLink::new(line, watchdog, board)?;
            let mut locks = None;
            let exit = hold(plan, &mut line, original, terminal, &mut locks).await;
            let is_clean = waiting::settle(locks.as_ref(), LAST_ANSWERS).await;
            if line.is_over() {
                plan.trace.borrow_mut().was_orphaned();
            }
            finished(exit);
            if let Some(locks) = &locks {
                let leave = || nothing().and_then(|nothing| let_go(given, &nothing));
                if !is_clean && leave().is_ok() {
                    line.tell(News::CleansUp { code: exit.code() });
                    undo(locks, plan.settings.max_ttl()).await;
                }
                locks.hang_up();
            }
            Ok(exit)
        });
        // Dropping the runtime would wait for silent nodes.
        mem::forget(runtime);
        exit
    };
    work().unwrap_or_else(|error| {
        plan.tell(&Event::failed(&error, Exit::Failed));
        finished(Exit::Failed);
        Exit::Failed
    })
}

/// Makes all threads allocate from one heap. glibc maps another one for each, which takes
/// longer than our few threads would ever wait for one another.
#[cfg_attr(
    target_env = "gnu",
    expect(unsafe_code, reason = "no crate sets the options of the allocator")
)]
fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: this process has one thread.
    unsafe {
        nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1)
    };
}

async fn hold(
    plan: &Plan,
    line: &mut FrontLink,
    original: Original,
    terminal: Option<Terminal>,
    locks: &mut Option<Locks>,
) -> Exit {
    let guard = match waiting::take(plan, line, locks).await {
        Ok(guard) => guard,
        Err(NoLock::Failed(failure)) => {
            let failure = failure.with_options(plan.settings.typed());
            plan.trace.borrow_mut().voted(&failure);
            // A usage error will be there the next time, too.
            let is_lasting = failure.exit == Exit::Failed;
            plan.tell(&if is_lasting { failure.event() } else { failure.skipped() });
            return failure.exit;
        }
        Err(NoLock::FrontDied) => {
            let mut trace = plan.trace.borrow_mut();
            trace.killed();
            trace.orphaned();
            return FRONT_DIED;
        }
        Err(NoLock::Signal(signal)) => {
            let at_terminal = terminal.is_some_and(|terminal| terminal.is_home());
            if signal == Signal::SIGINT && at_terminal {
                line.tell(News::Interrupted { lent: false });
            }
            let exit = Exit::Signal(signal as i32);
            let failure = Failure::new(exit, plan.trace.borrow().interrupted(signal));
            let failure = failure.with_options(plan.settings.typed());
            plan.tell(&Event::skipped(&failure.message, exit));
            return exit;
        }
    };
    let taken = Instant::now();
    // Before anything that can block: from here on, the front kills us if we hang.
    line.tell(good_until(plan, &guard.lease()));
    if let Some(number) = guard.fencing_token() {
        line.tell(News::Fenced(number.get()));
    }
    plan.trace.borrow_mut().granted(&guard.lease());
    plan.tell(&Event::Taken { owner: guard.owner(), usable_ms: millis(guard.remaining()) });
    let mut health = Health::ask(plan, locks.as_ref());
    let exit = match start_in_time(plan, &guard, original, terminal) {
        Ok((job, children)) => {
            line.tell(News::Started(job.pid().as_raw().unsigned_abs()));
            let exit = tokio::select! {
                exit = watch(plan, line, &guard, job, children) => exit,
                never = trace_start(plan, taken) => match never {},
                never = health.report(plan, locks.as_ref()) => match never {},
            };
            let (code, ran) =
                (exit.code(), taken.elapsed().saturating_sub(line.board().gone_for()));
            plan.trace.borrow_mut().ran(exit, ran);
            if matches!(exit, Exit::Lost | Exit::MaxHold) {
                line.tell(News::NothingToGuard);
                exit
            } else {
                let by_signal = matches!(exit, Exit::Signal(_));
                line.tell(News::Ran { code, by_signal, ms: millis(ran) });
                tokio::select! {
                    exit = linger(plan, line, &guard, taken, exit) => exit,
                    never = Renewals::new(&guard).report(plan, &guard) => match never {},
                    never = trace_start(plan, taken) => match never {},
                }
            }
        }
        Err(not_started) => {
            line.tell(News::NothingToGuard);
            not_started.say(plan)
        }
    };
    let exit = release(plan, guard, exit).await;
    health.report_last(plan).await;
    exit
}

/// Leaves a trace of a command that runs for a long time, or of a lock that is kept for
/// a long time after it: their end may never be recorded.
async fn trace_start(plan: &Plan, taken: Instant) -> Infallible {
    tokio::time::sleep(SHORT.saturating_sub(taken.elapsed())).await;
    plan.trace.borrow().write_start();
    std::future::pending().await
}

/// Starts the command, unless the lease is already lost. We check it ourselves: the
/// front may have been stopped together with us and not have noticed.
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
    plan.tell(&Event::Started { pid: job.pid().as_raw() });
    let children = Children::of(job.pid(), news);
    Ok((job, children))
}

/// Changes to the command's environment; `None` removes a variable.
fn environment<'a>(plan: &'a Plan, lease: &Lease) -> Vec<(&'a str, Option<OsString>)> {
    let names: Vec<&[u8]> = lease.resources().map(redlatch::Resource::as_bytes).collect();
    let until = SystemTime::now() + lease.remaining();
    let until = until.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let mut changes = Vec::new();
    if !plan.pass_secrets {
        let secrets = plan.settings.secrets().changes();
        changes.extend(secrets.map(|(name, instead)| (name, instead.map(Into::into))));
    }
    // If our lock has no token, remove that of an enclosing lock.
    let fence = lease.fencing_token().map(|number| number.to_string().into());
    changes.extend([
        ("REDLATCH_RESOURCE", Some(OsString::from_vec(names.join(&b"\n"[..])))),
        ("REDLATCH_LOCK_TOKEN", Some(OsString::from_vec(lease.lock_token().to_vec()))),
        ("REDLATCH_USABLE_UNTIL", Some(until.to_string().into())),
        ("REDLATCH_FENCING_TOKEN", fence),
    ]);
    changes
}

/// Why the command was not started.
enum NotStarted {
    /// The lease had already ended.
    TooLate,
    Failed(io::Error),
}

impl NotStarted {
    fn say(&self, plan: &Plan) -> Exit {
        let (words, exit) = match self {
            NotStarted::TooLate => {
                let words = "the lock was lost before the command could start, because redlatch \
                             was stopped; the command was not started";
                plan.tell(&Event::Lost { reason: words.into(), then: Then::Over });
                return Exit::Lost;
            }
            NotStarted::Failed(error) => {
                let program = plan.command[0].to_string_lossy();
                let scarce = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
                let (words, exit) = match Errno::from_io_error(error) {
                    Some(Errno::NOENT) => {
                        ("or the interpreter it names was not found", Exit::NotFound)
                    }
                    Some(error) if scarce.contains(&error) => ("cannot be started", Exit::Failed),
                    _ => ("cannot be executed", Exit::NotExecutable),
                };
                (format!("{program} {words}: {error}"), exit)
            }
        };
        plan.tell(&Event::failed(words, exit));
        exit
    }
}

/// Supervises the command until it has ended, one way or another.
async fn watch(
    plan: &Plan,
    line: &mut FrontLink,
    lease: &Lease,
    mut job: Job,
    mut children: Children,
) -> Exit {
    let mut course = Course::new(plan.on_lost);
    let mut watch = Supervision::new(plan, lease);
    // The front has just heard.
    let pause = plan.settings.ttl() / WORD_PER_TTL;
    let mut word = tokio::time::interval_at(tokio::time::Instant::now() + pause, pause);
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
            // Comes before news about the children: the front may have killed them
            // because we were late.
            order = line.next(), if is_front_alive => {
                is_front_alive = order.is_some();
                watch.hear(order, &mut over)
            }
            events = children.changed() => events,
            _ = word.tick(), if !over => {
                watch.note_end();
                line.tell(good_until(plan, lease));
                watch.health.look(plan, lease);
                continue;
            }
        };
        let mut events = VecDeque::from(events);
        let mut acts = VecDeque::new();
        loop {
            let Some(act) = acts.pop_front() else {
                let Some(event) = events.pop_front() else { break };
                watch.see(event);
                acts.extend(course.handle(event));
                continue;
            };
            match act {
                Act::Forward(signal) => forward(plan, &job, signal),
                Act::Terminate => {
                    events.extend(children.look());
                    job.terminate();
                    watch.start_grace();
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
                    line.tell(at_work(plan, lease));
                    events.extend(children.look());
                    job.kill();
                    watch.killed.get_or_insert(watch.killing);
                    watch.kill_at = Some(Instant::now() + KILL_AGAIN);
                }
                Act::GiveUp => {
                    events.extend(children.look());
                    if Job::has_survivors() {
                        line.tell(News::AtWork(BootTime::now().after(PATIENCE + AT_WORK)));
                        watch.kill_the_rest(&job);
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
                    watch.note_end();
                    line.tell(good_until(plan, lease));
                }
                Act::Finish(exit) => {
                    let (killed, exit) = watch.end(exit, line.board().gone_at());
                    if let Some(killed) = killed {
                        plan.tell(&killed);
                    }
                    job.give_terminal_back();
                    if exit == Exit::Signal(Signal::SIGINT as i32) && job.is_at_terminal() {
                        line.tell(News::Interrupted { lent: job.had_terminal() });
                    }
                    return exit;
                }
            }
        }
    }
}

/// Sends a signal to the command, and reports the processes that it cannot reach.
fn forward(plan: &Plan, job: &Job, signal: Signal) {
    job.signal(signal);
    // Nobody cares whether this one arrives.
    if signal == Signal::SIGWINCH {
        return;
    }
    let processes = job.out_of_reach();
    if !processes.is_empty() {
        plan.tell(&Event::Unsignalled { signal: signal.as_str(), processes });
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// The timers of a running command.
struct Supervision<'a> {
    plan: &'a Plan,
    lease: &'a Lease,
    kill_at: Option<Instant>,
    /// When the lease ends, once its loss was signalled; or when to give up killing.
    over_at: Option<Instant>,
    /// The reason to report for a kill that happens now.
    killing: Killed,
    killed: Option<Killed>,
    survived: bool,
    /// When we last looked at the lease, and when it ended as of then.
    looked_at: BootTime,
    ends_at: BootTime,
    /// The lease was over when we saw its loss: the command may have kept working.
    is_late: bool,
    health: Renewals,
}

/// The time until which the front need not hear from us: just after our kill is due.
fn good_until(plan: &Plan, lease: &Lease) -> News {
    // Read the clock before the lease: we may be stopped in between.
    let now = BootTime::now();
    News::GoodUntil(now.after(kill_is_due(plan, lease)))
}

/// The same while we kill, which may take a moment.
fn at_work(plan: &Plan, lease: &Lease) -> News {
    let now = BootTime::now();
    News::AtWork(now.after(kill_is_due(plan, lease).max(AT_WORK)))
}

fn kill_is_due(plan: &Plan, lease: &Lease) -> Duration {
    match plan.on_lost {
        OnLost::Warn => Duration::MAX,
        _ => lease.ends_in().saturating_sub(plan.margin() / 2),
    }
}

impl<'a> Supervision<'a> {
    /// Kills what has survived the lease so far, and reports what still survives.
    fn kill_the_rest(&mut self, job: &Job) {
        let left = job.kill_patiently();
        self.killed = Some(Killed::Late);
        self.is_late |= self.lease.ends_in().is_zero();
        self.survived = left.is_some();
        if let Some(processes) = left {
            self.plan.tell(&Event::Survived { processes });
        }
    }

    fn new(plan: &'a Plan, lease: &'a Lease) -> Self {
        Supervision {
            plan,
            lease,
            kill_at: None,
            over_at: None,
            killing: Killed::AtOnce,
            killed: None,
            survived: false,
            looked_at: BootTime::now(),
            ends_at: BootTime::now().after(lease.ends_in()),
            is_late: false,
            health: Renewals::new(lease),
        }
    }

    fn see(&mut self, event: Happening) {
        match event {
            // In our place. The kernel may have killed it, too, but then nobody knows when.
            Happening::Ended(Exit::Signal(9)) if self.is_late => {
                self.killed.get_or_insert(self.killing);
            }
            // Whatever is left was left behind.
            Happening::Ended(_) => self.killing = Killed::LeftBehind,
            Happening::FrontDied => self.plan.trace.borrow_mut().front_died(),
            _ => {}
        }
    }

    /// Notes when the lease ends, unless it is over.
    fn note_end(&mut self) {
        let (now, left) = (BootTime::now(), self.lease.ends_in());
        if !left.is_zero() {
            (self.looked_at, self.ends_at) = (now, now.after(left));
        }
    }

    /// Notes that we have seen the loss, perhaps too late because we were stopped. Returns how
    /// long nobody had looked.
    fn note_loss(&mut self) -> Option<Duration> {
        self.note_end();
        let is_over = self.lease.ends_in().is_zero();
        self.is_late = self.plan.on_lost != OnLost::Warn && is_over;
        is_over.then(|| BootTime::now().since(self.looked_at))
    }

    /// How the command was killed, if it was killed and nothing survived, and the exit
    /// status: whatever ended a command, if its lease ended first, the lock was lost. If
    /// others killed it in our place, `gone_at` is when nothing of it was left.
    fn end(&mut self, exit: Exit, gone_at: Option<BootTime>) -> (Option<Event>, Exit) {
        if self.survived {
            return (None, exit);
        }
        // It may have been renewed since, or we were stopped while we killed.
        self.note_end();
        let was_killed = self.killed.is_some() && self.plan.on_lost != OnLost::Warn;
        let late = gone_at.unwrap_or_else(BootTime::now).since(self.ends_at);
        if (self.is_late || was_killed) && !late.is_zero() {
            let killed = Event::Killed { how: Killed::Late, late_ms: Some(millis(late)) };
            return (Some(killed), Exit::Lost);
        }
        (self.killed.map(|how| Event::Killed { how, late_ms: None }), exit)
    }

    fn start_grace(&mut self) {
        self.kill_at = Some(Instant::now() + self.time_to_end());
    }

    /// What an order, or the end of the front, means. Sets `over` if the lock is over.
    fn hear(&mut self, order: Option<Order>, over: &mut bool) -> Vec<Happening> {
        match order {
            Some(Order::Signal(signal)) => vec![Happening::Told(signal)],
            Some(Order::Continue { foreground }) => vec![Happening::Continued { foreground }],
            Some(Order::TooLate) => self.too_late(mem::replace(over, true)),
            None => vec![Happening::FrontDied],
        }
    }

    /// The front has killed the command, since it did not hear from us in time. We may
    /// not even have seen the lease end.
    fn too_late(&mut self, is_known: bool) -> Vec<Happening> {
        self.killed.get_or_insert(self.killing);
        if is_known {
            return Vec::new();
        }
        self.note_loss();
        self.over_at = Instant::now().checked_add(self.lease.ends_in());
        let reason = "the lock is lost: redlatch got no processor time to keep it".into();
        self.plan.tell(&Event::Lost { reason, then: Then::Killed });
        vec![Happening::Ending(Cause::Lost)]
    }

    fn ending(&mut self, lost: &Lost) -> Happening {
        let blind = self.note_loss();
        let then = match (self.plan.on_lost, millis(self.time_to_end())) {
            (OnLost::Warn, _) => Then::RunsOn,
            (_, 0) => Then::Killed,
            (_, left_ms) => Then::Ends { left_ms },
        };
        // A command that was told how long it has, and is killed, did not end in time.
        if self.killing == Killed::AtOnce && matches!(then, Then::Ends { .. }) {
            self.killing = Killed::TooLate;
        }
        let (event, cause) = match lost {
            Lost::MaxHold => {
                let reason = "--max-hold is reached".into();
                (Event::Stopped { reason, then }, Cause::MaxHold)
            }
            lost => {
                let blind = blind.map_or(String::new(), |time| {
                    let time = show(time);
                    format!("; redlatch was stopped, or got no processor time, for {time}")
                });
                let reason = format!("the lock is lost: {lost}{blind}");
                (Event::Lost { reason, then }, Cause::Lost)
            }
        };
        self.plan.tell(&event);
        Happening::Ending(cause)
    }

    /// The grace period, cut short if the lease ends earlier.
    fn time_to_end(&self) -> Duration {
        self.plan.grace.min(self.lease.ends_in().saturating_sub(self.plan.margin()))
    }
}
