//! The front: the process that the caller started.
//!
//! In:  signals, and news from the holder.
//! Out: orders to the holder, and the exit status.
//!
//! Promise: if the holder dies, or does not report in time that the lease is still
//! held, every process of the command is killed. While the front is stopped, the
//! watchdog does that if the holder dies.
//!
//! A holder that is late but not stopped may merely lack CPU time: the front kills the
//! command in its place, and lets the holder report what happened.

use super::{
    Plan,
    board::Board,
    boot_time::BootTime,
    cage::Cage,
    family::{self, Spared},
    holder,
    hooks::Hook,
    signals::{self, Original},
    terminal::Terminal,
    watchdog::{Watchdog, wait_for},
    wire::{LENGTH, News, Order},
};
use crate::{
    background::given_descriptors,
    duration::show,
    exit::Exit,
    fork::fork,
    say::{Event, Killed, Survivor, Then, millis},
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, poll},
    sys::{
        prctl,
        signal::{SigSet, Signal, kill, killpg},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, getpgrp, setpgid},
};
use std::{
    io::{self, Read, Write},
    mem,
    os::{fd::AsFd, unix::net::UnixStream},
    process,
    time::{Duration, Instant},
};

/// A stop that ended less than this ago still explains what we see.
const JUST_NOW: Duration = Duration::from_secs(5);

/// Why a holder did not report in time.
const STOPPED: &str = "the lock is lost: it could not be renewed, because redlatch was stopped";
const HUNG: &str =
    "the lock is lost: redlatch hung, or got no processor time, and could not keep it";

/// Starts the holder, watches it and returns the exit status.
pub(super) fn run(plan: &Plan) -> Exit {
    let mut given = given_descriptors();
    given.retain(|fd| !plan.hooks.owns(*fd));
    let started = signals::block().and_then(|original| {
        signals::expect_children()?;
        prctl::set_child_subreaper(true)?;
        Ok(original)
    });
    let split = started.map_err(io::Error::from).and_then(|original| {
        let (ours, theirs) = UnixStream::pair()?;
        let (heard, told) = UnixStream::pair()?;
        let board = Board::new();
        let listened = signals::listened();
        let signals =
            SignalFd::with_flags(&listened, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        match split()? {
            ForkResult::Child => {
                drop((ours, signals, heard));
                let exit = holder::run(plan, (theirs, told, board), original, given);
                process::exit(exit.code().into());
            }
            ForkResult::Parent { child } => {
                drop((theirs, told));
                let (watchdog, (line, signals)) = Watchdog::start(
                    child,
                    (heard, &board),
                    plan.margin() / 4,
                    &given,
                    (ours, signals),
                );
                Ok(Front {
                    holder: child,
                    watchdog,
                    line,
                    board,
                    signals,
                    original,
                    good_until: None,
                    is_at_work: false,
                    ends_at: None,
                    command: None,
                    is_late: false,
                    overslept: None,
                    stage: Stage::Waits,
                    is_told: false,
                    hooks: Vec::new(),
                    plan,
                })
            }
        }
    });
    match split {
        Ok(front) => front.watch(),
        Err(error) => {
            plan.tell(&Event::failed(format!("no process can be started: {error}"), Exit::Failed));
            plan.finish(Exit::Failed);
            Exit::Failed
        }
    }
}

/// Forks; the child gets its own process group.
pub(super) fn split() -> nix::Result<ForkResult> {
    let result = fork()?;
    match result {
        ForkResult::Child => setpgid(Pid::from_raw(0), Pid::from_raw(0))?,
        // Both set it, whichever runs first; the child may even have ended.
        ForkResult::Parent { child } => setpgid(child, child).unwrap_or_default(),
    }
    Ok(result)
}

struct Front<'a> {
    holder: Pid,
    watchdog: Option<Watchdog>,
    line: UnixStream,
    board: Board,
    signals: SignalFd,
    original: Original,
    /// Until when the command may run without another message from the holder.
    good_until: Option<BootTime>,
    /// Whether the holder asked for that time in order to kill the command. A stopped holder
    /// does not get it.
    is_at_work: bool,
    /// When the lease ends, as far as the holder has said.
    ends_at: Option<BootTime>,
    /// The process group of the command, while it runs.
    command: Option<Pid>,
    /// The holder did not report by then, and the command was killed in its place.
    is_late: bool,
    /// This process was stopped past that time: for how long, and when the stop ended.
    overslept: Option<(Duration, Instant)>,
    stage: Stage,
    /// Whether a signal told us to end when only a hook was left.
    is_told: bool,
    /// The hooks that were started.
    hooks: Vec<Hook>,
    plan: &'a Plan,
}

/// How far the holder has got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It never had the lock.
    Waits,
    /// It has the lock, for the command.
    Runs,
    /// The command has ended, before the lock did.
    HasRun,
}

impl Front<'_> {
    fn watch(mut self) -> Exit {
        let mut interrupted = None;
        let exit = loop {
            match self.wait() {
                Ok(Some(News::GoodUntil(time))) => {
                    self.plan.trace.borrow_mut().good_for(time.left());
                    self.stage = Stage::Runs;
                    self.good_until = Some(time);
                    self.ends_at = Some(time.after(self.plan.margin() / 2));
                    (self.is_at_work, self.is_late) = (false, false);
                }
                Ok(Some(News::AtWork(time))) => {
                    self.good_until = Some(time);
                    (self.is_at_work, self.is_late) = (true, false);
                }
                Ok(Some(News::Fenced(number))) => self.plan.trace.borrow_mut().fenced(number),
                Ok(Some(News::Started(group))) => {
                    self.command = i32::try_from(group).ok().map(Pid::from_raw);
                }
                Ok(Some(News::NothingToGuard)) => self.guard_nothing(),
                Ok(Some(News::Ran { code, by_signal, ms })) => {
                    self.guard_nothing();
                    self.stage = Stage::HasRun;
                    let number = i32::from(code) - 128;
                    let exit = if by_signal { Exit::Signal(number) } else { Exit::Code(code) };
                    let mut trace = self.plan.trace.borrow_mut();
                    trace.ran(exit, Duration::from_millis(ms));
                    // From here on, no news says how long the lease lasts.
                    trace.good_for(Duration::MAX);
                }
                Ok(Some(News::Stop { wants_terminal })) => self.stop(wants_terminal),
                Ok(Some(News::Interrupted { lent })) => interrupted = Some(lent),
                Ok(Some(News::CleansUp { code })) => break Exit::Code(code),
                Ok(None) => {
                    break match self.bury() {
                        WaitStatus::Exited(_, code) => {
                            Exit::Code(u8::try_from(code).unwrap_or(u8::MAX))
                        }
                        _ => self.clear_up(None),
                    };
                }
                Err(Hangs) => {
                    // Or it is dead, and we were stopped.
                    let now = waitpid(self.holder, Some(WaitPidFlag::WNOHANG));
                    if matches!(now, Ok(WaitStatus::Signaled(..))) {
                        break self.clear_up(None);
                    }
                    let is_stopped = family::is_stopped(self.holder);
                    if self.is_late || is_stopped {
                        break self.clear_up(Some(if is_stopped { STOPPED } else { HUNG }));
                    }
                    self.stand_in();
                }
            }
        };
        self.dismiss();
        self.start_hooks();
        let hooks = mem::take(&mut self.hooks);
        self.plan.hooks.finish(hooks, self.is_told, &self.signals, self.plan.say);
        if let Some(lent) = interrupted {
            self.die_of_interrupt(lent);
        }
        exit
    }

    /// Waits for news from the holder; `None` when it is gone. Forwards signals
    /// meanwhile.
    fn wait(&mut self) -> Result<Option<News>, Hangs> {
        loop {
            let slept = Instant::now();
            let left = self.good_until.map(BootTime::left);
            // If the time is over, there may still be news: we may have been late, not the
            // holder.
            let timeout = wait_for(left, self.is_at_work);
            let mut ready = vec![
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.line.as_fd(), PollFlags::POLLIN),
            ];
            ready.extend(self.plan.hooks.heard().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            let polled = poll(&mut ready, timeout);
            let is_over = left == Some(Duration::ZERO);
            if !is_over && left.is_some_and(|left| slept.elapsed() > left) {
                self.overslept = Some((slept.elapsed(), Instant::now()));
            }
            match polled {
                Ok(0) if self.is_at_work && family::is_stopped(self.holder) => return Err(Hangs),
                Ok(0) if !is_over => continue,
                Err(Errno::EINTR) => continue,
                // Without poll, we cannot watch anything any more.
                Err(_) => return Err(Hangs),
                Ok(_) => {}
            }
            let is_ready = |at: usize| ready.get(at).is_some_and(|fd| fd.any().unwrap_or(true));
            let [signals, line, hooks] = [0, 1, 2].map(is_ready);
            if signals {
                self.forward();
            }
            if hooks {
                self.start_hooks();
            }
            if line {
                let mut bytes = [0; LENGTH];
                return Ok(match self.line.read_exact(&mut bytes) {
                    Ok(()) => News::from_bytes(bytes).ok(),
                    Err(_) => None,
                });
            }
            if is_over {
                return Err(Hangs);
            }
        }
    }

    /// The command has ended, before the lock did.
    fn guard_nothing(&mut self) {
        (self.good_until, self.ends_at, self.command) = (None, None, None);
    }

    fn forward(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            let number = i32::try_from(info.ssi_signo).unwrap_or(0);
            if let Ok(signal) = Signal::try_from(number) {
                // The holder that skipped the command does not wait for anything any more.
                let is_idle = self.stage == Stage::Waits && !self.hooks.is_empty();
                self.is_told |= is_idle && signals::ends_waiting(signal);
                self.order(Order::Signal(signal));
            }
        }
    }

    fn start_hooks(&mut self) {
        self.plan.hooks.start(self.plan, self.original, &mut self.hooks);
        if let Some(hook) = self.hooks.last() {
            self.board.has_hook(hook.pid());
        }
    }

    fn order(&mut self, order: Order) {
        // If the holder is gone, its end of the socket closes, and we notice there.
        let _ = self.line.write_all(&order.to_bytes());
    }

    /// Stops with our whole process group, as on Ctrl-Z, until the caller resumes us.
    /// If the command stopped because it needs the terminal, and the caller has since
    /// put us into the foreground, gives it the terminal instead.
    fn stop(&mut self, wants_terminal: bool) {
        // While we are stopped, the holder watches, and the command does not run.
        self.good_until = None;
        let terminal = Terminal::open(Pid::this());
        let is_home = || terminal.as_ref().is_some_and(Terminal::is_home);
        let is_free = || terminal.as_ref().is_some_and(Terminal::is_free);
        if !(wants_terminal && is_home()) {
            let stopping = SigSet::from(Signal::SIGTSTP);
            let _ = killpg(getpgrp(), Signal::SIGTSTP);
            let _ = stopping.thread_unblock(); // here we stop
            let _ = stopping.thread_block();
        }
        self.order(Order::Continue { foreground: wants_terminal && is_home() || is_free() });
    }

    fn dismiss(&mut self) {
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss();
        }
    }

    /// Kills the command in the holder's place, before its lease ends. The holder gets
    /// some time to report what happened: it may have had no CPU time.
    fn stand_in(&mut self) {
        self.order(Order::TooLate);
        self.kill_command();
        self.is_late = true;
        self.good_until = Some(BootTime::now().after(family::PATIENCE));
    }

    /// Kills everything that the command has started, while it is below the holder.
    fn kill_command(&self) {
        self.kill_group();
        let cage = Cage::left_by(self.holder);
        let gone_at = family::kill_below(self.holder, cage.as_ref(), Spared::NOBODY);
        // Nothing is below a holder that is dead.
        if let Some(at) = gone_at.filter(|_| family::is_alive(self.holder)) {
            self.board.gone(at);
        }
    }

    /// Kills the command by its process group: at once, however many processes there are, and
    /// even if `/proc` does not show what is below us.
    fn kill_group(&self) {
        let Some(group) = self.command else { return };
        if family::can_look() {
            family::kill_group(group, &[self.holder, Pid::this()]);
        } else {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }

    /// Kills everything that the command has started, and a holder that does not do so
    /// itself: while it is stopped, nobody reaps its dead children, and each of them
    /// costs time in every look.
    fn kill_all_but(&self, spared: Spared<'_>, does_holder_live: bool) {
        self.kill_group();
        if does_holder_live {
            let _ = kill(self.holder, Signal::SIGKILL);
        }
        let cage = Cage::left_by(self.holder);
        if let Some(at) = family::kill_and_bury(cage.as_ref(), spared)
            && family::can_look()
        {
            self.board.gone(at);
        }
        if does_holder_live {
            self.bury();
        }
    }

    /// How long the command may have kept working after its lease had ended.
    fn lateness(&self) -> Option<Duration> {
        let gone_at = self.board.gone_at().unwrap_or_else(BootTime::now);
        let late = gone_at.since(self.ends_at.filter(|_| self.stage == Stage::Runs)?);
        (!late.is_zero()).then_some(late)
    }

    fn bury(&self) -> WaitStatus {
        loop {
            match waitpid(self.holder, None) {
                Ok(status) => return status,
                Err(Errno::EINTR) => {}
                Err(_) => return WaitStatus::StillAlive,
            }
        }
    }

    /// Cleans up after a holder that is gone but has not ended the command. If we
    /// killed the holder, `why` says why.
    fn clear_up(&mut self, why: Option<&str>) -> Exit {
        let exit = self.end_command(why);
        if exit == Exit::Failed && self.stage != Stage::HasRun {
            self.plan.trace.borrow_mut().killed();
        }
        self.plan.finish(exit);
        exit
    }

    fn end_command(&mut self, why: Option<&str>) -> Exit {
        let overslept = self.overslept.filter(|(_, until)| until.elapsed() < JUST_NOW);
        let had_lock = self.stage != Stage::Waits;
        let overslept = overslept.filter(|_| had_lock).map(|(time, _)| time);
        // The watchdog dies last: we may be stopped before everything else is dead.
        let watchdog = self.watchdog.iter().map(Watchdog::pid);
        let ours: Vec<Pid> = watchdog.chain([self.holder]).collect();
        let hook: Vec<Pid> = self.board.hook().into_iter().collect();
        let ours = Spared { alone: &ours, with_all: &hook };
        let is_over = self.ends_at.is_some_and(|end| end.left().is_zero());
        // List them before anything is killed.
        let may_be_over = is_over || overslept.is_some() && why.is_none();
        let alive = may_be_over.then(|| family::survivors_but(ours));
        self.kill_all_but(ours, why.is_some());
        let late = self.lateness();
        self.dismiss();
        let hook = Spared { alone: &[], with_all: &hook };
        let left = family::kill_all(Cage::left_by(self.holder).as_ref(), hook);
        if let Some(terminal) = Terminal::open(Pid::this()) {
            terminal.take_back_from_the_dead();
        }
        // Unless they are still alive.
        let alive = alive.filter(|_| left.is_none()).unwrap_or_default();
        let lost = match (overslept, why) {
            // The lease ended while nobody was watching.
            (Some(time), None) => Some((too_late(time, &alive, left.is_none()), Then::Over)),
            (time, Some(why)) => {
                let time = time.filter(|_| why == STOPPED);
                let time = time.map_or(String::new(), |time| format!(", for {}", show(time)));
                Some((format!("{why}{time}{}", outlived(&alive)), Then::Killed))
            }
            (None, None) => None,
        };
        if let Some((reason, then)) = lost {
            self.plan.trace.borrow_mut().lost();
            self.plan.tell(&Event::Lost { reason, then });
            if let Some(processes) = left {
                self.plan.tell(&Event::Survived { processes });
            } else if self.command.is_some() || late.is_some() {
                self.plan.trace.borrow_mut().gone_for(self.board.gone_for());
                let how = if late.is_some() { Killed::Late } else { Killed::AtOnce };
                self.plan.tell(&Event::Killed { how, late_ms: late.map(millis) });
            }
            return Exit::Lost;
        }
        let (words, fate, exit) = if self.stage == Stage::HasRun {
            let words = "the process that held the lock was killed after the command had ended";
            (words, "; the lock expires by itself", Exit::Failed)
        } else if had_lock {
            let fate = ", and the command with it; the lock expires by itself";
            ("the process that held the lock was killed", fate, Exit::Failed)
        } else {
            (
                "the process that waited for the lock was killed",
                "; it never had the lock, and the command was not started",
                Exit::Failed,
            )
        };
        let Some(processes) = left else {
            self.plan.tell(&Event::failed(format!("{words}{fate}"), exit));
            return exit;
        };
        self.plan.tell(&Event::failed(words, Exit::Lost));
        self.plan.tell(&Event::Survived { processes });
        Exit::Lost
    }

    /// Dies of SIGINT, so that a shell loop or script around us ends, too.
    fn die_of_interrupt(&self, lent: bool) {
        if self.original.restore().is_ok() {
            let target = if lent { Pid::from_raw(0) } else { Pid::this() };
            let _ = kill(target, Signal::SIGINT);
        }
    }
}

/// What to say if the holder was killed and the lease ended while we were stopped, and
/// what that meant for the command, of which these processes were alive.
fn too_late(time: Duration, alive: &[Survivor], are_killed: bool) -> String {
    let fate = if !are_killed {
        String::new()
    } else if !family::can_look() {
        "; whether anything of the command was left cannot be seen, because /proc is hidden".into()
    } else if alive.is_empty() {
        "; nothing of the command is left".into()
    } else {
        outlived(alive)
    };
    format!(
        "the lock is lost: the process that held it was killed while redlatch was stopped, for \
         {}, and could not act; the lease is over{fate}",
        show(time)
    )
}

/// The processes that were alive after the lease had ended.
fn outlived(alive: &[Survivor]) -> String {
    let alive: Vec<String> = alive.iter().map(ToString::to_string).collect();
    if alive.is_empty() {
        return String::new();
    }
    format!("; still alive without the lock, and killed only now: {}", alive.join(", "))
}

/// The holder has not reported in time that the lease is still held.
struct Hangs;
