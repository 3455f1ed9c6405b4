//! From a plan to a lock that is held, obeying signals on the way.

use super::{
    Plan,
    line::Line,
    signals::ends_waiting,
    wire::{News, Order},
};
use crate::{exit::Exit, failure::Failure, progress};
use nix::sys::signal::Signal;
use redlatch::{ConnectError, Guard, LockError, Locks};
use std::{
    future::Future,
    os::unix::ffi::OsStrExt,
    pin::pin,
    time::{Duration, Instant},
};

/// How long the caller waits for what is left to undo. The rest is undone in
/// the background.
const UNDO: Duration = Duration::from_millis(500);
/// How often unreachable nodes are tried again while waiting.
const AGAIN: Duration = Duration::from_millis(250);

/// Why there is no lock.
pub(super) enum NoLock {
    Failed(Failure),
    /// A signal ended the waiting.
    Signal(Signal),
    /// The front is dead.
    FrontDied,
}

/// What came in between.
enum Interruption {
    Signal(Signal),
    Suspended,
    FrontDied,
}

/// Takes the lock. What an attempt may have left behind is undone by what is in
/// the slot.
pub(super) async fn take(
    plan: &Plan,
    line: &mut Line,
    locks: &mut Option<Locks>,
) -> Result<Guard, NoLock> {
    let deadline = Instant::now().checked_add(plan.settings.wait());
    loop {
        let attempt = attempt(plan, locks, deadline);
        let interruption = match unless_told(line, attempt).await {
            Ok(result) => return result.map_err(NoLock::Failed),
            Err(interruption) => interruption,
        };
        plan.say.end_progress();
        match interruption {
            Interruption::Signal(signal) => return Err(NoLock::Signal(signal)),
            Interruption::FrontDied => return Err(NoLock::FrontDied),
            Interruption::Suspended => {
                settle(locks.as_ref()).await;
                line.tell(News::Stop { wants_terminal: false });
                continued(line).await?;
            }
        }
    }
}

async fn attempt(
    plan: &Plan,
    locks: &mut Option<Locks>,
    deadline: Option<Instant>,
) -> Result<Guard, Failure> {
    let locks = match locks {
        Some(locks) => locks,
        None => locks.insert(connect(plan, deadline).await?),
    };
    let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
    let names = plan.names.iter().map(|name| name.as_bytes());
    let request = locks
        .lock_all(names)
        .owner(&plan.owner)
        .notice(plan.notice())
        // The command is asked to end at `max_hold`, and has the notice to do so.
        .max_hold(plan.max_hold.saturating_add(plan.notice()))
        .wait(left);
    let watching = progress::show(plan.say, locks, &plan.names, deadline);
    let result = tokio::select! {
        result = request => result,
        () = watching => unreachable!("progress goes on until the request ends"),
    };
    plan.say.end_progress();
    match result {
        Ok(guard) => Ok(guard),
        Err(error) => {
            let is_held = matches!(error, LockError::Held { .. });
            let failure = Failure::about(&plan.names, locks, error).await;
            Err(if is_held { Failure { exit: plan.held, ..failure } } else { failure })
        }
    }
}

/// Connects; while waiting is allowed, too few nodes are tried again.
async fn connect(plan: &Plan, deadline: Option<Instant>) -> Result<Locks, Failure> {
    loop {
        match plan.settings.builder().connect().await {
            Err(ConnectError::NoQuorum(_))
                if deadline.is_none_or(|at| Instant::now() + AGAIN < at) =>
            {
                tokio::time::sleep(AGAIN).await;
            }
            result => return Ok(result?),
        }
    }
}

/// Waits until nothing is left of what was tried, for a little. Whether it is so.
pub(super) async fn settle(locks: Option<&Locks>) -> bool {
    match locks {
        Some(locks) => tokio::time::timeout(UNDO, locks.settled()).await.is_ok(),
        None => true,
    }
}

/// The outcome, unless something comes in between.
async fn unless_told<T>(line: &mut Line, work: impl Future<Output = T>) -> Result<T, Interruption> {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            order = line.next() => match order {
                None => return Err(Interruption::FrontDied),
                Some(Order::Signal(Signal::SIGTSTP)) => return Err(Interruption::Suspended),
                Some(Order::Signal(signal)) if ends_waiting(signal) => {
                    return Err(Interruption::Signal(signal));
                }
                Some(_) => {}
            },
            outcome = &mut work => return Ok(outcome),
        }
    }
}

/// Waits until the caller continues us.
async fn continued(line: &mut Line) -> Result<(), NoLock> {
    loop {
        match line.next().await {
            None => return Err(NoLock::FrontDied),
            Some(Order::Continue { .. }) => return Ok(()),
            Some(Order::Signal(signal)) if ends_waiting(signal) => {
                return Err(NoLock::Signal(signal));
            }
            Some(_) => {}
        }
    }
}

/// What to end with when a signal ended the waiting.
pub(super) fn ended_by(signal: Signal) -> Exit {
    Exit::Signal(signal as i32)
}
