//! Takes the lock for a plan, and obeys signals while waiting.

use super::{
    Plan,
    front_link::FrontLink,
    signals::ends_waiting,
    wire::{News, Order},
};
use crate::{connecting::connect, failure::Failure, progress};
use nix::sys::signal::Signal;
use redlatch::{Guard, LockError, Locks};
use std::{
    future::Future,
    os::unix::ffi::OsStrExt,
    pin::pin,
    time::{Duration, Instant},
};

/// How long Ctrl-Z waits for undos to finish.
const UNDO: Duration = Duration::from_millis(500);

/// Why there is no lock.
pub(super) enum NoLock {
    Failed(Failure),
    /// A signal ended the wait.
    Signal(Signal),
    /// The front is dead.
    FrontDied,
}

/// What interrupted the wait.
enum Interruption {
    Signal(Signal),
    Suspended,
    FrontDied,
}

/// Takes the lock. The `Locks` in the slot undo what an attempt may have left behind.
pub(super) async fn take(
    plan: &Plan,
    line: &mut FrontLink,
    locks: &mut Option<Locks>,
) -> Result<Guard, NoLock> {
    let began = Instant::now();
    let deadline = began.checked_add(plan.settings.wait());
    loop {
        let attempt = attempt(plan, locks, began, deadline);
        let interruption = match unless_told(line, attempt).await {
            Ok(result) => {
                let wait = plan.settings.wait();
                return result.map_err(|failure| NoLock::Failed(failure.after(wait, began)));
            }
            Err(interruption) => interruption,
        };
        plan.say.end_progress();
        match interruption {
            Interruption::Signal(signal) => return Err(NoLock::Signal(signal)),
            Interruption::FrontDied => return Err(NoLock::FrontDied),
            Interruption::Suspended => {
                settle(locks.as_ref(), UNDO).await;
                line.tell(News::Stop { wants_terminal: false });
                continued(line).await?;
            }
        }
    }
}

async fn attempt(
    plan: &Plan,
    locks: &mut Option<Locks>,
    began: Instant,
    deadline: Option<Instant>,
) -> Result<Guard, Failure> {
    let waits = |why: &str| plan.trace.borrow_mut().waits(why);
    let locks = match locks {
        Some(locks) => locks,
        None => locks.insert(connect(&plan.settings, plan.say, deadline, waits).await?),
    };
    let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
    let names = plan.names.iter().map(|name| name.as_bytes());
    let request = locks
        .lock_all(names)
        .owner(&plan.owner)
        .notice(plan.notice())
        // At `max_hold` the command is asked to end, and has the notice time to do so.
        .max_hold(plan.max_hold.saturating_add(plan.notice()))
        .wait(left);
    let watching = progress::show(plan.say, locks, &plan.names, began, deadline, waits);
    let result = tokio::select! {
        result = request => result,
        () = watching => unreachable!("progress goes on until the request ends"),
    };
    plan.say.end_progress();
    match result {
        Ok(guard) => Ok(guard),
        Err(error) => {
            let is_held = matches!(error, LockError::Held { .. });
            let failure = Failure::about(&plan.names, &plan.settings, locks, error).await;
            Err(if is_held { Failure { exit: plan.held, ..failure } } else { failure })
        }
    }
}

/// Waits for undos to finish, for at most `patience`. Returns whether they have.
pub(super) async fn settle(locks: Option<&Locks>, patience: Duration) -> bool {
    match locks {
        Some(locks) => tokio::time::timeout(patience, locks.settled()).await.is_ok(),
        None => true,
    }
}

/// Returns the outcome of the work, unless an order from the front interrupts it.
async fn unless_told<T>(
    line: &mut FrontLink,
    work: impl Future<Output = T>,
) -> Result<T, Interruption> {
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

/// Waits until the caller resumes us.
async fn continued(line: &mut FrontLink) -> Result<(), NoLock> {
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
