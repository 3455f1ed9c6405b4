//! The second phase: once nothing goes wrong, every client gets a lock
//! within the wait of its job (see [`draw`](crate::search::draw)).

use super::{Seen, Site};

pub(super) fn see(site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
    let Seen::Failed(job, error) = seen else { return Ok(()) };
    let job = &site.schedule.jobs[*job];
    if job.must && site.claims.liveness {
        let (client, wait) = (job.client, job.wait.get());
        return Err(format!("client {client} got no lock within {wait:?} of calm: {error}"));
    }
    Ok(())
}
