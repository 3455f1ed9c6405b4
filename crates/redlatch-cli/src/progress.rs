//! What a person sees while waiting for a lock.

use crate::{admit::for_another, duration::show as time, say::Say};
use redlatch::{LockState, Locks, NodeKey, Status};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    time::{Duration, Instant},
};

/// Nobody needs to know about a wait shorter than this.
const FIRST: Duration = Duration::from_millis(400);
const EVERY: Duration = Duration::from_secs(1);

/// Shows who holds the lock, for how long already and which nodes are down,
/// until it is dropped. Only on a terminal.
pub(crate) async fn show(say: Say, locks: &Locks, names: &[OsString], deadline: Option<Instant>) {
    if !say.has_progress() {
        return std::future::pending().await;
    }
    let since = Instant::now();
    tokio::time::sleep(FIRST).await;
    loop {
        for name in names {
            if let Ok(status) = locks.status(name.as_bytes()).await
                && status.state != LockState::Free
            {
                let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
                say.progress(&line(&name.to_string_lossy(), &status, since.elapsed(), left));
                break;
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn line(name: &str, status: &Status, waited: Duration, left: Option<Duration>) -> String {
    let who = match &status.state {
        LockState::Held { owner: Some(owner), .. } => format!("held by {owner}"),
        LockState::Held { owner: None, .. } => "held by another client".into(),
        LockState::Free | LockState::Unclear => "not to be had".into(),
    };
    let down: Vec<&str> = status
        .nodes
        .iter()
        .filter(|node| matches!(node.key, NodeKey::Failed(_)))
        .map(|node| &*node.node)
        .collect();
    let down = if down.is_empty() { String::new() } else { format!("; down: {}", down.join(", ")) };
    let out = status.nodes.iter().filter_map(|node| {
        Some(format!("; {} {}", node.node, for_another(node.quarantine.as_ref()?)))
    });
    let out = out.collect::<Vec<_>>().concat();
    let left = left.map_or(String::new(), |left| format!(" of {}", time(waited + left)));
    format!("{name} is {who}; waiting for {}{left}{down}{out}", time(waited))
}
