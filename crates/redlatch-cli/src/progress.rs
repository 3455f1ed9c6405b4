//! The progress line while waiting for a lock.

use crate::{
    admit::for_another, around, duration::show as time, failure::OWN, look::is_down,
    reminder::Reminder, say::Say,
};
use redlatch::{LockState, Locks, NodeKey, Status};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    time::{Duration, Instant},
};

/// A shorter wait is not shown.
const FIRST: Duration = Duration::from_millis(400);
/// The shortest pause between two looks at the nodes.
const LEAST: Duration = Duration::from_millis(200);

/// Shows who holds the lock, how long we have waited since we began, and which nodes are
/// down, until it is dropped. Calls `waits` with the reason when it is seen that
/// we have to wait.
pub(crate) async fn show(
    say: Say,
    locks: &Locks,
    names: &[OsString],
    began: Instant,
    deadline: Option<Instant>,
    mut waits: impl FnMut(&str),
) {
    let mut reminder = Reminder::new(say);
    tokio::time::sleep(FIRST).await;
    loop {
        for name in names {
            if let Ok(status) = locks.status(name.as_bytes()).await
                && status.state != LockState::Free
            {
                waits(&reason(&name.to_string_lossy(), &status));
                let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
                let is_held = matches!(status.state, LockState::Held { .. });
                let holds = |owner| around::holds(name, owner);
                let is_own = is_held && status.owner.as_ref().is_some_and(holds);
                reminder.tell(is_own || matches!(status.state, LockState::Unclear(_)), || {
                    line(&name.to_string_lossy(), &status, is_own, began.elapsed(), left)
                });
                break;
            }
        }
        tokio::time::sleep(reminder.pause().max(LEAST)).await;
    }
}

fn line(
    name: &str,
    status: &Status,
    is_own: bool,
    waited: Duration,
    left: Option<Duration>,
) -> String {
    let own = if is_own { OWN } else { "" };
    let left = left.map_or(String::new(), |left| format!(", gives up in {}", time(left)));
    let (why, nodes) = (held(name, status), missing(status));
    format!("{why}{own}; waited {} so far{left}{nodes}", time(waited))
}

/// Why we wait.
fn reason(name: &str, status: &Status) -> String {
    held(name, status) + &missing(status)
}

/// Who has it.
fn held(name: &str, status: &Status) -> String {
    let who = match &status.state {
        LockState::Held { owner: Some(owner), .. } => format!("held by {owner}"),
        LockState::Held { owner: None, .. } => "held by another client".into(),
        LockState::Reserved { .. } => "reserved for the next in line".into(),
        LockState::Free | LockState::Unclear(_) => "not available".into(),
    };
    format!("{name} is {who}")
}

/// Which nodes do not vote.
fn missing(status: &Status) -> String {
    let failed = |wanted: bool| {
        let nodes = status.nodes.iter().filter_map(|node| match &node.key {
            NodeKey::Failed(fault) if is_down(fault) == wanted => Some(&*node.node),
            _ => None,
        });
        nodes.collect::<Vec<_>>().join(", ")
    };
    let told = |what: &str, nodes: String| {
        if nodes.is_empty() { nodes } else { format!("; {what}: {nodes}") }
    };
    let down = told("down", failed(true)) + &told("answering with errors", failed(false));
    // A node that failed is listed already.
    let out = status.nodes.iter().filter(|node| !matches!(node.key, NodeKey::Failed(_)));
    let out = out.filter_map(|node| {
        Some(format!("; {} {}", node.node, for_another(node.quarantine.as_ref()?)))
    });
    down + &out.collect::<Vec<_>>().concat()
}
