//! A renewed lease survives a rolling restart of all nodes, with or without their
//! memory, if each node is back before the next one goes.
//!
//! Checked only for the jobs that say so: nothing else goes wrong in their runs.

use super::{LeaseId, Seen, Site, name};
use redlatch_core::lease::Loss;

pub(super) fn see(site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
    let Seen::Lost(id @ LeaseId::Ours(client, _, op), loss) = seen else { return Ok(()) };
    let job = site.clients[*client].ops.get(op).map(|known| &site.schedule.jobs[known.job]);
    let lasts = job.is_some_and(|job| job.lasts) && *loss != Loss::MaxHold;
    if lasts { Err(format!("{} lost its lease: {loss:?}", name(*id))) } else { Ok(()) }
}
