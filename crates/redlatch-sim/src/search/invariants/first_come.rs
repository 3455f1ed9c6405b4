//! Callers of one client that wait in line for the same lock are served in the
//! order in which they asked. Requests for several resources wait in no line.
//!
//! A caller counts from when it was told to wait (before that, nobody knew that there
//! was anything to wait for, and the first attempts of several callers may be under way
//! at once) until its wait ends: then it makes one attempt by itself, to report who has
//! the lock, and may get it. Its client's clock decides when that is, even if it steps.

use super::{LeaseId, Seen, Site};

pub(super) fn see(site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
    let Seen::Granted(LeaseId::Ours(client, _, served)) = seen else { return Ok(()) };
    let process = &site.clients[*client];
    let Some(first) = process.ops.get(served) else { return Ok(()) };
    let job = &site.schedule.jobs[first.job];
    if job.line.is_none() || job.wait.0 == 0 || job.resources.len() > 1 {
        return Ok(());
    }
    let now = process.clock.read(site.now);
    if now >= first.wait_until {
        return Ok(());
    }
    for (op, known) in process.ops.range(..served) {
        let other = &site.schedule.jobs[known.job];
        let told = known.waiting_since.is_some_and(|since| since < first.asked);
        let waits = told && known.waits.acquire && !known.dropped && other.line.is_some();
        if waits && now < known.wait_until && other.resources == job.resources {
            return Err(format!("client {client} served {served:?} before {op:?}"));
        }
    }
    Ok(())
}
