//! Promise 2: a grant that completed before another attempt began has the smaller
//! fencing token, and no two grants of a resource share one.
//!
//! Holds no matter what clocks, pauses and messages do; needs the nodes' memory.

use super::{LeaseId, Seen, Site, exclusion::is_foreign, name};
use redlatch_core::{FencingToken, Moment, Resource};
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Fencing {
    grants: BTreeMap<Resource, Grants>,
}

#[derive(Default)]
struct Grants {
    numbers: BTreeMap<FencingToken, LeaseId>,
    /// When each grant completed, in order, and the greatest token so far.
    greatest: Vec<(Moment, FencingToken)>,
}

impl Fencing {
    pub(super) fn see(&mut self, site: &Site<'_>, seen: &Seen<'_>) -> Result<(), String> {
        let Seen::Granted(id) = seen else { return Ok(()) };
        let Some(lease) = site.leases.get(*id).filter(|_| site.claims.fencing) else {
            return Ok(());
        };
        // A client with another list uses other registers.
        let Some(number) = lease.fence.filter(|_| !is_foreign(site, *id)) else { return Ok(()) };
        for resource in &lease.resources {
            let grants = self.grants.entry(resource.clone()).or_default();
            grants.check(*id, number, lease.started, site.now).map_err(|wrong| {
                format!("{} was granted {resource} with {number}, {wrong}", name(*id))
            })?;
        }
        Ok(())
    }
}

impl Grants {
    fn check(
        &mut self,
        id: LeaseId,
        number: FencingToken,
        started: Moment,
        now: Moment,
    ) -> Result<(), String> {
        if let Some(other) = self.numbers.insert(number, id) {
            return Err(format!("the number of {}", name(other)));
        }
        let before = self.greatest.partition_point(|(completed, _)| *completed <= started);
        if let Some((_, greatest)) = before.checked_sub(1).map(|last| self.greatest[last])
            && number <= greatest
        {
            return Err(format!("but {greatest} had been granted before its attempt began"));
        }
        let last = self.greatest.last().map_or(number, |(_, greatest)| number.max(*greatest));
        self.greatest.push((now, last));
        Ok(())
    }
}
