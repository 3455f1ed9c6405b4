//! Nobody starves: a request that waits in line is overtaken by later ones no more
//! often than the protocol allows.
//!
//! Overtaking is a grant to a request of another client that waits in line too, asked
//! later by every clock, and asked when the earlier one had long left its ticket on
//! every node. The earlier one is then ahead on every node. It is still overtaken by
//! - `local_batch` turns per other client, which passes the lock on among its own
//!   callers before it lets others have it;
//! - one turn per other client whose attempt was under way meanwhile: a take that
//!   finds the key free, because the last holder never had it there.
//!
//! So the bound is the sum of `local_batch + 1` over the other clients that want the
//! lock. It is claimed only while the nodes are healthy: from the calm on, and if no
//! message takes longer than a reservation lasts.

use super::{LeaseId, Seen, Site};
use crate::search::{
    client::{Client, Op},
    schedule::{Job, Network},
};
use redlatch_core::{Moment, OpId};
use std::{collections::BTreeMap, time::Duration};

/// The shortest reservation.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);
/// A ticket differs from a node's clock by no more than this.
const LARGEST_SKEW: Duration = Duration::from_secs(1);

/// How many times each request that waits was overtaken.
#[derive(Debug, Default)]
pub(super) struct InTurn {
    overtaken: BTreeMap<(usize, OpId), u32>,
}

impl InTurn {
    pub(super) fn see(&mut self, site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
        let Seen::Granted(LeaseId::Ours(client, _, op)) = seen else { return Ok(()) };
        self.overtaken.remove(&(*client, *op));
        let Some(served) = site.clients[*client].ops.get(op) else { return Ok(()) };
        let job = &site.schedule.jobs[served.job];
        let is_calm = served.asked >= site.schedule.calm_at.in_true_time();
        if !is_calm || job.line.is_none() || slowest(&site.schedule.network) > LEAST_PATIENCE / 4 {
            return Ok(());
        }
        for (number, process) in site.clients.iter().enumerate().filter(|(n, _)| n != client) {
            for (waiter, known) in &process.ops {
                if !is_earlier(site, process, known, job, served.asked) {
                    continue;
                }
                let count = self.overtaken.entry((number, *waiter)).or_default();
                *count += 1;
                let bound = bound(site, number, &job.resources);
                if *count > bound {
                    return Err(format!(
                        "client {number} waits with {waiter:?} while {count} later ones had their \
                         turn; {bound} may"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Whether a request waits in line for what was just served, and was in line on every
/// node when the served request was made.
fn is_earlier(
    site: &Site<'_>,
    process: &Client,
    known: &Op,
    served: &Job,
    served_asked: Moment,
) -> bool {
    let job = &site.schedule.jobs[known.job];
    let waits = known.waits.acquire && !known.dropped && job.line.is_some();
    if !waits || known.asked >= served_asked || job.resources != served.resources {
        return false;
    }
    // To connect and to be refused.
    let settled = known.asked.after(apart(site) + 8 * slowest(&site.schedule.network));
    let is_calm = known.asked >= site.schedule.calm_at.in_true_time();
    is_calm && settled < served_asked && process.clock.read(site.now) < known.wait_until
}

/// How wrong a ticket may be: as wrong as the clocks of clients and nodes.
fn apart(site: &Site<'_>) -> Duration {
    let clients = site.schedule.clients.iter().map(|process| process.clocks.wall);
    let walls = clients.chain(site.schedule.nodes.iter().map(|clocks| clocks.wall));
    let (least, most) = walls.fold((0, 0), |(least, most), wall| (wall.min(least), wall.max(most)));
    Duration::from_micros(most.abs_diff(least)).min(2 * LARGEST_SKEW)
}

fn slowest(network: &Network) -> Duration {
    let straggle = if network.stragglers > 0 { network.straggle.get() } else { Duration::ZERO };
    network.most.get() + straggle
}

/// How many times requests of other clients may overtake one of this client.
fn bound(site: &Site<'_>, client: usize, resources: &[u32]) -> u32 {
    let mut batches: BTreeMap<usize, u32> = BTreeMap::new();
    for job in site.schedule.jobs.iter().filter(|job| job.client != client) {
        if let Some(line) = job.line.filter(|_| job.resources == resources) {
            let known = batches.entry(job.client).or_default();
            *known = line.local_batch.max(*known);
        }
    }
    batches.values().map(|batch| batch + 1).sum()
}
