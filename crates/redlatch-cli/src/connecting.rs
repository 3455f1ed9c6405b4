//! Connecting to nodes that may be down for a while.

use crate::{duration::show, failure::Failure, reminder::Reminder, say::Say, settings::Settings};
use redlatch::{ConnectError, Fault, Locks, Vote};
use std::time::{Duration, Instant};

/// The pause between attempts to connect while waiting.
pub(crate) const AGAIN: Duration = Duration::from_millis(250);

/// Connects. While no majority answers, or servers refuse us, retries until the deadline (the last
/// time at the deadline) and reports every so often which nodes are missing. Calls `waits` with the
/// reason before each retry.
pub(crate) async fn connect(
    settings: &Settings,
    say: Say,
    deadline: Option<Instant>,
    mut waits: impl FnMut(&str),
) -> Result<Locks, Failure> {
    // The same nodes each time: they keep a password whose file is being replaced.
    let builder = settings.builder();
    let mut reminder = Reminder::new(say);
    let mut tries = 0;
    loop {
        tries += 1;
        let error = match builder.clone().connect().await {
            Ok(locks) => return Ok(locks),
            Err(error) => error,
        };
        let is_down = may_recover(&error);
        let failure = Failure::from(error);
        let left = deadline.map_or(AGAIN, |at| at.saturating_duration_since(Instant::now()));
        if !is_down || left.is_zero() {
            return Err(failure);
        }
        waits(&failure.message);
        let times = if tries == 1 { "once".into() } else { format!("{tries} times") };
        let since = show(reminder.since().elapsed());
        reminder.tell(true, || {
            format!("{}; tried {times} in {since}, and trying again", failure.message)
        });
        tokio::time::sleep(AGAIN.min(left)).await;
    }
}

/// Whether it may help to try again: nodes are down, or servers refuse us, as they do
/// while a password changes or a disk is full. A wrong list or a wrong path stays wrong.
pub(crate) fn may_recover(error: &ConnectError) -> bool {
    match error {
        ConnectError::NoMajority(_) => true,
        ConnectError::Unfit(votes) => votes.iter().all(|node| match &node.vote {
            Vote::Failed(Fault::WrongAddress(_)) => false,
            Vote::Failed(Fault::Unfit(_)) => !node.address.starts_with("file:"),
            _ => true,
        }),
        _ => false,
    }
}
