//! Promise 1: two guards for one resource never both say "held" at the same time.
//!
//! Checked whenever a guard begins to say so, or extends that, against every other
//! guard by its own owner's clock. Only where the promise's assumptions hold: see
//! [`Claims::exclusion`](crate::search::schedule::Claims).

use super::{LeaseId, Seen, Site, name};
use crate::search::schedule::RestartGuard;

pub(super) fn see(site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
    match seen {
        Seen::Granted(id) | Seen::Kept(id) if site.claims.exclusion => alone(site, *id),
        _ => Ok(()),
    }
}

fn alone(site: &Site<'_>, id: LeaseId) -> Result<(), String> {
    let Some(lease) = site.leases.get(id) else { return Ok(()) };
    for resource in &lease.resources {
        for other in site.leases.on(resource).filter(|other| other.id != id) {
            let foreign = [id, other.id].iter().any(|id| is_foreign(site, *id));
            if foreign && !site.claims.foreign {
                continue;
            }
            if site.now < site.ends(other.id) {
                let (one, two) = (name(id), name(other.id));
                return Err(format!("{one} and {two} both hold {resource}"));
            }
        }
    }
    Ok(())
}

/// Whether it belongs to another library, or to an unguarded client among guarded ones.
pub(super) fn is_foreign(site: &Site<'_>, id: LeaseId) -> bool {
    match id {
        LeaseId::Foreign(_) => true,
        LeaseId::Ours(client, ..) => {
            let guarded = site.schedule.parties[0].guard != RestartGuard::Off;
            guarded && site.schedule.party(client).guard == RestartGuard::Off
        }
    }
}
