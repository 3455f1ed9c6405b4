//! The second phase: once nothing goes wrong any more, every client gets a lock
//! within the bound that its job waits (see [`draw`](crate::search::draw)).

use super::{Invariant, Seen, Site};

pub(super) struct Liveness;

impl Invariant for Liveness {
    fn name(&self) -> &'static str {
        "liveness"
    }

    fn see(&mut self, site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
        let Seen::Failed(job, error) = seen else { return Ok(()) };
        let job = &site.schedule.jobs[*job];
        if job.must && site.claims.liveness {
            let (client, wait) = (job.client, job.wait.get());
            return Err(format!("client {client} got no lock within {wait:?} of calm: {error}"));
        }
        Ok(())
    }
}
