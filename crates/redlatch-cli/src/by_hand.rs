//! `acquire`, `extend` and `release`: locks for shell scripts, step by step.
//! Releases by name are in [`force`](crate::force).

use crate::{
    background::Work,
    cli::{AcquireArgs, ExtendArgs},
    connecting::connect,
    duration::show,
    exit::Exit,
    failure::Failure,
    handle::Handle,
    progress,
    say::{Event, Say, print_json},
    settings::Settings,
    stdout,
};
use redlatch::{
    FencingToken, Guard, LeaseParts, Locks, ReleaseError, ReleasePartsError, Released, ResumeError,
    Votes,
};
use serde_json::json;
use std::{
    ffi::OsStr,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    time::{Duration, Instant, SystemTime},
};

pub(crate) async fn acquire(
    args: AcquireArgs,
    settings: Settings,
    say: Say,
    work: &mut Work,
) -> Result<Exit, Failure> {
    let began = Instant::now();
    let deadline = began.checked_add(settings.wait());
    let in_vain = |failure: Failure| failure.after(settings.wait(), began);
    let waits = |why: &str| work.trace.waits(why);
    let connected = connect(&settings, say, deadline, waits).await;
    let locks = work.rest.insert(connected.map_err(in_vain)?);
    let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
    let request =
        locks.lock_all(args.names.iter().map(|name| name.as_bytes())).no_renewal().wait(left);
    let watching = progress::show(say, locks, &args.names, began, deadline, |why| {
        work.trace.waits(why);
    });
    let result = tokio::select! {
        result = request => result,
        () = watching => unreachable!("progress goes on until the request ends"),
    };
    say.end_progress();
    match result {
        Ok(guard) => {
            freshen(&guard, settings.ttl()).await?;
            let lease = guard.lease();
            let handle = Handle(guard.into_parts());
            if let Err(error) = print_handle(&handle, args.words.json) {
                // Without the handle, nobody could ever release it.
                let _ = locks.release_parts(&handle.0).await;
                let words = format!("the handle cannot be printed: {error}; the lock is released");
                return Err(Failure::new(Exit::Failed, words));
            }
            work.trace.granted(&lease);
            Ok(Exit::Done)
        }
        Err(error) => {
            let failure = Failure::about(&args.names, &settings, locks, error).await;
            Err(in_vain(failure))
        }
    }
}

/// Makes sure that the lease has at least half of its TTL left when we hand it out.
async fn freshen(guard: &Guard, ttl: Duration) -> Result<(), Failure> {
    let extended = guard.ensure(ttl / 2).await;
    let left = guard.remaining();
    if left >= ttl / 2 {
        return Ok(());
    }
    let why = extended.err().map_or(String::new(), |error| format!(": {error}"));
    let (left, ttl) = (show(left), show(ttl));
    let words = format!(
        "the lock was taken, but had {left} of its {ttl} left and could not be extended{why}; \
         it is released"
    );
    Err(Failure::new(Exit::NoMajority, words))
}

/// Reads the handle. Called before anything else, because stdin may be slow.
pub(crate) fn read_handle(typed: &OsStr) -> Result<Handle, Failure> {
    let mut text = typed.to_string_lossy().into_owned();
    if typed == "-" {
        text.clear();
        io::stdin().read_to_string(&mut text)?;
    }
    text.parse().map_err(|error| Failure::new(Exit::Failed, error))
}

/// For users who name a lock instead of giving its handle.
pub(crate) const BY_NAME: &str =
    " (to take a lock away from its holder, by its name: `redlatch release --force NAME`)";

pub(crate) async fn extend(
    Handle(parts): Handle,
    args: ExtendArgs,
    settings: Settings,
    work: &mut Work,
) -> Result<Exit, Failure> {
    let ttl = args.ttl.unwrap_or(parts.ttl);
    let good_until = parts.usable_until;
    let locks = work.rest.insert(settings.with_ttl(ttl).builder().connect().await?);
    let mut guard = resume(locks, &LeaseParts { ttl, ..parts }).await?;
    if guard.remaining() < ttl / 2 {
        // The nodes were slow to answer. The lock belongs to the caller: into_parts
        // keeps us from releasing it, whatever happens next.
        let parts = guard.into_parts();
        guard = resume(locks, &parts).await?;
    }
    if guard.remaining() < ttl / 2 {
        let left = show(guard.remaining());
        let _ = guard.into_parts();
        let words = format!(
            "the nodes answer too slowly: the lock is yours for only another {left}; release it"
        );
        return Err(Failure::new(Exit::NoMajority, words));
    }
    work.trace.granted(&guard.lease());
    print_handle(&Handle(guard.into_parts()), args.words.json).map_err(|error| {
        let left = good_until.duration_since(SystemTime::now()).unwrap_or_default();
        let words = format!(
            "the lock is extended, but its new handle cannot be printed: {error}; the handle you \
             have still releases it, and extends it for another {}",
            show(left)
        );
        Failure::new(Exit::Failed, words)
    })?;
    Ok(Exit::Done)
}

async fn resume(locks: &Locks, parts: &LeaseParts) -> Result<Guard, Failure> {
    locks.resume(parts).await.map_err(|error| match error {
        ResumeError::Lost(_) | ResumeError::TooLate { .. } => not_yours(),
        error => error.into(),
    })
}

pub(crate) async fn release(
    Handle(parts): Handle,
    as_json: bool,
    settings: Settings,
    say: Say,
    work: &mut Work,
) -> Result<Exit, Failure> {
    // Release on the nodes that answer; retry the others in the background.
    let ttl = parts.ttl.min(settings.max_ttl());
    let locks = work.rest.insert(settings.with_ttl(ttl).builder().connect_lazy()?);
    let released = match locks.release_parts(&parts).await {
        Err(ReleasePartsError::Release(ReleaseError::Unknown { votes })) => {
            return Err(unknown(&votes, parts.ttl));
        }
        released => released?,
    };
    match released {
        Released::Now => {
            if as_json {
                print_json(&json!({ "released": true }))?;
            }
            say.say(&Event::Released { outcome: "the lock is released" });
            work.trace.succeeded();
            Ok(Exit::Done)
        }
        Released::AlreadyGone => {
            let Failure { exit, message, .. } = not_yours();
            Err(Failure::new(exit, message + LEFTOVERS))
        }
    }
}

/// A minority of the nodes may still have had it.
const LEFTOVERS: &str = "; if a node still had it, it was removed there; no other lock was touched";

/// No majority answered, so it is not known whether the lock is released.
fn unknown(votes: &Votes, ttl: Duration) -> Failure {
    let words = format!(
        "it is not known whether the lock is released: {votes}; the release continues in the \
         background, and the lock expires within {} at the latest",
        show(ttl)
    );
    Failure::new(Exit::NoMajority, words)
}

/// Prints the handle, which is all the caller needs to extend or release the lock.
fn print_handle(handle: &Handle, as_json: bool) -> io::Result<()> {
    stdout::is_open()?;
    if as_json {
        print_json(&as_value(handle))
    } else {
        stdout::print(format!("{handle}\n").as_bytes())
    }
}

fn as_value(handle: &Handle) -> serde_json::Value {
    let LeaseParts { resources, lock_token, ttl, .. } = &handle.0;
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    json!({
        "handle": handle.to_string(),
        "resources": resources.iter().map(text).collect::<Vec<_>>(),
        "lock_token": text(lock_token),
        "fencing_token": handle.0.fencing_token.map(FencingToken::get),
        "ttl_ms": ttl.as_millis(),
        "usable_until_ms": handle.until_ms(),
    })
}

fn not_yours() -> Failure {
    let words = "the lock is no longer yours: it has been released already, it has expired, somebody \
                 took it away (`redlatch release --force`), this is not its latest handle, or it was taken on other nodes";
    Failure::new(Exit::Lost, words)
}

/// How long a lock stays if its holder stops now, in words.
pub(crate) fn remaining(left: Option<Duration>) -> String {
    left.map_or("forever".into(), |left| format!("for another {} unless renewed", show(left)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use redlatch::testing::Nodes;

    const TTL: Duration = Duration::from_secs(10);

    /// A lease that has used up 6 s of its 10 s.
    async fn old_lease(nodes: &Nodes) -> (Locks, Guard) {
        let locks = nodes.locks();
        let guard = locks.lock("x").ttl(TTL).no_renewal().await.unwrap();
        tokio::time::sleep(Duration::from_secs(6)).await;
        (locks, guard)
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_of_which_more_than_half_is_over_is_extended_before_it_is_handed_out() {
        let nodes = Nodes::new(3);
        let (_locks, guard) = old_lease(&nodes).await;

        freshen(&guard, TTL).await.unwrap();

        assert!(guard.remaining() >= TTL / 2, "{:?} left", guard.remaining());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_cannot_be_extended_is_not_handed_out() {
        let nodes = Nodes::new(3);
        let (_locks, guard) = old_lease(&nodes).await;
        nodes.pause(0);
        nodes.pause(1);

        let failure = freshen(&guard, TTL).await.unwrap_err();

        assert_eq!(failure.exit, Exit::NoMajority);
        assert!(failure.message.ends_with("; it is released"), "{}", failure.message);
    }
}
