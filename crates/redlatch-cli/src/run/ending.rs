//! After the command: keeps the lock for `--at-least`, then releases it.

use super::{Plan, course::FRONT_DIED, front_link::FrontLink, signals::ends_waiting, wire::Order};
use crate::{
    exit::Exit,
    look::reason,
    say::{Event, Then, millis},
};
use nix::sys::signal::Signal;
use redlatch::{Guard, Lease, Lost, ReleaseError, Released, Vote};
use std::time::Instant;

/// Keeps the lock for `--at-least`, or until a signal ends the wait. Returns the
/// exit status.
pub(super) async fn linger(
    plan: &Plan,
    line: &mut FrontLink,
    lease: &Lease,
    taken: Instant,
    exit: Exit,
) -> Exit {
    let left = || plan.at_least.saturating_sub(taken.elapsed());
    if left().is_zero() {
        return exit;
    }
    plan.tell(&Event::Lingering { left_ms: millis(left()) });
    tokio::select! {
        // If we were stopped past that time, the lock may be gone.
        () = tokio::time::sleep(left()) => {
            if lease.is_held() { exit } else { lost_too_soon(plan, &lease.lost().await, exit) }
        }
        lost = lease.lost() => lost_too_soon(plan, &lost, exit),
        signal = told_to_end(line) => {
            let name = signal.map(Signal::as_str);
            if signal.is_none() {
                plan.trace.borrow_mut().orphaned();
            }
            plan.tell(&Event::CutShort { signal: name, left_ms: millis(left()) });
            if signal.is_some() { exit } else { FRONT_DIED }
        }
    }
}

/// The lock was lost while it was kept for `--at-least`. If we were stopped, we do not know
/// when.
fn lost_too_soon(plan: &Plan, lost: &Lost, exit: Exit) -> Exit {
    // --max-hold is longer, so --at-least is over, except for the time of the grant.
    if *lost == Lost::MaxHold {
        return exit;
    }
    plan.trace.borrow_mut().lost();
    plan.tell(&Event::Lost { reason: format!("{TOO_SOON}: {lost}"), then: Then::Over });
    Exit::Lost
}

const TOO_SOON: &str = "the command is done, but the lock was lost before the end of --at-least";

/// Waits for a signal that ends the wait; `None` if the front is dead.
async fn told_to_end(line: &mut FrontLink) -> Option<Signal> {
    loop {
        match line.next().await {
            Some(Order::Signal(signal)) if ends_waiting(signal) => {
                return Some(signal);
            }
            Some(_) => {}
            None => return None,
        }
    }
}

/// Releases the lock, or what is left of it, and returns the exit status. If the lock
/// was gone too early, the command ran without it, even if no renewal noticed.
pub(super) async fn release(plan: &Plan, guard: Guard, exit: Exit) -> Exit {
    let has_run = matches!(exit, Exit::Code(_) | Exit::Signal(_));
    let is_full = has_run && !guard.is_held() && matches!(guard.lost().await, Lost::MaxHold);
    let too_soon = has_run && !is_full && !guard.ends_in().is_zero();
    let outcome = match guard.release().await {
        Ok(Released::Now) => "the lock is released",
        // The loss has been reported already.
        Ok(Released::AlreadyGone) if matches!(exit, Exit::Lost | Exit::MaxHold) => {
            "the lock has ended"
        }
        Ok(Released::AlreadyGone) if too_soon => {
            let was_kept = plan.trace.borrow().known().is_kept();
            let when = if was_kept { TOO_SOON } else { "the lock was gone before it was released" };
            let reason = format!(
                "{when}: it was released by force, or nodes forgot it; someone else may have held it \
                 meanwhile"
            );
            plan.trace.borrow_mut().lost();
            plan.tell(&Event::Lost { reason, then: Then::Over });
            return Exit::Lost;
        }
        Ok(Released::AlreadyGone) => "the lock was gone already",
        Err(_) if exit == Exit::Lost => "it is not known whether the lock is released",
        Err(error) => {
            // An unanswered renewal may still have extended it.
            let most_ms = millis(plan.settings.ttl());
            plan.tell(&Event::Unreleased { reason: why(&error), most_ms });
            return exit;
        }
    };
    plan.tell(&Event::Released { outcome });
    exit
}

/// What each node that did not release the lock said.
fn why(error: &ReleaseError) -> String {
    let ReleaseError::Unknown { votes } = error else { return error.to_string() };
    let failed = votes.iter().filter(|node| !matches!(node.vote, Vote::Granted | Vote::Gone));
    let told = failed.map(|node| match &node.vote {
        Vote::Failed(fault) => format!("{}: {}", node.label(), reason(fault)),
        vote => format!("{}: {vote}", node.label()),
    });
    told.collect::<Vec<_>>().join("; ")
}
