//! Connecting to nodes that may be down for a while.

use crate::{duration::show, failure::Failure, reminder::Reminder, say::Say, settings::Settings};
use redlatch::{ConnectError, Locks};
use std::time::{Duration, Instant};

/// The pause between attempts to connect while waiting.
const AGAIN: Duration = Duration::from_millis(250);

/// Connects. While too few nodes answer, retries until the deadline, and reports
/// every so often which nodes are missing.
pub(crate) async fn connect(
    settings: &Settings,
    say: Say,
    deadline: Option<Instant>,
) -> Result<Locks, Failure> {
    let mut reminder = Reminder::new(say);
    let mut tries = 0;
    loop {
        tries += 1;
        let error = match settings.builder().connect().await {
            Ok(locks) => return Ok(locks),
            Err(error) => error,
        };
        let is_down = matches!(error, ConnectError::NoQuorum(_));
        let failure = Failure::from(error);
        if !is_down || deadline.is_some_and(|at| at <= Instant::now() + AGAIN) {
            return Err(failure);
        }
        let times = if tries == 1 { "once".into() } else { format!("{tries} times") };
        let since = show(reminder.since().elapsed());
        reminder.tell(true, || {
            format!("{}; tried {times} in {since}, and trying again", failure.message)
        });
        tokio::time::sleep(AGAIN).await;
    }
}
