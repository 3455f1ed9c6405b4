//! The progress line while waiting for a lock.

use crate::{
    admit::for_another,
    around,
    duration::show as time,
    failure::{OWN, by_reason},
    look::{NAMELESS, reason as why_failed},
    reminder::Reminder,
    say::Say,
};
use redlatch::{Health, LockState, Locks, NodeKey, Standing, Status, observer::refusal};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    time::{Duration, Instant},
};

/// A shorter wait is not shown.
const FIRST: Duration = Duration::from_millis(400);
/// The shortest pause between two looks at the nodes.
const LEAST: Duration = Duration::from_millis(200);
/// The longest: trouble during a long wait should be reported soon.
const MOST: Duration = Duration::from_secs(5);

/// Shows, until it is dropped, who holds the lock, how long we have waited since we began,
/// and which nodes do not vote and why. Calls `waits` with the reason once it is clear that
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
        if let Some(obstacle) = obstacle(locks, names).await {
            waits(&format!("{}{}", obstacle.what, obstacle.nodes));
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            reminder.tell(obstacle.is_trouble, || obstacle.line(began.elapsed(), left));
        }
        tokio::time::sleep(reminder.pause().clamp(LEAST, MOST)).await;
    }
}

/// Why there is no lock yet.
struct Obstacle {
    /// Who has the lock, or that it is not available.
    what: String,
    /// The nodes that do not vote, and why.
    nodes: String,
    /// Whether it will not pass by itself.
    is_trouble: bool,
}

impl Obstacle {
    fn line(&self, waited: Duration, left: Option<Duration>) -> String {
        let left = left.map_or(String::new(), |left| format!(", gives up in {}", time(left)));
        format!("{}; waited {} so far{left}{}", self.what, time(waited), self.nodes)
    }
}

/// Looks for the first lock that is not free. Even if all are free, nodes that answer may
/// refuse to grant them.
async fn obstacle(locks: &Locks, names: &[OsString]) -> Option<Obstacle> {
    for name in names {
        if let Ok(status) = locks.status(name.as_bytes()).await
            && status.state != LockState::Free
        {
            let is_held = matches!(status.state, LockState::Held { .. });
            let holds = |owner| around::holds(name, owner);
            let is_own = is_held && status.owner.as_ref().is_some_and(holds);
            let own = if is_own { OWN } else { "" };
            let health = locks.health().await.ok();
            let is_outage = health.as_ref().is_some_and(|health| !health.has_majority());
            return Some(Obstacle {
                what: format!("{}{own}", held(&name.to_string_lossy(), &status)),
                nodes: missing(&status, health.as_ref()),
                is_trouble: is_own || is_outage || matches!(status.state, LockState::Unclear(_)),
            });
        }
    }
    let health = locks.health().await.ok().filter(|health| !health.has_majority())?;
    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
    let what = format!("{} cannot be taken", names.join(", "));
    Some(Obstacle { what, nodes: refusing(&health), is_trouble: true })
}

/// Which nodes would not vote, and why.
fn refusing(health: &Health) -> String {
    let out = health.nodes.iter().filter_map(|node| match &node.standing {
        Standing::Failed(fault) => Some((node.node.to_string(), why_failed(fault))),
        Standing::Quarantined(out) => Some((node.node.to_string(), for_another(out))),
        _ => None,
    });
    let told = by_reason(out, "");
    let (voting, nodes) = (health.voting(), health.nodes.len());
    format!("; {voting} of {nodes} nodes would vote; {}", told.join("; "))
}

/// Who has it.
fn held(name: &str, status: &Status) -> String {
    let who = match &status.state {
        data if data.is_data() => data.to_string(),
        LockState::Held { owner: Some(owner), .. } => format!("held by {owner}"),
        LockState::Held { owner: None, .. } => format!("held by {NAMELESS}"),
        LockState::Reserved { .. } => "reserved for the next in line".into(),
        _ => "not available".into(),
    };
    format!("{name} is {who}")
}

/// Which nodes do not vote: some let us read but refuse writes.
fn missing(status: &Status, health: Option<&Health>) -> String {
    let refusal = |name: &str| {
        let node = health?.nodes.iter().find(|node| *node.node == *name)?;
        match &node.standing {
            Standing::Failed(fault) => refusal(fault).map(|_| fault),
            _ => None,
        }
    };
    let failed = || {
        status.nodes.iter().filter_map(|node| {
            let fault = match &node.key {
                NodeKey::Failed(fault) => Some(fault),
                _ => refusal(&node.node),
            };
            Some((node.node.to_string(), fault?))
        })
    };
    let told = |what: &str, nodes: String| {
        if nodes.is_empty() { nodes } else { format!("; {what}: {nodes}") }
    };
    let down = failed().filter(|(_, fault)| fault.is_silence()).map(|(node, _)| node);
    let errors = failed().filter(|(_, fault)| !fault.is_silence());
    let errors = by_reason(errors.map(|(node, fault)| (node, why_failed(fault))), "");
    let down = told("down", down.collect::<Vec<_>>().join(", "))
        + &told("answering with errors", errors.join("; "));
    // A node that failed is listed already.
    let out = status.nodes.iter().filter(|node| !matches!(node.key, NodeKey::Failed(_)));
    let out = out.filter_map(|node| {
        Some(format!("; {} {}", node.node, for_another(node.quarantine.as_ref()?)))
    });
    down + &out.collect::<Vec<_>>().concat()
}
